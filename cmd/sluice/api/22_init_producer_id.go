package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// initProducerID answers key 22, versions 0 to 5: a producer id that was never given before, with
// epoch 0 (row 17, ruling 18).
//
// v3 brings the producer's current id and epoch, of use to transactional producers only, which are
// refused until transactions are served: their coordinator is not found (FindCoordinator says so
// in words), and who asks all the same gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which no client
// retries. ACL: IdempotentWrite Cluster, or Write on any topic.
func (b *Broker) initProducerID(r *Request) {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		if *req.TransactionalID == "" {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		r.Respond(resp)
		return
	}
	b.PIDs.Draw(func(id kafkaproto.ProducerID, err error) {
		if err != nil {
			b.Log.Error("no producer id", "err", err)
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // retried by every client
		} else {
			resp.ProducerID, resp.ProducerEpoch = int64(id), 0
		}
		r.Respond(resp)
	})
}
