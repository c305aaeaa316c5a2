package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.same;
import static compat.Check.soon;
import static compat.Check.that;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/** Groups of the classic protocol, seen by their members. */
final class Members {
  private final Broker broker;

  Members(Broker broker) {
    this.broker = broker;
  }

  void run() {
    for (String assignor : List.of("Range", "RoundRobin", "Sticky", "CooperativeSticky")) {
      that("group: two members, one leaves, " + assignor, () -> rebalance(assignor));
    }
    that("group: static members keep what they have", this::staticMembers);
    that("group: the older one of two equal static members is fenced", this::fenced);
    that("group: a member that polls too seldom is put out", this::slow);
    that("group: a member that dies is noticed", this::dies);
    that("group: by pattern, with a topic that is made later", this::pattern);
    that("group: commits with metadata, and what was never committed", this::commits);
  }

  private KafkaConsumer<String, String> member(String group, Object... pairs) {
    List<Object> all = new ArrayList<>(List.of("group.id", group, "session.timeout.ms", 6000, "heartbeat.interval.ms", 200, "metadata.max.age.ms", 500));
    all.addAll(List.of(pairs));
    return broker.consumer(all.toArray());
  }

  private Set<String> fill(String topic, String round) {
    Set<String> want = new HashSet<>();
    try (KafkaProducer<String, String> p = broker.producer("linger.ms", 5)) {
      IntStream.range(0, 200).forEach(i -> {
        want.add(round + i);
        p.send(new ProducerRecord<>(topic, i % 4, null, round + i));
      });
    }
    return want;
  }

  private void rebalance(String assignor) throws Exception {
    String topic = "shared-" + assignor;
    Object[] settings = {"partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor + "Assignor"};
    broker.topic(topic, 4);
    Set<String> want = fill(topic, "one ");
    List<String> got = new ArrayList<>();
    try (Member a = new Member(member(topic, settings), topic)) {
      soon("the first member has all", 15, () -> a.held.size() == 4);
      Member b = new Member(member(topic, settings), topic);
      soon("they share", 15, () -> a.held.size() == 2 && b.held.size() == 2);
      if (assignor.startsWith("Cooperative")) {
        same(2, a.revoked.get()); // only what moves is given up
      }
      want.addAll(fill(topic, "two "));
      soon("every record came", 15, () -> a.values.size() + b.values.size() >= 400);
      b.close();
      got.addAll(b.values);
      soon("the first has all again", 15, () -> a.held.size() == 4);
      want.addAll(fill(topic, "three "));
      soon("every record came", 15, () -> a.values.size() + b.values.size() >= 600);
      got.addAll(a.values);
    }
    same(600, got.size());
    same(want, new HashSet<>(got));
  }

  private void staticMembers() throws Exception {
    broker.topic("static", 4);
    Member a = new Member(member("static", "group.instance.id", "a"), "static");
    try (Member b = new Member(member("static", "group.instance.id", "b"), "static")) {
      soon("they share", 15, () -> a.held.size() == 2 && b.held.size() == 2);
      Set<TopicPartition> had = Set.copyOf(a.held);
      int revoked = b.revoked.get();
      a.close();
      Thread.sleep(1500);
      same(2, b.held.size()); // nobody takes over within the session
      try (Member again = new Member(member("static", "group.instance.id", "a"), "static")) {
        soon("it is back", 15, () -> again.held.size() == 2);
        same(had, Set.copyOf(again.held));
        same(revoked, b.revoked.get()); // the other one was not disturbed
      }
    }
  }

  private void fenced() throws Exception {
    broker.topic("fenced", 1);
    Member old = new Member(member("fenced", "group.instance.id", "x"), "fenced");
    soon("the older one has it", 15, () -> old.held.size() == 1);
    try (Member young = new Member(member("fenced", "group.instance.id", "x"), "fenced")) {
      soon("the younger one has it", 15, () -> young.held.size() == 1);
      soon("the older one is told", 15, () -> old.failed != null);
      holds(old.failed instanceof FencedInstanceIdException, old.failed);
    }
  }

  private void slow() throws Exception {
    broker.topic("slow", 1);
    broker.fill("slow", "a", "b");
    try (KafkaConsumer<String, String> c = member("slow", "max.poll.interval.ms", 1000)) {
      c.subscribe(List.of("slow"));
      soon("records came", 15, () -> c.poll(Duration.ofMillis(100)).count() > 0);
      Thread.sleep(2500);
      fails(CommitFailedException.class, () -> {
        c.commitSync();
        return null;
      });
      soon("it is in again", 15, () -> c.poll(Duration.ofMillis(100)).count() > 0);
      c.commitSync();
    }
  }

  /** A consumer that goes away without a LeaveGroup, as one whose process is killed. */
  private void dies() throws Exception {
    broker.topic("dies", 2);
    KafkaConsumer<String, String> first = member("dies");
    first.subscribe(List.of("dies"));
    soon("the first has all", 15, () -> {
      first.poll(Duration.ofMillis(50));
      return first.assignment().size() == 2;
    });
    first.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
    long began = System.nanoTime();
    try (Member b = new Member(member("dies"), "dies")) {
      soon("the second takes over after the session", 15, () -> b.held.size() == 2);
      holds(System.nanoTime() - began > 4_000_000_000L, "the first one left by itself");
    }
  }

  private void pattern() throws Exception {
    broker.topic("match-1", 1);
    broker.fill("match-1", "a");
    Set<String> got = new HashSet<>();
    try (KafkaConsumer<String, String> c = member("pattern", ConsumerConfig.METADATA_MAX_AGE_CONFIG, 300)) {
      c.subscribe(Pattern.compile("match-.*"));
      soon("the first topic", 15, () -> {
        c.poll(Duration.ofMillis(100)).forEach(r -> got.add(r.value()));
        return got.equals(Set.of("a"));
      });
      broker.topic("match-2", 1);
      broker.fill("match-2", "b");
      soon("the topic made later", 15, () -> {
        c.poll(Duration.ofMillis(100)).forEach(r -> got.add(r.value()));
        return got.equals(Set.of("a", "b"));
      });
    }
  }

  private void commits() throws Exception {
    broker.topic("commits", 2);
    TopicPartition zero = new TopicPartition("commits", 0);
    TopicPartition one = new TopicPartition("commits", 1);
    try (KafkaConsumer<String, String> c = member("commits")) {
      c.assign(List.of(zero, one));
      c.commitSync(Map.of(zero, new OffsetAndMetadata(7, "seven")));
      Map<TopicPartition, OffsetAndMetadata> got = c.committed(Set.of(zero, one));
      same(7L, got.get(zero).offset());
      same("seven", got.get(zero).metadata());
      same(null, got.get(one));
      boolean[] done = {false};
      c.commitAsync(Map.of(one, new OffsetAndMetadata(3)), (o, e) -> done[0] = e == null);
      soon("the asynchronous commit", 10, () -> {
        c.poll(Duration.ofMillis(20));
        return done[0];
      });
      same(3L, c.committed(Set.of(one)).get(one).offset());
    }
  }
}
