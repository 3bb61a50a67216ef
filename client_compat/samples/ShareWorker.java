import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A worker of a share group on Java's share consumer: each record has its effect at least once, in a file of its own. {@code --result} prints
 * the effects, each key once.
 *
 * <ul>
 *   <li>A record is accepted when its effect is on the disk. A crash in between repeats the effect, and never loses it.
 *   <li>The key decides: a record that is delivered again has one effect.
 *   <li>The acknowledgements are sent before more records are fetched. If they fail, the broker delivers the records again.
 * </ul>
 */
public final class ShareWorker {
    private static final String MISTAKE = "accept-before-processing";
    private static final Duration WAIT = Duration.ofMillis(200);

    private ShareWorker() {
    }

    public static void main(final String[] arguments) throws IOException {
        final Path effects = Path.of(System.getenv().getOrDefault("OTTLA_WORK_DIR", "."), "effects.txt");
        final List<String> options = List.of(arguments);
        if (options.contains("--result")) {
            byKey(effects).values().forEach(System.out::println);
            return;
        }
        try (FileChannel file = FileChannel.open(effects, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                KafkaShareConsumer<String, String> consumer =
                    new KafkaShareConsumer<>(settings(), new StringDeserializer(), new StringDeserializer())) {
            final CountDownLatch ended = stopOnSignal(consumer);
            try {
                work(consumer, file, options.contains(MISTAKE));
            } catch (final WakeupException stop) {
                // SIGTERM: what is not acknowledged is delivered to another worker
            } finally {
                ended.countDown();
            }
        }
    }

    private static Properties settings() {
        final Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("OTTLA_BOOTSTRAP_SERVERS"));
        settings.put("group.id", System.getenv("OTTLA_GROUP"));
        settings.put("share.acknowledgement.mode", "explicit");
        return settings;
    }

    private static void work(final KafkaShareConsumer<String, String> consumer, final FileChannel file, final boolean acceptsFirst)
            throws IOException {
        consumer.subscribe(List.of(System.getenv("OTTLA_INPUT")));
        while (true) {
            final ConsumerRecords<String, String> records = consumer.poll(WAIT);
            if (!acceptsFirst) {
                apply(file, records);
            }
            for (final ConsumerRecord<String, String> record : records) {
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            }
            if (!records.isEmpty()) {
                commit(consumer);
            }
            if (acceptsFirst) {
                apply(file, records); // MISTAKE: a crash before this line loses the effects of accepted records
            }
        }
    }

    private static void apply(final FileChannel file, final ConsumerRecords<String, String> records) throws IOException {
        final StringBuilder lines = new StringBuilder();
        records.forEach(record -> lines.append(record.key()).append(' ').append(record.value()).append('\n'));
        file.write(StandardCharsets.UTF_8.encode(lines.toString()));
        file.force(false);
    }

    /** A failure is only logged, because the records are delivered again. */
    private static void commit(final KafkaShareConsumer<String, String> consumer) {
        consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(
            (KafkaException error) -> System.err.println("not acknowledged: " + partition + ": " + error)));
    }

    /** Effects by key. A crash may have left a part of the last line, whose record is delivered again. */
    private static Map<String, String> byKey(final Path effects) throws IOException {
        final Map<String, String> found = new LinkedHashMap<>();
        for (final String line : Files.exists(effects) ? Files.readAllLines(effects) : List.<String>of()) {
            final String[] parts = line.split(" ", 2);
            if (parts.length == 2) {
                found.put(parts[0], parts[1]);
            }
        }
        return found;
    }

    private static CountDownLatch stopOnSignal(final KafkaShareConsumer<String, String> consumer) {
        final CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                ended.await();
            } catch (final InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        return ended;
    }
}
