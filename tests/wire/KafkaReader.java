import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own classes, and writes them again as Kafka writes them.
 *
 * In: the number of bytes that follow (4 bytes); 1 for a request with its header, 0 for the body of a response (1 byte);
 * for a response its API key and version (2 bytes each); the bytes of the message.
 *
 * Out: the number of bytes that follow (4 bytes); 0 for a message that Kafka refuses, 2 if it refuses a tag that only
 * another version of the message has, and else: 1; 1 if anything was
 * left out (an unknown tagged field, bytes behind the last field); the position of the body (4 bytes); the length of the
 * client id, -1 for null (4 bytes), and the client id; the body.
 */
public class KafkaReader {
    private static final Map<Class<?>, List<Field>> FIELDS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedInputStream buffered = new BufferedInputStream(System.in, 1 << 16);
        DataInputStream in = new DataInputStream(buffered);
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        for (int first = buffered.read(); first >= 0; first = buffered.read()) {
            byte[] rest = new byte[3];
            in.readFully(rest);
            byte[] data = new byte[first << 24 | (rest[0] & 0xff) << 16 | (rest[1] & 0xff) << 8 | rest[2] & 0xff];
            in.readFully(data);
            answer(ByteBuffer.wrap(data), out);
            if (buffered.available() == 0) {
                out.flush();
            }
        }
        out.flush();
    }

    private static void answer(ByteBuffer data, DataOutputStream out) throws Exception {
        boolean isRequest = data.get() == 1;
        String clientId = null;
        boolean isLossy = false;
        Message message;
        short key, version;
        int start = data.position(), body;
        try {
            if (isRequest) {
                key = data.getShort(start);
                version = data.getShort(start + 2);
                ApiMessageType type = ApiMessageType.fromApiKey(key);
                RequestHeaderData header =
                    new RequestHeaderData(new ByteBufferAccessor(data), type.requestHeaderVersion(version));
                isLossy = clear(header);
                clientId = header.clientId();
                message = type.newRequest();
            } else {
                key = data.getShort();
                version = data.getShort();
                start = data.position();
                message = ApiMessageType.fromApiKey(key).newResponse();
            }
            body = data.position() - start;
            message.read(new ByteBufferAccessor(data), version);
        } catch (RuntimeException refused) {
            out.writeInt(1);
            String reason = String.valueOf(refused.getMessage());
            out.writeByte(reason.startsWith("Tag ") && reason.contains(" is not valid for version ") ? 2 : 0);
            return;
        }
        isLossy |= clear(message) | data.hasRemaining();
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        byte[] name = clientId == null ? new byte[0] : clientId.getBytes(StandardCharsets.UTF_8);
        out.writeInt(10 + name.length + written.position());
        out.writeByte(1);
        out.writeByte(isLossy ? 1 : 0);
        out.writeInt(body);
        out.writeInt(clientId == null ? -1 : name.length);
        out.write(name);
        out.write(written.array(), 0, written.position());
    }

    /** Removes unknown tagged fields from a message and from the messages in it. Returns whether there were any. */
    private static boolean clear(Message message) throws IllegalAccessException {
        boolean any = !message.unknownTaggedFields().isEmpty();
        message.unknownTaggedFields().clear();
        for (Field field : fieldsOf(message.getClass())) {
            Object value = field.get(message);
            if (value instanceof Message inner) {
                any |= clear(inner);
            } else if (value instanceof Collection<?> elements) {
                for (Object element : elements) {
                    any |= element instanceof Message inner && clear(inner);
                }
            }
        }
        return any;
    }

    private static List<Field> fieldsOf(Class<?> type) {
        return FIELDS.computeIfAbsent(type, absent -> {
            List<Field> fields = new ArrayList<>();
            for (Field field : type.getDeclaredFields()) {
                boolean holds = Message.class.isAssignableFrom(field.getType()) || Collection.class.isAssignableFrom(field.getType());
                if (holds && !field.getName().startsWith("_") && !java.lang.reflect.Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.add(field);
                }
            }
            return fields;
        });
    }
}
