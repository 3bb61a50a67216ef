package ottla.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaFuture;

/** What clients from before 4.0 do in their own way, with the methods of 2.8: newer ones that 3.x added are not used. */
final class Versioned {
    private Versioned() {}

    static Boolean abortable(Throwable error) {
        return null;
    }

    static void useConsumerProtocol(Map<String, Object> config, String assignor) {
        throw new Unsupported("is used without KIP-848 groups");
    }

    static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String pattern) {
        throw new Unsupported("is used without KIP-848 groups");
    }

    static void close(KafkaConsumer<byte[], byte[]> consumer, Duration timeout) {
        consumer.close(timeout);
    }

    static KafkaFuture<TopicDescription> describeTopic(Admin admin, String topic) {
        return admin.describeTopics(List.of(topic)).values().get(topic);
    }

    static Map<String, KafkaFuture<Void>> deleteTopics(Admin admin, List<String> topics) {
        return admin.deleteTopics(topics).values();
    }

    static OffsetSpec maxTimestamp() {
        throw new Unsupported("is used without OffsetSpec of the largest timestamp");
    }

    static List<Object> listGroups(Admin admin, Args args) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (ConsumerGroupListing group : args.await(admin.listConsumerGroups().all())) {
            rows.add(new Object[] {group.groupId(), null, group.state().map(Object::toString).orElse(null)});
        }
        return rows;
    }

    static Map<String, Object> stateAndType(ConsumerGroupDescription group) {
        return Map.of("state", group.state().toString());
    }

    static Map<String, ?> transactionAdmin(Admin admin, String verb, Args args) {
        throw new Unsupported("is used without the Admin method for " + verb);
    }
}
