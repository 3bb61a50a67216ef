package ottla.streams;

import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Locale;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * A Kafka Streams process in a streams group (KIP-1071) that does what its standard input says, one command a line, and answers each with
 * one line. At the end of its input it leaves the group.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, topology ("words" or "join"), topic prefix, further settings as
 * name=value. Commands: "running" waits until the state is RUNNING, and prints the state; "failed" waits until a thread has failed, and
 * prints the exception; "tasks" prints active and standby tasks; "clients" prints what each process of the group reads.
 */
public final class Member {
    private static final long WAIT_S = 90;
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(60);

    private Member() {}

    public static void main(String[] args) {
        KafkaStreams streams = new KafkaStreams(topology(args[3], args[4]), config(args));
        CountDownLatch running = new CountDownLatch(1);
        CountDownLatch failed = new CountDownLatch(1);
        Throwable[] failure = new Throwable[1];
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            failure[0] = error;
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            System.out.println(switch (commands.nextLine()) {
                case "running" -> within(running) ? streams.state().toString() : "not running but " + streams.state();
                case "failed" -> within(failed) ? failure[0].toString().replace('\n', ' ') : "no failure";
                case "tasks" -> tasks(streams);
                case "clients" -> streams.metadataForAllStreamsClients().stream().map(Member::client).sorted().collect(Collectors.joining(" "));
                default -> "unknown command";
            });
        }
        CloseOptions leaving = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        System.exit(streams.close(leaving.withTimeout(CLOSE_TIMEOUT)) ? 0 : 1);
    }

    private static boolean within(CountDownLatch latch) {
        try {
            return latch.await(WAIT_S, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static String tasks(KafkaStreams streams) {
        String active = tasks(streams.metadataForLocalThreads().stream().flatMap(thread -> thread.activeTasks().stream()));
        String standby = tasks(streams.metadataForLocalThreads().stream().flatMap(thread -> thread.standbyTasks().stream()));
        return "active " + active + " standby " + standby;
    }

    private static String tasks(Stream<TaskMetadata> tasks) {
        return tasks.map(task -> task.taskId().toString()).sorted().collect(Collectors.joining(","));
    }

    private static String client(StreamsMetadata client) {
        return client.hostInfo().port() + ":" + partitions(client.topicPartitions()) + ":" + partitions(client.standbyTopicPartitions());
    }

    private static String partitions(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
    }

    private static Topology topology(String name, String prefix) {
        StreamsBuilder builder = new StreamsBuilder();
        if (name.equals("words")) {
            KStream<String, String> text = builder.stream(prefix + "-text");
            text.flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
                    .groupBy((key, word) -> word, Grouped.as("words"))
                    .count(Materialized.as("counts"))
                    .toStream()
                    .to(prefix + "-counts", Produced.valueSerde(Serdes.Long()));
        } else {
            KStream<String, String> left = builder.stream(prefix + "-left");
            KStream<String, String> right = builder.stream(prefix + "-right");
            left.join(right, (a, b) -> a + b, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofHours(1)), StreamJoined.as("pairs"))
                    .to(prefix + "-pairs");
        }
        return builder.build();
    }

    private static Properties config(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        for (String setting : Arrays.copyOfRange(args, 5, args.length)) {
            config.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        return config;
    }
}
