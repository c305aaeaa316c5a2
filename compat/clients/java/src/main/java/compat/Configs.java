package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.same;
import static compat.Check.soon;
import static compat.Check.that;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigType;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Settings of topics and brokers, through the admin client. */
final class Configs {
  private static final ConfigResource TOPIC = new ConfigResource(ConfigResource.Type.TOPIC, "settings");
  private static final ConfigResource NODE = new ConfigResource(ConfigResource.Type.BROKER, "1");
  private static final ConfigResource NODES = new ConfigResource(ConfigResource.Type.BROKER, "");

  private final Broker broker;

  Configs(Broker broker) {
    this.broker = broker;
  }

  void run() {
    that("describeConfigs: a topic's", this::describe);
    that("describeConfigs: a broker's", this::describeBroker);
    that("incrementalAlterConfigs: set, append, subtract, delete", this::alter);
    that("incrementalAlterConfigs: only validated", this::validateOnly);
    that("incrementalAlterConfigs: the default of all brokers", this::alterBrokers);
    that("incrementalAlterConfigs: what is refused", this::refused);
  }

  private Config config(ConfigResource resource) throws Exception {
    return broker.admin.describeConfigs(List.of(resource),
        new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(resource);
  }

  private Object change(ConfigResource resource, OpType op, String key, String value, boolean dry) throws Exception {
    AlterConfigOp change = new AlterConfigOp(new ConfigEntry(key, value), op);
    return broker.admin.incrementalAlterConfigs(Map.of(resource, List.of(change)),
        new AlterConfigsOptions().validateOnly(dry)).all().get();
  }

  private void describe() throws Exception {
    broker.topic("settings", 1, "retention.ms", "3600000");
    ConfigEntry set = config(TOPIC).get("retention.ms");
    same("3600000", set.value());
    same(ConfigSource.DYNAMIC_TOPIC_CONFIG, set.source());
    same(ConfigType.LONG, set.type());
    holds(!set.documentation().isEmpty(), "no documentation");
    ConfigEntry unset = config(TOPIC).get("cleanup.policy");
    same("delete", unset.value());
    same(ConfigSource.DEFAULT_CONFIG, unset.source());
    same(ConfigType.LIST, unset.type());
    fails(UnknownTopicOrPartitionException.class,
        () -> config(new ConfigResource(ConfigResource.Type.TOPIC, "nothing")));
  }

  private void describeBroker() throws Exception {
    Config c = config(NODE);
    same("1", c.get("node.id").value());
    holds(c.get("node.id").isReadOnly(), "node.id is not read-only");
    same(ConfigSource.STATIC_BROKER_CONFIG, c.get("node.id").source());
    same("1048588", c.get("message.max.bytes").value());
  }

  private void alter() throws Exception {
    change(TOPIC, OpType.SET, "max.message.bytes", "2000", false);
    same("2000", config(TOPIC).get("max.message.bytes").value());
    change(TOPIC, OpType.APPEND, "cleanup.policy", "compact", false);
    same("delete,compact", config(TOPIC).get("cleanup.policy").value());
    change(TOPIC, OpType.SUBTRACT, "cleanup.policy", "delete", false);
    same("compact", config(TOPIC).get("cleanup.policy").value());
    change(TOPIC, OpType.DELETE, "cleanup.policy", null, false);
    same("delete", config(TOPIC).get("cleanup.policy").value());
    change(TOPIC, OpType.DELETE, "max.message.bytes", null, false);
    same("1048588", config(TOPIC).get("max.message.bytes").value());
  }

  private void validateOnly() throws Exception {
    change(TOPIC, OpType.SET, "segment.bytes", "2097152", true);
    same(ConfigSource.DEFAULT_CONFIG, config(TOPIC).get("segment.bytes").source());
  }

  private void alterBrokers() throws Exception {
    change(NODES, OpType.SET, "message.max.bytes", "1500000", false);
    soon("topics inherit it", 5, () -> config(TOPIC).get("max.message.bytes").value().equals("1500000"));
    same(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config(TOPIC).get("max.message.bytes").source());
    change(NODES, OpType.DELETE, "message.max.bytes", null, false);
    soon("topics are as before", 5, () -> config(TOPIC).get("max.message.bytes").value().equals("1048588"));
  }

  private void refused() {
    fails(InvalidConfigurationException.class, () -> change(TOPIC, OpType.SET, "retention.ms", "soon", false));
    fails(InvalidConfigurationException.class, () -> change(TOPIC, OpType.SET, "no.such.key", "1", false));
    fails(InvalidConfigurationException.class, () -> change(TOPIC, OpType.SET, "retention.ms", "soon", true));
  }
}
