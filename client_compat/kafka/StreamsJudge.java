import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.CreateTopicsRequestDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseDataJsonConverter;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValueJsonConverter;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.slf4j.helpers.NOPLogger;

/**
 * Kafka's own decisions about a streams group, asked in lines of JSON. An assignment of tasks to members:
 *
 *   {"members": {"m": {"process": "p", "active": {"0": [1]}, "standby": {}, "offsets": [["0", 1, 17]]}},
 *    "subtopologies": {"0": {"tasks": 2, "stateful": true}}, "replicas": 1}
 *
 * is answered by each member's active and standby tasks. A topology, as its record's JSON, beside existing topics:
 *
 *   {"topics": {"a": 3}, "topology": {...}}
 *
 * is answered by its description, its tasks, the topics to create and the status, or by the class of the exception.
 */
public final class StreamsJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = orders.readLine()) != null; ) {
            JsonNode order = JSON.readTree(line);
            System.out.println(JSON.writeValueAsString(order.has("members") ? assigned(order) : configured(order)));
        }
    }

    private static ObjectNode assigned(JsonNode order) {
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        order.get("members").properties().forEach(entry -> members.put(entry.getKey(), new MemberMetadataAndStateImpl(
            Optional.empty(), Optional.empty(), entry.getValue().get("process").asText(), Map.of(),
            tasks(entry.getValue().get("active")), tasks(entry.getValue().get("standby")), Map.of(), offsets(entry.getValue().get("offsets")),
            Map.of())));
        SortedMap<String, ConfiguredSubtopology> subtopologies = new TreeMap<>();
        order.get("subtopologies").properties().forEach(entry -> {
            int count = entry.getValue().get("tasks").asInt();
            ConfiguredInternalTopic changelog = new ConfiguredInternalTopic("changelog", count, Optional.empty(), Map.of());
            subtopologies.put(entry.getKey(), new ConfiguredSubtopology(count, Set.of("source"), Map.of(), Set.of(),
                entry.getValue().get("stateful").asBoolean() ? Map.of("changelog", changelog) : Map.of()));
        });
        AssignmentConfigsImpl settings = new AssignmentConfigsImpl(order.get("replicas").asInt(), List.of());
        ObjectNode answer = JSON.createObjectNode();
        new StickyTaskAssignor()
            .assign(new GroupSpecImpl(members, settings), new TopologyMetadata(CoordinatorMetadataImage.EMPTY, subtopologies))
            .members().forEach((id, member) -> answer.putObject(id)
                .putPOJO("active", sorted(member.activeTasks()))
                .putPOJO("standby", sorted(member.standbyTasks())));
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.properties().forEach(entry -> {
            Set<Integer> partitions = found.computeIfAbsent(entry.getKey(), id -> new HashSet<>());
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
        });
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode node) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        node.forEach(task -> found.computeIfAbsent(task.get(0).asText(), id -> new HashMap<>()).put(task.get(1).asInt(), task.get(2).asLong()));
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((id, partitions) -> found.put(id, new TreeSet<>(partitions)));
        return found;
    }

    private static ObjectNode configured(JsonNode order) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            StreamsTopology topology = StreamsTopology.fromRecord(StreamsGroupTopologyValueJsonConverter.read(order.get("topology"), (short) 0));
            ConfiguredTopology found = InternalTopicManager.configureTopics(
                NOPLogger.NOP_LOGGER, "g", "m", 0, topology, image(order.get("topics")), Time.SYSTEM);
            answer.set("topology", StreamsGroupDescribeResponseDataJsonConverter.TopologyJsonConverter.write(
                found.asStreamsGroupDescribeTopology(), (short) 0));
            ObjectNode tasks = answer.putObject("tasks");
            found.subtopologies().orElse(new TreeMap<>()).forEach((id, subtopology) -> tasks.put(id, subtopology.numberOfTasks()));
            ArrayNode topics = answer.putArray("create");
            found.internalTopicsToBeCreated().values().forEach(topic -> topics.add(
                CreateTopicsRequestDataJsonConverter.CreatableTopicJsonConverter.write(topic, (short) 7)));
            found.topicConfigurationException().ifPresent(problem -> answer.putArray("problem")
                .add(problem.status().code()).add(problem.getMessage()));
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.putArray("error").add(error.getClass().getSimpleName()).add(error.getMessage());
        }
        return answer;
    }

    private static CoordinatorMetadataImage image(JsonNode topics) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        topics.properties().forEach(entry -> {
            Uuid id = new Uuid(1, entry.getKey().hashCode());
            delta.replay(new TopicRecord().setName(entry.getKey()).setTopicId(id));
            for (int partition = 0; partition < entry.getValue().asInt(); partition++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition));
        });
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }
}
