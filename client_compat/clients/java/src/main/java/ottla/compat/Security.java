package ottla.compat;

import java.util.Map;

/** The argument `security`: how a client comes in. */
final class Security {
    private static final String MODULES = "org.apache.kafka.common.security.";

    private Security() {}

    static void add(Map<String, String> given, Map<String, Object> config) {
        if (given.isEmpty()) {
            return;
        }
        config.put("security.protocol", given.get("protocol"));
        if (given.containsKey("ca")) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.location", given.get("ca"));
        }
        if (given.containsKey("certificate")) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", given.get("certificate"));
        }
        String mechanism = given.get("mechanism");
        if (mechanism != null) {
            config.put("sasl.mechanism", mechanism);
            config.put("sasl.jaas.config", module(mechanism, given));
        }
    }

    /** The client makes a bearer's token that nobody signed by itself. */
    private static String module(String mechanism, Map<String, String> given) {
        String user = given.get("user");
        if (mechanism.equals("OAUTHBEARER")) {
            return MODULES + "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"" + user + "\";";
        }
        String name = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return MODULES + name + " required username=\"" + user + "\" password=\"" + given.get("password") + "\";";
    }
}
