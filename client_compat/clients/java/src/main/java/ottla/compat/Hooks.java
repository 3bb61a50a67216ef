package ottla.compat;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serializer;

/** What an application can plug into a producer. The client makes a partitioner and an interceptor itself, so those are public. */
public final class Hooks {
    private Hooks() {}

    /** Every record goes to the last partition. */
    public static final class LastPartition implements Partitioner {
        @Override
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
            return cluster.partitionCountForTopic(topic) - 1;
        }

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    /** Every record gets the header `intercepted`. */
    public static final class Intercepted implements ProducerInterceptor<byte[], byte[]> {
        @Override
        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            record.headers().add("intercepted", new byte[] {'1'});
            return record;
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception error) {}

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    /** Every record makes it throw. The client is to log that and go on with the next interceptor. */
    public static final class Failing implements ProducerInterceptor<byte[], byte[]> {
        @Override
        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            throw new IllegalStateException("an interceptor that fails");
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception error) {}

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    /** JSON text as compact JSON, members sorted by name. */
    static final class CompactJson implements Serializer<byte[]> {
        @Override
        public byte[] serialize(String topic, byte[] text) {
            try {
                return text == null ? null : Control.COMPACT.asString(sorted(JSON.std.anyFrom(text))).getBytes(StandardCharsets.UTF_8);
            } catch (IOException bad) {
                throw new SerializationException(bad);
            }
        }

        private static Object sorted(Object value) {
            if (value instanceof List<?> list) {
                return list.stream().map(CompactJson::sorted).toList();
            }
            if (value instanceof Map<?, ?> map) {
                Map<String, Object> members = new TreeMap<>();
                map.forEach((name, member) -> members.put((String) name, sorted(member)));
                return members;
            }
            return value;
        }
    }
}
