package ottla.compat;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;

/**
 * Hosts the Java client's producers, consumers and admin clients and does what it is told, as client_compat/clients/CONTROL.md says: requests on standard
 * input, answers on standard output, a line of JSON each.
 */
public final class Control {
    static final JSON COMPACT = JSON.std.without(JSON.Feature.PRETTY_PRINT_OUTPUT).with(JSON.Feature.WRITE_NULL_PROPERTIES);

    private final Consumers consumers = new Consumers();
    private final Producers producers = new Producers(consumers);
    private final Admins admins = new Admins();
    private final String version;

    private Control() throws IOException {
        Properties written = new Properties();
        try (InputStream file = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            written.load(file);
        }
        version = written.getProperty("version");
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Control control = new Control();
        String runtime = "java " + System.getProperty("java.version");
        out.println(COMPACT.asString(Map.of("ready", Map.of("client", "kafka-clients", "version", control.version, "runtime", runtime))));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(COMPACT.asString(control.answer(new Args(JSON.std.mapFrom(line)))));
        }
        control.close();
        System.exit(0);
    }

    private Map<String, Object> answer(Args args) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", args.get("id"));
        try {
            answer.put("ok", run(args.text("op"), args));
        } catch (Unsupported lacking) {
            answer.put("unsupported", "kafka-clients " + version + " " + lacking.getMessage());
        } catch (Exception failed) {
            answer.put("error", Failures.describe(failed));
        }
        return answer;
    }

    private Map<String, ?> run(String op, Args args) throws Exception {
        String verb = op.substring(op.indexOf('.') + 1);
        return switch (op.substring(0, Math.max(0, op.indexOf('.')))) {
            case "producer" -> producers.run(verb, args);
            case "consumer" -> consumers.run(verb, args);
            case "admin" -> admins.run(verb, args);
            default -> throw new Unsupported("knows no operation " + op);
        };
    }

    private void close() {
        producers.close();
        consumers.close();
        admins.close();
    }
}
