package ottla.compat;

/** The client's public API cannot do it; the message goes on after the client's name. */
final class Unsupported extends RuntimeException {
    private static final long serialVersionUID = 1;

    Unsupported(String message) {
        super(message);
    }
}
