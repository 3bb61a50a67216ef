package ottla.compat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serializer;

/** The operations `producer.…`. */
final class Producers {
    private static final Map<String, String> SETTINGS = Map.ofEntries(
            Map.entry("client_id", "client.id"),
            Map.entry("acks", "acks"),
            Map.entry("idempotent", "enable.idempotence"),
            Map.entry("transactional_id", "transactional.id"),
            Map.entry("transaction_timeout_ms", "transaction.timeout.ms"),
            Map.entry("linger_ms", "linger.ms"),
            Map.entry("batch_bytes", "batch.size"),
            Map.entry("buffer_bytes", "buffer.memory"),
            Map.entry("compression", "compression.type"),
            Map.entry("max_in_flight", "max.in.flight.requests.per.connection"),
            Map.entry("retries", "retries"),
            Map.entry("request_timeout_ms", "request.timeout.ms"),
            Map.entry("delivery_timeout_ms", "delivery.timeout.ms"),
            Map.entry("max_request_bytes", "max.request.size"));

    private final Map<String, KafkaProducer<byte[], byte[]>> open = new HashMap<>();
    private final Consumers consumers;

    Producers(Consumers consumers) {
        this.consumers = consumers;
    }

    Map<String, ?> run(String verb, Args args) throws Exception {
        if (verb.equals("open")) {
            open(args);
            return Map.of();
        }
        if (verb.equals("defaults")) {
            return Map.of("defaults", defaults());
        }
        KafkaProducer<byte[], byte[]> producer = open.get(args.text("handle"));
        switch (verb) {
            case "send" -> {
                return Map.of("results", send(producer, args));
            }
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "send_offsets" -> sendOffsets(producer, args);
            case "close" -> open.remove(args.text("handle")).close(args.timeout());
            default -> throw new Unsupported("knows no operation producer." + verb);
        }
        return Map.of();
    }

    /** Every setting that has a default, as text. */
    private static Map<String, String> defaults() {
        Map<String, String> found = new TreeMap<>();
        ProducerConfig.configDef().defaultValues().forEach((name, value) -> found.put(name, String.valueOf(value)));
        return found;
    }

    void close() {
        open.values().forEach(KafkaProducer::close);
    }

    private void open(Args args) {
        Map<String, Object> config = Settings.of(args, SETTINGS);
        config.put("max.block.ms", args.timeoutMs());
        if ("last".equals(args.text("partitioner"))) {
            config.put("partitioner.class", Hooks.LastPartition.class.getName());
        }
        if (args.has("interceptor")) {
            String last = Hooks.Intercepted.class.getName();
            boolean failing = "failing".equals(args.get("interceptor"));
            config.put("interceptor.classes", failing ? List.of(Hooks.Failing.class.getName(), last) : last);
        }
        Serializer<byte[]> values = "json".equals(args.text("serializer")) ? new Hooks.CompactJson() : new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), values);
        open.put(args.text("handle"), producer);
        if (args.has("transactional_id")) {
            producer.initTransactions();
        }
    }

    private static List<Map<String, Object>> send(KafkaProducer<byte[], byte[]> producer, Args args) throws Exception {
        boolean sync = "sync".equals(args.text("mode"));
        List<CompletableFuture<RecordMetadata>> sent = new ArrayList<>();
        for (Map<String, Object> fields : args.<Map<String, Object>>list("records")) {
            sent.add(send(producer, record(args.text("topic"), fields)));
            if (sync) {
                settle(args, sent.get(sent.size() - 1));
            }
        }
        CompletableFuture.runAsync(producer::flush);
        settle(args, CompletableFuture.allOf(sent.toArray(new CompletableFuture<?>[0])));
        return sent.stream().map(Producers::result).toList();
    }

    private static CompletableFuture<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        CompletableFuture<RecordMetadata> done = new CompletableFuture<>();
        try {
            producer.send(record, (metadata, error) -> {
                if (error == null) {
                    done.complete(metadata);
                } else {
                    done.completeExceptionally(error);
                }
            });
        } catch (KafkaException refused) {
            done.completeExceptionally(refused);
        }
        return done;
    }

    /** Wait until it ended, one way or the other, or the request's time is over. */
    private static void settle(Args args, CompletableFuture<?> future) throws Exception {
        try {
            args.await(future.exceptionally(error -> null));
        } catch (TimeoutException late) {
            // its result says so
        }
    }

    private static Map<String, Object> result(CompletableFuture<RecordMetadata> sent) {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            RecordMetadata metadata = sent.isDone() ? sent.get() : sent.get(0, TimeUnit.MILLISECONDS);
            result.put("partition", metadata.partition());
            result.put("offset", metadata.offset());
            if (metadata.hasTimestamp()) {
                result.put("timestamp", metadata.timestamp());
            }
        } catch (ExecutionException | TimeoutException | InterruptedException failed) {
            result.put("error", Failures.describe(failed));
        }
        return result;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, Map<String, Object> fields) {
        Number partition = (Number) fields.get("partition");
        Number timestamp = (Number) fields.get("timestamp");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                topic,
                partition == null ? null : partition.intValue(),
                timestamp == null ? null : timestamp.longValue(),
                Args.bytes(fields.get("key")),
                Args.bytes(fields.get("value")));
        for (List<Object> header : new Args(fields).<List<Object>>list("headers")) {
            record.headers().add((String) header.get(0), Args.bytes(header.get(1)));
        }
        return record;
    }

    private void sendOffsets(KafkaProducer<byte[], byte[]> producer, Args args) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        args.rows("offsets").forEach((partition, row) -> offsets.put(partition, new OffsetAndMetadata(Args.longOf(row.get(0)))));
        producer.sendOffsetsToTransaction(offsets, consumers.of(args.text("consumer")).groupMetadata());
    }
}
