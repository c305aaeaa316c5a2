"""kafka-python 2.0.2, of 2020: the last release for four years."""

import sys

import six

# It carries a six that Python 3.12 and later cannot load; this is the customary way around.
sys.modules.setdefault("kafka.vendor.six.moves", six.moves)

from kafka import TopicPartition  # noqa: E402
from kafka.errors import for_code  # noqa: E402

from scenario import CODECS  # noqa: E402
from with_kafka_python import Common, topic_config  # noqa: E402


def accepted(code, text=""):
    if code:
        raise for_code(code)(text)


class Client(Common):
    features = {*CODECS, "drop group"}
    strategies = ["range", "roundrobin"]  # its sticky one fails in itself

    def delivery(self, idempotent):
        return {}

    def topics(self):
        return {t["topic"]: len(t["partitions"]) for t in self.admin.describe_topics()}

    def leaders(self, name):
        return {p["partition"]: p["leader"] for p in self.admin.describe_topics([name])[0]["partitions"]}

    def configs(self, name):
        code, text, _, _, entries = self.admin.describe_configs([topic_config(name)])[0].resources[0]
        accepted(code, text)
        return {e[0]: e[1] for e in entries}

    def set_config(self, name, configs):
        accepted(*self.admin.alter_configs([topic_config(name, configs)]).resources[0][:2])

    def groups(self):
        return [g[0] for g in self.admin.list_consumer_groups()]

    def group(self, name):
        got = self.admin.describe_consumer_groups([name])[0]
        return got.state.lower(), len(got.members)

    def drop_group(self, name):
        for _, error in self.admin.delete_consumer_groups([name]):
            accepted(error.errno)

    def committed(self, group, topic, partition):
        at = TopicPartition(topic, partition)
        return self.admin.list_consumer_group_offsets(group, partitions=[at])[at].offset
