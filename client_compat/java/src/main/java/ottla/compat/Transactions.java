package ottla.compat;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** A transactional producer and a consumer of committed records. Topics have one partition. */
final class Transactions {
    private static final Duration POLL = Duration.ofMillis(200);

    private Transactions() {}

    /** The transaction version that producers will use. */
    static void features(Client client) throws Exception {
        try (Admin admin = client.admin()) {
            Map<String, FinalizedVersionRange> found = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
            FinalizedVersionRange version = found.get("transaction.version");
            Main.say("transaction.version", version == null ? 0 : version.maxVersionLevel());
        }
    }

    /** Two transactions that commit, and one between them that aborts. */
    static void commitAndAbort(Client client, String topic) {
        try (KafkaProducer<String, String> producer = client.producer(topic + "-tx")) {
            producer.initTransactions();
            for (String value : List.of("first", "aborted", "second")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, value));
                producer.flush();
                if (value.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                Main.say("ended", value);
            }
        }
    }

    /** A zombie wakes up after its successor took the transactional id: it can neither write nor commit. */
    static void fence(Client client, String topic) throws InterruptedException, ExecutionException {
        KafkaProducer<String, String> zombie = client.producer(topic + "-tx");
        zombie.initTransactions();
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(topic, "zombie")).get();
        try (KafkaProducer<String, String> successor = client.producer(topic + "-tx")) {
            successor.initTransactions();
            successor.beginTransaction();
            successor.send(new ProducerRecord<>(topic, "successor"));
            successor.commitTransaction();
        }
        try {
            zombie.send(new ProducerRecord<>(topic, "late")).get();
            Main.say("write", "accepted");
        } catch (ExecutionException refused) {
            Main.say("write", refused.getCause().getClass().getSimpleName());
        }
        try {
            zombie.commitTransaction();
            Main.say("commit", "accepted");
        } catch (KafkaException refused) {
            Main.say("commit", refused.getClass().getSimpleName());
        }
        zombie.close(Duration.ZERO);
    }

    /** Copies `count` records to another topic, each batch with its offsets in one transaction. */
    static void transform(Client client, String from, String to, String group, int count) {
        int copied = 0;
        try (KafkaConsumer<String, String> consumer = client.consumer(group);
                KafkaProducer<String, String> producer = client.producer(group + "-tx")) {
            producer.initTransactions();
            consumer.subscribe(Set.of(from));
            while (copied < count) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(to, record.value() + "!"));
                    offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                copied += records.count();
            }
            TopicPartition only = new TopicPartition(from, 0);
            Main.say("committed", consumer.committed(Set.of(only)).get(only).offset());
        }
    }

    /** Every committed record up to the last stable offset. */
    static void readCommitted(Client client, String topic) {
        try (KafkaConsumer<String, String> consumer = client.consumer(null)) {
            TopicPartition only = new TopicPartition(topic, 0);
            consumer.assign(Set.of(only));
            consumer.seekToBeginning(Set.of(only));
            long end = consumer.endOffsets(Set.of(only)).get(only);
            while (consumer.position(only) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    Main.say("value", record.value());
                }
            }
        }
    }
}
