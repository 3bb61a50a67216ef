package ottla.compat;

import java.util.Arrays;
import java.util.List;

/**
 * Does one thing with the Java client and says what it saw: a line "name value" for each observation, on standard output.
 *
 * <p>Arguments: the bootstrap address, what to do, and what that needs. A new scenario is one line here and one method elsewhere.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Client client = new Client(args[0]);
        List<String> rest = Arrays.asList(args).subList(2, args.length);
        switch (args[1]) {
            case "features" -> Transactions.features(client);
            case "commit-and-abort" -> Transactions.commitAndAbort(client, rest.get(0));
            case "fence" -> Transactions.fence(client, rest.get(0));
            case "transform" -> Transactions.transform(client, rest.get(0), rest.get(1), rest.get(2), Integer.parseInt(rest.get(3)));
            case "read-committed" -> Transactions.readCommitted(client, rest.get(0));
            default -> throw new IllegalArgumentException("unknown scenario " + args[1]);
        }
    }

    /** One observation. */
    static void say(String name, Object value) {
        System.out.println(name + " " + value);
    }
}
