import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;

/** Kafka's own administrator describes or deletes a streams group. Arguments: bootstrap servers, describe or delete, group. */
public final class Groups {
    private Groups() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        List<String> groups = List.of(arguments[2]);
        try (Admin admin = Admin.create(properties)) {
            if (arguments[1].equals("delete")) {
                admin.deleteStreamsGroups(groups).all().get();
                System.out.println("deleted");
                return;
            }
            DescribeStreamsGroupsOptions options = new DescribeStreamsGroupsOptions().includeTopologyDescription(true);
            StreamsGroupDescription found = admin.describeStreamsGroups(groups, options).all().get().get(arguments[2]);
            System.out.println(found.topologyDescriptionStatus());
            System.out.println(found.topologyDescription().map(Object::toString).orElse("none"));
        } catch (ExecutionException problem) {
            System.out.println(problem.getCause().getClass().getSimpleName());
        }
    }
}
