import org.apache.kafka.common.protocol.ApiKeys;

/** Prints a line for each version of each API: key, name, version, versions of the request and of the response header. */
public class KafkaApis {
    public static void main(String[] arguments) {
        for (ApiKeys api : ApiKeys.values()) {
            for (short version : api.allVersions()) {
                System.out.println(String.join(" ", String.valueOf(api.id), api.name(), String.valueOf(version),
                    String.valueOf(api.requestHeaderVersion(version)), String.valueOf(api.responseHeaderVersion(version))));
            }
        }
    }
}
