package diff

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const setupWithin = 15 * time.Second

// ask sends a request of the preparations, which are not recorded, on a connection of their own.
func (r *caseRun) ask(request kmsg.Request) (kmsg.Response, error) {
	if r.setup == nil {
		client := "setup"
		c, err := dial(r.target.Address(), &client)
		if err != nil {
			return nil, err
		}
		r.setup = c
	}
	return ask(r.setup, request)
}

func ask(c *connection, request kmsg.Request) (kmsg.Response, error) {
	if err := c.post(request); err != nil {
		return nil, err
	}
	o, err := c.receive(answerWithin)
	if err != nil {
		return nil, err
	}
	if o.word != outcomeAnswer {
		return nil, fmt.Errorf("%s: %s", kmsg.NameForKey(request.Key()), o.word)
	}
	d, err := o.decode()
	return d.response, err
}

// makeTopic creates a fresh topic and waits until it can be used.
func (r *caseRun) makeTopic(in instruction) error {
	variable := in.words[0]
	name := r.freshName(variable)
	r.env.addName(variable, name)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	for key, value := range in.modifiers {
		if key == "partitions" {
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			t.NumPartitions = int32(n)
			continue
		}
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: kmsg.StringPtr(value)})
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Version, request.TimeoutMillis = 5, 10_000
	request.Topics = append(request.Topics, t)
	response, err := r.ask(request)
	if err != nil {
		return err
	}
	if made := response.(*kmsg.CreateTopicsResponse); len(made.Topics) != 1 || made.Topics[0].ErrorCode != 0 {
		return fmt.Errorf("create topic %s: %+v", name, made.Topics)
	}
	return r.await(variable, int(t.NumPartitions), false)
}

// awaitTopic carries out gone and ready.
func (r *caseRun) awaitTopic(in instruction) error {
	partitions := 1
	if text, ok := in.modifiers["partitions"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		partitions = n
	}
	return r.await(in.words[0], partitions, in.verb == "gone")
}

// await asks for Metadata until a topic is there with its partitions led, or is gone.
func (r *caseRun) await(variable string, partitions int, gone bool) error {
	name, err := r.env.resolve(variable, 0)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(setupWithin); ; time.Sleep(10 * time.Millisecond) {
		t, err := r.topicMetadata(fmt.Sprint(name))
		if err != nil {
			return err
		}
		if gone && t.ErrorCode == 3 {
			return nil
		}
		if !gone && t.ErrorCode == 0 && len(t.Partitions) >= partitions && allLed(t) {
			r.env.values[variable+".id"] = uuid(t.TopicID)
			return r.awaitServed(fmt.Sprint(name), len(t.Partitions), deadline)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s after %s: %+v", name, setupWithin, t)
		}
	}
}

// awaitServed asks for the end of every partition until all answer: Kafka's metadata tells of a leader
// a moment before the leader takes requests.
func (r *caseRun) awaitServed(topic string, partitions int, deadline time.Time) error {
	for {
		request := kmsg.NewPtrListOffsetsRequest()
		request.Version, request.ReplicaID = 4, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for i := range partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = int32(i), -1
			t.Partitions = append(t.Partitions, p)
		}
		request.Topics = append(request.Topics, t)
		response, err := r.ask(request)
		if err != nil {
			return err
		}
		served := 0
		for _, t := range response.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					served++
				}
			}
		}
		if served == partitions {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s: %d of %d partitions are served after %s", topic, served, partitions, setupWithin)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func allLed(t kmsg.MetadataResponseTopic) bool {
	for _, p := range t.Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return false
		}
	}
	return true
}

func (r *caseRun) topicMetadata(name string) (kmsg.MetadataResponseTopic, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Version = 10
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	request.Topics = append(request.Topics, t)
	response, err := r.ask(request)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	topics := response.(*kmsg.MetadataResponse).Topics
	if len(topics) != 1 {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("metadata of one topic holds %d", len(topics))
	}
	return topics[0], nil
}

// makeProducer takes a fresh producer id; its epoch is 0.
func (r *caseRun) makeProducer(variable string) error {
	for deadline := time.Now().Add(setupWithin); ; time.Sleep(20 * time.Millisecond) {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.Version = 1
		response, err := r.ask(request)
		if err != nil {
			return err
		}
		got := response.(*kmsg.InitProducerIDResponse)
		if got.ErrorCode == 0 {
			r.env.values[variable] = got.ProducerID
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("producer id: error %d", got.ErrorCode)
		}
	}
}

// identify asks a broker for what names it, and waits until its group coordinator works, because the
// first use of it creates __consumer_offsets.
func identify(address string) (BrokerIdentity, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return BrokerIdentity{}, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return BrokerIdentity{}, err
	}
	client := "setup"
	c, err := dial(address, &client)
	if err != nil {
		return BrokerIdentity{}, err
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Version, request.Topics = 4, []kmsg.MetadataRequestTopic{}
	response, err := ask(c, request)
	if err != nil {
		return BrokerIdentity{}, err
	}
	id := BrokerIdentity{Host: host, Port: int32(port)}
	if cluster := response.(*kmsg.MetadataResponse).ClusterID; cluster != nil {
		id.ClusterID = *cluster
	}
	return id, warmUp(c)
}

// offsetsPartitions is offsets.topic.num.partitions of every broker here.
const offsetsPartitions = 50

// groupOfEachPartition returns group names of which each partition of __consumer_offsets holds one.
func groupOfEachPartition() []string {
	names := make([]string, offsetsPartitions)
	for i, found := 0, 0; found < len(names); i++ {
		name := fmt.Sprintf("warm-up-%d", i)
		var hash int32 // of a Java string
		for _, c := range []byte(name) {
			hash = 31*hash + int32(c)
		}
		if p := (hash & 0x7fffffff) % offsetsPartitions; names[p] == "" {
			names[p], found = name, found+1
		}
	}
	return names
}

// warmUp waits until every shard of the group coordinator is loaded. Finding a coordinator first makes
// the broker create __consumer_offsets.
func warmUp(c *connection) error {
	var last int16
	for deadline := time.Now().Add(setupWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 2, "warm-up"
		response, err := ask(c, find)
		if err != nil {
			return err
		}
		if last = response.(*kmsg.FindCoordinatorResponse).ErrorCode; last != 0 {
			continue
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version = 8
		for _, name := range groupOfEachPartition() {
			fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: name, MemberEpoch: -1})
		}
		response, err = ask(c, fetch)
		if err != nil {
			return err
		}
		for _, g := range response.(*kmsg.OffsetFetchResponse).Groups {
			if g.ErrorCode != 0 {
				last = g.ErrorCode
			}
		}
		if last == 0 {
			return nil
		}
	}
	return fmt.Errorf("the group coordinator is not ready after %s: error %d", setupWithin, last)
}
