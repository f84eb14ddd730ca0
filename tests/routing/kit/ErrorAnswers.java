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
 * For each line "key version code request" the answer of Kafka's own classes when a request fails as a whole, "none" if
 * there is none, or "error" with what went wrong. Requests and answers are bodies, in hexadecimal numbers.
 */
public class ErrorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            ApiKeys api = ApiKeys.forId(Integer.parseInt(words[0]));
            short version = Short.parseShort(words[1]);
            Errors error = Errors.forCode(Short.parseShort(words[2]));
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            AbstractRequest request = AbstractRequest.parseRequest(api, version, new ByteBufferAccessor(body)).request;
            AbstractResponse response = request.getErrorResponse(0, error.exception());
            if (response == null) {
                return "none";
            }
            ByteBuffer answer = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] bytes = new byte[answer.remaining()];
            answer.get(bytes);
            return "answer " + HexFormat.of().formatHex(bytes);
        } catch (Exception | Error thrown) {
            return "error " + thrown;
        }
    }
}
