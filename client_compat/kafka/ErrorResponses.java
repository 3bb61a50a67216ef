import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * The response that Kafka's {@code AbstractRequest.getErrorResponse} makes of a request. A line of input is
 *
 *   API_KEY VERSION ERROR_CODE REQUEST TEXT
 *
 * with the request's body in hexadecimal and the text of the exception, which may have spaces. A line of output is the response's body in
 * hexadecimal ("=" if it is empty), "-" if Kafka sends no response, "?" if it knows neither API nor version, or "! EXCEPTION" if it fails.
 */
public final class ErrorResponses {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", 5);
            if (!ApiKeys.hasId(Integer.parseInt(parts[0]))) {
                System.out.println("?");
                continue;
            }
            System.out.println(answer(ApiKeys.forId(Integer.parseInt(parts[0])), Short.parseShort(parts[1]),
                Errors.forCode(Short.parseShort(parts[2])), HexFormat.of().parseHex(parts[3]), parts[4]));
        }
    }

    private static String answer(ApiKeys key, short version, Errors error, byte[] body, String text) {
        if (version > key.latestVersion(true)) return "?";
        try {
            AbstractRequest request = AbstractRequest.parseRequest(key, version, new ByteBufferAccessor(ByteBuffer.wrap(body))).request;
            AbstractResponse response = request.getErrorResponse(0, error.exception(text));
            if (response == null) return "-";
            ByteBuffer bytes = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] out = new byte[bytes.remaining()];
            bytes.get(out);
            return out.length == 0 ? "=" : HexFormat.of().formatHex(out);
        } catch (Exception failure) {
            return "! " + failure.getClass().getSimpleName();
        }
    }
}
