package ottla.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.TransactionAbortableException;

/** What the newest client does in its own way. */
final class Versioned {
    private Versioned() {}

    static Boolean abortable(Throwable error) {
        return error instanceof TransactionAbortableException ? true : null;
    }

    static void useConsumerProtocol(Map<String, Object> config, String assignor) {
        if (config.containsKey("session.timeout.ms") || config.containsKey("heartbeat.interval.ms")) {
            throw new Unsupported("leaves timeouts of KIP-848 groups to the broker");
        }
        config.put("group.protocol", "consumer");
        if (assignor != null) {
            config.put("group.remote.assignor", assignor);
        }
    }

    /** By an expression that the broker resolves. */
    static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String pattern) {
        consumer.subscribe(new SubscriptionPattern(pattern));
    }

    static void close(KafkaConsumer<byte[], byte[]> consumer, Duration timeout) {
        consumer.close(CloseOptions.timeout(timeout));
    }

    static KafkaFuture<TopicDescription> describeTopic(Admin admin, String topic) {
        return admin.describeTopics(List.of(topic)).topicNameValues().get(topic);
    }

    static Map<String, KafkaFuture<Void>> deleteTopics(Admin admin, List<String> topics) {
        return admin.deleteTopics(topics).topicNameValues();
    }

    static OffsetSpec maxTimestamp() {
        return OffsetSpec.maxTimestamp();
    }

    static List<Object> listGroups(Admin admin, Args args) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (GroupListing group : args.await(admin.listGroups().all())) {
            String type = group.type().map(Object::toString).orElse(null);
            rows.add(new Object[] {group.groupId(), type, group.groupState().map(Object::toString).orElse(null)});
        }
        return rows;
    }

    static Map<String, Object> stateAndType(ConsumerGroupDescription group) {
        return Map.of("state", group.groupState().toString(), "type", group.type().toString());
    }

    static Map<String, ?> transactionAdmin(Admin admin, String verb, Args args) throws Exception {
        return switch (verb) {
            case "describe_producers" -> Map.of("producers", producers(admin, args).stream().map(Versioned::row).toList());
            case "list_transactions" -> {
                List<Object> rows = new ArrayList<>();
                for (TransactionListing one : args.await(admin.listTransactions().all())) {
                    rows.add(new Object[] {one.transactionalId(), one.producerId(), one.state().toString()});
                }
                yield Map.of("transactions", rows);
            }
            case "describe_transaction" -> {
                String id = args.text("transactional_id");
                yield row(args.await(admin.describeTransactions(List.of(id)).description(id)));
            }
            case "abort_transaction" -> abort(admin, args);
            case "fence_producers" -> Admins.done(args, admin.fenceProducers(args.<String>list("transactional_ids")).all());
            default -> throw new Unsupported("knows no operation admin." + verb);
        };
    }

    private static List<ProducerState> producers(Admin admin, Args args) throws Exception {
        TopicPartition partition = args.partition("partition");
        return args.await(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
    }

    private static Map<String, Object> row(ProducerState producer) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("producer_id", producer.producerId());
        row.put("epoch", producer.producerEpoch());
        row.put("last_sequence", producer.lastSequence());
        row.put("txn_start", producer.currentTransactionStartOffset().isPresent() ? producer.currentTransactionStartOffset().getAsLong() : -1);
        return row;
    }

    private static Map<String, Object> row(TransactionDescription transaction) {
        return Map.of(
                "state", transaction.state().toString(),
                "producer_id", transaction.producerId(),
                "epoch", transaction.producerEpoch(),
                "timeout_ms", transaction.transactionTimeoutMs(),
                "partitions", Rows.of(transaction.topicPartitions()));
    }

    /** As Kafka's own tool does it: the producer is the one whose transaction begins at the offset. */
    private static Map<String, ?> abort(Admin admin, Args args) throws Exception {
        long start = Args.longOf(args.get("start_offset"));
        for (ProducerState producer : producers(admin, args)) {
            if (producer.currentTransactionStartOffset().orElse(-1) == start) {
                int coordinatorEpoch = producer.coordinatorEpoch().orElse(0);
                AbortTransactionSpec spec = new AbortTransactionSpec(
                        args.partition("partition"), producer.producerId(), (short) producer.producerEpoch(), coordinatorEpoch);
                return Admins.done(args, admin.abortTransaction(spec).all());
            }
        }
        throw new InvalidTxnStateException("no transaction of the partition begins at " + start);
    }
}
