import java.time.Duration;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Kafka's own client carrying out a script; see script.py. */
public final class Member {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static volatile boolean stopped = false;

    private static final class HandlerFailed extends RuntimeException {}

    private final JsonNode script;
    private final Map<TopicPartition, Long> uncommitted = new HashMap<>();
    /** What was handled and not committed since partitions were assigned last, and are still there: next offsets. */
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private long handled = 0;
    private boolean acted;
    /** The last commit failed, e.g. because the group rebalances. */
    private boolean commitDue = false;

    private Member(JsonNode script) {
        this.script = script;
        this.acted = text("act").isEmpty();
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            try {
                closed.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            new Member(new ObjectMapper().readTree(arguments[0])).run();
        } finally {
            closed.countDown();
        }
    }

    private void run() {
        while (!stopped) {
            KafkaConsumer<byte[], byte[]> consumer = start();
            try {
                while (!stopped) {
                    round(consumer);
                }
            } catch (HandlerFailed failed) {
                report("acted", List.of());
            } finally {
                consumer.close();
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> start() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", text("bootstrap_servers"));
        properties.put("client.id", text("client_id"));
        properties.put("auto.offset.reset", text("reset"));
        properties.put("auto.commit.interval.ms", text("commit_interval"));
        properties.put("group.protocol", text("protocol"));
        if (text("protocol").equals("classic")) {
            properties.put("session.timeout.ms", text("session_timeout"));
        }
        properties.put("max.poll.interval.ms", text("max_poll_interval"));
        properties.put("max.poll.records", text("records_per_poll"));
        commitDue = false;
        boolean grouped = !script.get("group").isNull();
        properties.put("enable.auto.commit", grouped && text("commit").equals("auto"));
        if (grouped) {
            properties.put("group.id", text("group"));
        }
        if (!script.get("instance_id").isNull()) {
            properties.put("group.instance.id", text("instance_id"));
        }
        if (!text("assignor").isEmpty()) {
            properties.put("partition.assignment.strategy", ASSIGNORS.get(text("assignor")));
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes);
        if (!text("pattern").isEmpty()) {
            consumer.subscribe(new SubscriptionPattern(text("pattern")), new Reporter());
        } else if (script.get("partitions").asInt() == 0) {
            consumer.subscribe(List.of(text("topic").split(",")), new Reporter());
        } else {
            consumer.assign(IntStream.range(0, script.get("partitions").asInt())
                .mapToObj(each -> new TopicPartition(text("topic"), each)).collect(Collectors.toList()));
        }
        return consumer;
    }

    private void round(KafkaConsumer<byte[], byte[]> consumer) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        records.forEach(this::handle);
        System.out.flush();
        if (!acted && handled >= script.get("act_after").asLong()) {
            act(consumer);
        } else if (!records.isEmpty() && text("commit").equals("async")) {
            consumer.commitAsync();
        } else if ((!records.isEmpty() || commitDue) && text("commit").equals("sync") && (acted || !text("act").equals("seek"))) {
            commit(consumer);
        } else if (!positions.isEmpty() && text("commit").equals("positions")) {
            commitPositions(consumer);
        }
    }

    private void handle(ConsumerRecord<byte[], byte[]> record) {
        handled++;
        show(record);
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        uncommitted.putIfAbsent(partition, record.offset());
        positions.put(partition, new OffsetAndMetadata(record.offset() + 1));
        if (!text("dies_of").isEmpty() && record.value() != null && new String(record.value()).startsWith(text("dies_of"))) {
            System.out.flush();
            Runtime.getRuntime().halt(70);
        }
        sleep(script.get("seconds_per_record").asDouble());
        if (acted || handled != script.get("act_after").asLong()) {
            return;
        }
        if (text("act").equals("throw")) {
            acted = true;
            throw new HandlerFailed();
        }
        if (text("act").equals("stall")) {
            System.out.flush();
            sleep(script.get("act_seconds").asDouble());
        }
    }

    private void act(KafkaConsumer<byte[], byte[]> consumer) {
        acted = true;
        if (text("act").equals("pause")) {
            consumer.pause(consumer.assignment());
            for (int time = 0; time < 3; time++) {
                consumer.poll(Duration.ofMillis(200)).forEach(this::handle);
            }
            consumer.resume(consumer.assignment());
        } else if (text("act").equals("seek")) {
            uncommitted.forEach(consumer::seek);
        }
        report("acted", List.of());
    }

    private void commit(KafkaConsumer<byte[], byte[]> consumer) {
        commitDue = true;
        try {
            consumer.commitSync();
            commitDue = false;
            uncommitted.clear();
            report("committed", List.of());
        } catch (CommitFailedException | RebalanceInProgressException | TimeoutException failed) {
            report("commit failed", List.of());
        }
    }

    private void commitPositions(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committing = new HashMap<>(positions);
        try {
            consumer.commitSync(committing);
        } catch (CommitFailedException | RebalanceInProgressException | TimeoutException failed) {
            report("commit failed", List.of());
            return;
        }
        positions.clear();
        System.out.println("{\"event\":\"committed\",\"at\":" + System.nanoTime() / 1e9 + ",\"offsets\":{"
            + committing.entrySet().stream()
                .map(each -> "\"" + each.getKey().partition() + "\":" + each.getValue().offset())
                .collect(Collectors.joining(",")) + "}}");
        System.out.flush();
    }

    private String text(String name) {
        return script.get(name).asText();
    }

    private static void sleep(double seconds) {
        try {
            Thread.sleep((long) (seconds * 1000));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void show(ConsumerRecord<byte[], byte[]> record) {
        String headers = StreamSupport.stream(record.headers().spliterator(), false)
            .map(header -> "[\"" + header.key() + "\"," + base64(header.value()) + "]")
            .collect(Collectors.joining(","));
        System.out.println("{\"event\":\"record\",\"at\":" + System.nanoTime() / 1e9 + ",\"partition\":" + record.partition()
            + ",\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
            + ",\"timestamp_type\":" + record.timestampType().id + ",\"key\":" + base64(record.key())
            + ",\"value\":" + base64(record.value()) + ",\"headers\":[" + headers + "]}");
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
    }

    private static void report(String event, Collection<TopicPartition> partitions) {
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.nanoTime() / 1e9 + ",\"partitions\":"
            + partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList()) + "}");
        System.out.flush();
    }

    private final class Reporter implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            positions.clear();
            report("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            positions.clear();
            if (!partitions.isEmpty()) {
                report("revoked", partitions);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            positions.clear();
            report("lost", partitions);
        }
    }
}
