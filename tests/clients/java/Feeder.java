import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer; see producing.py. */
public final class Feeder {
    private static final int KEYS = 17;

    private Feeder() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode feed = new ObjectMapper().readTree(arguments[0]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", feed.get("bootstrap_servers").asText());
        properties.put("client.id", feed.get("client_id").asText());
        properties.put("enable.idempotence", true);
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            int rate = feed.path("rate").asInt(0);
            long began = System.nanoTime();
            for (int number = 0; number < feed.get("count").asInt(); number++) {
                int sent = number;
                long ahead = rate == 0 ? 0 : began + number * 1_000_000_000L / rate - System.nanoTime();
                if (ahead > 1_000_000) {
                    Thread.sleep(ahead / 1_000_000);
                }
                String value = feed.get("client_id").asText() + "-" + number + "|";
                producer.send(new ProducerRecord<>(feed.get("topic").asText(), "key-" + number % KEYS, value), (metadata, error) -> {
                    if (error != null) {
                        failed.set(error);
                        return;
                    }
                    System.out.println("{\"number\":" + sent + ",\"partition\":" + metadata.partition()
                        + ",\"offset\":" + metadata.offset() + "}");
                });
            }
        }
        if (failed.get() != null) {
            throw failed.get();
        }
    }
}
