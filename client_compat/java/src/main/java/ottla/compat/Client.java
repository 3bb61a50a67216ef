package ottla.compat;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients of one cluster, with the timeouts of a test. */
final class Client {
    private static final int TIMEOUT_MS = 30_000;

    private final String bootstrap;

    Client(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    KafkaProducer<String, String> producer(String transactionalId) {
        return new KafkaProducer<>(config(Map.of(
                "transactional.id", transactionalId,
                "delivery.timeout.ms", 2 * TIMEOUT_MS,
                "max.block.ms", TIMEOUT_MS)), new StringSerializer(), new StringSerializer());
    }

    /** Reads committed records from the beginning; a null group reads alone. */
    KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> config = config(Map.of(
                "isolation.level", "read_committed",
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest"));
        if (group != null) {
            config.put("group.id", group);
        }
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    Admin admin() {
        return Admin.create(config(Map.of()));
    }

    private Map<String, Object> config(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", bootstrap);
        return config;
    }
}
