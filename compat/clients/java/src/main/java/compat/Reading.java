package compat;

import static compat.Check.fails;
import static compat.Check.same;
import static compat.Check.that;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consumers without a group: offsets by time and place, seeks, resets, isolation. */
final class Reading {
  private static final TopicPartition TIMED = new TopicPartition("timed", 0);
  private static final long T = System.currentTimeMillis() - 3_600_000;

  private final Broker broker;

  Reading(Broker broker) {
    this.broker = broker;
  }

  void run() {
    // Times 0, 2, 9 and 5 s, then the first record is deleted: each kind of offset is another one.
    that("listOffsets: earliest, latest, by time, greatest time", this::listOffsets);
    that("listOffsets: local and tiered ones of a topic that has no tier", this::listTiered);
    that("offsetsForTimes, beginningOffsets, endOffsets", this::times);
    that("seek, position, and to the beginning and the end", this::seek);
    that("reset: none, earliest, latest, by duration", this::reset);
    that("read_committed on a topic without transactions", this::readCommitted);
    that("poll waits for records that come later", this::waits);
    that("pause, resume, currentLag", this::pause);
    that("fetches of many partitions, a session's worth", this::many);
  }

  private void listOffsets() throws Exception {
    broker.topic("timed", 1);
    try (KafkaProducer<String, String> p = broker.producer()) {
      for (long s : new long[] {0, 2, 9, 5}) {
        p.send(new ProducerRecord<>("timed", 0, T + s * 1000, null, "at " + s)).get();
      }
    }
    broker.admin.deleteRecords(Map.of(TIMED, RecordsToDelete.beforeOffset(1))).all().get();
    Map<OffsetSpec, String> want = new LinkedHashMap<>();
    want.put(OffsetSpec.earliest(), "1@-1");
    want.put(OffsetSpec.latest(), "4@-1");
    want.put(OffsetSpec.forTimestamp(T), "1@" + (T + 2000));
    want.put(OffsetSpec.forTimestamp(T + 2000), "1@" + (T + 2000));
    want.put(OffsetSpec.forTimestamp(T + 2001), "2@" + (T + 9000));
    want.put(OffsetSpec.forTimestamp(T + 9001), "-1@-1");
    want.put(OffsetSpec.maxTimestamp(), "2@" + (T + 9000));
    for (Map.Entry<OffsetSpec, String> e : want.entrySet()) {
      same(e.getValue(), listed(e.getKey()));
    }
  }

  private String listed(OffsetSpec spec) throws Exception {
    ListOffsetsResultInfo i = broker.admin.listOffsets(Map.of(TIMED, spec)).partitionResult(TIMED).get();
    return i.offset() + "@" + i.timestamp();
  }

  private void listTiered() throws Exception {
    same("1@-1", listed(OffsetSpec.earliestLocal()));
    same("-1@-1", listed(OffsetSpec.latestTiered()));
    same("-1@-1", listed(OffsetSpec.earliestPendingUpload()));
  }

  private void times() throws Exception {
    try (KafkaConsumer<String, String> c = broker.consumer()) {
      OffsetAndTimestamp at = c.offsetsForTimes(Map.of(TIMED, T + 2001)).get(TIMED);
      same(new OffsetAndTimestamp(2, T + 9000, Optional.of(at.leaderEpoch().get())), at);
      same(null, c.offsetsForTimes(Map.of(TIMED, T + 60_000)).get(TIMED));
      same(1L, c.beginningOffsets(List.of(TIMED)).get(TIMED));
      same(4L, c.endOffsets(List.of(TIMED)).get(TIMED));
    }
  }

  private void seek() throws Exception {
    try (KafkaConsumer<String, String> c = broker.consumer("max.poll.records", 1)) {
      c.assign(List.of(TIMED));
      c.seekToEnd(List.of(TIMED));
      same(4L, c.position(TIMED));
      c.seekToBeginning(List.of(TIMED));
      same(1L, c.position(TIMED));
      same("at 2", next(c).value());
      c.seek(TIMED, 3);
      same("at 5", next(c).value());
      same(4L, c.position(TIMED));
      c.seek(TIMED, 2);
      same("at 9", next(c).value());
      same(1, c.partitionsFor("timed").size());
    }
  }

  private static ConsumerRecord<String, String> next(KafkaConsumer<String, String> c) {
    long end = System.nanoTime() + 10_000_000_000L;
    while (System.nanoTime() < end) {
      for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(100))) {
        return r;
      }
    }
    throw new AssertionError("no record within 10 s");
  }

  private void reset() throws Exception {
    try (KafkaConsumer<String, String> c = broker.consumer("auto.offset.reset", "none")) {
      c.assign(List.of(TIMED));
      fails(NoOffsetForPartitionException.class, () -> c.poll(Duration.ofSeconds(5)));
      c.seek(TIMED, 0); // deleted
      fails(OffsetOutOfRangeException.class, () -> c.poll(Duration.ofSeconds(5)));
      c.seek(TIMED, 99);
      fails(OffsetOutOfRangeException.class, () -> c.poll(Duration.ofSeconds(5)));
    }
    same("at 2", afterReset("earliest", 0));
    same("at 2", afterReset("earliest", 99));
    // As long ago as the time between the second record and the third.
    long ago = System.currentTimeMillis() - T - 5000;
    same("at 9", afterReset("by_duration:" + Duration.ofMillis(ago), 99));
    try (KafkaConsumer<String, String> c = broker.consumer("auto.offset.reset", "latest")) {
      c.assign(List.of(TIMED));
      c.seek(TIMED, 0);
      c.poll(Duration.ofMillis(500));
      same(4L, c.position(TIMED));
    }
  }

  private String afterReset(String reset, long from) {
    try (KafkaConsumer<String, String> c = broker.consumer("auto.offset.reset", reset)) {
      c.assign(List.of(TIMED));
      c.seek(TIMED, from);
      return next(c).value();
    }
  }

  private void readCommitted() throws Exception {
    same(3, broker.read("timed", 0, 1, 3, "isolation.level", "read_committed").size());
    try (KafkaConsumer<String, String> c = broker.consumer("isolation.level", "read_committed")) {
      same(4L, c.endOffsets(List.of(TIMED)).get(TIMED));
    }
  }

  private void waits() throws Exception {
    broker.topic("later", 1);
    try (KafkaConsumer<String, String> c = broker.consumer("fetch.max.wait.ms", 10_000)) {
      c.assign(List.of(new TopicPartition("later", 0)));
      c.poll(Duration.ofMillis(300));
      broker.fill("later", "now");
      long began = System.nanoTime();
      same("now", next(c).value());
      Check.holds(System.nanoTime() - began < 3_000_000_000L, "the fetch did not wake");
      c.close(CloseOptions.timeout(Duration.ZERO)); // or it waits for its last fetch
    }
  }

  private void pause() throws Exception {
    try (KafkaConsumer<String, String> c = broker.consumer("max.poll.records", 1)) {
      c.assign(List.of(TIMED));
      c.seek(TIMED, 1);
      next(c);
      same(2L, c.currentLag(TIMED).getAsLong());
      c.pause(List.of(TIMED));
      same(0, c.poll(Duration.ofMillis(300)).count());
      c.resume(List.of(TIMED));
      same("at 9", next(c).value());
    }
  }

  private void many() throws Exception {
    broker.topic("many", 40);
    List<TopicPartition> all = new ArrayList<>();
    try (KafkaConsumer<String, String> c = broker.consumer(); KafkaProducer<String, String> p = broker.producer("linger.ms", 5)) {
      for (int i = 0; i < 40; i++) {
        all.add(new TopicPartition("many", i));
      }
      c.assign(all);
      int got = 0;
      for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < 40; i += round) { // some partitions stay quiet, so that the session changes
          p.send(new ProducerRecord<>("many", i, null, round + "/" + i));
        }
        p.flush();
        long end = System.nanoTime() + 10_000_000_000L;
        int want = got + (39 / round) + 1;
        while (got < want && System.nanoTime() < end) {
          got += c.poll(Duration.ofMillis(100)).count();
        }
        same(want, got);
      }
    }
  }
}
