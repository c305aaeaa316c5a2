package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.same;
import static compat.Check.that;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

/** The producer: codecs, shapes of records, acknowledgements, what is refused, and idempotence. */
final class Producing {
  private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

  private final Broker broker;

  Producing(Broker broker) {
    this.broker = broker;
  }

  void run() {
    CODECS.forEach(codec -> that("produce: " + codec, () -> codec(codec)));
    that("produce: to a topic that is made by it", this::autoCreate);
    that("produce: keys, null and empty values", this::nulls);
    that("produce: headers", this::headers);
    that("produce: timestamps of the sender and of the log", this::timestamps);
    that("produce: by partition and by key", this::partitions);
    that("produce: acks=all, 1 and 0", this::acks);
    that("produce: 900 KiB, and what is too large", this::large);
    that("produce: many records too large for one batch", this::split);
    that("produce: what a topic's settings refuse", this::refused);
    that("produce: idempotent through kill -9 and a restart", this::idempotent);
  }

  private void codec(String codec) throws Exception {
    String topic = "codec-" + codec;
    broker.topic(topic, 1);
    String[] values = IntStream.range(0, 1000).mapToObj(i -> "value " + i).toArray(String[]::new);
    try (KafkaProducer<String, String> p = broker.producer("compression.type", codec, "linger.ms", 200)) {
      Arrays.stream(values).forEach(v -> p.send(new ProducerRecord<>(topic, v)));
    }
    same(Arrays.asList(values), broker.values(topic, values.length));
    same(CODECS.indexOf(codec), broker.storedCodec(topic));
  }

  private void autoCreate() throws Exception {
    try (KafkaProducer<String, String> p = broker.producer()) {
      same(0L, p.send(new ProducerRecord<>("made-by-a-record", "v")).get().offset());
      fails(InvalidTopicException.class, () -> p.send(new ProducerRecord<>("a b", "v")).get());
    }
    same(List.of("v"), broker.values("made-by-a-record", 1));
  }

  private void nulls() throws Exception {
    broker.topic("nulls", 1);
    String[][] pairs = {{"k", "v"}, {"k", null}, {null, "v"}, {null, null}, {"", ""}};
    try (KafkaProducer<String, String> p = broker.producer()) {
      Arrays.stream(pairs).forEach(kv -> p.send(new ProducerRecord<>("nulls", kv[0], kv[1])));
    }
    List<ConsumerRecord<String, String>> got = broker.read("nulls", 0, 0, pairs.length);
    for (int i = 0; i < pairs.length; i++) {
      same(Arrays.asList(pairs[i]), Arrays.asList(got.get(i).key(), got.get(i).value()));
    }
  }

  private void headers() throws Exception {
    broker.topic("headers", 1);
    ProducerRecord<String, String> r = new ProducerRecord<>("headers", "v");
    r.headers().add("a", "1".getBytes(StandardCharsets.UTF_8)).add("empty", new byte[0]).add("a", new byte[] {0, -1})
        .add("ü", "2".getBytes(StandardCharsets.UTF_8)).add(new RecordHeader("null", (byte[]) null));
    try (KafkaProducer<String, String> p = broker.producer()) {
      p.send(r).get();
    }
    List<String> want = StreamSupport.stream(r.headers().spliterator(), false).map(Object::toString).toList();
    same(want, StreamSupport.stream(broker.read("headers", 0, 0, 1).get(0).headers().spliterator(), false).map(Object::toString).toList());
  }

  private void timestamps() throws Exception {
    broker.topic("sent", 1, "retention.ms", "-1");
    broker.topic("appended", 1, "message.timestamp.type", "LogAppendTime");
    try (KafkaProducer<String, String> p = broker.producer()) {
      same(1_000_000_000_000L, p.send(new ProducerRecord<>("sent", null, 1_000_000_000_000L, null, "v")).get().timestamp());
      long before = System.currentTimeMillis();
      long at = p.send(new ProducerRecord<>("appended", null, 1_000_000_000_000L, null, "v")).get().timestamp();
      holds(at >= before && at <= System.currentTimeMillis(), at);
      ConsumerRecord<String, String> r = broker.read("appended", 0, 0, 1).get(0);
      same(TimestampType.LOG_APPEND_TIME, r.timestampType());
      same(at, r.timestamp());
    }
    ConsumerRecord<String, String> r = broker.read("sent", 0, 0, 1).get(0);
    same(TimestampType.CREATE_TIME, r.timestampType());
    same(1_000_000_000_000L, r.timestamp());
  }

  private void partitions() throws Exception {
    broker.topic("spread", 4);
    try (KafkaProducer<String, String> p = broker.producer()) {
      for (int i = 0; i < 4; i++) {
        RecordMetadata m = p.send(new ProducerRecord<>("spread", i, "k", "v")).get();
        same(i, m.partition());
        same(0L, m.offset());
      }
      int placed = p.send(new ProducerRecord<>("spread", "foo", "v")).get().partition();
      same(placed, p.send(new ProducerRecord<>("spread", "foo", "v")).get().partition());
      same(4, p.partitionsFor("spread").size());
    }
  }

  private void acks() throws Exception {
    broker.topic("acks", 1);
    for (String acks : List.of("all", "1", "0")) {
      try (KafkaProducer<String, String> p = broker.producer("acks", acks, "enable.idempotence", acks.equals("all"))) {
        for (int i = 0; i < 100; i++) {
          RecordMetadata m = p.send(new ProducerRecord<>("acks", acks + i)).get();
          same(!acks.equals("0"), m.hasOffset());
        }
      }
    }
    List<String> want = new ArrayList<>();
    List.of("all", "1", "0").forEach(a -> IntStream.range(0, 100).forEach(i -> want.add(a + i)));
    same(want, broker.values("acks", 300));
  }

  private void large() throws Exception {
    broker.topic("large", 1);
    String value = noise(900 << 10);
    try (KafkaProducer<String, String> p = broker.producer("max.request.size", 4 << 20)) {
      same(0L, p.send(new ProducerRecord<>("large", value)).get().offset());
      fails(RecordTooLargeException.class, () -> p.send(new ProducerRecord<>("large", noise(1200 << 10))).get());
      same(1L, p.send(new ProducerRecord<>("large", "small")).get().offset());
    }
    same(List.of(value, "small"), broker.values("large", 2));
    // The first record comes whole even where it is above what the consumer asked for (KIP-74).
    same(value, broker.read("large", 0, 0, 1, "max.partition.fetch.bytes", 1000, "fetch.max.bytes", 1000).get(0).value());
  }

  /** A batch above max.message.bytes is taken apart by the producer and sent in pieces. */
  private void split() throws Exception {
    broker.topic("split", 1, "max.message.bytes", "20000");
    List<String> want = new ArrayList<>();
    try (KafkaProducer<String, String> p = broker.producer("batch.size", 100_000, "linger.ms", 300)) {
      for (int i = 0; i < 60; i++) {
        want.add(i + noise(1000));
        p.send(new ProducerRecord<>("split", want.get(i)));
      }
    }
    same(want, broker.values("split", want.size()));
  }

  private void refused() throws Exception {
    broker.topic("compacted", 1, "cleanup.policy", "compact");
    broker.topic("timely", 1, "message.timestamp.before.max.ms", "60000");
    try (KafkaProducer<String, String> p = broker.producer()) {
      fails(InvalidRecordException.class, () -> p.send(new ProducerRecord<>("compacted", "without a key")).get());
      same(0L, p.send(new ProducerRecord<>("compacted", "k", "v")).get().offset());
      fails(InvalidTimestampException.class, () -> p.send(new ProducerRecord<>("timely", null, 1000L, null, "v")).get());
    }
  }

  /** The broker ends twice while a producer sends, once by SIGKILL: all of it is there once and in order. */
  private void idempotent() throws Exception {
    broker.topic("idempotent", 1);
    List<String> want = IntStream.range(0, 3000).mapToObj(Integer::toString).toList();
    List<Exception> failed = new ArrayList<>();
    Thread ends = null;
    try (KafkaProducer<String, String> p = broker.producer("acks", "all", "linger.ms", 2)) {
      for (int i = 0; i < want.size(); i++) {
        p.send(new ProducerRecord<>("idempotent", want.get(i)), (m, e) -> {
          if (e != null) {
            failed.add(e);
          }
        });
        if (i == 1000 || i == 2000) {
          String how = i == 1000 ? "crash" : "restart";
          ends = new Thread(() -> Check.quietly(() -> broker.process(how)));
          ends.start();
        } else if (i % 50 == 0) {
          Thread.sleep(20); // so that some are sent before, some between and some after
        }
        if (i == 1999 || i == 2999) {
          ends.join();
        }
      }
    }
    same(List.of(), failed);
    same(want, broker.values("idempotent", want.size()));
  }

  /** Text that does not shrink much. */
  private static String noise(int length) {
    Random random = new Random(length);
    StringBuilder b = new StringBuilder(length);
    for (int i = 0; i < length; i++) {
      b.append((char) (33 + random.nextInt(90)));
    }
    return b.toString();
  }
}
