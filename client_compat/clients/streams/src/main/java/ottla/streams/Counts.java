package ottla.streams;

import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts flights exactly once, by airline, by route and by origin, until its standard input ends; then it closes and exits with 0. An input record is an
 * airline (key) and a route, "JFK-LAX" (value). Arguments: bootstrap servers, state directory, group protocol ("classic" or "streams").
 *
 * <p>Rule: nothing is cached, so that each flight makes one update of each of its three counts: the updates of a key are 1, 2, 3, …, each once.
 */
public final class Counts {
    private static final Pattern SOURCES = Pattern.compile("flights-.+");
    private static final String FIRST_SOURCE = "flights-0"; // a topology of a streams group has no patterns
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(60);

    private Counts() {}

    public static void main(String[] args) throws IOException {
        boolean inStreamsGroup = args[2].equals("streams");
        KafkaStreams streams = new KafkaStreams(topology(inStreamsGroup), config(args[0], args[1], inStreamsGroup));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        while (System.in.read() >= 0) {
            // what is said does not matter, only that it ends
        }
        // A member that stays in its group would keep its partitions from the next start until its session ends.
        CloseOptions leaving = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        System.exit(streams.close(leaving.withTimeout(CLOSE_TIMEOUT)) ? 0 : 1);
    }

    /** Three sub-topologies, joined by two internal topics; each keeps a store in RocksDB. */
    private static Topology topology(boolean inStreamsGroup) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> flights = inStreamsGroup ? builder.stream(FIRST_SOURCE) : builder.stream(SOURCES);
        flights.groupByKey().count(Materialized.as("airlines")).toStream().to("by-airline", Produced.valueSerde(Serdes.Long()));
        KTable<String, Long> routes = flights.groupBy((airline, route) -> route, Grouped.as("routes")).count(Materialized.as("routes"));
        routes.toStream().to("by-route", Produced.valueSerde(Serdes.Long()));
        routes.groupBy((route, count) -> KeyValue.pair(route.substring(0, 3), count), Grouped.with("origins", Serdes.String(), Serdes.Long()))
                .reduce(Long::sum, (total, count) -> total - count, Materialized.as("origins"))
                .toStream()
                .to("by-origin", Produced.valueSerde(Serdes.Long()));
        return builder.build();
    }

    private static Properties config(String bootstrap, String stateDir, boolean inStreamsGroup) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.METADATA_MAX_AGE_CONFIG), 1_000); // how soon a new topic is found
        if (inStreamsGroup) {
            config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        } else {
            config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 10_000); // a leave that a dead broker never got
        }
        return config;
    }
}
