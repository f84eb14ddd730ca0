import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools in one process: each line of its input is a JSON array, a class and its arguments; each
 * line of its output the JSON of `exit`, and of `output`: all that the tool has written.
 */
public final class Tools {
    /** Ends what a tool does. Some take it for a failure, and exit once more: the first time counts. */
    private static final class Exited extends Error {}

    private static final ByteArrayOutputStream written = new ByteArrayOutputStream();
    private static Map<String, Object> answer;

    private Tools() {}

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            answer(code);
            throw new Exited();
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = json.readValue(line, String[].class);
            answer = null;
            written.reset();
            System.setOut(new PrintStream(written, true));
            System.setErr(System.out);
            run(command[0], Arrays.copyOfRange(command, 1, command.length));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            answer(0);
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
            answer(1);
        }
    }

    private static synchronized void answer(int code) {
        if (answer == null) {
            System.out.flush();
            answer = Map.of("exit", code, "output", written.toString(StandardCharsets.UTF_8));
        }
    }
}
