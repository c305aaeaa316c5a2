"""kafka-python 3. What 2.0 does in the same way is shared with with_kafka_python_2_0.py."""

import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from member import Member
from scenario import CODECS, Record

PATIENCE = 20
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


def record(m):
    return Record(m.value, m.key, tuple(m.headers), m.timestamp, m.partition, m.offset)


def topic_config(name, configs=None):
    return ConfigResource(ConfigResourceType.TOPIC, name, configs)


class Common:
    """The calls that are the same in both versions."""

    unknown = "timeout"  # it asks again for a topic's metadata until its time is up
    assignors = ASSIGNORS

    def __init__(self, address):
        self.address = address
        self.admin = KafkaAdminClient(bootstrap_servers=address, request_timeout_ms=10000)

    def close(self):
        self.admin.close()

    def create(self, name, partitions, configs=None, replicas=1):
        self.admin.create_topics([NewTopic(name, partitions, replicas, topic_configs=configs or {})])

    def grow(self, name, partitions):
        self.admin.create_partitions({name: NewPartitions(partitions)})

    def delete(self, name):
        self.admin.delete_topics([name])

    def offset(self, topic, at):
        c, partition = KafkaConsumer(bootstrap_servers=self.address), TopicPartition(topic, 0)
        try:
            if at == -1:
                return c.end_offsets([partition])[partition]
            if at == -2:
                return c.beginning_offsets([partition])[partition]
            got = c.offsets_for_times({partition: at})[partition]
            return got.offset if got else -1
        finally:
            c.close()

    def produce(self, topic, records, codec="none", idempotent=False, slowly=0, patience=PATIENCE):
        p = KafkaProducer(
            bootstrap_servers=self.address, acks="all", compression_type=None if codec == "none" else codec, linger_ms=20,
            batch_size=256 << 10, max_request_size=4000000, max_block_ms=patience * 1000, **self.delivery(idempotent))
        try:
            sent = []
            for r in records:
                sent.append(p.send(topic, r.value, r.key, list(r.headers), r.partition, r.time))
                time.sleep(slowly / len(records))
            for s in sent:
                s.get(patience)
        finally:
            p.close(5)

    def delivery(self, idempotent):
        """The producer's settings that only one version has."""
        raise NotImplementedError

    def reader(self, topic, partition=0):
        return Reader(self.address, TopicPartition(topic, partition))

    def join(self, group, topic, strategy, instance=None):
        more = {"group_instance_id": instance} if instance else {}
        return Joined(
            topic, bootstrap_servers=self.address, group_id=group, partition_assignment_strategy=[self.assignors[strategy]],
            auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=10000, heartbeat_interval_ms=300,
            metadata_max_age_ms=2000, **more)


class Client(Common):
    features = {*CODECS, "idempotent", "incremental", "delete records", "static", "drop group"}
    strategies = ["range", "roundrobin", "sticky", "cooperative-sticky"]

    def __init__(self, address):
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        self.assignors = {**ASSIGNORS, "cooperative-sticky": CooperativeStickyAssignor}
        super().__init__(address)

    def delivery(self, idempotent):
        return {"enable_idempotence": idempotent}

    def topics(self):
        return {t["name"]: len(t["partitions"]) for t in self.admin.describe_topics()}

    def leaders(self, name):
        return {p["partition_index"]: p["leader_id"] for p in self.admin.describe_topics([name])[0]["partitions"]}

    def configs(self, name):
        got = self.admin.describe_configs([topic_config(name)], config_filter="all")
        return {k: c["value"] for k, c in got["topic"][name].items()}

    def set_config(self, name, configs):
        said = self.admin.alter_configs([topic_config(name, configs)])["topic"][name]
        if said != "OK":
            raise KafkaError(said)

    def delete_records(self, name, before):
        at = TopicPartition(name, 0)
        return self.admin.delete_records({at: before})[at]["low_watermark"]

    def groups(self):
        return [g["group_id"] for g in self.admin.list_groups()]

    def group(self, name):
        got = self.admin.describe_groups([name])[name]
        return got["group_state"].lower(), len(got["members"])

    def drop_group(self, name):
        said = self.admin.delete_groups([name])[name]
        if said != "OK":
            raise KafkaError(said)

    def committed(self, group, topic, partition):
        at = TopicPartition(topic, partition)
        return self.admin.list_group_offsets({group: [at]})[group][at].offset


class Reader:
    def __init__(self, address, at):
        self.c, self.at = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest"), at
        self.c.assign([at])

    def seek(self, offset):
        self.c.seek(self.at, offset)

    def to_beginning(self):
        self.c.seek_to_beginning(self.at)

    def to_end(self):
        self.c.seek_to_end(self.at)

    def position(self):
        return self.c.position(self.at)

    def read(self, count, seconds=PATIENCE):
        out, end = [], time.monotonic() + seconds
        while len(out) < count and time.monotonic() < end:
            for got in self.c.poll(200, max_records=count - len(out)).values():
                out += map(record, got)
        return out

    def close(self):
        self.c.close()


class Joined(Member):
    def __init__(self, topic, **options):
        self.topic, self.options = topic, options
        super().__init__()

    def open(self):
        self.c = KafkaConsumer(self.topic, **self.options)

    def step(self):
        got = self.c.poll(50)
        if got:
            self.commit()
        return [m.value for some in got.values() for m in some]

    def commit(self):
        """Again while the broker is away or a rebalance of the cooperative kind is under way."""
        end = time.monotonic() + 10
        while True:
            try:
                return self.c.commit()
            except KafkaError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def holds(self):
        return [p.partition for p in self.c.assignment()]

    def shut(self):
        self.c.close()
