import java.util.Map;
import java.util.Properties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own transactional producer: one transaction after the other, as its argument lists them, and a line about each:
 * `committed`, `aborted`, or the name of the error with which it was aborted.
 */
public final class Transactions {
    private Transactions() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode script = new ObjectMapper().readTree(arguments[0]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", script.get("bootstrap_servers").asText());
        properties.put("transactional.id", script.get("transactional_id").asText());
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (JsonNode each : script.get("transactions")) {
                System.out.println(outcome(producer, each));
            }
        }
    }

    private static String outcome(KafkaProducer<String, String> producer, JsonNode transaction) {
        producer.beginTransaction();
        try {
            for (JsonNode topic : transaction.get("topics")) {
                producer.send(new ProducerRecord<>(topic.asText(), 0, null, transaction.get("value").asText()));
            }
            if (transaction.has("group")) {
                var read = Map.of(new TopicPartition(transaction.get("read").asText(), 0),
                    new OffsetAndMetadata(transaction.get("offset").asLong()));
                producer.sendOffsetsToTransaction(read, new ConsumerGroupMetadata(transaction.get("group").asText()));
            }
            if (!transaction.get("commit").asBoolean()) {
                producer.abortTransaction();
                return "aborted";
            }
            producer.commitTransaction();
            return "committed";
        } catch (KafkaException error) {
            producer.abortTransaction();
            Throwable first = error.getClass() == KafkaException.class && error.getCause() != null ? error.getCause() : error;
            return first.getClass().getSimpleName();
        }
    }
}
