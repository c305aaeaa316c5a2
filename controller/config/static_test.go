package config

import (
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestStaticRefuses: a bad configuration is refused with a sentence that helps.
func TestStaticRefuses(t *testing.T) {
	type kv = map[string]string
	for _, c := range []struct {
		values kv
		want   string // "" means that it is taken
	}{
		{kv{"num.partitions": "0"}, "file: Invalid value 0 for configuration num.partitions: Value must be at least 1"},
		{kv{"log.dirs": "/a,/b"}, "log.dirs names 2 directories (/a, /b): one broker has one data directory"},
		{kv{"log.dirs": "/a"}, ""},
		{kv{"node.id": "1", "broker.id": "2"}, "node.id 1 and broker.id 2 differ"},
		{kv{"node.id": "1", "broker.id": "1"}, ""},
		{kv{"node.id": "1", "broker.id": "-1"}, ""},
		{kv{"process.roles": "controller"}, "a broker here is its own controller"},
		{kv{"process.roles": "broker"}, ""},
		{kv{"sluice.cluster.id": "short"}, "22 characters"},
		{kv{"sluice.cluster.id": "4L6g3nShT-eMCtK--X86sw"}, ""},
		{kv{"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"}, "is above group.max.session"},
		{kv{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "access control is not served yet"},
		{kv{"authorizer.class.name": "X", "allow.everyone.if.no.acl.found": "true"}, ""},
		{kv{"listeners": "SASL_SSL://:9093"}, "listener SASL_SSL asks for SASL_SSL, which is not served yet"},
		{kv{"listeners": "CLIENT://:9093"}, "no security protocol defined for listener CLIENT"},
		{kv{"listeners": "CLIENT://:9093", "listener.security.protocol.map": "client:plaintext"}, ""},
		{kv{"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "each listener must have a different name"},
		{kv{"listeners": "A://:9092,B://:9092", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}, "A and B both listen on :9092"},
		{kv{"listeners": "A://:0,B://:0", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}, ""},
		{kv{"listeners": "localhost:9092"}, "not of the form NAME://host:port"},
		{kv{"listeners": "PLAINTEXT://:99999"}, "the port is above 65535"},
		{kv{"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, "names no listener for clients"},
		{kv{"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, ""},
		{kv{"listeners": "PLAINTEXT://[::1]:9092"}, ""},
		{kv{"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address 0.0.0.0"},
		{kv{"advertised.listeners": "PLAINTEXT://:9092"}, "has no host that a client could connect to"},
		{kv{"advertised.listeners": "OTHER://h:9092"}, "advertised.listeners names OTHER, which is not in listeners"},
		{kv{"advertised.listeners": "PLAINTEXT://h:1,PLAINTEXT://i:1"}, "names PLAINTEXT twice"},
		{kv{"advertised.listeners": "auto"}, ""},
		{kv{"listeners": "SSL://:9093"}, "has no certificate"},
		{kv{"listeners": "SSL://:9093", "ssl.keystore.location": "/k.jks", "ssl.keystore.type": "JKS"}, "only PEM is read"},
		{kv{"listeners": "SSL://:9093", "ssl.keystore.location": "/k.pem"}, ""},
		{kv{"listeners": "SSL://:9093", "listener.name.ssl.ssl.keystore.location": "/k.pem"}, ""},
		{kv{"listeners": "SSL://:9093", "ssl.keystore.location": "/k.pem", "ssl.client.auth": "required"}, "needs ssl.truststore"},
		{kv{"listeners": "SSL://:9093", "ssl.keystore.location": "/k.pem", "ssl.key.password": "x"}, "encrypted keys are not read"},
		{kv{"listeners": "SSL://:9093", "ssl.keystore.location": "/k.pem", "ssl.enabled.protocols": "TLSv1.1"}, "names TLSv1.1"},
		{kv{"sluice.http.listeners": "8080"}, "not host:port"},
		{kv{"sluice.http.listeners": ""}, ""},
		{kv{"max.connections.per.ip.overrides": "x"}, "not host:count pairs"},
	} {
		_, _, err := NewStatic(Layer{Name: "file", Values: c.values})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.values, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v\nwant ... %s ...", c.values, err, c.want)
		}
	}
	_, _, err := NewStatic(Layer{Name: "file", Values: kv{"num.partitions": "x", "log.segment.bytes": "1"}})
	if err == nil || !strings.Contains(err.Error(), "num.partitions") || !strings.Contains(err.Error(), "log.segment.bytes") {
		t.Errorf("not all bad values are named: %v", err)
	}
}

// TestStaticWarns: unknown keys get a hint each, inert ones a summary.
func TestStaticWarns(t *testing.T) {
	_, warnings, err := NewStatic(Layer{Name: "server.properties", Values: map[string]string{
		"num.partitons": "3", "zookeeper.connect": "z:2181", "num.network.threads": "3",
		"xyzzy": "1", "retention.ms": "5", "inter.broker.protocol.version": "3.9",
		"num_partitions": "3", "confluent.metrics.enable": "false",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.Text)
	}
	want := []string{
		"server.properties: unknown key num.partitons, did you mean num.partitions?",
		"server.properties: unknown key num_partitions, did you mean num.partitions?",
		"server.properties: retention.ms is a topic key and does nothing here, the broker's key is log.retention.ms",
		"server.properties: unknown key xyzzy",
		"known to Kafka, without effect here: confluent.metrics.enable, " +
			"inter.broker.protocol.version, num.network.threads, zookeeper.connect",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("warnings:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStaticLayers: a later layer wins, and messages name the layer.
func TestStaticLayers(t *testing.T) {
	s, _, err := NewStatic(
		Layer{Name: "file", Values: map[string]string{"num.partitions": "3", "broker.id": "7"}},
		Layer{Name: "environment", Values: map[string]string{"num.partitions": "4"}},
		Layer{Name: "--override", Values: map[string]string{"num.partitions": "5"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if v, layer, ok := s.Lookup("num.partitions"); v != "5" || layer != "--override" || !ok {
		t.Errorf("num.partitions is %s from %s", v, layer)
	}
	if id, ok := s.NodeOf(); id != 7 || !ok {
		t.Errorf("broker.id gives node %d, %v", id, ok)
	}
	if s.Get("log.retention.ms") != "604800000" || s.Get("nope") != "" {
		t.Errorf("log.retention.ms is %s", s.Get("log.retention.ms"))
	}
	_, _, err = NewStatic(Layer{Name: "file", Values: map[string]string{"num.partitions": "3"}},
		Layer{Name: "environment", Values: map[string]string{"num.partitions": "many"}})
	if err == nil || !strings.HasPrefix(err.Error(), "environment: ") {
		t.Errorf("the layer is not named: %v", err)
	}
}

// TestBrokerView checks the typed view of a single-node compose file.
func TestBrokerView(t *testing.T) {
	env := FromEnv([]string{
		"KAFKA_NODE_ID=1", "KAFKA_PROCESS_ROLES=broker,controller",
		"KAFKA_LISTENERS=PLAINTEXT://:29092,CONTROLLER://:29093,PLAINTEXT_HOST://:9092",
		"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
		"KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
		"KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1",
		"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0", "KAFKA_LOG_DIRS=/tmp/kraft-combined-logs",
		"KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807", "KAFKA_HEAP_OPTS=-Xmx1g",
		"CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "PATH=/bin", "KAFKA_PORT=tcp://10.0.0.1:9092",
		"KAFKA_SERVICE_HOST=10.0.0.1", "KAFKA_PORT_9092_TCP_ADDR=10.0.0.1",
	})
	s, warnings, err := NewStatic(Layer{Name: "environment", Values: env})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || warnings[0].Key != "" {
		t.Errorf("warnings %v", warnings)
	}
	b := NewResolver(s).Broker()
	if b.NodeID != 1 || b.ClusterID != "4L6g3nShT-eMCtK--X86sw" || b.DataDir != "/tmp/kraft-combined-logs" ||
		b.Group.InitialDelay != 0 || b.Offsets.Replication != 1 || b.Offsets.Partitions != 50 {
		t.Errorf("%+v", b)
	}
	want := []Listener{
		{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Port: 29092},
		{Name: "PLAINTEXT_HOST", Protocol: "PLAINTEXT", Port: 9092},
	}
	if !reflect.DeepEqual(b.Listeners, want) {
		t.Errorf("listeners %+v", b.Listeners)
	}
	if len(b.Advertised) != 2 || b.Advertised[0].Addr() != "broker:29092" {
		t.Errorf("advertised %+v", b.Advertised)
	}
	if len(b.HTTPListeners) != 1 || b.HTTPListeners[0] != "127.0.0.1:8080" {
		t.Errorf("http %v", b.HTTPListeners)
	}
	if !newResolver(t, env).Topic(nil).Strict {
		t.Error("Kafka's default flush interval relaxed the topics")
	}
	if b.Cleaner.BytesPerSec != 0 || b.InflightBytes != -1 || b.Metadata.SnapshotBytes != 20<<20 {
		t.Errorf("%+v", b)
	}
}

// TestTLSView: a listener's own keys win over the general ones.
func TestTLSView(t *testing.T) {
	b := newResolver(t, map[string]string{
		"listeners":                      "IN://:1,OUT://:2",
		"listener.security.protocol.map": "IN:SSL,OUT:SSL",
		"ssl.keystore.location":          "/all.pem", "ssl.truststore.location": "/ca.pem",
		"listener.name.out.ssl.keystore.location": "/out.pem",
		"listener.name.out.ssl.client.auth":       "required",
	}).Broker()
	in, out := b.TLS["IN"], b.TLS["OUT"]
	if in.KeystoreFile != "/all.pem" || in.ClientAuth != "none" || out.KeystoreFile != "/out.pem" ||
		out.ClientAuth != "required" || out.TruststoreFile != "/ca.pem" || len(in.Protocols) != 2 {
		t.Errorf("in %+v\nout %+v", in, out)
	}
}

func TestFromEnv(t *testing.T) {
	got := FromEnv([]string{
		"KAFKA_A_B=1", "KAFKA_A__B=2", "KAFKA_A___B=3", "KAFKA_A____B=4", "KAFKA_=x", "kafka_c=x",
		"KAFKA_D", "KAFKA_E==", "KAFKA_SLUICE_DURABILITY=relaxed", "CLUSTER_ID=", "KAFKA_OPTS=x",
	})
	want := map[string]string{
		"a.b": "1", "a_b": "2", "a-b": "3", "a-.b": "4", "e": "=", "sluice.durability": "relaxed",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string
		err  string
	}{
		{text: "", want: map[string]string{}},
		{text: "a=b", want: map[string]string{"a": "b"}},
		{text: "# c\n! d\n\n  \t\n a = b \n", want: map[string]string{"a": "b "}},
		{text: "a:b\nc d\ne\t=\tf\ng", want: map[string]string{"a": "b", "c": "d", "e": "f", "g": ""}},
		{text: "a=1\r\nb=2\rc=3", want: map[string]string{"a": "1", "b": "2", "c": "3"}},
		{text: "a=1,\\\n   2,\\\r\n\t3\nb=4", want: map[string]string{"a": "1,2,3", "b": "4"}},
		{text: "a=x\\\\\nb=2", want: map[string]string{"a": `x\`, "b": "2"}},
		{text: `a\=b\:c\ d=e`, want: map[string]string{"a=b:c d": "e"}},
		{text: `a=\t\n\r\f\\\q\u00e9\ud83d\ude00`, want: map[string]string{"a": "\t\n\r\f\\qé😀"}},
		{text: `a=\ud83d`, want: map[string]string{"a": "\ufffd"}},
		{text: "a=\\\n# not a comment", want: map[string]string{"a": "# not a comment"}},
		{text: "a=1\na=2", want: map[string]string{"a": "2"}},
		{text: "a = = b", want: map[string]string{"a": "= b"}},
		{text: "=b", want: map[string]string{"": "b"}},
		{text: "a=\\", want: map[string]string{"a": ""}},
		{text: "\ufeffa=é", want: map[string]string{"a": "é"}},
		{text: "a=1\nb=\\u12", err: "line 2: malformed"},
		{text: "a=1\n\nb=\\uzzzz", err: "line 3: malformed"},
		{text: "a=1\nb=\xff", err: "line 2 is not UTF-8"},
		{text: strings.Repeat("#", MaxPropertiesBytes+1), err: "larger than"},
	} {
		got, err := ParseProperties(strings.NewReader(c.text))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.40q: %v, want ... %s", c.text, err, c.err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.text, got, err, c.want)
		}
	}
}

// escapeProperty writes a value so that ParseProperties reads it back.
func escapeProperty(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, " ", `\ `,
		"=", `\=`, ":", `\:`, "#", `\#`, "!", `\!`).Replace(s)
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=b\nc : d \\\n e\n#x\n", "k", "v")
	f.Add(`a\u00e9=\ud83d\ude00`, "", " = ")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		if values, err := ParseProperties(strings.NewReader(text)); err == nil {
			_, _, _ = NewStatic(Layer{Name: "fuzz", Values: values})
		}
		written := escapeProperty(key) + "=" + escapeProperty(value) + "\n"
		got, err := ParseProperties(strings.NewReader(written))
		if invalidUTF8([]byte(written)) >= 0 || key == "" || strings.HasPrefix(written, "\ufeff") {
			return
		}
		if err != nil || got[key] != value {
			t.Fatalf("%q=%q written as %q reads as %v, %v", key, value, written, got, err)
		}
	})
}

func FuzzKeyParse(f *testing.F) {
	f.Add("retention.ms", " 5 ")
	f.Add("listeners", "PLAINTEXT://[::1]:9092")
	f.Add("advertised.listeners", "PLAINTEXT://h:9092")
	f.Fuzz(func(t *testing.T, name, value string) {
		if canonical, err := CanonicalTopic(name, value); err == nil {
			l := NewLayers(&Static{}, nil, nil)
			l.Topic(map[string]string{name: canonical}).StoreConfig(jitterID)
			if again, err := CanonicalTopic(name, canonical); err != nil || again != canonical {
				t.Fatalf("%s: %q then %q, %v", name, canonical, again, err)
			}
		}
		_, _ = CanonicalBroker(map[string]string{name: value}, true)
		if s, _, err := NewStatic(Layer{Name: "fuzz", Values: map[string]string{name: value}}); err == nil {
			_ = NewResolver(s).DescribeBroker()
		}
	})
}

// TestKafkasServerProperties: the file that Kafka ships is taken without an unknown key.
func TestKafkasServerProperties(t *testing.T) {
	f, err := os.Open("testdata/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values, err := ParseProperties(f)
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := NewStatic(Layer{Name: "server.properties", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 {
		t.Errorf("warnings %v", warnings)
	}
	if b := NewResolver(s).Broker(); len(b.Listeners) != 1 || b.Listeners[0].Port != 9092 || b.NodeID != 1 {
		t.Errorf("%+v", b)
	}
}

var jitterID = kafkaproto.PartitionID{Partition: 1}
