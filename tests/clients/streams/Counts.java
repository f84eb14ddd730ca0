import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key, exactly once: for each of them the number that it is of its key. Arguments: bootstrap
 * servers, application id, protocol of its group, inputs, output, folder.
 */
public final class Counts {
    private Counts() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("group.protocol", arguments[2]);
        properties.put("state.dir", arguments[5]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("num.stream.threads", "2");
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("auto.offset.reset", "earliest");
        if (arguments[2].equals("classic")) {
            properties.put("session.timeout.ms", "6000");
            properties.put("heartbeat.interval.ms", "1000");
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(List.of(arguments[3].split(",")), Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[4], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.ERROR || state == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.start();
        ended.await();
        System.exit(1);
    }
}
