import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.LocalReplicaChanges;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicsDelta;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * What Kafka's own classes make of metadata logs. A line in is a record's value as hexadecimal digits, or "apply" where a delta ends, or
 * "image" where a log ends. Out come the same lines; after the end of each delta that has topics a line for each of three brokers, with what it
 * removes, leads, is elected to lead and follows ("@1 t-0 t-1,u-0 t-1 t-2"); and after each "image" the records of the image, each with a
 * space before it.
 *
 *   python -m tests.support.metadata_logs SEED LOGS RECORDS_OF_EACH | java -cp '.kafka/4.4.0/*' client_compat/kafka/MetadataImages.java
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
                printLocalChanges(delta.topicsDelta());
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

    private static void printLocalChanges(TopicsDelta topics) {
        for (int broker = 1; topics != null && broker <= 3; broker++) {
            LocalReplicaChanges local = topics.localChanges(broker);
            System.out.println("@" + broker + named(local.deletes()) + named(local.leaders().keySet())
                + named(local.electedLeaders().keySet()) + named(local.followers().keySet()));
        }
    }

    private static String named(Set<TopicPartition> partitions) {
        return " " + partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
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
