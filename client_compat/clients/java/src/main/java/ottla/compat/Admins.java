package ottla.compat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The operations `admin.…`; those on groups and transactions are in {@link GroupAdmin} and {@link Versioned}. */
final class Admins {
    private final Map<String, Admin> open = new HashMap<>();

    Map<String, ?> run(String verb, Args args) throws Exception {
        if (verb.equals("connect")) {
            return connect(args);
        }
        Admin admin = open.computeIfAbsent(args.text("bootstrap"), bootstrap -> Admin.create(Map.of("bootstrap.servers", bootstrap)));
        return switch (verb) {
            case "create_topics" -> results(admin.createTopics(newTopics(args)).values(), args);
            case "delete_topics" -> results(Versioned.deleteTopics(admin, args.<String>list("topics")), args);
            case "list_topics" -> Map.of("topics", List.copyOf(args.await(admin.listTopics().names())));
            case "describe_topic" -> Map.of("partitions", partitions(args.await(Versioned.describeTopic(admin, args.text("topic")))));
            case "create_partitions" -> done(args, admin.createPartitions(Map.of(args.text("topic"), NewPartitions.increaseTo(args.number("count")))).all());
            case "describe_configs" -> Map.of("configs", configs(admin, args));
            case "alter_configs" -> done(args, admin.incrementalAlterConfigs(Map.of(resource(args), alterations(args))).all());
            case "delete_records" -> Map.of("low", deleteRecords(admin, args));
            case "list_offsets" -> Map.of("offsets", listOffsets(admin, args));
            case "describe_cluster" -> cluster(admin, args);
            case "list_groups", "describe_group", "group_offsets", "alter_group_offsets", "delete_groups" -> GroupAdmin.run(admin, verb, args);
            default -> Versioned.transactionAdmin(admin, verb, args);
        };
    }

    void close() {
        open.values().forEach(Admin::close);
    }

    private static Map<String, ?> connect(Args args) throws Exception {
        Map<String, Object> config = Settings.of(args, Map.of());
        int limit = args.timeoutMs() / 2; // so that it is the client that says it
        config.put("default.api.timeout.ms", limit);
        config.put("request.timeout.ms", limit);
        try (Admin admin = Admin.create(config)) {
            return Map.of("brokers", args.await(admin.describeCluster().nodes()).size());
        }
    }

    /** Waits for it; nothing is answered. */
    static Map<String, ?> done(Args args, KafkaFuture<Void> future) throws Exception {
        args.await(future);
        return Map.of();
    }

    /** Each future's error, or null, by name. */
    static Map<String, ?> results(Map<String, KafkaFuture<Void>> futures, Args args) {
        Map<String, Object> results = new LinkedHashMap<>();
        futures.forEach((name, future) -> {
            try {
                args.await(future);
                results.put(name, null);
            } catch (Exception refused) {
                results.put(name, Failures.describe(refused));
            }
        });
        return Map.of("results", results);
    }

    private static List<NewTopic> newTopics(Args args) {
        List<NewTopic> topics = new ArrayList<>();
        for (Map<String, Object> fields : args.<Map<String, Object>>list("topics")) {
            Args topic = new Args(fields);
            short replication = (short) (topic.has("replication") ? topic.number("replication") : 1);
            topics.add(new NewTopic(topic.text("name"), topic.number("partitions"), replication).configs(topic.texts("configs")));
        }
        return topics;
    }

    private static List<Map<String, Object>> partitions(TopicDescription topic) {
        List<Map<String, Object>> partitions = new ArrayList<>();
        topic.partitions().forEach(partition -> {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("partition", partition.partition());
            row.put("leader", partition.leader() == null ? -1 : partition.leader().id());
            row.put("replicas", partition.replicas().stream().map(Node::id).toList());
            row.put("isr", partition.isr().stream().map(Node::id).toList());
            partitions.add(row);
        });
        return partitions;
    }

    private static ConfigResource resource(Args args) {
        boolean topic = args.text("resource").equals("topic");
        return new ConfigResource(topic ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER, args.text("name"));
    }

    private static Map<String, String> configs(Admin admin, Args args) throws Exception {
        ConfigResource resource = resource(args);
        Map<String, String> configs = new LinkedHashMap<>();
        for (ConfigEntry entry : args.await(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()) {
            configs.put(entry.name(), entry.value());
        }
        return configs;
    }

    private static Collection<AlterConfigOp> alterations(Args args) {
        List<AlterConfigOp> operations = new ArrayList<>();
        args.texts("set").forEach((key, value) -> operations.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        args.<String>list("delete").forEach(key -> operations.add(new AlterConfigOp(new ConfigEntry(key, null), AlterConfigOp.OpType.DELETE)));
        return operations;
    }

    private static List<List<Object>> deleteRecords(Admin admin, Args args) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        args.rows("offsets").forEach((partition, row) -> before.put(partition, RecordsToDelete.beforeOffset(Args.longOf(row.get(0)))));
        Map<TopicPartition, Long> low = new HashMap<>();
        for (Map.Entry<TopicPartition, KafkaFuture<DeletedRecords>> deleted : admin.deleteRecords(before).lowWatermarks().entrySet()) {
            low.put(deleted.getKey(), args.await(deleted.getValue()).lowWatermark());
        }
        return Rows.of(low, offset -> new Object[] {offset});
    }

    private static List<List<Object>> listOffsets(Admin admin, Args args) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        args.rows("offsets").forEach((partition, row) -> wanted.put(partition, spec(row.get(0))));
        Map<TopicPartition, ListOffsetsResultInfo> found = args.await(admin.listOffsets(wanted).all());
        return Rows.of(found, info -> new Object[] {info.offset()});
    }

    private static OffsetSpec spec(Object at) {
        if (at instanceof Number time) {
            return OffsetSpec.forTimestamp(time.longValue());
        }
        return switch ((String) at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            default -> Versioned.maxTimestamp();
        };
    }

    private static Map<String, ?> cluster(Admin admin, Args args) throws Exception {
        DescribeClusterResult described = admin.describeCluster();
        List<Object[]> nodes = new ArrayList<>();
        for (Node node : args.await(described.nodes())) {
            nodes.add(new Object[] {node.id(), node.host(), node.port()});
        }
        Node controller = args.await(described.controller());
        return Map.of("cluster_id", args.await(described.clusterId()), "controller", controller == null ? -1 : controller.id(), "nodes", nodes);
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(Args args) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        args.rows("offsets").forEach((partition, row) -> offsets.put(partition, new OffsetAndMetadata(Args.longOf(row.get(0)))));
        return offsets;
    }
}
