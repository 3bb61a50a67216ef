import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own authorizer, asked in lines of JSON:
 *
 *   {"super": "User:a", "open": false, "acls": [[2, "orders", 3, "User:b", "*", 3, 3], ...], "asks": [["User:b", "10.0.0.1", 3, 2, "orders"], ...]}
 *
 * An ACL is type, name, pattern, principal, host, operation and permission; a question is principal, host, operation, type and name, where no
 * name asks for any resource of the type. An answer is an array of true and false; before it come the lines of Kafka's audit log, one for
 * each question.
 */
public final class AclJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = orders.readLine()) != null; ) {
            System.out.println(answers(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static ArrayNode answers(JsonNode order) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Metrics metrics = new Metrics();
        authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
        authorizer.configure(Map.of("super.users", order.get("super").asText(), "allow.everyone.if.no.acl.found", order.get("open").asText()));
        for (JsonNode acl : order.get("acls"))
            authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(ResourceType.fromCode(code(acl, 0)), acl.get(1).asText(),
                PatternType.fromCode(code(acl, 2)), acl.get(3).asText(), acl.get(4).asText(), AclOperation.fromCode(code(acl, 5)),
                AclPermissionType.fromCode(code(acl, 6))));
        authorizer.completeInitialLoad();
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode ask : order.get("asks")) answers.add(isAllowed(authorizer, ask));
        metrics.close();
        return answers;
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, JsonNode ask) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(ask.get(0).asText());
        RequestContext context = new RequestContext(new RequestHeader(ApiKeys.FETCH, (short) 12, "", 1), "", InetAddress.getByName(ask.get(1).asText()),
            principal, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        AclOperation operation = AclOperation.fromCode(code(ask, 2));
        ResourceType type = ResourceType.fromCode(code(ask, 3));
        if (ask.get(4).isNull()) return authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
        Action action = new Action(operation, new ResourcePattern(type, ask.get(4).asText(), PatternType.LITERAL), 1, true, true);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private static byte code(JsonNode row, int at) {
        return (byte) row.get(at).asInt();
    }
}
