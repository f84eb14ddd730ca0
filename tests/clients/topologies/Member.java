import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceListener;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescription;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionNode;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionSubtopology;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a streams group as Kafka Streams 4.4 makes one: its heartbeats and pushes are those of Kafka's own client.
 * Arguments: bootstrap servers, group, topic, whether it has a description to push. Runs until it is killed.
 */
public final class Member {
    private Member() {}

    public static void main(String[] arguments) {
        String topic = arguments[2];
        StreamsRebalanceData data = new StreamsRebalanceData(
            UUID.randomUUID(),
            Optional.empty(),
            Optional.empty(),
            Map.of("0", new StreamsRebalanceData.Subtopology(Set.of(topic), Set.of(), Map.of(), Map.of(), List.of())),
            Map.of(),
            Map::of,
            Map::of);
        if (arguments[3].equals("push")) {
            data.setWireTopologyDescription(description(topic));
        }
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("group.protocol", "consumer");
        properties.put("client.id", arguments[1]);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        AsyncKafkaConsumer<byte[], byte[]> consumer =
            new AsyncKafkaConsumer<>(new ConsumerConfig(properties), bytes, bytes, Optional.of(data));
        consumer.subscribe(List.of(topic), new StreamsRebalanceListener() {
            @Override
            public void onTasksRevoked(Set<StreamsRebalanceData.TaskId> tasks) {
                data.setReconciledAssignment(StreamsRebalanceData.Assignment.EMPTY);
            }

            @Override
            public void onTasksAssigned(StreamsRebalanceData.Assignment assignment) {
                data.setReconciledAssignment(assignment);
                System.out.println("assigned " + assignment.activeTasks().size());
            }

            @Override
            public void onAllTasksLost() {
                data.setReconciledAssignment(StreamsRebalanceData.Assignment.EMPTY);
            }
        });
        while (true) {
            consumer.poll(Duration.ofMillis(200));
        }
    }

    private static TopologyDescription description(String topic) {
        TopologyDescriptionNode source = new TopologyDescriptionNode()
            .setName("read").setNodeType((byte) 1).setSourceTopics(List.of(topic)).setSuccessors(List.of("count"));
        TopologyDescriptionNode processor = new TopologyDescriptionNode()
            .setName("count").setNodeType((byte) 2).setStores(List.of("counts"));
        return new TopologyDescription().setSubtopologies(List.of(
            new TopologyDescriptionSubtopology().setSubtopologyId("0").setNodes(List.of(source, processor))));
    }
}
