package api

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/replica/engine"
)

// leastProduceWait bounds a client's timeout from below: it is meant for replicas that lag, and a
// client that asks for none still gets the time that its own record takes to reach the disk.
const leastProduceWait = 5 * time.Second

// adminClientID is the only client that may write internal topics, as in Kafka (row 47).
const adminClientID = "__admin_client"

// produce answers key 0, versions 3 to 13: one batch for each partition, checked and appended as
// it came. Versions 0 to 2 are offered in ApiVersions for old librdkafka and closed like Kafka
// does.
//
// v5 brings the log start, v7 zstd, v8 errors per record, v10 the leader in error answers
// (KIP-951), v13 topic ids. acks=0 is never answered, an error closes the connection; acks=1
// answers when written, acks=-1 when committed. ACL: Write Topic.
func (b *Broker) produce(r *Request) {
	req := r.Body.(*kmsg.ProduceRequest)
	op := &produceOp{b: b, r: r, acks: req.Acks, resp: kmsg.NewPtrProduceResponse()}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool {
		return len(t.Partitions) == 0 // Kafka does not answer those
	})
	op.resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	op.pending.Store(1) // held by this function until all are appended
	now := b.nowMs()
	b.Stats.All.ProduceRequests.Add(1)
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := &op.resp.Topics[i]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		topic, err := b.topic(t.Topic, t.TopicID, r.Version >= 13)
		if topic != nil {
			topic.Stats.ProduceRequests.Add(1)
		}
		for j := range t.Partitions {
			rp := &rt.Partitions[j]
			rp.Default()
			rp.Partition = t.Partitions[j].Partition
			rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
			if err != nil {
				op.refuse(rp, topic, err, nil)
				continue
			}
			op.appendTo(rp, topic, t.Partitions[j].Records, now, req.TransactionID != nil)
		}
	}
	op.finishAppend(req.TimeoutMillis)
}

// produceOp is one produce request waiting for its partitions to be committed.
type produceOp struct {
	b    *Broker
	r    *Request
	acks int16
	resp *kmsg.ProduceResponse

	pending atomic.Int32
	failed  atomic.Bool // any partition has an error: acks=0 closes
	timer   clock.Timer

	mu       sync.Mutex // guards resp's partitions once commits come in, and done
	answered bool
}

// appendTo checks and appends one partition's batch; the answer's part is filled in at once or by
// the commit.
func (op *produceOp) appendTo(
	rp *kmsg.ProduceResponseTopicPartition, t *Topic, records []byte, now int64, inTxn bool,
) {
	p, err := op.admissible(t, rp.Partition)
	if err != nil {
		op.refuse(rp, t, err, nil)
		return
	}
	adm, perRecord, err := batch.Admit(records, t.check(now, op.r.Version, inTxn))
	if err != nil {
		if !errors.Is(err, kerr.CorruptMessage) && !errors.Is(err, kerr.UnsupportedCompressionType) {
			rp.LogStartOffset = int64(p.LogStart()) // the log was looked at, as Kafka tells
		}
		op.refuse(rp, t, err, perRecord)
		return
	}
	rp.LogStartOffset = int64(p.LogStart())
	if adm.Batch.IsTransactional() {
		op.refuse(rp, t, kafkaproto.Faultf(kerr.InvalidTxnState,
			"transactions are not served yet: no transaction can be open"), nil)
		return
	}
	res, err := p.Append(adm.Batch, engine.AppendOptions{NowMs: now, All: op.acks == -1})
	if err != nil {
		op.refuse(rp, t, err, nil)
		return
	}
	op.b.Stats.produced(t, len(records), int(adm.Batch.Count()))
	rp.BaseOffset, rp.LogStartOffset = int64(res.BaseOffset), int64(res.LogStart)
	rp.LogAppendTime = adm.AppendTime
	if res.Duplicate {
		t.Stats.DuplicateBatches.Add(1)
		rp.LogAppendTime = res.AppendTime
	}
	if op.acks != -1 {
		return
	}
	op.pending.Add(1)
	rp.ErrorCode = kerr.RequestTimedOut.Code // until the commit says better
	p.WhenAppended(res, func(err error) { op.committed(rp, t, err) })
}

// admissible is what is checked before the batch itself.
func (op *produceOp) admissible(t *Topic, n int32) (*engine.Partition, error) {
	p, err := t.partition(n)
	switch {
	case err != nil:
		return nil, err
	case op.acks < -1 || op.acks > 1:
		return nil, kafkaproto.Faultf(kerr.InvalidRequiredAcks,
			"acks is %d, and must be -1, 0 or 1", op.acks)
	case t.Internal && op.r.ClientID != adminClientID:
		return nil, kafkaproto.Faultf(kerr.InvalidTopicException,
			"topic %s is internal", t.Name)
	}
	return p, nil
}

// check is what the topic demands of a batch.
func (t *Topic) check(now int64, version int16, inTxn bool) batch.Check {
	c := t.Check
	c.NowMs, c.Version, c.TransactionalID = now, version, inTxn
	return c
}

// refuse fills in the answer for a batch of which nothing is in the log.
func (op *produceOp) refuse(
	rp *kmsg.ProduceResponseTopicPartition, t *Topic, err error, perRecord []batch.RecordError,
) {
	op.failed.Store(true)
	op.nameLeader(rp, t, err)
	op.b.Stats.produceFailed(t)
	rp.ErrorCode, rp.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
	for _, e := range perRecord {
		re := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		re.RelativeOffset, re.ErrorMessage = e.Index, &e.Message
		rp.ErrorRecords = append(rp.ErrorRecords, re)
	}
	if rp.ErrorCode == kerr.KafkaStorageError.Code || errors.Is(err, kerr.KafkaStorageError) {
		op.b.appendFailed(t, rp.Partition, err)
	}
}

// nameLeader tells a client that came to the wrong broker where to go (KIP-951).
func (op *produceOp) nameLeader(rp *kmsg.ProduceResponseTopicPartition, t *Topic, err error) {
	if op.r.Version < 10 {
		return
	}
	if lead := op.b.currentLeader(t, rp.Partition, err); lead != nil {
		rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = int32(lead.node), int32(lead.epoch)
	}
}

// leaders gives the addresses of the leaders that the answer names.
func (op *produceOp) leaders() []kmsg.ProduceResponseBroker {
	var named []int32
	for i := range op.resp.Topics {
		for j := range op.resp.Topics[i].Partitions {
			if n := op.resp.Topics[i].Partitions[j].CurrentLeader.LeaderID; n >= 0 {
				named = append(named, n)
			}
		}
	}
	if named == nil {
		return nil
	}
	return op.b.nodeEndpoints(op.r.Conn, named)
}

// appendFailed logs a failed append, one a second: with a full disk every request fails.
func (b *Broker) appendFailed(t *Topic, partition int32, err error) {
	now, last := b.nowMs(), b.failedMs.Load()
	if now-last < 1000 && now >= last || !b.failedMs.CompareAndSwap(last, now) {
		b.failedSkipped.Add(1)
		return
	}
	name := ""
	if t != nil {
		name = t.Name
	}
	b.Log.Error("append failed", "topic", name, "partition", partition, "skipped", b.failedSkipped.Swap(0), "err", err)
}

// committed is called once for each appended partition of an acks=-1 request.
func (op *produceOp) committed(rp *kmsg.ProduceResponseTopicPartition, t *Topic, err error) {
	op.mu.Lock()
	if !op.answered {
		rp.ErrorCode, rp.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
		if err != nil {
			rp.BaseOffset = -1
			op.nameLeader(rp, t, err)
		}
	}
	op.mu.Unlock()
	if op.pending.Add(-1) == 0 {
		op.answer()
	}
}

// finishAppend is called when everything is appended: the frame is done with, and the answer goes
// out now or with the last commit, or says REQUEST_TIMED_OUT for what is not committed in time
// (the records stay, row 12).
func (op *produceOp) finishAppend(timeoutMs int32) {
	if op.acks == 0 {
		if op.failed.Load() {
			op.r.Close("produce with acks=0 failed")
		} else {
			op.r.Nothing()
		}
		op.r.Recycle()
		return
	}
	if op.pending.Load() > 1 {
		// The answer is built after the frame is gone: the names must not alias it (A4).
		for i := range op.resp.Topics {
			op.resp.Topics[i].Topic = string([]byte(op.resp.Topics[i].Topic))
		}
		op.mu.Lock()
		op.timer = op.b.Clock.AfterFunc(max(millis(timeoutMs), leastProduceWait), op.answer)
		op.mu.Unlock()
	}
	if op.pending.Add(-1) == 0 {
		op.answer()
	}
	op.r.Recycle()
}

// answer sends the response once; partitions still uncommitted at that time have timed out.
func (op *produceOp) answer() {
	op.mu.Lock()
	if op.answered {
		op.mu.Unlock()
		return
	}
	op.answered = true
	if op.timer != nil {
		op.timer.Stop()
	}
	op.mu.Unlock()
	op.resp.Brokers = op.leaders()
	op.r.Respond(op.resp)
}
