package ringtap.flink;

import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Assumptions;

/** A broker of its own, a process that scripts/kafka starts. */
final class Broker implements AutoCloseable {
    private static final int NOT_RUN = 3;

    private final Path folder;
    private final int port;
    private final List<String> listeners;

    Broker(Path folder) {
        this(folder, freePort(), List.of());
    }

    private Broker(Path folder, int port, List<String> listeners) {
        this.folder = folder;
        this.port = port;
        this.listeners = listeners;
    }

    /** One that has, besides, a listener within TLS that asks for a password. */
    static Broker withTls(Path folder, Path keystore, String user, String password) {
        int port = freePort();
        String of = "listener.name.sasl_ssl.";
        return new Broker(folder, port, List.of(
                "listeners=PLAINTEXT://127.0.0.1:" + port + ",SASL_SSL://127.0.0.1:" + (port + 2)
                        + ",CONTROLLER://127.0.0.1:" + (port + 1),
                "advertised.listeners=PLAINTEXT://127.0.0.1:" + port + ",SASL_SSL://localhost:" + (port + 2),
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms=PLAIN",
                of + "plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_"
                        + user + "=\"" + password + "\";",
                of + "ssl.keystore.type=PKCS12",
                of + "ssl.keystore.location=" + keystore,
                of + "ssl.keystore.password=" + password));
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    /** Where it listens within TLS. */
    String tlsAddress() {
        return "localhost:" + (port + 2);
    }

    void start() throws Exception {
        List<String> start = new ArrayList<>(List.of("start", folder.toString(), Integer.toString(port)));
        start.addAll(listeners);
        int status = script(start.toArray(new String[0]));
        // What is missing on a machine is said by the script; with CI set it is a failure.
        Assumptions.assumeFalse(status == NOT_RUN && System.getenv("CI") == null, "Kafka can't be started here");
        if (status != 0) {
            throw new IllegalStateException("scripts/kafka start: exit " + status + "; see " + folder);
        }
    }

    void kill() throws Exception {
        script("kill", folder.toString());
    }

    @Override
    public void close() throws Exception {
        script("stop", folder.toString());
    }

    private static int script(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of("../scripts/kafka"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command)
                .redirectInput(new File("/dev/null"))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        if (!process.waitFor(150, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IllegalStateException("scripts/kafka " + arguments[0] + " did not end");
        }
        return process.exitValue();
    }

    /** It and the next two are free: the second is the controller's, the third TLS's. */
    private static int freePort() {
        while (true) {
            int port = 4 * ThreadLocalRandom.current().nextInt(5_000, 7_500);
            if (isFree(port) && isFree(port + 1) && isFree(port + 2)) {
                return port;
            }
        }
    }

    private static boolean isFree(int port) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            return true;
        } catch (java.io.IOException taken) {
            return false;
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address());
        return properties;
    }

    void topics(Map<String, Integer> partitions) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        partitions.forEach((name, count) -> topics.add(new NewTopic(name, count, (short) 1)));
        try (Admin admin = Admin.create(properties())) {
            admin.createTopics(topics).all().get(60, TimeUnit.SECONDS);
        }
    }

    /** As a sensor sends: one after the other, under its name, each once. */
    void send(String topic, List<SensorRecord> records) throws Exception {
        Properties properties = properties();
        properties.put("enable.idempotence", "true");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (SensorRecord record : records) {
                byte[] key = ModuleOperator.utf8(record.sensor());
                producer.send(new ProducerRecord<>(topic, null, record.receivedMs(), key, record.value()));
            }
            producer.flush();
        }
    }

    /** The values of a topic that are committed now. */
    List<String> committed(String topic) {
        Properties properties = properties();
        properties.put("isolation.level", "read_committed");
        var bytes = new ByteArrayDeserializer();
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(it -> partitions.add(new TopicPartition(topic, it.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(new String(record.value(), java.nio.charset.StandardCharsets.UTF_8));
                }
            }
        }
        return values;
    }
}
