package ottla.modules;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * Starts Kafka by one of the Java classes of testcontainers, as a test does, and produces and consumes through it: {@code Start
 * apache|confluent|zookeeper IMAGE}. It prints the seconds from the call to the broker that the class calls ready.
 */
public final class Start {
    private static final String MESSAGE = "through the module";
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private record Broker(GenericContainer<?> container, Supplier<String> bootstrap) {}

    private Start() {}

    public static void main(String[] arguments) throws Exception {
        DockerImageName image = DockerImageName.parse(arguments[1]);
        long began = System.nanoTime();
        Broker broker = made(arguments[0], image);
        try (GenericContainer<?> container = broker.container()) {
            container.start();
            double seconds = (System.nanoTime() - began) / 1e9;
            String got = consumedAfterProducing(broker.bootstrap().get());
            if (!got.equals(MESSAGE)) throw new IllegalStateException("consumed " + got);
            System.out.println(seconds);
        }
    }

    @SuppressWarnings("deprecation") // the older class, which tests still use
    private static Broker made(String kind, DockerImageName image) {
        switch (kind) {
            case "apache": {
                KafkaContainer kafka = new KafkaContainer(image.asCompatibleSubstituteFor("apache/kafka"));
                return new Broker(kafka, kafka::getBootstrapServers);
            }
            case "confluent": {
                ConfluentKafkaContainer kafka = new ConfluentKafkaContainer(image.asCompatibleSubstituteFor("confluentinc/cp-kafka"));
                return new Broker(kafka, kafka::getBootstrapServers);
            }
            case "zookeeper": {
                org.testcontainers.containers.KafkaContainer kafka =
                        new org.testcontainers.containers.KafkaContainer(image.asCompatibleSubstituteFor("confluentinc/cp-kafka"));
                return new Broker(kafka, kafka::getBootstrapServers);
            }
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static String consumedAfterProducing(String bootstrap) throws Exception {
        Map<String, Object> producing = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("msgs", MESSAGE)).get();
        }
        Map<String, Object> consuming =
                Map.of(
                        ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                        ConsumerConfig.GROUP_ID_CONFIG, "g",
                        ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("msgs"));
            return consumer.poll(PATIENCE).iterator().next().value();
        }
    }
}
