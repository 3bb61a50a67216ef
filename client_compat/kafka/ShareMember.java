import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer that does what its standard input says, one command a line, and answers each with one line.
 *
 * <p>Arguments: bootstrap servers, group, topic, acknowledgement mode, then further settings as name=value. Commands: "poll" prints the
 * records as offset:value:deliveryCount; "accept", "release", "reject" and "renew" acknowledge the records of the offsets that follow;
 * "commit" prints the errors of commitSync; "close" ends the program. A command that throws prints the exception's class.
 */
public final class ShareMember {
    private static final long POLL_MS = 20_000;

    private ShareMember() {
    }

    public static void main(final String[] arguments) {
        final Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", arguments[3]);
        for (int index = 4; index < arguments.length; index++) {
            final String[] parts = arguments[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            final List<ConsumerRecord<String, String>> held = new java.util.ArrayList<>();
            final Scanner commands = new Scanner(System.in);
            while (commands.hasNextLine()) {
                final String[] words = commands.nextLine().split(" ");
                if (words[0].equals("close")) {
                    break;
                }
                try {
                    System.out.println(answer(consumer, held, words));
                } catch (final RuntimeException error) {
                    System.out.println(error.getClass().getSimpleName());
                }
            }
        }
        System.out.println("closed");
    }

    private static String answer(final KafkaShareConsumer<String, String> consumer, final List<ConsumerRecord<String, String>> held,
            final String[] words) {
        switch (words[0]) {
            case "poll":
                return poll(consumer, held, words.length > 1 ? Long.parseLong(words[1]) : POLL_MS);
            case "commit":
                return commit(consumer);
            case "lock":
                return consumer.acquisitionLockTimeoutMs().map(String::valueOf).orElse("none");
            default:
                final AcknowledgeType type = AcknowledgeType.valueOf(words[0].toUpperCase(java.util.Locale.ROOT));
                for (final ConsumerRecord<String, String> record : held) {
                    if (List.of(words).contains(String.valueOf(record.offset()))) {
                        consumer.acknowledge(record, type);
                    }
                }
                return "done";
        }
    }

    /** Polls until there are records, or for the given time. */
    private static String poll(final KafkaShareConsumer<String, String> consumer, final List<ConsumerRecord<String, String>> held,
            final long waitMs) {
        final long end = System.nanoTime() + waitMs * 1_000_000;
        final StringBuilder line = new StringBuilder();
        do {
            for (final ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(Math.min(waitMs, 200)))) {
                held.add(record);
                line.append(line.isEmpty() ? "" : " ").append(record.offset()).append(':').append(record.value()).append(':')
                    .append(record.deliveryCount().map(String::valueOf).orElse("-"));
            }
        } while (line.isEmpty() && System.nanoTime() < end);
        return line.isEmpty() ? "nothing" : line.toString();
    }

    private static String commit(final KafkaShareConsumer<String, String> consumer) {
        final StringBuilder line = new StringBuilder();
        consumer.commitSync().values().forEach(error -> line.append(line.isEmpty() ? "" : " ")
            .append(error.map(found -> found.getClass().getSimpleName()).orElse("ok")));
        return line.isEmpty() ? "nothing" : line.toString();
    }
}
