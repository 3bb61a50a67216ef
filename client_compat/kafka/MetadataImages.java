import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * What Kafka's own classes make of metadata logs. A line in is a record's value as hexadecimal digits, or "apply" where a delta ends, or
 * "image" where a log ends. Out come the same lines, and after each "image" the records of the image, each with a space before it.
 *
 *   python -m tests.support.metadata_logs SEED LOGS RECORDS_OF_EACH | java -cp '.kafka/4.3.1/*' client_compat/kafka/MetadataImages.java
 */
public final class MetadataImages {
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta delta = deltaOf(image);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            System.out.println(line);
            if (line.equals("apply") || line.equals("image")) {
                image = delta.apply(MetadataProvenance.EMPTY);
                if (line.equals("image")) {
                    print(image);
                    image = MetadataImage.EMPTY;
                }
                delta = deltaOf(image);
            } else {
                byte[] value = HexFormat.of().parseHex(line);
                delta.replay(SERDE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length).message());
            }
        }
    }

    private static MetadataDelta deltaOf(MetadataImage image) {
        return new MetadataDelta.Builder().setImage(image).build();
    }

    private static void print(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image).build());
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer bytes = ByteBuffer.allocate(SERDE.recordSize(record, cache));
            SERDE.write(record, cache, new ByteBufferAccessor(bytes));
            System.out.println(" " + HexFormat.of().formatHex(bytes.array()));
        }
    }
}
