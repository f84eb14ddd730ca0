import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Maps names by Kafka's own class: each line has a rule and a name in Base64. Answers with a line each: the principal in Base64, `-` for none, `!` for a rule or a mapping that fails. */
public class PrincipalMapper {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] parts = line.split(" ", -1);
            System.out.println(mapped(decoded(parts[0]), decoded(parts[1])));
        }
    }

    private static String mapped(String rule, String name) {
        try {
            return Base64.getEncoder().encodeToString(SslPrincipalMapper.fromRules(rule).getName(name).getBytes(StandardCharsets.UTF_8)) + ".";
        } catch (SslPrincipalMapper.NoMatchingRule noMatch) {
            return "-";
        } catch (Exception | StackOverflowError failure) {
            return "!";
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }
}
