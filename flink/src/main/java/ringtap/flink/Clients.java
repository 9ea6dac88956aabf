package ringtap.flink;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.ParameterTool;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;

/** The job's clients of Kafka: all have the same brokers and settings. */
final class Clients {
    private static final long ASKED_SECONDS = 20;
    private static final String GROUP = "ringtap-correlate";

    private final String brokers;
    private final String group;
    /** What the user has set for all clients. */
    private final Properties settings = new Properties();

    Clients(String brokers, ParameterTool asked) {
        this.brokers = brokers;
        group = asked.get("group", GROUP);
        String file = asked.get("kafka-properties");
        if (file != null) {
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                settings.load(reader);
            } catch (IOException | IllegalArgumentException unreadable) {
                throw new IllegalArgumentException("--kafka-properties " + file + ": " + unreadable, unreadable);
            }
        }
    }

    /** Says which of these topics there are not, or that nobody answers. */
    void expectTopics(List<String> topics) throws InterruptedException {
        Properties properties = new Properties();
        properties.putAll(settings);
        properties.put("bootstrap.servers", brokers);
        try (Admin admin = Admin.create(properties)) {
            var known = admin.listTopics().names().get(ASKED_SECONDS, TimeUnit.SECONDS);
            List<String> missing = topics.stream().filter(topic -> !known.contains(topic)).toList();
            if (!missing.isEmpty()) {
                throw new IllegalArgumentException("Kafka at " + brokers + " has no topic " + String.join(", ", missing)
                        + ": make it (kafka-topics --create), or name another one");
            }
        } catch (ExecutionException | TimeoutException unreachable) {
            throw new IllegalArgumentException(
                    "no Kafka answers at " + brokers + " within " + ASKED_SECONDS
                            + " s: is --kafka right, does it run, and does it want other --kafka-properties (TLS, a password)?",
                    unreachable);
        }
    }

    /** Records that were received at this time or later; where an offset is gone, the first that there is, never the end. */
    record Since(long ms) implements OffsetsInitializer {
        @Override
        public Map<TopicPartition, Long> getPartitionOffsets(
                Collection<TopicPartition> partitions, PartitionOffsetsRetriever retriever) {
            return OffsetsInitializer.timestamp(ms).getPartitionOffsets(partitions, retriever);
        }

        @Override
        public OffsetResetStrategy getAutoOffsetResetStrategy() {
            return OffsetResetStrategy.EARLIEST;
        }
    }

    <T> KafkaSource<T> source(String topic, OffsetsInitializer from, KafkaRecordDeserializationSchema<T> schema) {
        return KafkaSource.<T>builder()
                .setProperties(settings)
                .setBootstrapServers(brokers)
                .setTopics(topic)
                .setGroupId(group)
                .setStartingOffsets(from)
                .setDeserializer(schema)
                .build();
    }

    KafkaSink<String> sink(String topic, DeliveryGuarantee guarantee) {
        // Two jobs whose transactions have one name end each other's.
        String transactions = group.equals(GROUP) ? "ringtap-" : "ringtap-group/" + group + "/";
        return KafkaSink.<String>builder()
                .setKafkaProducerConfig(settings)
                .setBootstrapServers(brokers)
                .setDeliveryGuarantee(guarantee)
                .setTransactionalIdPrefix(transactions + topic)
                // Brokers allow 15 minutes at most where they are not told otherwise.
                .setProperty("transaction.timeout.ms", "600000")
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(topic)
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
    }
}
