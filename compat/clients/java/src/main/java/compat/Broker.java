package compat;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker that is driven: clients of it, its process and its files. */
final class Broker implements AutoCloseable {
  final String address = System.getenv("BROKER");
  final Admin admin;

  Broker() {
    admin = Admin.create(settings("request.timeout.ms", 10_000, "default.api.timeout.ms", 20_000));
  }

  @Override
  public void close() {
    admin.close(Duration.ofSeconds(5));
  }

  /** Settings of a client, given as pairs. */
  Map<String, Object> settings(Object... pairs) {
    Map<String, Object> m = new HashMap<>();
    m.put("bootstrap.servers", address);
    m.put("reconnect.backoff.max.ms", 200);
    for (int i = 0; i < pairs.length; i += 2) {
      m.put((String) pairs[i], pairs[i + 1]);
    }
    return m;
  }

  KafkaProducer<String, String> producer(Object... pairs) {
    return new KafkaProducer<>(settings(pairs), new StringSerializer(), new StringSerializer());
  }

  KafkaConsumer<String, String> consumer(Object... pairs) {
    Map<String, Object> m = settings(pairs);
    m.putIfAbsent("auto.offset.reset", "earliest");
    m.putIfAbsent("enable.auto.commit", false);
    m.putIfAbsent("default.api.timeout.ms", 20_000);
    return new KafkaConsumer<>(m, new StringDeserializer(), new StringDeserializer());
  }

  /** Makes a topic; settings are given as pairs. */
  void topic(String name, int partitions, String... pairs) throws Exception {
    Map<String, String> configs = new HashMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      configs.put(pairs[i], pairs[i + 1]);
    }
    admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
  }

  /** Writes one record for each value to partition 0 of a topic, in one batch. */
  void fill(String topic, String... values) throws Exception {
    try (KafkaProducer<String, String> p = producer("linger.ms", 100)) {
      for (String v : values) {
        p.send(new ProducerRecord<>(topic, 0, null, v));
      }
    }
  }

  /** The records of one partition from an offset on, so many of them. */
  List<ConsumerRecord<String, String>> read(String topic, int partition, long from, int count, Object... pairs) {
    List<ConsumerRecord<String, String>> got = new ArrayList<>();
    TopicPartition tp = new TopicPartition(topic, partition);
    try (KafkaConsumer<String, String> c = consumer(pairs)) {
      c.assign(List.of(tp));
      c.seek(tp, from);
      long end = System.nanoTime() + 15_000_000_000L;
      while (got.size() < count && System.nanoTime() < end) {
        c.poll(Duration.ofMillis(200)).forEach(got::add);
      }
    }
    Check.same(count, got.size());
    return got;
  }

  List<String> values(String topic, int count) {
    return read(topic, 0, 0, count).stream().map(ConsumerRecord::value).toList();
  }

  /** The codec's number in the attributes of the first batch of partition 0, as it lies on disk. */
  int storedCodec(String topic) throws IOException {
    Path log = Path.of(System.getenv("BROKER_DIR"), "data", topic + "-0", "00000000000000000000.log");
    try (RandomAccessFile f = new RandomAccessFile(log.toFile(), "r")) {
      f.seek(22);
      return f.read() & 7;
    }
  }

  /** Runs the script that starts and ends the broker: restart, crash, kill, stop, start. */
  void process(String verb) throws Exception {
    Process p = new ProcessBuilder(System.getenv("CLIENTS") + "/broker", verb)
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    Check.same(0, p.waitFor());
  }
}
