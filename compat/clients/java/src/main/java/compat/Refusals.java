package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.that;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What is not served yet must end at once, with an error that the client and its user understand. */
final class Refusals {
  private final Broker broker;

  Refusals(Broker broker) {
    this.broker = broker;
  }

  void run() {
    that("refused: a transactional producer", this::transactions);
    that("refused: group.protocol=consumer", this::newGroups);
    that("refused: share groups", this::shareGroups);
    Admin a = broker.admin;
    TopicPartition tp = new TopicPartition("made", 0);
    unsupported("electLeaders", () -> a.electLeaders(ElectionType.PREFERRED, Set.of(tp)).all().get());
    unsupported("alterPartitionReassignments", () -> a.alterPartitionReassignments(Map.of(tp, Optional.empty())).all().get());
    unsupported("listPartitionReassignments", () -> a.listPartitionReassignments().reassignments().get());
    unsupported("describeMetadataQuorum", () -> a.describeMetadataQuorum().quorumInfo().get());
    unsupported("describeLogDirs", () -> a.describeLogDirs(List.of(1)).allDescriptions().get());
    unsupported("describeAcls", () -> a.describeAcls(AclBindingFilter.ANY).values().get());
    unsupported("describeClientQuotas", () -> a.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
    unsupported("describeUserScramCredentials", () -> a.describeUserScramCredentials().all().get());
    unsupported("describeDelegationToken", () -> a.describeDelegationToken().delegationTokens().get());
    unsupported("describeProducers", () -> a.describeProducers(List.of(tp)).all().get());
    unsupported("listTransactions", () -> a.listTransactions().all().get());
    that("describeFeatures", () -> holds(a.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"), "no metadata.version"));
  }

  private void unsupported(String name, Callable<?> call) {
    that("refused: " + name, () -> promptly(UnsupportedVersionException.class, call));
  }

  private static <E extends Throwable> E promptly(Class<E> kind, Callable<?> call) {
    long began = System.nanoTime();
    E e = fails(kind, call);
    holds(System.nanoTime() - began < 5_000_000_000L, "it took " + (System.nanoTime() - began) / 1_000_000 + " ms");
    return e;
  }

  private void transactions() {
    try (KafkaProducer<String, String> p = broker.producer("transactional.id", "t", "max.block.ms", 20_000)) {
      promptly(TransactionalIdAuthorizationException.class, () -> {
        p.initTransactions();
        return null;
      });
    }
  }

  private void newGroups() {
    try (KafkaConsumer<String, String> c = broker.consumer("group.id", "new", "group.protocol", "consumer")) {
      c.subscribe(List.of("made"));
      promptly(UnsupportedVersionException.class, () -> {
        while (true) {
          c.poll(Duration.ofMillis(100));
        }
      });
    }
  }

  private void shareGroups() {
    try (KafkaShareConsumer<String, String> c = new KafkaShareConsumer<>(
        broker.settings("group.id", "share"), new StringDeserializer(), new StringDeserializer())) {
      c.subscribe(List.of("made"));
      promptly(UnsupportedVersionException.class, () -> {
        while (true) {
          c.poll(Duration.ofMillis(100));
        }
      });
    }
  }
}
