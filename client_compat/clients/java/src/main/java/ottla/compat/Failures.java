package ottla.compat;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;

/** What the client threw, in Kafka's words. */
final class Failures {
    private Failures() {}

    /** The error as the protocol has it; `fatal` is what KafkaProducer's documentation says a producer cannot go on after. */
    static Map<String, Object> describe(Throwable thrown) {
        Throwable error = cause(thrown);
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("code", code(error));
        described.put("message", error.getMessage());
        described.put("retriable", error instanceof KafkaException ? error instanceof RetriableException : null);
        described.put("fatal", fatal(error) ? true : null);
        described.put("abortable", Versioned.abortable(error));
        return described;
    }

    /** What a future or a plain KafkaException wraps. */
    private static Throwable cause(Throwable error) {
        boolean wraps = error instanceof ExecutionException || error.getClass() == KafkaException.class;
        return wraps && error.getCause() != null ? cause(error.getCause()) : error;
    }

    private static String code(Throwable error) {
        if (error instanceof java.util.concurrent.TimeoutException) {
            return "CLIENT:TIMEOUT";
        }
        Errors known = Errors.forException(error);
        if (error instanceof TimeoutException) {
            return known.message().equals(error.getMessage()) ? known.name() : "CLIENT:TIMEOUT";
        }
        if (error instanceof SslAuthenticationException) {
            return "CLIENT:SslAuthenticationException"; // a table of Kafka's finds only its parent, INVALID_CONFIG
        }
        boolean named = known != Errors.UNKNOWN_SERVER_ERROR || error.getClass() == known.exception().getClass();
        return named ? known.name() : "CLIENT:" + error.getClass().getSimpleName();
    }

    private static boolean fatal(Throwable error) {
        return error instanceof ProducerFencedException
                || error instanceof OutOfOrderSequenceException
                || error instanceof UnsupportedVersionException
                || error instanceof AuthorizationException;
    }
}
