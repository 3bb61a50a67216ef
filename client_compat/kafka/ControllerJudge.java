package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.network.RequestChannel;
import kafka.server.ControllerApis;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.publisher.ControllerRegistrationsPublisher;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.network.Request;
import org.apache.kafka.network.metrics.RequestChannelMetrics;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftClient;
import org.apache.kafka.raft.internals.MemoryBatchReader;
import org.apache.kafka.server.SimpleApiVersionManager;
import org.apache.kafka.server.config.DefaultSupportedConfigChecker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.FinalizedFeatures;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.quota.QuotaFactory;
import org.apache.kafka.snapshot.SnapshotWriter;

/**
 * Kafka's own controller, asked in bytes: its request handlers and its QuorumController over a metadata log in memory, with a clock that
 * stands still until it is told to move. An order is a line of JSON, and so is what comes of it:
 *
 *   {"do": "start", "features": {"metadata.version": 25}, "settings": {"num.partitions": "1"}, "first": 1}
 *       a new controller, whose log begins at offset "first"; its answer, like all others, has the records that it wrote
 *   {"do": "request", "key": 19, "version": 7, "body": "00...", "draw": 5}
 *       a request of a client; "draw" is the random number of this request, see Draw
 *   {"do": "advance", "ms": 9000}
 *   {"do": "task", "name": "fence"}
 *       what a timer of the controller does once, see TASKS; the answer has "more", true where it would run again at once
 *
 * An answer has "records" (the frames of what was written, as hexadecimal digits), "response" (the body, in the request's version), and
 * "faults" where Kafka calls it a fault. It lies in Kafka's package because timers and the first offset are not public there.
 */
public final class ControllerJudge {
    private static final int NODE = 3000;
    private static final int EPOCH = 1;
    private static final long NEVER_MS = TimeUnit.DAYS.toMillis(30000);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    private final Clock clock = new Clock();
    private final Draw draw = new Draw();
    private final Channel channel = new Channel(clock);
    private final List<String> faults = new ArrayList<>();
    private Log log;
    private QuotaFactory.QuotaManagers quotas;
    private QuorumController controller;
    private ControllerApis apis;

    public static void main(String[] arguments) throws Exception {
        ControllerJudge judge = new ControllerJudge();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = orders.readLine()) != null; ) {
            System.out.println(judge.carriedOut(JSON.readTree(line)));
            System.out.flush();
        }
        System.exit(0);
    }

    private ObjectNode carriedOut(JsonNode order) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        switch (order.get("do").asText()) {
            case "start" -> start(order);
            case "request" -> answer.put("response", response(order));
            case "advance" -> clock.millis += order.get("ms").asLong();
            case "task" -> answer.put("more", again(order.get("name").asText()));
            default -> throw new IllegalArgumentException("nobody knows " + order);
        }
        ArrayNode records = answer.putArray("records");
        for (ApiMessageAndVersion record : log.taken()) records.add(framed(record));
        if (!faults.isEmpty()) faults.forEach(answer.putArray("faults")::add);
        faults.clear();
        return answer;
    }

    private static String framed(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(bytes));
        return HexFormat.of().formatHex(bytes.array());
    }

    private void start(JsonNode order) throws Exception {
        if (controller != null) {
            controller.close();
            quotas.shutdown();
        }
        clock.millis = 1_000_000;
        log = new Log(clock, order.get("first").asLong());
        KafkaConfig config = config(order.get("settings"));
        quotas = QuotaFactory.instantiate(config, new Metrics(), clock, "judge-", "controller");
        controller = controller(config, bootstrap(order.get("features")));
        apis = new ControllerApis(channel, scala.Option.empty(), quotas, clock, controller, null, config, "judged-cluster-of-kafka",
            new ControllerRegistrationsPublisher(),
            new SimpleApiVersionManager(ListenerType.CONTROLLER, false, () -> FinalizedFeatures.fromMetadataVersion(MetadataVersion.latestProduction())),
            new KRaftMetadataCache(NODE, () -> log.version));
        log.lead();
        settle();
        settle();
    }

    private static KafkaConfig config(JsonNode settings) {
        Properties given = new Properties();
        given.put("process.roles", "controller");
        given.put("node.id", Integer.toString(NODE));
        given.put("controller.quorum.voters", NODE + "@localhost:9093");
        given.put("controller.listener.names", "CONTROLLER");
        given.put("listeners", "CONTROLLER://:9093");
        settings.fields().forEachRemaining(setting -> given.put(setting.getKey(), setting.getValue().asText()));
        return new KafkaConfig(given, false);
    }

    private static BootstrapMetadata bootstrap(JsonNode features) {
        Map<String, Short> levels = new HashMap<>();
        features.fields().forEachRemaining(feature -> levels.put(feature.getKey(), (short) feature.getValue().asInt()));
        MetadataVersion version = MetadataVersion.fromFeatureLevel(levels.get(MetadataVersion.FEATURE_NAME));
        return BootstrapMetadata.fromVersions(version, levels, "the judge");
    }

    /** As Kafka's ControllerServer makes it, but for timers, which the judge runs itself. */
    private QuorumController controller(KafkaConfig config, BootstrapMetadata bootstrap) throws Exception {
        return new QuorumController.Builder(NODE, "judged-cluster-of-kafka").
            setTime(clock).
            setConfigSchema(KafkaRaftServer.configSchema()).
            setRaftClient(log).
            setQuorumFeatures(new QuorumFeatures(NODE, QuorumFeatures.defaultSupportedFeatureMap(false), List.of(NODE))).
            setDefaultReplicationFactor((short) config.defaultReplicationFactor()).
            setDefaultNumPartitions(config.numPartitions()).
            setReplicaPlacer(new StripedReplicaPlacer(draw)).
            setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(config.brokerSessionTimeoutMs())).
            setConfigurationValidator(new ControllerConfigurationValidator(config)).
            setSupportedConfigChecker(new DefaultSupportedConfigChecker()).
            setStaticConfig(config.originals()).
            setBootstrapMetadata(bootstrap).
            setFatalFaultHandler(this::fault).
            setNonFatalFaultHandler(this::fault).
            setFenceStaleBrokerIntervalNs(TimeUnit.MILLISECONDS.toNanos(NEVER_MS)).
            setUncleanLeaderElectionCheckIntervalMs(NEVER_MS).
            setDelegationTokenExpiryCheckIntervalMs(NEVER_MS).
            setControllerPerformanceSamplePeriodMs(NEVER_MS).
            build();
    }

    private RuntimeException fault(String message, Throwable cause) {
        faults.add(message);
        return new RuntimeException(message, cause);
    }

    private String response(JsonNode order) throws Exception {
        draw.number = order.get("draw").asInt();
        ApiKeys key = ApiKeys.forId(order.get("key").asInt());
        short version = (short) order.get("version").asInt();
        RequestContext context = new RequestContext(new RequestHeader(key, version, "judge", 0), "judge", InetAddress.getLoopbackAddress(),
            KafkaPrincipal.ANONYMOUS, new ListenerName("CONTROLLER"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(order.get("body").asText()));
        channel.answer = new CompletableFuture<>();
        apis.handle(new Request(0, context, 0, MemoryPool.NONE, body, channel.metrics()), RequestLocal.noCaching());
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(channel.answer.get(60, TimeUnit.SECONDS).data(), version).buffer();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return HexFormat.of().formatHex(copy);
    }

    private boolean again(String task) throws Exception {
        ReplicationControlManager replication = controller.replicationControl();
        Supplier<ControllerResult<Boolean>> decision = switch (task) {
            case "fence" -> replication::maybeFenceOneStaleBroker;
            case "elect-preferred" -> replication::maybeBalancePartitionLeaders;
            case "elect-unclean" -> replication::maybeElectUncleanLeaders;
            default -> throw new IllegalArgumentException("nobody knows the task " + task);
        };
        return controller.appendWriteEvent(task, OptionalLong.empty(), decision::get).get(60, TimeUnit.SECONDS);
    }

    /** Until what the controller was told is done. */
    private void settle() throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        controller.appendControlEvent("settle", () -> done.complete(null));
        done.get(60, TimeUnit.SECONDS);
    }

    /** One number for all draws of a request: which replicas are chosen does not hang on the order in which Kafka's maps are walked. */
    private static final class Draw extends Random {
        volatile int number;

        @Override
        public int nextInt(int bound) {
            return number % bound;
        }
    }

    private static final class Clock implements Time {
        volatile long millis;

        @Override
        public long milliseconds() {
            return millis;
        }

        @Override
        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(millis);
        }

        @Override
        public void sleep(long ms) {
            millis += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** Where the handlers leave their answers. */
    private static final class Channel extends RequestChannel {
        volatile CompletableFuture<AbstractResponse> answer;

        Channel(Time time) {
            super(1, time, new RequestChannelMetrics(ListenerType.CONTROLLER));
        }

        @Override
        public void sendResponse(Request request, AbstractResponse response) {
            answer.complete(response);
        }
    }

    /** A metadata log of one voter, which commits what is appended at once. */
    private static final class Log implements RaftClient<ApiMessageAndVersion> {
        private final Time time;
        private final List<ApiMessageAndVersion> written = new ArrayList<>();
        private final List<Batch<ApiMessageAndVersion>> prepared = new ArrayList<>();
        private Listener<ApiMessageAndVersion> listener;
        private volatile long end;
        private volatile LeaderAndEpoch leader = LeaderAndEpoch.UNKNOWN;
        final KRaftVersion version = KRaftVersion.KRAFT_VERSION_0;

        Log(Time time, long first) {
            this.time = time;
            this.end = first;
        }

        void lead() {
            leader = new LeaderAndEpoch(OptionalInt.of(NODE), EPOCH);
            listener.handleLeaderChange(leader);
        }

        synchronized List<ApiMessageAndVersion> taken() {
            List<ApiMessageAndVersion> taken = List.copyOf(written);
            written.clear();
            return taken;
        }

        @Override
        public void register(Listener<ApiMessageAndVersion> told) {
            listener = told;
        }

        @Override
        public synchronized long prepareAppend(int epoch, List<ApiMessageAndVersion> records) {
            prepared.add(Batch.data(end, epoch, time.milliseconds(), 0, List.copyOf(records)));
            end += records.size();
            return end - 1;
        }

        @Override
        public synchronized void schedulePreparedAppend() {
            for (Batch<ApiMessageAndVersion> batch : prepared) written.addAll(batch.records());
            List<Batch<ApiMessageAndVersion>> committed = List.copyOf(prepared);
            prepared.clear();
            listener.handleCommit(MemoryBatchReader.of(committed, reader -> { }));
        }

        @Override
        public OptionalLong highWatermark() {
            return OptionalLong.of(end);
        }

        @Override
        public LeaderAndEpoch leaderAndEpoch() {
            return leader;
        }

        @Override
        public OptionalInt nodeId() {
            return OptionalInt.of(NODE);
        }

        @Override
        public Optional<Node> voterNode(int id, ListenerName name) {
            return Optional.empty();
        }

        @Override
        public long logEndOffset() {
            return end;
        }

        @Override
        public KRaftVersion kraftVersion() {
            return version;
        }

        @Override
        public void upgradeKRaftVersion(int epoch, KRaftVersion wanted, boolean validateOnly) {
            if (wanted != version) throw new InvalidUpdateVersionException("this quorum stays as it is");
        }

        @Override
        public Optional<SnapshotWriter<ApiMessageAndVersion>> createSnapshot(OffsetAndEpoch id, long time) {
            return Optional.empty();
        }

        @Override
        public Optional<OffsetAndEpoch> latestSnapshotId() {
            return Optional.empty();
        }

        @Override
        public CompletableFuture<Void> shutdown(int timeoutMs) {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void unregister(Listener<ApiMessageAndVersion> told) { }

        @Override
        public void resign(int epoch) {
            throw new IllegalStateException("the only voter resigned");
        }

        @Override
        public void close() { }
    }
}
