package compat;

import static compat.Check.same;
import static compat.Check.soon;
import static compat.Check.that;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** What clients keep, and what the broker keeps, while its process ends and comes back. */
final class Restarts {
  private final Broker broker;

  Restarts(Broker broker) {
    this.broker = broker;
  }

  void run() {
    that("committed offsets outlive a restart and kill -9", this::committed);
    that("a group goes on through a restart and kill -9", this::group);
    that("topic ids and the cluster id outlive kill -9", this::ids);
  }

  private void committed() throws Exception {
    broker.topic("kept", 1);
    TopicPartition tp = new TopicPartition("kept", 0);
    int at = 0;
    for (String how : List.of("restart", "crash")) {
      broker.fill("kept", "a", "b");
      try (Member m = new Member(broker.consumer("group.id", "kept"), "kept")) {
        soon("two records", 15, () -> m.values.size() >= 2);
        same(List.of("a", "b"), m.values);
      }
      at += 2;
      broker.process(how);
      try (KafkaConsumer<String, String> c = broker.consumer("group.id", "kept")) {
        same((long) at, c.committed(Set.of(tp)).get(tp).offset());
      }
    }
  }

  private void group() throws Exception {
    broker.topic("going", 2);
    List<String> want = new ArrayList<>();
    List<String> got = new ArrayList<>();
    try (Member a = new Member(broker.consumer("group.id", "going", "heartbeat.interval.ms", 200), "going");
        Member b = new Member(broker.consumer("group.id", "going", "heartbeat.interval.ms", 200), "going");
        KafkaProducer<String, String> p = broker.producer()) {
      soon("they share", 15, () -> a.held.size() == 1 && b.held.size() == 1);
      for (String how : List.of("before", "restart", "crash")) {
        if (!how.equals("before")) {
          broker.process(how);
        }
        for (int i = 0; i < 50; i++) {
          want.add(how + i);
          p.send(new ProducerRecord<>("going", i % 2, null, how + i)).get();
        }
        soon("all after " + how, 30, () -> a.values.size() + b.values.size() >= want.size());
      }
      got.addAll(a.values);
      got.addAll(b.values);
    }
    Collections.sort(want);
    Collections.sort(got);
    same(want, got);
  }

  private void ids() throws Exception {
    String cluster = broker.admin.describeCluster().clusterId().get();
    Uuid topic = broker.admin.describeTopics(List.of("kept")).allTopicNames().get().get("kept").topicId();
    broker.process("crash");
    same(cluster, broker.admin.describeCluster().clusterId().get());
    same(topic, broker.admin.describeTopics(List.of("kept")).allTopicNames().get().get("kept").topicId());
  }
}
