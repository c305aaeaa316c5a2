package compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A member of a group that polls on a thread of its own, commits what it got, and tells what it has. */
final class Member implements AutoCloseable, ConsumerRebalanceListener {
  final Set<TopicPartition> held = ConcurrentHashMap.newKeySet();
  final AtomicInteger revoked = new AtomicInteger();
  final List<String> values = java.util.Collections.synchronizedList(new ArrayList<>());
  volatile Throwable failed;

  private final KafkaConsumer<String, String> consumer;
  private final Thread thread;
  private volatile boolean ending;

  Member(KafkaConsumer<String, String> consumer, String... topics) {
    this.consumer = consumer;
    thread = new Thread(() -> poll(List.of(topics)));
    thread.start();
  }

  private void poll(List<String> topics) {
    try (consumer) {
      consumer.subscribe(topics, this);
      while (!ending) {
        int before = values.size();
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(50))) {
          values.add(r.value());
        }
        if (values.size() > before) {
          consumer.commitSync();
        }
      }
    } catch (Throwable e) {
      failed = e;
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    held.addAll(partitions);
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    revoked.addAndGet(partitions.size());
    held.removeAll(partitions);
  }

  /** Ends it as an application does: a dynamic member leaves the group, a static one does not. */
  @Override
  public void close() throws Exception {
    ending = true;
    thread.join(20_000);
    if (failed != null) {
      throw new AssertionError("a member failed: " + failed, failed);
    }
  }
}
