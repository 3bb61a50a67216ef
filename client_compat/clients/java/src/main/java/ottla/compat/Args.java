package ottla.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;

/** The arguments of one request, by type. */
record Args(Map<String, Object> values) {
    private static final int TIMEOUT_MS = 30_000;

    boolean has(String name) {
        return values.get(name) != null;
    }

    Object get(String name) {
        return values.get(name);
    }

    String text(String name) {
        return (String) values.get(name);
    }

    int number(String name) {
        return ((Number) values.get(name)).intValue();
    }

    int timeoutMs() {
        return has("timeout_ms") ? number("timeout_ms") : TIMEOUT_MS;
    }

    Duration timeout() {
        return Duration.ofMillis(timeoutMs());
    }

    /** What a call answers within this request's limit. */
    <T> T await(Future<T> future) throws Exception {
        return future.get(timeoutMs(), TimeUnit.MILLISECONDS);
    }

    @SuppressWarnings("unchecked") // JSON arrays are lists; what is in them is the protocol's to say
    <T> List<T> list(String name) {
        return has(name) ? (List<T>) values.get(name) : List.of();
    }

    @SuppressWarnings("unchecked") // JSON objects are maps from strings
    Map<String, String> texts(String name) {
        return has(name) ? (Map<String, String>) values.get(name) : Map.of();
    }

    TopicPartition partition(String name) {
        return partitionOf(list(name));
    }

    List<TopicPartition> partitions(String name) {
        List<TopicPartition> found = new ArrayList<>();
        for (List<Object> pair : this.<List<Object>>list(name)) {
            found.add(partitionOf(pair));
        }
        return found;
    }

    /** Rows `[topic, partition, something, …]` by partition, in their order. */
    Map<TopicPartition, List<Object>> rows(String name) {
        Map<TopicPartition, List<Object>> found = new LinkedHashMap<>();
        for (List<Object> row : this.<List<Object>>list(name)) {
            found.put(partitionOf(row), row.subList(2, row.size()));
        }
        return found;
    }

    static TopicPartition partitionOf(List<Object> row) {
        return new TopicPartition((String) row.get(0), ((Number) row.get(1)).intValue());
    }

    static long longOf(Object number) {
        return ((Number) number).longValue();
    }

    static byte[] bytes(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode((String) base64);
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
