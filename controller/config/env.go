package config

import (
	"slices"
	"strings"
)

// notKeys are KAFKA_ variables that steer Kafka's start scripts, not the broker.
var notKeys = []string{
	"KAFKA_CREATE_TOPICS", "KAFKA_DEBUG", "KAFKA_GC_LOG_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_HOME",
	"KAFKA_JMX_HOSTNAME", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JVM_PERFORMANCE_OPTS",
	"KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_OPTS",
	"KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_VERSION",
}

// FromEnv gives the keys that variables of the form NAME=value set, by the rule of Kafka's image:
// KAFKA_ is cut off, then "___" is '-', "__" is '_' and "_" is '.'. CLUSTER_ID sets
// sluice.cluster.id. Variables for the Java machine, and those that Kubernetes makes for a service
// called kafka, are passed over.
func FromEnv(environ []string) map[string]string {
	values := make(map[string]string)
	for _, pair := range environ {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if name == "CLUSTER_ID" && value != "" {
			values["sluice.cluster.id"] = value
			continue
		}
		rest, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || rest == "" || slices.Contains(notKeys, name) || serviceLink(rest, value) {
			continue
		}
		key := strings.ReplaceAll(strings.ToLower(rest), "_", ".")
		key = strings.ReplaceAll(key, "...", "-")
		key = strings.ReplaceAll(key, "..", "_")
		values[key] = value
	}
	return values
}

// serviceLink recognises what Kubernetes and Docker links put into the environment of every
// container: KAFKA_PORT=tcp://..., KAFKA_SERVICE_HOST, KAFKA_PORT_9092_TCP_ADDR.
func serviceLink(rest, value string) bool {
	if rest == "PORT" {
		return strings.Contains(value, "://")
	}
	return strings.HasPrefix(rest, "SERVICE_HOST") || strings.HasPrefix(rest, "SERVICE_PORT") ||
		(strings.HasPrefix(rest, "PORT_") && strings.ContainsAny(rest, "0123456789"))
}
