package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.same;
import static compat.Check.soon;
import static compat.Check.that;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The cluster and its topics, through the admin client. */
final class Topics {
  private final Broker broker;
  private final Admin admin;

  Topics(Broker broker) {
    this.broker = broker;
    this.admin = broker.admin;
  }

  void run() {
    that("describeCluster", this::cluster);
    that("createTopics: what was made", this::create);
    that("createTopics: only validated", this::validateOnly);
    that("createTopics: what is refused", this::refused);
    that("describeTopics: by name and by id", this::describe);
    that("listTopics: internal ones only when asked for", this::list);
    that("createPartitions", this::partitions);
    that("deleteRecords", this::deleteRecords);
    that("deleteTopics: by name and by id", this::delete);
    that("deleteTopics: made anew it has another id and no records", this::anew);
  }

  private void cluster() throws Exception {
    DescribeClusterResult r = admin.describeCluster();
    same(22, r.clusterId().get().length());
    Collection<Node> nodes = r.nodes().get();
    same(1, nodes.size());
    Node node = nodes.iterator().next();
    same(broker.address, node.host() + ":" + node.port());
    same(1, node.id());
    same(node, r.controller().get());
  }

  private void create() throws Exception {
    CreateTopicsResult r = admin.createTopics(List.of(
        new NewTopic("made", 3, (short) 1).configs(Map.of("retention.ms", "3600000")),
        new NewTopic("placed", Map.of(0, List.of(1), 1, List.of(1)))));
    r.all().get();
    same(3, r.numPartitions("made").get());
    same(1, r.replicationFactor("made").get());
    same("3600000", r.config("made").get().get("retention.ms").value());
    same(2, r.numPartitions("placed").get());
    holds(!r.topicId("made").get().equals(Uuid.ZERO_UUID), "no topic id");
  }

  private void validateOnly() throws Exception {
    NewTopic t = new NewTopic("imagined", 2, (short) 1);
    same(2, admin.createTopics(List.of(t), new CreateTopicsOptions().validateOnly(true)).numPartitions("imagined").get());
    holds(!admin.listTopics().names().get().contains("imagined"), "it was made");
  }

  private void refused() throws Exception {
    fails(TopicExistsException.class, () -> creating(new NewTopic("made", 1, (short) 1)));
    fails(InvalidTopicException.class, () -> creating(new NewTopic("a b", 1, (short) 1)));
    fails(InvalidTopicException.class, () -> creating(new NewTopic("x".repeat(250), 1, (short) 1)));
    fails(InvalidReplicationFactorException.class, () -> creating(new NewTopic("wide", 1, (short) 3)));
    fails(InvalidPartitionsException.class, () -> creating(new NewTopic("empty", 0, (short) 1)));
    fails(InvalidReplicaAssignmentException.class, () -> creating(new NewTopic("away", Map.of(0, List.of(7)))));
    creating(new NewTopic("dot.and_a", 1, (short) 1)); // in names of metrics a dot and an underscore are the same
    fails(InvalidTopicException.class, () -> creating(new NewTopic("dot_and.a", 1, (short) 1)));
  }

  private Object creating(NewTopic... topics) throws Exception {
    return admin.createTopics(List.of(topics)).all().get();
  }

  private void describe() throws Exception {
    TopicDescription d = admin.describeTopics(List.of("made")).allTopicNames().get().get("made");
    same(3, d.partitions().size());
    d.partitions().forEach(p -> {
      same(1, p.leader().id());
      same(1, p.replicas().size());
      same(1, p.isr().size());
    });
    TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(d.topicId()))).allTopicIds().get().get(d.topicId());
    same("made", byId.name());
    same(3, byId.partitions().size());
    fails(UnknownTopicOrPartitionException.class, () -> admin.describeTopics(List.of("nothing")).allTopicNames().get());
    fails(UnknownTopicIdException.class,
        () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds().get());
  }

  private void list() throws Exception {
    try (KafkaConsumer<String, String> c = broker.consumer("group.id", "maker")) {
      c.committed(Set.of(new TopicPartition("made", 0)));
    }
    Set<String> names = admin.listTopics().names().get();
    holds(names.containsAll(Set.of("made", "placed")), names);
    holds(!names.contains("__consumer_offsets"), names);
    holds(admin.listTopics(new ListTopicsOptions().listInternal(true)).namesToListings().get()
        .get("__consumer_offsets").isInternal(), "not internal");
  }

  private void partitions() throws Exception {
    broker.topic("grown", 1);
    admin.createPartitions(Map.of("grown", NewPartitions.increaseTo(4))).all().get();
    same(4, admin.describeTopics(List.of("grown")).allTopicNames().get().get("grown").partitions().size());
    fails(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of("grown", NewPartitions.increaseTo(2))).all().get());
    fails(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of("grown", NewPartitions.increaseTo(4))).all().get());
    fails(UnknownTopicOrPartitionException.class,
        () -> admin.createPartitions(Map.of("nothing", NewPartitions.increaseTo(4))).all().get());
  }

  private void deleteRecords() throws Exception {
    broker.topic("cut", 1);
    broker.fill("cut", "a", "b", "c", "d");
    TopicPartition tp = new TopicPartition("cut", 0);
    same(2L, admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(tp).get().lowWatermark());
    same(List.of("c", "d"), broker.read("cut", 0, 0, 2).stream().map(r -> r.value()).toList());
    fails(OffsetOutOfRangeException.class, () -> admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(9))).all().get());
    same(4L, admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(tp).get().lowWatermark());
  }

  private void delete() throws Exception {
    broker.topic("gone", 1);
    broker.topic("gone-too", 1);
    Uuid id = admin.describeTopics(List.of("gone-too")).allTopicNames().get().get("gone-too").topicId();
    admin.deleteTopics(List.of("gone")).all().get();
    admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
    soon("both are gone", 5, () -> admin.listTopics().names().get().stream().noneMatch(n -> n.startsWith("gone")));
    fails(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of("gone")).all().get());
    fails(UnknownTopicIdException.class, () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
  }

  private void anew() throws Exception {
    broker.topic("again", 1);
    broker.fill("again", "old");
    Uuid before = admin.describeTopics(List.of("again")).allTopicNames().get().get("again").topicId();
    admin.deleteTopics(List.of("again")).all().get();
    soon("it can be made again", 5, () -> {
      try {
        broker.topic("again", 1);
        return true;
      } catch (java.util.concurrent.ExecutionException e) {
        return false;
      }
    });
    holds(!before.equals(admin.describeTopics(List.of("again")).allTopicNames().get().get("again").topicId()), "the same id");
    broker.fill("again", "new");
    same(List.of("new"), broker.values("again", 1));
  }
}
