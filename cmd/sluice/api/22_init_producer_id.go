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
		resp.ErrorCode = b.refuseTransactional(req).Code
		r.Respond(resp)
		return
	}
	if r.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		resp.ErrorCode = kerr.InvalidRequest.Code
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

// refuseTransactional is the error for a transactional id: Kafka's own where the request is wrong,
// else one that no producer retries.
func (b *Broker) refuseTransactional(req *kmsg.InitProducerIDRequest) *kerr.Error {
	most := b.Config.Broker().Txn.MaxTimeout
	switch {
	case *req.TransactionalID == "":
		return kerr.InvalidRequest
	case req.TransactionTimeoutMillis <= 0 || millis(req.TransactionTimeoutMillis) > most:
		return kerr.InvalidTransactionTimeout
	}
	return kerr.TransactionalIDAuthorizationFailed
}
