package ottla.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The operations `consumer.…`. */
final class Consumers {
    private static final Map<String, String> SETTINGS = Map.ofEntries(
            Map.entry("client_id", "client.id"),
            Map.entry("group", "group.id"),
            Map.entry("instance_id", "group.instance.id"),
            Map.entry("reset", "auto.offset.reset"),
            Map.entry("isolation", "isolation.level"),
            Map.entry("auto_commit", "enable.auto.commit"),
            Map.entry("auto_commit_interval_ms", "auto.commit.interval.ms"),
            Map.entry("session_timeout_ms", "session.timeout.ms"),
            Map.entry("heartbeat_interval_ms", "heartbeat.interval.ms"),
            Map.entry("max_poll_records", "max.poll.records"),
            Map.entry("fetch_min_bytes", "fetch.min.bytes"),
            Map.entry("fetch_max_wait_ms", "fetch.max.wait.ms"),
            Map.entry("fetch_max_bytes", "fetch.max.bytes"),
            Map.entry("partition_fetch_bytes", "max.partition.fetch.bytes"));
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Map<String, KafkaConsumer<byte[], byte[]>> open = new HashMap<>();
    private final Set<String> onBroker = new HashSet<>(); // those whose groups follow KIP-848: the broker resolves their patterns

    KafkaConsumer<byte[], byte[]> of(String handle) {
        return open.get(handle);
    }

    Map<String, ?> run(String verb, Args args) {
        if (verb.equals("open")) {
            open.put(args.text("handle"), open(args));
            return Map.of();
        }
        KafkaConsumer<byte[], byte[]> consumer = open.get(args.text("handle"));
        List<TopicPartition> partitions = args.partitions("partitions");
        switch (verb) {
            case "subscribe" -> subscribe(consumer, args);
            case "assign" -> consumer.assign(partitions);
            case "poll" -> {
                return Map.of("records", poll(consumer, args.number("count"), args.timeoutMs()));
            }
            case "assignment" -> {
                return Map.of("partitions", Rows.of(consumer.assignment()));
            }
            case "commit" -> commit(consumer, args);
            case "seek" -> seek(consumer, new TopicPartition(args.text("topic"), args.number("partition")), args);
            case "pause" -> consumer.pause(partitions);
            case "resume" -> consumer.resume(partitions);
            case "close" -> Versioned.close(open.remove(args.text("handle")), args.timeout());
            default -> {
                return Map.of("offsets", offsets(consumer, verb, partitions, args));
            }
        }
        return Map.of();
    }

    void close() {
        open.values().forEach(KafkaConsumer::close);
    }

    private KafkaConsumer<byte[], byte[]> open(Args args) {
        Map<String, Object> config = Settings.of(args, SETTINGS);
        config.put("default.api.timeout.ms", args.timeoutMs());
        if ("consumer".equals(args.text("group_protocol"))) {
            Versioned.useConsumerProtocol(config, args.text("assignor"));
            onBroker.add(args.text("handle"));
        } else if (args.has("assignor")) {
            config.put("partition.assignment.strategy", ASSIGNORS.get(args.text("assignor")));
        }
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void subscribe(KafkaConsumer<byte[], byte[]> consumer, Args args) {
        if (args.has("pattern") && onBroker.contains(args.text("handle"))) {
            Versioned.subscribe(consumer, args.text("pattern"));
        } else if (args.has("pattern")) {
            consumer.subscribe(Pattern.compile(args.text("pattern")));
        } else {
            consumer.subscribe(args.<String>list("topics"));
        }
    }

    private static List<Map<String, Object>> poll(KafkaConsumer<byte[], byte[]> consumer, int count, int timeoutMs) {
        List<Map<String, Object>> records = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        do {
            long left = Math.max(0, end - System.nanoTime());
            consumer.poll(Duration.ofNanos(left)).forEach(record -> records.add(wire(record)));
        } while (records.size() < count && System.nanoTime() < end);
        return records;
    }

    private static Map<String, Object> wire(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> wire = new LinkedHashMap<>();
        wire.put("topic", record.topic());
        wire.put("partition", record.partition());
        wire.put("offset", record.offset());
        wire.put("key", Args.base64(record.key()));
        wire.put("value", Args.base64(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(new Object[] {header.key(), Args.base64(header.value())});
        }
        wire.put("headers", headers);
        wire.put("timestamp", record.timestamp());
        TimestampType type = record.timestampType();
        wire.put("timestamp_type", type == TimestampType.CREATE_TIME ? "create" : type == TimestampType.LOG_APPEND_TIME ? "append" : null);
        return wire;
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, Args args) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        args.rows("offsets").forEach((partition, row) -> {
            String metadata = row.size() > 1 && row.get(1) != null ? (String) row.get(1) : "";
            offsets.put(partition, new OffsetAndMetadata(Args.longOf(row.get(0)), metadata));
        });
        boolean positions = !args.has("offsets");
        if ("async".equals(args.text("mode"))) {
            OffsetCommitCallback log = (committed, error) -> System.err.println("committed " + committed + ", error " + error);
            if (positions) {
                consumer.commitAsync(log);
            } else {
                consumer.commitAsync(offsets, log);
            }
        } else if (positions) {
            consumer.commitSync(args.timeout());
        } else {
            consumer.commitSync(offsets, args.timeout());
        }
    }

    /** The client looks for a beginning or an end only when it needs the position: so that is asked for. */
    private static void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, Args args) {
        Object offset = args.get("offset");
        if (offset.equals("beginning")) {
            consumer.seekToBeginning(List.of(partition));
        } else if (offset.equals("end")) {
            consumer.seekToEnd(List.of(partition));
        } else {
            consumer.seek(partition, Args.longOf(offset));
        }
        consumer.position(partition, args.timeout());
    }

    private static List<List<Object>> offsets(KafkaConsumer<byte[], byte[]> consumer, String verb, List<TopicPartition> partitions, Args args) {
        Set<TopicPartition> asked = new HashSet<>(partitions);
        Duration timeout = args.timeout();
        return switch (verb) {
            case "committed" -> {
                Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(asked, timeout);
                yield Rows.of(asked, partition -> {
                    OffsetAndMetadata committed = found.get(partition);
                    return committed == null ? new Object[] {null, null} : new Object[] {committed.offset(), committed.metadata()};
                });
            }
            case "position" -> Rows.of(asked, partition -> new Object[] {consumer.position(partition, timeout)});
            case "end_offsets" -> Rows.of(consumer.endOffsets(asked, timeout), offset -> new Object[] {offset});
            case "beginning_offsets" -> Rows.of(consumer.beginningOffsets(asked, timeout), offset -> new Object[] {offset});
            case "offsets_for_times" -> {
                Map<TopicPartition, Long> times = new HashMap<>();
                args.rows("times").forEach((partition, row) -> times.put(partition, Args.longOf(row.get(0))));
                yield Rows.of(
                        consumer.offsetsForTimes(times, timeout),
                        found -> found == null ? new Object[] {null, null} : new Object[] {found.offset(), found.timestamp()});
            }
            default -> throw new Unsupported("knows no operation consumer." + verb);
        };
    }
}
