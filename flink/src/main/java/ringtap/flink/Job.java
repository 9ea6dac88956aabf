package ringtap.flink;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * The correlator as a job: records of sensors and configurations from Kafka, incidents to Kafka, exactly once.
 *
 * <pre>
 * --kafka HOST:PORT[,…]   brokers
 * --kafka-properties FILE settings of Kafka's clients (security.protocol=…); what is secret stands there, not in the command
 * --config FILE           configurations that are there from the beginning, one JSON object a line
 * --records TOPIC         of sensors (ringtap-alarms); the key is the sensor's name
 * --configs TOPIC         configurations (ringtap-configurations); one partition
 * --incidents TOPIC       where incidents go (ringtap-incidents); who reads it reads what is committed only
 * --asides TOPIC          where events go that were not judged (ringtap-asides)
 * --since-ms T            where no checkpoint says where to go on: the first records that are read, received at that time or
 *                         later, milliseconds since 1970 (all that the topic has)
 * --group NAME            consumer group, and what transactions are named after (ringtap-correlate): another one for a second job
 * --levels N              correlations above each other, 1 to 8 (3)
 * --states-mib N          memory in which each instance of intake and of a level keeps what was used last, 0 to 256 (32)
 * --checkpoint-ms N       from one checkpoint, and so from one commit of incidents, to the next (1000)
 * </pre>
 */
public final class Job {
    private static final int MOST_LEVELS = 8;
    private static final int MOST_STATES_MIB = 256;

    private Job() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        build(environment, ParameterTool.fromArgs(arguments));
        environment.execute("ringtap correlate");
    }

    /** The job that is asked for; what can't be is said here, before anything runs. */
    static void build(StreamExecutionEnvironment environment, ParameterTool asked) throws Exception {
        String brokers = asked.getRequired("kafka");
        int levels = asked.getInt("levels", 3);
        if (levels < 1 || levels > MOST_LEVELS) {
            throw new IllegalArgumentException("--levels " + levels + ": expected 1 to " + MOST_LEVELS);
        }
        int states = asked.getInt("states-mib", 32);
        if (states < 0 || states > MOST_STATES_MIB) {
            throw new IllegalArgumentException("--states-mib " + states + ": expected 0 to " + MOST_STATES_MIB);
        }
        List<byte[]> first = configurations(Path.of(asked.getRequired("config")), levels);
        String records = asked.get("records", "ringtap-alarms");
        String configs = asked.get("configs", "ringtap-configurations");
        String incidents = asked.get("incidents", "ringtap-incidents");
        String asides = asked.get("asides", "ringtap-asides");
        Clients clients = new Clients(brokers, asked);
        clients.expectTopics(List.of(records, configs, incidents, asides));

        environment.enableCheckpointing(asked.getLong("checkpoint-ms", 1000));
        OffsetsInitializer since = asked.has("since-ms")
                ? new Clients.Since(asked.getLong("since-ms"))
                : OffsetsInitializer.earliest();
        KafkaSource<SensorRecord> source = clients.source(records, since, new Records());
        KafkaSource<byte[]> changes = clients.source(configs, OffsetsInitializer.earliest(), new Values());
        Topology topology = new Topology(
                environment.fromSource(source, WatermarkStrategy.noWatermarks(), "records").uid("records"),
                environment.fromSource(changes, WatermarkStrategy.noWatermarks(), "configurations")
                        .uid("configurations")
                        .setParallelism(1),
                levels,
                states << 20,
                first);
        topology.lines.sinkTo(clients.sink(incidents, DeliveryGuarantee.EXACTLY_ONCE)).uid("incidents");
        topology.asides.sinkTo(clients.sink(asides, DeliveryGuarantee.AT_LEAST_ONCE)).uid("asides");
    }

    private static List<byte[]> configurations(Path file, int levels) throws Exception {
        List<byte[]> configurations = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank()) {
                configurations.add(line.getBytes(StandardCharsets.UTF_8));
            }
        }
        // What is wrong with them is said here, not by each task.
        Correlation correlation = new Correlation();
        configurations.forEach(configuration -> correlation.call(Broadcast.CONFIGURE, configuration, levels));
        return configurations;
    }

    /** Key, time and value of a record. */
    private static final class Records implements KafkaRecordDeserializationSchema<SensorRecord> {
        private static final long serialVersionUID = 1L;

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<SensorRecord> out) {
            byte[] key = record.key() == null ? new byte[0] : record.key();
            byte[] value = record.value() == null ? new byte[0] : record.value();
            String sensor = new String(key, StandardCharsets.UTF_8);
            out.collect(new SensorRecord(sensor, record.timestamp(), value));
        }

        @Override
        public TypeInformation<SensorRecord> getProducedType() {
            return TypeInformation.of(SensorRecord.class);
        }
    }

    private static final class Values implements KafkaRecordDeserializationSchema<byte[]> {
        private static final long serialVersionUID = 1L;

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<byte[]> out) {
            if (record.value() != null) {
                out.collect(record.value());
            }
        }

        @Override
        public TypeInformation<byte[]> getProducedType() {
            return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        }
    }
}
