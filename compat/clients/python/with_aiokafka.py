"""aiokafka: asyncio's client. A loop in a thread runs its calls, as a program's loop would."""

import asyncio
import threading
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, for_code

from scenario import CODECS, Record

PATIENCE = 20
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


def record(m):
    return Record(m.value, m.key, m.headers, m.timestamp, m.partition, m.offset)


def accepted(code, text=""):
    if code:
        raise for_code(code)(text)


class Client:
    features = {*CODECS, "null headers", "idempotent", "delete records", "static"}
    strategies = ["range", "roundrobin", "sticky"]
    unknown = "unknowntopicorpart"

    def __init__(self, address):
        self.address = address
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.admin = self.wait(self.made(AIOKafkaAdminClient, request_timeout_ms=5000))

    def wait(self, work, seconds=PATIENCE + 10):
        """Runs a coroutine in the loop and waits for what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    async def made(self, kind, *args, **options):
        made = kind(*args, bootstrap_servers=self.address, **options)
        try:
            await made.start()
        except BaseException:
            await (made.close if kind is AIOKafkaAdminClient else made.stop)()
            raise
        return made

    def close(self):
        self.wait(self.admin.close())

    def create(self, name, partitions, configs=None, replicas=1):
        got = self.wait(self.admin.create_topics([NewTopic(name, partitions, replicas, topic_configs=configs or {})]))
        accepted(*got.topic_errors[0][1:3])

    def topics(self):
        return {t["topic"]: len(t["partitions"]) for t in self.wait(self.admin.describe_topics())}

    def leaders(self, name):
        return {p["partition"]: p["leader"] for p in self.wait(self.admin.describe_topics([name]))[0]["partitions"]}

    def configs(self, name):
        got = self.wait(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
        code, text, _, _, entries = got[0].resources[0]
        accepted(code, text)
        return {e[0]: e[1] for e in entries}

    def set_config(self, name, configs):
        got = self.wait(self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs)]))
        accepted(*got[0].resources[0][:2])

    def grow(self, name, partitions):
        got = self.wait(self.admin.create_partitions({name: NewPartitions(partitions)}))
        accepted(*got.topic_errors[0][1:3])

    def delete(self, name):
        accepted(self.wait(self.admin.delete_topics([name])).topic_error_codes[0][1])

    def delete_records(self, name, before):
        at = TopicPartition(name, 0)
        return self.wait(self.admin.delete_records({at: RecordsToDelete(before)}))[at]

    def groups(self):
        return [g[0] for g in self.wait(self.admin.list_consumer_groups())]

    def group(self, name):
        code, _, state, _, _, members, *_ = self.wait(self.admin.describe_consumer_groups([name]))[0].groups[0]
        accepted(code)
        return state.lower(), len(members)

    def committed(self, group, topic, partition):
        at = TopicPartition(topic, partition)
        return self.wait(self.admin.list_consumer_group_offsets(group, partitions=[at]))[at].offset

    def offset(self, topic, at):
        return self.wait(self._offset(TopicPartition(topic, 0), at))

    async def _offset(self, partition, at):
        c = await self.made(AIOKafkaConsumer)
        try:
            if at == -1:
                return (await c.end_offsets([partition]))[partition]
            if at == -2:
                return (await c.beginning_offsets([partition]))[partition]
            got = (await c.offsets_for_times({partition: at}))[partition]
            return got.offset if got else -1
        finally:
            await c.stop()

    def produce(self, topic, records, codec="none", idempotent=False, slowly=0, patience=PATIENCE):
        self.wait(self._produce(topic, records, codec, idempotent, slowly, patience))

    async def _produce(self, topic, records, codec, idempotent, slowly, patience):
        p = await self.made(
            AIOKafkaProducer, compression_type=None if codec == "none" else codec, enable_idempotence=idempotent, acks="all",
            linger_ms=20, max_batch_size=256 << 10, max_request_size=4000000, request_timeout_ms=patience * 1000)
        try:
            sent = []
            for r in records:
                sent.append(await p.send(topic, r.value, r.key, r.partition, r.time, list(r.headers)))
                if slowly:
                    await asyncio.sleep(slowly / len(records))
            await asyncio.gather(*sent)
        finally:
            await p.stop()

    def reader(self, topic, partition=0):
        return Reader(self, TopicPartition(topic, partition))

    def join(self, group, topic, strategy, instance=None):
        return Member(self, topic, group_id=group, group_instance_id=instance, partition_assignment_strategy=(ASSIGNORS[strategy],))


class Reader:
    def __init__(self, client, at):
        self.client, self.at = client, at
        self.c = self.wait(self.assigned())

    async def assigned(self):
        c = await self.client.made(AIOKafkaConsumer, auto_offset_reset="earliest")
        c.assign([self.at])
        return c

    def wait(self, work):
        return self.client.wait(work)

    def seek(self, offset):
        async def seek():
            self.c.seek(self.at, offset)
        self.wait(seek())

    def to_beginning(self):
        self.wait(self.c.seek_to_beginning(self.at))

    def to_end(self):
        self.wait(self.c.seek_to_end(self.at))

    def position(self):
        return self.wait(self.c.position(self.at))

    def read(self, count, seconds=PATIENCE):
        async def read():
            out, end = [], time.monotonic() + seconds
            while len(out) < count and time.monotonic() < end:
                for got in (await self.c.getmany(timeout_ms=200, max_records=count - len(out))).values():
                    out += map(record, got)
            return out
        return self.wait(read())

    def close(self):
        self.wait(self.c.stop())


class Member(ConsumerRebalanceListener):
    """A task that reads and commits. Rebalances happen beside it, so that it holds a lock between
    reading and committing, and they wait for the lock, as aiokafka's manual says."""

    def __init__(self, client, topic, **options):
        self.client = client
        self.seen, self.assigned, self.shuffles, self.error = [], [], 0, None
        self.lock, self.over = asyncio.Lock(), asyncio.Event()
        self.done = asyncio.run_coroutine_threadsafe(self.run(topic, options), client.loop)

    async def run(self, topic, options):
        c = AIOKafkaConsumer(
            bootstrap_servers=self.client.address, auto_offset_reset="earliest", enable_auto_commit=False,
            session_timeout_ms=10000, heartbeat_interval_ms=300, metadata_max_age_ms=2000, **options)
        c.subscribe([topic], listener=self)
        try:
            await c.start()
            while not self.over.is_set():
                async with self.lock:
                    got = await c.getmany(timeout_ms=50)
                    if got:
                        await self.commit(c)
                        self.seen += [m.value for some in got.values() for m in some]
                await asyncio.sleep(0.01)
        except Exception as e:
            self.error = e
            raise
        finally:
            await c.stop()

    async def commit(self, c):
        end = time.monotonic() + 10
        while True:
            try:
                return await c.commit()
            except KafkaError:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)

    async def on_partitions_revoked(self, revoked):
        async with self.lock:
            self.assigned = []

    async def on_partitions_assigned(self, assigned):
        self.assigned = sorted(p.partition for p in assigned)
        self.shuffles += 1

    def leave(self):
        self.client.loop.call_soon_threadsafe(self.over.set)
        self.done.result(30)
        self.assigned = []
