package ringtap.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The job between topics of a real broker: each incident once, also when the broker is killed while windows are open. */
class KafkaTest {
    private static final Path VECTORS = Path.of("../crates/ringtap-wasm/tests/vectors");
    private static final Duration PATIENCE = Duration.ofSeconds(150);

    private Path folder;

    @BeforeEach
    void makeFolder() throws Exception {
        folder = Folders.make();
    }

    @Test
    void aBrokerThatIsKilledInMidWindowChangesNothing() throws Exception {
        List<SensorRecord> records = new ArrayList<>(records("storm.records"));
        int half = records.size() / 2;
        List<SensorRecord> rest = new ArrayList<>(records.subList(half, records.size()));
        rest.addAll(records("storm.end"));
        List<String> expected = Files.readAllLines(VECTORS.resolve("storm.incidents"));
        try (Broker broker = new Broker(folder.resolve("kafka"))) {
            broker.start();
            broker.topics(Map.of(
                    "ringtap-alarms", 3, "ringtap-configurations", 1, "ringtap-incidents", 2, "ringtap-asides", 1));
            StreamExecutionEnvironment environment = environment();
            Job.build(environment, parameters(broker.address()));
            JobClient job = environment.executeAsync("test");
            broker.send("ringtap-alarms", records.subList(0, half));
            List<String> before = committed(broker, expected.size() / 4);
            assertTrue(before.size() < expected.size(), "no window was open");
            broker.kill();
            Thread.sleep(1000);
            broker.start();
            broker.send("ringtap-alarms", rest);
            committed(broker, expected.size());
            // What a restart would tell a second time would come now.
            Thread.sleep(2000);
            List<String> told = committed(broker, expected.size());
            assertEquals(String.join("\n", expected), String.join("\n", told.stream().sorted().toList()));
            assertTrue(!job.getJobStatus().get().isGloballyTerminalState(), "it ended");
            job.cancel().get();
        }
    }

    /** A listener within TLS that asks for a password: what clients need for it is in a file. */
    @Test
    void aBrokerBehindTlsTakesWhatTheFileHas() throws Exception {
        String password = "p3nc1l-p3nc1l";
        Path keystore = folder.toAbsolutePath().resolve("broker.p12");
        Process keytool = new ProcessBuilder(
                        "keytool", "-genkeypair", "-keyalg", "EC", "-alias", "broker", "-dname", "CN=localhost",
                        "-ext", "san=dns:localhost", "-validity", "2", "-storetype", "PKCS12",
                        "-keystore", keystore.toString(), "-storepass", password)
                .redirectErrorStream(true)
                .start();
        String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, keytool.waitFor(), said);
        List<String> settings = List.of(
                "security.protocol=SASL_SSL",
                "sasl.mechanism=PLAIN",
                "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"job\" password=\""
                        + password + "\";",
                "ssl.truststore.type=PKCS12",
                "ssl.truststore.location=" + keystore,
                "ssl.truststore.password=" + password);
        Path properties = Files.write(folder.resolve("kafka.properties"), settings);
        List<SensorRecord> records = new ArrayList<>(records("storm.records"));
        records.addAll(records("storm.end"));
        List<String> expected = Files.readAllLines(VECTORS.resolve("storm.incidents"));
        try (Broker broker = Broker.withTls(folder.resolve("kafka"), keystore, "job", password)) {
            broker.start();
            broker.topics(Map.of(
                    "ringtap-alarms", 1, "ringtap-configurations", 1, "ringtap-incidents", 1, "ringtap-asides", 1));
            StreamExecutionEnvironment environment = environment();
            Job.build(environment, parameters(
                    broker.tlsAddress(), "--kafka-properties", properties.toString(), "--group", "second"));
            JobClient job = environment.executeAsync("test");
            broker.send("ringtap-alarms", records);
            assertEquals(expected, committed(broker, expected.size()).stream().sorted().toList());
            job.cancel().get();
        }
    }

    /** Where no checkpoint says where to go on, the job begins where it is told to. */
    @Test
    void recordsBeforeTheTimeThatIsNamedAreNotRead() throws Exception {
        List<SensorRecord> records = records("storm.records");
        long sinceMs = records.get(records.size() / 2).receivedMs();
        try (Broker broker = new Broker(folder.resolve("kafka"))) {
            broker.start();
            broker.topics(Map.of(
                    "ringtap-alarms", 1, "ringtap-configurations", 1, "ringtap-incidents", 1, "ringtap-asides", 1));
            broker.send("ringtap-alarms", records);
            broker.send("ringtap-alarms", records("storm.end"));
            StreamExecutionEnvironment environment = environment();
            Job.build(environment, parameters(broker.address(), "--since-ms", Long.toString(sinceMs)));
            JobClient job = environment.executeAsync("test");
            // Those of the end come with the last heartbeats.
            List<String> told = committed(broker, 50);
            for (String line : told) {
                var time = java.util.regex.Pattern.compile("\"(opened|closed|time|at)_ns\":(\\d+)").matcher(line);
                assertTrue(time.find() && Long.parseLong(time.group(2)) / 1_000_000 > sinceMs - 10_000, line);
            }
            job.cancel().get();
        }
    }

    @Test
    void rulesThatTheJobCannotRunAreNamed() {
        var refused = assertThrows(
                IllegalStateException.class,
                () -> Job.build(environment(), parameters("127.0.0.1:1", "--levels", "1")));
        assertTrue(refused.getMessage().contains("this job has 1: start it with --levels"), refused.getMessage());
    }

    @Test
    void aBrokerThatIsNotThereIsNamed() {
        var refused = assertThrows(
                IllegalArgumentException.class, () -> Job.build(environment(), parameters("127.0.0.1:1")));
        assertTrue(refused.getMessage().contains("no Kafka answers at 127.0.0.1:1"), refused.getMessage());
    }

    @Test
    void aTopicThatIsNotThereIsNamed() throws Exception {
        try (Broker broker = new Broker(folder.resolve("kafka"))) {
            broker.start();
            broker.topics(Map.of("ringtap-alarms", 1, "ringtap-configurations", 1));
            var refused = assertThrows(
                    IllegalArgumentException.class, () -> Job.build(environment(), parameters(broker.address())));
            assertTrue(refused.getMessage().contains("no topic ringtap-incidents, ringtap-asides"), refused.getMessage());
        }
    }

    /** What is committed once so much is, in no order. */
    private static List<String> committed(Broker broker, int least) throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        List<String> told = List.of();
        while (told.size() < least) {
            assertTrue(System.nanoTime() < until, told.size() + " of " + least + " lines came");
            Thread.sleep(300);
            told = broker.committed("ringtap-incidents");
        }
        return told;
    }

    private ParameterTool parameters(String brokers, String... more) {
        String config = VECTORS.resolve("storm.config").toString();
        List<String> arguments =
                new ArrayList<>(List.of("--kafka", brokers, "--config", config, "--checkpoint-ms", "200"));
        arguments.addAll(List.of(more));
        return ParameterTool.fromArgs(arguments.toArray(new String[0]));
    }

    private StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        configuration.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1000);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(500));
        return StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
    }

    static List<SensorRecord> records(String file) throws Exception {
        List<SensorRecord> records = new ArrayList<>();
        for (String line : Files.readAllLines(VECTORS.resolve(file))) {
            String[] parts = line.split("\t", 3);
            long receivedMs = Long.parseLong(parts[1]) / 1_000_000;
            records.add(new SensorRecord(parts[0], receivedMs, parts[2].getBytes(StandardCharsets.UTF_8)));
        }
        return records;
    }
}
