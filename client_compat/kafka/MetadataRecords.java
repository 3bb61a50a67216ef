import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Random records of a metadata log, of all kinds in all versions, written by Kafka's own classes. A line is: the value as hexadecimal
 * digits, a space, and the record as Kafka's JSON.
 *
 *   java -cp '.kafka/4.4.0/*' client_compat/kafka/MetadataRecords.java SEED RECORDS_OF_EACH > tests/golden/metadata_records.txt
 */
public final class MetadataRecords {
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();
    private final Random random;

    private MetadataRecords(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        MetadataRecords made = new MetadataRecords(Long.parseLong(arguments[0]));
        for (MetadataRecordType kind : MetadataRecordType.values())
            for (short version = kind.lowestSupportedVersion(); version <= kind.highestSupportedVersion(); version++)
                for (int n = 0; n < Integer.parseInt(arguments[1]); n++)
                    System.out.println(line(made.record(kind, version), version));
    }

    private static String line(ApiMessage message, short version) {
        ApiMessageAndVersion record = new ApiMessageAndVersion(message, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        java.nio.ByteBuffer bytes = java.nio.ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(bytes));
        JsonNode json = MetadataJsonConverters.writeJson(message, version);
        return HexFormat.of().formatHex(bytes.array()) + " " + json;
    }

    private ApiMessage record(MetadataRecordType kind, short version) throws Exception {
        ApiMessage message = kind.newMetadataRecord();
        Schema[] schemas = (Schema[]) message.getClass().getField("SCHEMAS").get(null);
        fill(message, schemas[version]);
        return message;
    }

    /** Sets every field that the version has, and of the tagged ones about half. */
    private void fill(Object target, Schema schema) throws Exception {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values())
                    if (random.nextBoolean()) set(target, field);
            } else {
                set(target, bound.def);
            }
        }
    }

    private void set(Object target, Field field) throws Exception {
        StringBuilder name = new StringBuilder("set");
        for (String word : field.name.split("_"))
            name.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
        for (Method method : target.getClass().getMethods())
            if (method.getName().equalsIgnoreCase(name.toString())) {
                boolean isNull = field.type.isNullable() && random.nextInt(4) == 0;
                method.invoke(target, isNull ? null : value(field.type, method.getParameterTypes()[0], method.getGenericParameterTypes()[0]));
                return;
            }
        throw new IllegalStateException(target.getClass() + " has no " + name);
    }

    @SuppressWarnings("unchecked")
    private Object value(org.apache.kafka.common.protocol.types.Type type, Class<?> wanted, Type generic) throws Exception {
        if (type instanceof Schema schema) {
            Object struct = wanted.getConstructor().newInstance();
            fill(struct, schema);
            return struct;
        }
        if (type.isArray()) {
            Collection<Object> many = wanted == List.class ? new ArrayList<>() : (Collection<Object>) wanted.getConstructor().newInstance();
            Type holder = wanted == List.class ? generic : wanted.getGenericSuperclass();
            Class<?> element = (Class<?>) ((ParameterizedType) holder).getActualTypeArguments()[0];
            for (int n = random.nextInt(4); n > 0; n--)
                many.add(value(type.arrayElementType().get(), element, element));
            return many;
        }
        return scalar(type.toString(), wanted);
    }

    private Object scalar(String type, Class<?> wanted) {
        if (wanted == boolean.class) return random.nextBoolean();
        if (wanted == byte.class) return (byte) random.nextInt();
        if (wanted == short.class) return (short) random.nextInt();
        if (type.equals("UINT16")) return random.nextInt(1 << 16);
        if (wanted == int.class || wanted == Integer.class) return random.nextInt(3) == 0 ? random.nextInt() : random.nextInt(10);
        if (wanted == long.class) return random.nextLong();
        if (wanted == double.class) return random.nextDouble() * 1e6;
        if (wanted == String.class) return text();
        if (wanted == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        byte[] bytes = new byte[random.nextInt(20)];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Mostly short, now and then longer than a length of one byte can say, and not ASCII alone. */
    private String text() {
        StringBuilder text = new StringBuilder();
        for (int n = random.nextInt(12) == 0 ? 130 : random.nextInt(9); n > 0; n--)
            text.append("abcxyz-.09éж漢".charAt(random.nextInt(13)));
        return text.toString();
    }
}
