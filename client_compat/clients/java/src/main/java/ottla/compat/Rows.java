package ottla.compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;

/** Answers per partition as `[topic, partition, …]`, in the order of partitions. */
final class Rows {
    private static final Comparator<TopicPartition> ORDER = Comparator.comparing(TopicPartition::topic).thenComparingInt(TopicPartition::partition);

    private Rows() {}

    static List<List<Object>> of(Collection<TopicPartition> partitions) {
        return of(partitions, partition -> new Object[0]);
    }

    static <T> List<List<Object>> of(Map<TopicPartition, T> answers, Function<T, Object[]> rest) {
        return of(answers.keySet(), partition -> rest.apply(answers.get(partition)));
    }

    static List<List<Object>> of(Collection<TopicPartition> partitions, Function<TopicPartition, Object[]> rest) {
        List<List<Object>> rows = new ArrayList<>();
        partitions.stream().sorted(ORDER).forEach(partition -> {
            List<Object> row = new ArrayList<>(List.of(partition.topic(), partition.partition()));
            row.addAll(Arrays.asList(rest.apply(partition)));
            rows.add(row);
        });
        return rows;
    }
}
