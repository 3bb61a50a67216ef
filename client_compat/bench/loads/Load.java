import java.time.Duration;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Throughput through the Java client with its own defaults (idempotent, acks all, five in flight). One process serves the whole bench, so
 * that its own compilation is no broker's cost. A line in is a command, a line out "ok NUMBERS" or "failed REASON"; the numbers are seconds:
 *
 *   produce BOOTSTRAP TOPIC PARTITIONS RECORD_BYTES RECORDS
 *   consume BOOTSTRAP TOPIC PARTITIONS RECORDS
 *   join BOOTSTRAP TOPIC GROUP CONSUMERS    the share consumers have partitions when it ends
 *   share RECORDS                           the joined share consumers take the records and acknowledge them
 *   pace BOOTSTRAP TOPIC RATE RECORDS       each record's time to a joined share consumer: median and 99th percentile
 *   leave
 */
public final class Load {
    private static final Duration SILENCE = Duration.ofSeconds(20);

    public static void main(String[] arguments) {
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            String[] words = commands.nextLine().split(" ");
            try {
                System.out.println("ok " + String.join(" ", Arrays.stream(run(words)).mapToObj(each -> String.format("%.6f", each)).toList()));
            } catch (Exception failure) {
                System.out.println("failed " + failure.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    private static double[] run(String[] words) throws Exception {
        return switch (words[0]) {
            case "produce" -> new double[] {
                produce(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[5]))};
            case "consume" -> new double[] {consume(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]))};
            case "join" -> new double[] {join(words[1], words[2], words[3], Integer.parseInt(words[4]))};
            case "share" -> new double[] {share(Integer.parseInt(words[1]))};
            case "pace" -> pace(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "leave" -> leave();
            default -> throw new IllegalArgumentException(words[0]);
        };
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

    private static final List<KafkaShareConsumer<byte[], byte[]>> MEMBERS = new ArrayList<>();

    /** Heartbeats are sent between polls, so that members get partitions without taking records. */
    private static double join(String bootstrap, String topic, String group, int consumers) throws Exception {
        leave();
        long began = System.nanoTime();
        Properties properties = properties(bootstrap);
        properties.put("group.id", group);
        try (Admin admin = Admin.create(properties(bootstrap))) {
            AlterConfigOp earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(earliest))).all().get();
            for (int number = 0; number < consumers; number++) {
                MEMBERS.add(new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
                MEMBERS.get(number).subscribe(List.of(topic));
                MEMBERS.get(number).poll(Duration.ZERO);
            }
            while (!allAssigned(admin, group)) {
                if (System.nanoTime() - began > SILENCE.toNanos()) {
                    throw new IllegalStateException("the share consumers have no partitions");
                }
                Thread.sleep(50);
            }
        }
        return (System.nanoTime() - began) / 1e9;
    }

    private static boolean allAssigned(Admin admin, String group) throws Exception {
        try {
            var members = admin.describeShareGroups(List.of(group)).all().get().get(group).members();
            return members.size() == MEMBERS.size() && members.stream().noneMatch(each -> each.assignment().topicPartitions().isEmpty());
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof GroupIdNotFoundException) {
                return false; // no member has joined yet
            }
            throw failure;
        }
    }

    private static double share(int records) throws Exception {
        AtomicLong left = new AtomicLong(records);
        AtomicReference<Exception> failed = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        long began = System.nanoTime();
        for (KafkaShareConsumer<byte[], byte[]> member : MEMBERS) {
            threads.add(new Thread(() -> take(member, left, failed)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        return (System.nanoTime() - began) / 1e9;
    }

    /** Records are acknowledged by the next poll, and the last ones by a commit. */
    private static void take(KafkaShareConsumer<byte[], byte[]> member, AtomicLong left, AtomicReference<Exception> failed) {
        try {
            long lastNs = System.nanoTime();
            while (left.get() > 0) {
                int more = member.poll(Duration.ofMillis(100)).count();
                if (more > 0) {
                    lastNs = System.nanoTime();
                    left.addAndGet(-more);
                } else if (System.nanoTime() - lastNs > SILENCE.toNanos()) {
                    throw new IllegalStateException(left.get() + " records are missing, then silence");
                }
            }
            member.commitSync();
        } catch (Exception failure) {
            failed.set(failure);
        }
    }

    private static double[] pace(String bootstrap, String topic, int rate, int records) throws Exception {
        double[] taken = new double[records];
        AtomicReference<Exception> failed = new AtomicReference<>();
        CountDownLatch begun = new CountDownLatch(1);
        Thread consumer = new Thread(() -> {
            try {
                KafkaShareConsumer<byte[], byte[]> member = MEMBERS.get(0);
                begun.countDown();
                long lastNs = System.nanoTime();
                for (int count = 0; count < records;) {
                    for (ConsumerRecord<byte[], byte[]> record : member.poll(Duration.ofMillis(100))) {
                        lastNs = System.nanoTime();
                        taken[count++] = (lastNs - ByteBuffer.wrap(record.value()).getLong()) / 1e9;
                    }
                    if (System.nanoTime() - lastNs > SILENCE.toNanos()) {
                        throw new IllegalStateException(count + " of " + records + " records, then silence");
                    }
                }
                member.commitSync();
            } catch (Exception failure) {
                failed.set(failure);
            }
        });
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties(bootstrap), new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.partitionsFor(topic);
            consumer.start();
            begun.await();
            long firstNs = System.nanoTime() + 500_000_000L;
            for (int number = 0; number < records; number++) {
                long dueNs = firstNs + number * 1_000_000_000L / rate;
                while (System.nanoTime() < dueNs) {
                    Thread.sleep(0, 200_000);
                }
                producer.send(new ProducerRecord<>(topic, 0, null, ByteBuffer.allocate(100).putLong(dueNs).array()));
            }
            producer.flush();
            consumer.join();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        Arrays.sort(taken);
        return new double[] {taken[records / 2], taken[(int) Math.ceil(records * 0.99) - 1]};
    }

    private static double[] leave() {
        MEMBERS.forEach(KafkaShareConsumer::close);
        MEMBERS.clear();
        return new double[0];
    }
}
