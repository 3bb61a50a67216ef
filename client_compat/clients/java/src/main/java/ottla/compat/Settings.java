package ottla.compat;

import java.util.HashMap;
import java.util.Map;

/** A client's configuration: the protocol's arguments under the client's own names; what is not asked for is left to the client. */
final class Settings {
    private Settings() {}

    static Map<String, Object> of(Args args, Map<String, String> names) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args.text("bootstrap"));
        Security.add(args.texts("security"), config);
        names.forEach((argument, setting) -> {
            if (args.has(argument)) {
                config.put(setting, String.valueOf(args.get(argument)));
            }
        });
        return config;
    }
}
