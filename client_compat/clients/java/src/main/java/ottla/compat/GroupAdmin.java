package ottla.compat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The admin operations on groups. */
final class GroupAdmin {
    private GroupAdmin() {}

    static Map<String, ?> run(Admin admin, String verb, Args args) throws Exception {
        String group = args.text("group");
        return switch (verb) {
            case "list_groups" -> Map.of("groups", Versioned.listGroups(admin, args));
            case "describe_group" -> describe(args.await(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group)));
            case "group_offsets" -> {
                Map<TopicPartition, OffsetAndMetadata> found = args.await(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                yield Map.of("offsets", Rows.of(found, committed -> new Object[] {committed == null ? null : committed.offset()}));
            }
            case "alter_group_offsets" -> Admins.done(args, admin.alterConsumerGroupOffsets(group, Admins.offsets(args)).all());
            default -> Admins.results(admin.deleteConsumerGroups(args.<String>list("groups")).deletedGroups(), args);
        };
    }

    private static Map<String, ?> describe(ConsumerGroupDescription group) {
        Map<String, Object> described = new LinkedHashMap<>(Versioned.stateAndType(group));
        described.put("assignor", group.partitionAssignor());
        List<Map<String, Object>> members = new ArrayList<>();
        for (MemberDescription member : group.members()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("id", member.consumerId());
            row.put("client_id", member.clientId());
            row.put("instance_id", member.groupInstanceId().orElse(null));
            row.put("partitions", Rows.of(member.assignment().topicPartitions()));
            members.add(row);
        }
        described.put("members", members);
        return described;
    }
}
