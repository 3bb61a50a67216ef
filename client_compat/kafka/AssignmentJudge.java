import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Kafka's own reconciliation of a consumer group's member, asked in lines of JSON:
 *
 *   {"topics": 2, "state": 0, "epoch": 3, "previous": 2, "assigned": [[1, 0, 3]], "pending": [], "target_epoch": 4, "target": [[1, 1]],
 *    "held": [[1, 0]], "owned": null, "subscribed": ["1"], "changed": false}
 *
 * A topic is its number; a partition that a member has comes with the epoch in which it was assigned. An answer is the member after the
 * step, with the same names, or null where the member is fenced.
 */
public final class AssignmentJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = orders.readLine()) != null; ) System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    private static ObjectNode answer(JsonNode order) {
        List<String> subscribed = new ArrayList<>();
        order.get("subscribed").forEach(name -> subscribed.add(name.asText()));
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("m")
            .setState(MemberState.fromValue((byte) order.get("state").asInt()))
            .setMemberEpoch(order.get("epoch").asInt())
            .setPreviousMemberEpoch(order.get("previous").asInt())
            .setSubscribedTopicNames(subscribed)
            .setAssignedPartitions(withEpochs(order.get("assigned")))
            .setPartitionsPendingRevocation(withEpochs(order.get("pending")))
            .build();
        Map<Uuid, Set<Integer>> held = partitions(order.get("held"));
        try {
            return shown(new CurrentAssignmentBuilder(member)
                .withMetadataImage(image(order.get("topics").asInt()))
                .withTargetAssignment(order.get("target_epoch").asInt(), new Assignment(partitions(order.get("target"))))
                .withHasSubscriptionChanged(order.get("changed").asBoolean())
                .withResolvedRegularExpressions(Map.of())
                .withCurrentPartitionEpoch((topic, partition) -> held.getOrDefault(topic, Set.of()).contains(partition) ? 1 : -1)
                .withOwnedTopicPartitions(owned(order.get("owned")))
                .build());
        } catch (FencedMemberEpochException fenced) {
            return null;
        }
    }

    private static CoordinatorMetadataImage image(int topics) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int topic = 1; topic <= topics; topic++)
            delta.replay(new TopicRecord().setName(Integer.toString(topic)).setTopicId(new Uuid(0, topic)));
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }

    /** Without partitions the very map that a new member has: updateCurrentAssignment compares maps by identity. */
    private static Map<Uuid, Map<Integer, Integer>> withEpochs(JsonNode rows) {
        Map<Uuid, Map<Integer, Integer>> found = new HashMap<>();
        for (JsonNode row : rows)
            found.computeIfAbsent(new Uuid(0, row.get(0).asInt()), topic -> new HashMap<>()).put(row.get(1).asInt(), row.get(2).asInt());
        return found.isEmpty() ? Map.of() : found;
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode rows) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (JsonNode row : rows) found.computeIfAbsent(new Uuid(0, row.get(0).asInt()), topic -> new HashSet<>()).add(row.get(1).asInt());
        return found;
    }

    private static List<TopicPartitions> owned(JsonNode rows) {
        if (rows.isNull()) return null;
        List<TopicPartitions> found = new ArrayList<>();
        partitions(rows).forEach((topic, indexes) -> found.add(new TopicPartitions().setTopicId(topic).setPartitions(List.copyOf(indexes))));
        return found;
    }

    private static ObjectNode shown(ConsumerGroupMember member) {
        ObjectNode shown = JSON.createObjectNode()
            .put("state", member.state().value())
            .put("epoch", member.memberEpoch())
            .put("previous", member.previousMemberEpoch());
        shown.set("assigned", rows(member.assignedPartitions()));
        shown.set("pending", rows(member.partitionsPendingRevocation()));
        return shown;
    }

    private static ArrayNode rows(Map<Uuid, Map<Integer, Integer>> assignment) {
        ArrayNode rows = JSON.createArrayNode();
        new TreeMap<>(assignment).forEach((topic, indexes) -> new TreeMap<>(indexes).forEach((partition, epoch) ->
            rows.add(JSON.createArrayNode().add(topic.getLeastSignificantBits()).add(partition).add(epoch))));
        return rows;
    }
}
