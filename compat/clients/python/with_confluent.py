"""confluent-kafka: librdkafka in Python."""

import time

import confluent_kafka as ck
from confluent_kafka import admin

from member import Member
from scenario import CODECS, Record

PATIENCE = 20


class Refused(Exception):
    """A KafkaError by its name, which its text does not always have."""

    def __init__(self, error):
        super().__init__(f"{error.name()}: {error.str()}")


def record(m):
    return Record(m.value(), m.key(), tuple(m.headers() or ()), m.timestamp()[1], m.partition(), m.offset())


class Client:
    features = {*CODECS, "null key and value", "null headers", "idempotent", "incremental", "delete records", "static", "drop group"}
    strategies = ["range", "roundrobin", "cooperative-sticky"]
    unknown = "unknowntopic"

    def __init__(self, address):
        self.base = {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 500, "error_cb": lambda e: None}
        self.admin = admin.AdminClient(self.base)

    def close(self):
        pass

    def one(self, futures):
        """The answer to the one thing asked for."""
        try:
            return next(iter(futures.values())).result(PATIENCE)
        except ck.KafkaException as e:
            raise Refused(e.args[0]) from None

    def create(self, name, partitions, configs=None, replicas=1):
        self.one(self.admin.create_topics([admin.NewTopic(name, partitions, replicas, config=configs or {})]))

    def topics(self):
        return {n: len(t.partitions) for n, t in self.admin.list_topics(timeout=PATIENCE).topics.items()}

    def leaders(self, name):
        described = self.one(self.admin.describe_topics(ck.TopicCollection([name])))
        return {p.id: p.leader.id for p in described.partitions}

    def configs(self, name):
        got = self.one(self.admin.describe_configs([admin.ConfigResource(admin.ResourceType.TOPIC, name)]))
        return {c.name: c.value for c in got.values()}

    def set_config(self, name, configs):
        entries = [admin.ConfigEntry(k, v, incremental_operation=admin.AlterConfigOpType.SET) for k, v in configs.items()]
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, name, incremental_configs=entries)
        self.one(self.admin.incremental_alter_configs([resource]))

    def grow(self, name, partitions):
        self.one(self.admin.create_partitions([admin.NewPartitions(name, partitions)]))

    def delete(self, name):
        self.one(self.admin.delete_topics([name]))

    def delete_records(self, name, before):
        return self.one(self.admin.delete_records([ck.TopicPartition(name, 0, before)])).low_watermark

    def groups(self):
        return [g.group_id for g in self.admin.list_consumer_groups().result(PATIENCE).valid]

    def group(self, name):
        got = self.one(self.admin.describe_consumer_groups([name]))
        return got.state.name.lower(), len(got.members)

    def drop_group(self, name):
        self.one(self.admin.delete_consumer_groups([name]))

    def committed(self, group, topic, partition):
        ask = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(topic, partition)])
        return self.one(self.admin.list_consumer_group_offsets([ask])).topic_partitions[0].offset

    def offset(self, topic, at):
        c = ck.Consumer({**self.base, "group.id": "none"})
        try:
            if at < 0:
                return c.get_watermark_offsets(ck.TopicPartition(topic, 0), PATIENCE)[0 if at == -2 else 1]
            return c.offsets_for_times([ck.TopicPartition(topic, 0, at)], PATIENCE)[0].offset
        finally:
            c.close()

    def produce(self, topic, records, codec="none", idempotent=False, slowly=0, patience=PATIENCE):
        p = ck.Producer({
            **self.base, "compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20, "acks": "all",
            "message.max.bytes": 4000000, "topic.metadata.propagation.max.ms": 1000, "message.timeout.ms": patience * 1000,
        })
        errors = []
        for r in records:
            p.produce(topic, r.value, r.key, r.partition, headers=list(r.headers), timestamp=r.time or 0,
                      on_delivery=lambda error, _: error and errors.append(error))
            p.poll(0)
            time.sleep(slowly / len(records))
        left = p.flush(patience + 2)
        if errors:
            raise Refused(errors[0])
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")

    def reader(self, topic, partition=0):
        return Reader(self.base, ck.TopicPartition(topic, partition))

    def join(self, group, topic, strategy, instance=None):
        return Joined({
            **self.base, "group.id": group, "partition.assignment.strategy": strategy, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 10000, "heartbeat.interval.ms": 300,
            "topic.metadata.refresh.interval.ms": 1000, **({"group.instance.id": instance} if instance else {}),
        }, topic)


class Reader:
    def __init__(self, base, at):
        self.c = ck.Consumer({
            **base, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True,
        })
        self.at, self.end = at, None

    def seek(self, offset):
        at = ck.TopicPartition(self.at.topic, self.at.partition, offset)
        if not self.c.assignment():
            self.c.assign([at])
        else:
            self.c.seek(at)

    def to_beginning(self):
        self.seek(ck.OFFSET_BEGINNING)

    def to_end(self):
        self.seek(ck.OFFSET_END)
        self.end = None
        end = time.monotonic() + PATIENCE
        while self.end is None and time.monotonic() < end:
            self.poll()

    def position(self):
        at = self.c.position([self.at])[0].offset
        return at if at >= 0 else self.end

    def poll(self):
        m = self.c.poll(0.2)
        if m is None or not m.error():
            return m
        if m.error().code() != ck.KafkaError._PARTITION_EOF:
            raise Refused(m.error())
        self.end = m.offset()
        return None

    def read(self, count, seconds=PATIENCE):
        out, end = [], time.monotonic() + seconds
        while len(out) < count and time.monotonic() < end:
            m = self.poll()
            if m is not None:
                out.append(record(m))
        return out

    def close(self):
        self.c.close()


class Joined(Member):
    def __init__(self, config, topic):
        self.config, self.topic = config, topic
        super().__init__()

    def open(self):
        self.c = ck.Consumer(self.config)
        self.c.subscribe([self.topic])

    def step(self):
        got = self.c.consume(50, 0.1)
        read = [m for m in got if not m.error()]
        if read:
            self.commit()
        return [m.value() for m in read]

    def commit(self):
        """Again while the broker is away or a rebalance of the cooperative kind is under way."""
        end = time.monotonic() + 10
        while True:
            try:
                return self.c.commit(asynchronous=False)
            except ck.KafkaException as e:
                if e.args[0].code() == ck.KafkaError._NO_OFFSET:
                    return None
                if time.monotonic() > end:
                    raise Refused(e.args[0]) from None
            time.sleep(0.1)

    def holds(self):
        return [p.partition for p in self.c.assignment()]

    def shut(self):
        self.c.close()
