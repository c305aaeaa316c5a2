package config

import (
	"slices"
	"strings"
)

// formerKeys are broker keys that Kafka had before 4.0, or that other distributions know. Files
// that set them are taken; they have no effect.
var formerKeys = []string{
	"advertised.host.name", "advertised.port", "allow.everyone.if.no.acl.found",
	"broker.id.generation.enable", "control.plane.listener.name",
	"controlled.shutdown.enable", "controlled.shutdown.max.retries",
	"controlled.shutdown.retry.backoff.ms", "controller.message.queue.size",
	"delegation.token.master.key", "host.name", "inter.broker.protocol.version",
	"leader.imbalance.per.broker.percentage", "log.message.downconversion.enable",
	"log.message.format.version", "log.message.timestamp.difference.max.ms",
	"log.cleaner.min.cleanable.dirty.ratio", "offsets.commit.required.acks", "port",
	"quota.consumer.default", "quota.producer.default", "reserved.broker.max.id", "super.users",
}

// formerPrefixes are whole families of such keys.
var formerPrefixes = []string{
	"confluent.", "log4j.", "password.encoder.", "rlmm.config.", "rsm.config.",
	"schema.registry.", "zookeeper.",
}

// known reports whether Kafka or one of its distributions has, or had, a key of this name.
func known(name string) bool {
	if _, ok := BrokerKey(name); ok {
		return true
	}
	if slices.Contains(formerKeys, name) {
		return true
	}
	return slices.ContainsFunc(formerPrefixes, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}
