"""What every Python client is put through. The adapters (with_*.py) say how a client does a thing.

An adapter has: features, a set of words for what its library can do; the admin calls create, topics,
leaders, configs, set_config, grow, delete, delete_records, groups, group, drop_group, committed;
produce; reader; offset; join; close.
"""

import os
import re
import subprocess
import threading
import time
import traceback
from typing import NamedTuple, Optional

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Record(NamedTuple):
    """What is sent and what comes back; a key, value or header value of None is Kafka's null."""

    value: Optional[bytes]
    key: Optional[bytes] = None
    headers: tuple = ()
    time: Optional[int] = None  # in milliseconds; None: the client's own
    partition: int = 0
    offset: int = -1


def numbered(start, count, **more):
    return [Record(str(n).encode(), **more) for n in range(start, start + count)]


def broker(verb, **environment):
    """Calls the script that starts and ends this run's broker."""
    script = os.path.join(os.environ["CLIENTS"], "broker")
    subprocess.run([script, verb], check=True, env={**os.environ, **environment})


def stored_codec(topic):
    """The codec in the attributes of the first batch of partition 0, as it lies on disk."""
    name = os.path.join(os.environ["BROKER_DIR"], "data", f"{topic}-0", f"{0:020}.log")
    with open(name, "rb") as f:
        return CODECS[f.read(23)[22] & 7]


def check(truth, *why):
    if not truth:
        raise AssertionError(" ".join(map(str, why)))


def same(what, got, want):
    check(got == want, f"{what}: {got!r}, want {want!r}"[:400])


def eventually(seconds, test, *args):
    """Repeats a check until it passes; its last answer when the time is up."""
    end = time.monotonic() + seconds
    while True:
        try:
            return test(*args)
        except Exception:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def refused(word, call, *args, **named):
    """The call must fail, with an error whose class or text has the word, however it is spelled."""
    try:
        got = call(*args, **named)
    except Exception as e:
        said = re.sub(r"[^a-z]", "", f"{type(e).__name__} {e}".lower())
        check(re.search(word, said), f"refused with {e!r}, want {word}")
        return
    raise AssertionError(f"not refused with {word}: {got!r}")


def compare(got, want, offset):
    same("offset", got.offset, offset)
    same("partition", got.partition, want.partition)
    same("key", got.key, want.key)
    same("value", got.value, want.value)
    same("headers", tuple(got.headers), tuple(want.headers))
    if want.time is None:
        check(abs(got.time - time.time() * 1000) < 60000, f"time {got.time} is not the present")
    else:
        same("time", got.time, want.time)


def shares(members, *want):
    """Each member has so many of the four partitions, and together they have all, once."""
    for m in members:
        check(m.error is None, f"a member failed: {m.error!r}")
    same("partitions of each member", [len(m.assigned) for m in members], list(want))
    same("all partitions", sorted(p for m in members for p in m.assigned), [0, 1, 2, 3])


def received(count, *members):
    """The members together have read the first so many numbers, each once."""
    seen = sorted(int(v) for m in members for v in m.seen)
    if seen == list(range(count)):
        return
    twice = sorted({n for n in seen if seen.count(n) > 1})
    lost = sorted(set(range(count)) - set(seen))
    raise AssertionError(f"read {len(seen)} of {count}; lost {lost[:20]}; twice {twice[:20]}")


class Scenario:
    def __init__(self, name, client):
        self.name, self.client, self.failed = name, client, False

    def topic(self, name):
        return f"{self.name}-{name}"

    def has(self, feature):
        return feature in self.client.features

    def run(self):
        """Tries each thing, says how it went, and returns whether one failed."""
        self.attempt("topics: create, list, describe, again, delete", self.topics)
        self.attempt("topic configs: read, changed, refused", self.topic_configs)
        self.attempt("topic: more partitions", self.more_partitions)
        if self.has("delete records"):
            self.attempt("delete records", self.delete_records)
        self.attempt("topic: made by the first record", self.auto_create)
        for codec in CODECS:
            if self.has(codec):
                self.attempt(f"codec {codec}", self.codec, codec)
        self.attempt("keys and values: null, empty, any bytes", self.nulls)
        self.attempt("headers", self.headers)
        self.attempt("timestamps and offsets by time", self.times)
        self.attempt("seek, beginning, end", self.seeks)
        self.attempt("message sizes: 900 KiB, too large, allowed by the topic", self.sizes)
        self.attempt("unknown topic", self.unknown_topic)
        if self.has("idempotent"):
            self.attempt("idempotent producer through kill -9 and a restart", self.idempotent)
        for strategy in self.client.strategies:
            self.attempt(f"group, {strategy}: two members, one leaves", self.group, strategy)
        if self.has("static"):
            self.attempt("group: a static member comes back to its partitions", self.static)
        self.attempt("group: a member lives through kill -9 and a restart", self.survives)
        self.attempt("committed offsets outlive kill -9 and a restart", self.committed)
        self.client.close()
        return self.failed

    def attempt(self, name, step, *args):
        if os.environ.get("ONLY", "") not in name:
            return
        began = time.monotonic()
        try:
            step(*args)
            print(f"ok {self.name} {name}", flush=True)
        except Exception as e:
            traceback.print_exc()
            print(f"FAIL {self.name} {name}: {type(e).__name__} {' '.join(str(e).split())}", flush=True)
            self.failed = True
        if os.environ.get("TIMES"):
            print(f"# {time.monotonic() - began:.1f} s", flush=True)

    def again(self, verb):
        """Ends and starts the broker, until the client's admin calls, which may not try again, work."""
        broker(verb)
        eventually(10, self.client.topics)

    def expect(self, topic, want, partition=0):
        """Reads a partition from the start: exactly what was sent."""
        reader = self.client.reader(topic, partition)
        try:
            reader.seek(0)
            got = reader.read(len(want))
            for i, (g, w) in enumerate(zip(got, want)):
                try:
                    compare(g, w, i)
                except AssertionError as e:
                    raise AssertionError(f"record {i}: {e}") from None
            same("records", len(got), len(want))
        finally:
            reader.close()

    # Administration.

    def topics(self):
        topic = self.topic("created")
        self.client.create(topic, 3)
        same("partitions in the list", self.client.topics().get(topic), 3)
        same("leaders by partition", self.client.leaders(topic), {0: 1, 1: 1, 2: 1})
        refused("alreadyexists", self.client.create, topic, 3)
        refused("invalidtopic|topicexception", self.client.create, "not/a/name", 1)
        refused("invalidpartitions", self.client.create, self.topic("none"), 0)
        refused("invalidreplicationfactor", self.client.create, self.topic("many"), 1, replicas=3)
        self.client.delete(topic)
        eventually(10, lambda: check(topic not in self.client.topics(), "still listed after it was deleted"))
        refused("unknowntopicorpart", self.client.delete, topic)
        self.client.create(topic, 1)
        self.client.produce(topic, numbered(0, 3))
        self.expect(topic, numbered(0, 3))
        self.client.delete(topic)

    def topic_configs(self):
        topic = self.topic("configs")
        self.client.create(topic, 1, {"cleanup.policy": "compact", "retention.ms": "86400000"})
        got = self.client.configs(topic)
        same("cleanup.policy as created", got.get("cleanup.policy"), "compact")
        same("retention.ms as created", got.get("retention.ms"), "86400000")
        self.client.set_config(topic, {"retention.ms": "3600000", "max.message.bytes": "2000000"})
        got = self.client.configs(topic)
        same("retention.ms as changed", got.get("retention.ms"), "3600000")
        same("max.message.bytes as changed", got.get("max.message.bytes"), "2000000")
        # A client with AlterConfigs only replaces the whole set.
        same("cleanup.policy afterwards", got.get("cleanup.policy"), "compact" if self.has("incremental") else "delete")
        refused("invalidconfig|invalidrequest", self.client.set_config, topic, {"retention.ms": "soon"})
        refused("invalidconfig", self.client.create, self.topic("bad"), 1, {"no.such.setting": "1"})

    def more_partitions(self):
        topic = self.topic("grows")
        self.client.create(topic, 1)
        self.client.produce(topic, numbered(0, 3))
        self.client.grow(topic, 4)
        eventually(5, lambda: same("partitions", self.client.topics().get(topic), 4))
        refused("invalidpartitions", self.client.grow, topic, 2)
        self.client.produce(topic, numbered(0, 3, partition=3))
        self.expect(topic, numbered(0, 3))
        self.expect(topic, numbered(0, 3, partition=3), partition=3)

    def delete_records(self):
        topic = self.topic("shortened")
        self.client.create(topic, 1)
        self.client.produce(topic, numbered(0, 10))
        same("low watermark", self.client.delete_records(topic, 4), 4)
        same("the first offset", self.client.offset(topic, -2), 4)
        same("the next offset", self.client.offset(topic, -1), 10)
        reader = self.client.reader(topic)
        reader.to_beginning()
        same("what is left", [r.value for r in reader.read(6)], [b"4", b"5", b"6", b"7", b"8", b"9"])
        reader.close()
        refused("offsetoutofrange", self.client.delete_records, topic, 11)

    def auto_create(self):
        topic = self.topic("auto")
        self.client.produce(topic, numbered(0, 10))
        self.expect(topic, numbered(0, 10))

    # Records.

    def codec(self, codec):
        topic = self.topic(codec)
        self.client.create(topic, 1)
        records = [Record(f"{i} {'value ' * 20}".encode(), f"key {i % 7}".encode()) for i in range(500)]
        self.client.produce(topic, records, codec=codec)
        same("codec on disk", stored_codec(topic), codec)
        self.expect(topic, records)

    def nulls(self):
        topic = self.topic("nulls")
        self.client.create(topic, 1)
        pairs = [(b"k", b"v"), (b"k", None), (None, b"v"), (b"", b"v"), (b"k", b""), (b"\0\xff\n", b"\x80\0")]
        if self.has("null key and value"):
            pairs.append((None, None))
        records = [Record(value, key) for key, value in pairs]
        self.client.produce(topic, records)
        self.expect(topic, records)

    def headers(self):
        topic = self.topic("headers")
        self.client.create(topic, 1)
        records = [
            Record(b"1", headers=(("a", b"1"), ("b", b""), ("a", b"2"), ("", b"\xff"))),
            Record(b"2"),
            Record(b"3", headers=(("ключ", "значение".encode()),)),
        ]
        if self.has("null headers"):
            records.append(Record(b"4", headers=(("null", None),)))
        self.client.produce(topic, records)
        self.expect(topic, records)

    def times(self):
        topic = self.topic("times")
        self.client.create(topic, 1)
        minute, start = 60000, int(time.time() * 1000) - 3600000
        records = [Record(str(i).encode(), time=start + i * minute) for i in range(10)]
        self.client.produce(topic, records)
        self.expect(topic, records)
        for at, want in [
            (-2, 0), (-1, 10), (start - 5, 0), (start, 0), (start + 3 * minute, 3),
            (start + 3 * minute + 1, 4), (start + 9 * minute, 9), (start + 10 * minute, -1),
        ]:
            same(f"offset by time {at}", self.client.offset(topic, at), want)
        # A topic that takes the broker's time says so beside each record.
        topic = self.topic("append-times")
        self.client.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
        self.client.produce(topic, [Record(b"1", time=start)])
        self.expect(topic, [Record(b"1")])

    def seeks(self):
        topic = self.topic("seeks")
        self.client.create(topic, 1)
        self.client.produce(topic, numbered(0, 100))
        reader = self.client.reader(topic)
        try:
            reader.to_beginning()
            same("from the beginning", [int(r.value) for r in reader.read(5)], [0, 1, 2, 3, 4])
            same("position", reader.position(), 5)
            reader.seek(42)
            same("from 42", [int(r.value) for r in reader.read(3)], [42, 43, 44])
            reader.to_end()
            same("position at the end", reader.position(), 100)
            same("at the end", reader.read(1, 0.5), [])
            self.client.produce(topic, numbered(100, 2))
            same("what came since", [int(r.value) for r in reader.read(2)], [100, 101])
            reader.seek(7)
            same("back again", [int(r.value) for r in reader.read(2)], [7, 8])
            # Beyond the end: the client resets to the beginning, as it was told to.
            reader.seek(5000)
            same("out of range", [int(r.value) for r in reader.read(2)], [0, 1])
        finally:
            reader.close()

    def sizes(self):
        topic = self.topic("large")
        self.client.create(topic, 1)
        records = [Record(b"before"), Record(os.urandom(900 << 10)), Record(b"after")]
        self.client.produce(topic, records)
        self.expect(topic, records)
        refused("sizetoolarge", self.client.produce, topic, [Record(os.urandom(1200000))])
        same("the next offset", self.client.offset(topic, -1), 3)
        # Larger than what the reader asks for at a time: it is served whole all the same (KIP-74).
        topic = self.topic("larger")
        self.client.create(topic, 1, {"max.message.bytes": "3000000"})
        records = [Record(b"before"), Record(os.urandom(2500000)), Record(b"after")]
        self.client.produce(topic, records)
        self.expect(topic, records)

    def unknown_topic(self):
        refused("unknowntopicorpart", self.client.grow, self.topic("missing"), 2)
        broker("restart", OVERRIDES="auto.create.topics.enable=false")
        try:
            topic = self.topic("unmade")
            refused(self.client.unknown, self.client.produce, topic, numbered(0, 1), patience=3)
            check(topic not in eventually(10, self.client.topics), "it was made")
        finally:
            self.again("restart")

    def idempotent(self):
        """The broker is killed and restarted while records are sent: all are there once, in order."""
        topic = self.topic("idempotent")
        self.client.create(topic, 1)
        records, problems = numbered(0, 2000), []

        def send():
            try:
                self.client.produce(topic, records, idempotent=True, slowly=2)
            except Exception as e:
                problems.append(e)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        for verb in ["crash", "restart"]:
            time.sleep(0.6)
            broker(verb)
        eventually(10, self.client.topics)
        sender.join(30)
        check(not sender.is_alive(), "not all was acknowledged within 30 s")
        check(not problems, problems)
        same("records in the log", self.client.offset(topic, -1), 2000)
        self.expect(topic, records)

    # Groups.

    def feed(self, topic, start):
        """A hundred numbered records, spread over the four partitions."""
        self.client.produce(topic, [r._replace(partition=i % 4) for i, r in enumerate(numbered(start, 100))])

    def group(self, strategy):
        """One member has all, a second one half; when one leaves the other has all again."""
        topic = group = self.topic(f"group-{strategy}")
        self.client.create(topic, 4)
        members = [self.client.join(group, topic, strategy)]
        try:
            eventually(15, shares, members, 4)
            self.feed(topic, 0)
            eventually(10, received, 100, *members)
            members.append(self.client.join(group, topic, strategy))
            eventually(20, shares, members, 2, 2)
            self.feed(topic, 100)
            eventually(10, received, 200, *members)
            check(members[1].seen, "the second member read nothing")
            check(group in self.client.groups(), "the group is not listed")
            same("described", self.client.group(group), ("stable", 2))
            # The first one leaves, which is the leader.
            members[0].leave()
            eventually(15, shares, members[1:], 4)
            self.feed(topic, 200)
            eventually(10, received, 300, *members)
        finally:
            for m in members:
                m.leave()
        received(300, *members)
        same("committed", sum(self.client.committed(group, topic, p) for p in range(4)), 300)
        same("described at the end", self.client.group(group), ("empty", 0))
        if self.has("drop group"):
            self.client.drop_group(group)
            check(group not in self.client.groups(), "still listed after it was deleted")
            refused("groupidnotfound", self.client.drop_group, group)

    def static(self):
        """A member with an instance id goes and comes back: nobody else notices (KIP-345)."""
        topic = group = self.topic("static")
        self.client.create(topic, 4)
        members = [self.client.join(group, topic, self.client.strategies[0], instance=i) for i in ("one", "two")]
        try:
            eventually(20, shares, members, 2, 2)
            self.feed(topic, 0)
            eventually(10, received, 100, *members)
            had, shuffles = members[1].assigned, members[0].shuffles
            members[1].leave()
            seen = members[1].seen
            self.feed(topic, 100)
            members[1] = self.client.join(group, topic, self.client.strategies[0], instance="two")
            members[1].seen += seen
            eventually(15, shares, members, 2, 2)
            same("partitions of the one that came back", members[1].assigned, had)
            same("changes for the other", members[0].shuffles, shuffles)
            eventually(10, received, 200, *members)
        finally:
            for m in members:
                m.leave()

    def survives(self):
        """Members go on through a kill and a restart of the broker; they lose and repeat nothing."""
        topic = group = self.topic("survives")
        self.client.create(topic, 4)
        members = [self.client.join(group, topic, self.client.strategies[0]) for _ in range(2)]
        try:
            eventually(20, shares, members, 2, 2)
            for i, verb in enumerate(["crash", "restart"]):
                self.feed(topic, 100 * i)
                eventually(10, received, 100 * (i + 1), *members)
                time.sleep(0.3)  # the last commit is on its way
                self.again(verb)
            self.feed(topic, 200)
            eventually(15, received, 300, *members)
        finally:
            for m in members:
                m.leave()

    def committed(self):
        """A group goes on where it stopped, whatever happened to the broker in between."""
        topic = group = self.topic("committed")
        self.client.create(topic, 1)
        for i, verb in enumerate(["crash", "restart", None]):
            self.client.produce(topic, numbered(10 * i, 10))
            member = self.client.join(group, topic, self.client.strategies[0])
            try:
                eventually(15, lambda: check(len(member.seen) >= 10, f"read {member.seen}"))
            finally:
                member.leave()
            same(f"round {i}", sorted(map(int, member.seen)), list(range(10 * i, 10 * i + 10)))
            if verb:
                self.again(verb)
            same("committed", self.client.committed(group, topic, 0), 10 * i + 10)
