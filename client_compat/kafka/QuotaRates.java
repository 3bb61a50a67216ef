import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientQuotaManager.ClientIdEntity;
import org.apache.kafka.server.quota.ClientQuotaManager.UserEntity;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Random quotas, and random use of them, judged by Kafka's own classes. Lines are of two kinds, with "*" for a default and "-" for none:
 *
 *   quota KIND USER CLIENT LIMIT
 *   use KIND USER CLIENT AMOUNT TIME_MS WAIT_MS
 *
 *   java -cp '.kafka/4.4.0/*' client_compat/kafka/QuotaRates.java SEED LINES WINDOWS WINDOW_SECONDS > tests/golden/quotas.txt
 */
public final class QuotaRates {
    private static final String[] NAMES = {"a", "b", "*", "-"};

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(Long.parseLong(arguments[0]));
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
        Metrics metrics = new Metrics();
        Map<String, ClientQuotaManager> managers = Map.of(
            "producer_byte_rate", new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, Time.SYSTEM, "p"),
            "request_percentage", new ClientRequestQuotaManager(config, metrics, Time.SYSTEM, "r", Optional.empty()),
            "controller_mutation_rate", new ControllerMutationQuotaManager(config, metrics, Time.SYSTEM, "m", Optional.empty()));
        List<String> kinds = new ArrayList<>(managers.keySet());
        kinds.sort(null);
        long now = 1_000_000_000_000L;
        for (int line = 0; line < Integer.parseInt(arguments[1]); line++) {
            String kind = kinds.get(random.nextInt(kinds.size()));
            ClientQuotaManager manager = managers.get(kind);
            if (line % 40 == 0) {
                String user = NAMES[random.nextInt(4)], client = NAMES[random.nextInt(4)];
                if (user.equals("-") && client.equals("-")) continue;
                double limit = random.nextInt(4) == 0 ? 0 : random.nextInt(20) == 0 ? 0.1 : 1 + random.nextInt(1000);
                manager.updateQuota(user(user), client(client), limit == 0 ? Optional.empty() : Optional.of(Quota.upperBound(limit)));
                System.out.println("quota " + kind + " " + user + " " + client + " " + (limit == 0 ? "-" : limit));
                continue;
            }
            now += new int[] {0, random.nextInt(50), random.nextInt(1500), random.nextInt(1500), random.nextInt(40_000)}[random.nextInt(5)];
            String user = NAMES[random.nextInt(2)], client = NAMES[random.nextInt(2)];
            double amount = random.nextInt(8) == 0 ? random.nextDouble() * 20_000 : random.nextInt(500);
            Session session = new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
            int wait = manager.maybeRecordAndGetThrottleTimeMs(session, client, amount, now);
            System.out.println("use " + kind + " " + user + " " + client + " " + amount + " " + now + " " + wait);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Optional<ConfigEntity> user(String name) {
        if (name.equals("-")) return Optional.empty();
        return Optional.of(name.equals("*") ? ClientQuotaManager.DEFAULT_USER_ENTITY : new UserEntity(name));
    }

    private static Optional<ConfigEntity> client(String name) {
        if (name.equals("-")) return Optional.empty();
        return Optional.of(name.equals("*") ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientIdEntity(name));
    }
}
