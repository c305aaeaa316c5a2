package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRow17InitProducerID gives a producer without transactional id a fresh id and epoch 0, whatever
// id it had and whatever its timeout. Of transactional producers only the refusals are served.
func TestRow17InitProducerID(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	seen := map[int64]bool{}
	eachVersion(t, kmsg.InitProducerID, func(t *testing.T, v int16) {
		for _, x := range []struct {
			id      int64
			epoch   int16
			timeout int32
			want    *kerr.Error
		}{
			{-1, -1, 60000, nil}, {-1, -1, 0, nil}, {-1, -1, 2147483647, nil},
			{5, 3, 60000, nil}, {-1, 3, 60000, kerr.InvalidRequest}, {5, -1, 60000, kerr.InvalidRequest},
		} {
			if v < 3 && x.id+int64(x.epoch) != -2 {
				continue // not on the wire
			}
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = x.id, x.epoch, x.timeout
			resp := ask[*kmsg.InitProducerIDResponse](c, req, v)
			wantCode(t, "init", resp.ErrorCode, x.want)
			if x.want != nil {
				if resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
					t.Errorf("beside an error: %+v", resp)
				}
				continue
			}
			if resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
				t.Errorf("got %+v, after %v", resp, seen)
			}
			seen[resp.ProducerID] = true
		}
		maximum := int32(r.config.Broker().Txn.MaxTimeout.Milliseconds())
		for _, x := range []struct {
			id      string
			timeout int32
			want    *kerr.Error
		}{
			{"", 60000, kerr.InvalidRequest},
			{"x", 0, kerr.InvalidTransactionTimeout}, {"x", -1, kerr.InvalidTransactionTimeout},
			{"x", maximum + 1, kerr.InvalidTransactionTimeout},
			{"x", maximum, kerr.TransactionalIDAuthorizationFailed}, // not served yet
		} {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis = &x.id, x.timeout
			resp := ask[*kmsg.InitProducerIDResponse](c, req, v)
			wantCode(t, x.id, resp.ErrorCode, x.want)
			if resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
				t.Errorf("transactional: %+v", resp)
			}
		}
	})
}
