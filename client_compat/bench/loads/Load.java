import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Throughput through the Java client with its own defaults (idempotent, acks all, five in flight). One process serves the whole bench, so
 * that its own compilation is no broker's cost. A line in is a command, a line out "ok SECONDS" or "failed REASON":
 *
 *   produce BOOTSTRAP TOPIC PARTITIONS RECORD_BYTES RECORDS
 *   consume BOOTSTRAP TOPIC PARTITIONS RECORDS
 */
public final class Load {
    private static final Duration SILENCE = Duration.ofSeconds(20);

    public static void main(String[] arguments) {
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            String[] words = commands.nextLine().split(" ");
            try {
                System.out.printf("ok %.6f%n", run(words));
            } catch (Exception failure) {
                System.out.println("failed " + failure.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    private static double run(String[] words) throws Exception {
        int partitions = Integer.parseInt(words[3]);
        if (words[0].equals("produce")) {
            return produce(words[1], words[2], partitions, Integer.parseInt(words[4]), Integer.parseInt(words[5]));
        }
        return consume(words[1], words[2], partitions, Integer.parseInt(words[4]));
    }

    private static Properties properties(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private static double produce(String bootstrap, String topic, int partitions, int recordBytes, int records) throws Exception {
        AtomicReference<Exception> refused = new AtomicReference<>();
        byte[] value = new byte[recordBytes];
        Properties properties = properties(bootstrap);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.partitionsFor(topic);
            long began = System.nanoTime();
            for (int number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (placed, failure) -> {
                    if (failure != null) {
                        refused.set(failure);
                    }
                });
            }
            producer.flush();
            double seconds = (System.nanoTime() - began) / 1e9;
            if (refused.get() != null) {
                throw refused.get();
            }
            return seconds;
        }
    }

    private static double consume(String bootstrap, String topic, int partitions, int records) {
        List<TopicPartition> all = new ArrayList<>();
        for (int index = 0; index < partitions; index++) {
            all.add(new TopicPartition(topic, index));
        }
        Properties properties = properties(bootstrap);
        properties.put("enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            long began = System.nanoTime();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            int taken = 0;
            while (taken < records) {
                int more = consumer.poll(SILENCE).count();
                if (more == 0) {
                    throw new IllegalStateException(taken + " of " + records + " records, then silence");
                }
                taken += more;
            }
            return (System.nanoTime() - began) / 1e9;
        }
    }
}
