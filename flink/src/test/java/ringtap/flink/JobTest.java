package ringtap.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * The job in a cluster inside this process tells what `ringtap correlate` tells of the same alarms, to the byte: the vectors
 * of crates/ringtap-wasm. Incidents are told again after a crash, with the same bytes; a transaction of Kafka's would hide that.
 */
class JobTest {
    private static final Path VECTORS = Path.of("../crates/ringtap-wasm/tests/vectors");
    private static final int LEVELS = 3;
    /** Bytes: two states or so, the others are put away. */
    private static final int ROOM = 1000;

    /** What the tasks, which are threads of this process, have told and done. */
    private static final Queue<String> LINES = new ConcurrentLinkedQueue<>();

    private static final Queue<String> ASIDES = new ConcurrentLinkedQueue<>();
    private static final Queue<byte[]> CHANGES = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger PASSED = new AtomicInteger();
    private static final AtomicInteger CRASHES = new AtomicInteger();
    /** Records wait until a configuration came so far that only those who run rules lack it. */
    private static final AtomicBoolean WAITS = new AtomicBoolean();

    /** For checkpoints. It stays: when a job has ended the cluster is still busy in it. */
    private Path folder;

    @BeforeEach
    void forget() throws Exception {
        folder = Folders.make();
        LINES.clear();
        ASIDES.clear();
        CHANGES.clear();
        PASSED.set(0);
        CRASHES.set(0);
        WAITS.set(false);
        Gauges.forget();
    }

    @Test
    void crashesCopiesAndOtherOrdersChangeNothing() throws Exception {
        CRASHES.set(2);
        start(mixed(7), 2, null).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        assertEquals(0, CRASHES.get(), "crashes that did not happen");
        assertTrue(Gauges.last("ringtapWanted") > 100, "nearly all states had room");
        assertTheSame();
    }

    @Test
    void rescalingFromSavepointsChangesNothing() throws Exception {
        List<SensorRecord> records = mixed(8);
        String savepoint = null;
        for (int parallelism : new int[] {2, 3}) {
            int from = PASSED.get();
            JobClient job = start(records, parallelism, savepoint);
            while (PASSED.get() < from + records.size() / 3) {
                assertTrue(!job.getJobStatus().get().isGloballyTerminalState(), "it ended early");
                Thread.sleep(10);
            }
            // Asked for before the end, as the cluster goes with its job.
            var ended = job.getJobExecutionResult();
            savepoint = job.stopWithSavepoint(false, folder.toUri().toString(), SavepointFormatType.CANONICAL)
                    .get(60, TimeUnit.SECONDS);
            ended.get(60, TimeUnit.SECONDS);
        }
        start(records, 1, savepoint).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        assertEquals(records.size(), PASSED.get(), "records that were read");
        assertTheSame();
    }

    /** Rules take another way than events: those that are slower change nothing, and stop nothing. */
    @Test
    void rulesThatComeLaterThanTheirEventsChangeNothing() throws Exception {
        byte[] others = configuration(
                "\"rules\":{\"z.yml\":\"title: Z\\nname: z\\nlogsource: {product: suricata}\\n"
                        + "detection: {s: {alert.signature_id: 99}, condition: s}\\n\"},"
                        + "\"sensors\":{\"north\":null,\"south\":null,\"web\":2000000000}}");
        List<SensorRecord> records = mixed(9);
        StreamExecutionEnvironment environment = environment(2, null);
        WAITS.set(true);
        // Before the first event.
        byte[] rules = configuration("\"from_ns\":1600000000000000000," + new String(storm()).substring(1));
        Topology topology = new Topology(
                paced(environment, records),
                Topology.told(configurations(environment, List.of(rules))),
                timeless -> timeless.map(new Slowly()).returns(Broadcast.class).uid("slowly").setParallelism(1),
                LEVELS,
                ROOM,
                List.of(others));
        run(environment, topology).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        assertEquals(records.size(), PASSED.get(), "the job began again");
        assertTrue(Gauges.most("ringtapWaiting") > 0, "nothing had to wait");
        assertTheSame();
    }

    /** A version whose windows are over is forgotten, by the module and in checkpoints. */
    @Test
    void oldConfigurationsGo() throws Exception {
        List<SensorRecord> records = mixed(10);
        StreamExecutionEnvironment environment = environment(2, null);
        byte[] second = configuration("\"from_ns\":1700000060000000000," + new String(storm()).substring(1));
        Topology topology = new Topology(
                paced(environment, records),
                configurations(environment, List.of(second)),
                LEVELS,
                ROOM,
                List.of(storm()));
        run(environment, topology).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        assertEquals(2, Gauges.most("ringtapVersions"), "versions at first");
        assertEquals(1, Gauges.last("ringtapVersions"), "versions in the end");
        assertTheSame();
    }

    /** Rules of another meaning that come with a savepoint, while windows are open, do what they do when they are there from the start. */
    @Test
    void rulesThatChangeFromASavepointOnChangeWhatTheyShould() throws Exception {
        List<SensorRecord> records = mixed(11);
        long change = 1_700_000_200_000_000_000L;
        String storm = new String(storm());
        String others = storm.replace("condition: {gte: 3}}", "condition: {gte: 2}}");
        assertTrue(!others.equals(storm), "nothing was changed");
        byte[] second = configuration("\"from_ns\":" + change + "," + others.substring(1));
        CHANGES.add(second);
        later(records, 2, null, storm()).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        TreeSet<String> expected = new TreeSet<>(LINES);
        assertTrue(!expected.equals(new TreeSet<>(Files.readAllLines(VECTORS.resolve("storm.incidents")))), "no change");
        LINES.clear();
        PASSED.set(0);
        // The same again changes nothing.
        CHANGES.add(storm());
        JobClient job = later(records, 2, null, storm());
        while (PASSED.get() < records.size() / 5) {
            assertTrue(!job.getJobStatus().get().isGloballyTerminalState(), "it ended early");
            Thread.sleep(10);
        }
        var ended = job.getJobExecutionResult();
        String savepoint = job.stopWithSavepoint(false, folder.toUri().toString(), SavepointFormatType.CANONICAL)
                .get(60, TimeUnit.SECONDS);
        ended.get(60, TimeUnit.SECONDS);
        // What it was started with was changed where it stood, too: that is refused, and what there was goes on.
        CHANGES.add(second);
        later(records, 3, savepoint, configuration(others.substring(1)))
                .getJobExecutionResult()
                .get(100, TimeUnit.SECONDS);
        assertTrue(CHANGES.isEmpty(), "a configuration was not taken");
        assertEquals(records.size(), PASSED.get(), "records that were read");
        assertEquals(String.join("\n", expected), String.join("\n", new TreeSet<>(LINES)));
    }

    /** One partition is read to its end before the next is begun. */
    @Test
    void aPartitionInBacklogChangesNothing() throws Exception {
        List<SensorRecord> records = new ArrayList<>();
        for (String sensor : List.of("web", "south", "north")) {
            KafkaTest.records("storm.records").stream().filter(it -> it.sensor().equals(sensor)).forEach(records::add);
        }
        records.add(records.get(records.size() - 2));
        start(records, 2, null).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        assertTheSame();
    }

    @Test
    void whatComesLateOrIsOfTheFutureGoesAside() throws Exception {
        List<SensorRecord> records = new ArrayList<>(KafkaTest.records("storm.records"));
        records.addAll(KafkaTest.records("storm.end"));
        long last = records.get(records.size() - 1).receivedMs();
        for (long timeNs : new long[] {1_700_000_000_000_000_000L, (last + 3_600_000) * 1_000_000}) {
            String value = "{\"time\":" + timeNs
                    + ",\"sensor\":\"web\",\"alert\":{\"signature_id\":1},\"src_ip\":\"192.0.2.1\",\"dest_port\":80}";
            records.add(new SensorRecord("web", last, value.getBytes(StandardCharsets.UTF_8)));
        }
        start(records, 2, null).getJobExecutionResult().get(100, TimeUnit.SECONDS);
        List<String> expected = Files.readAllLines(VECTORS.resolve("storm.incidents"));
        assertEquals(String.join("\n", expected), String.join("\n", new TreeSet<>(LINES)));
        for (String why : List.of("\"why\":\"late: ", "\"why\":\"future\"")) {
            assertTrue(ASIDES.stream().anyMatch(aside -> aside.contains(why)), why + " in " + ASIDES);
        }
        assertTrue(Gauges.last("ringtapAsides") > 0 && Gauges.last("ringtapLines") > 0, "what is counted");
    }

    private static void assertTheSame() throws Exception {
        List<String> expected = Files.readAllLines(VECTORS.resolve("storm.incidents"));
        assertEquals(String.join("\n", expected), String.join("\n", new TreeSet<>(LINES)));
        for (String aside : ASIDES) {
            assertTrue(aside.contains("\"why\":\"duplicate") || aside.contains("\"why\":\"lost\""), aside);
        }
        assertTrue(ASIDES.stream().anyMatch(aside -> aside.contains("duplicate")), "no copy was noticed");
    }

    private static byte[] storm() throws Exception {
        return configuration(Files.readString(VECTORS.resolve("storm.config")).strip().substring(1));
    }

    private static byte[] configuration(String behindTheBrace) {
        return ("{" + behindTheBrace).getBytes(StandardCharsets.UTF_8);
    }

    private JobClient start(List<SensorRecord> records, int parallelism, String savepoint) throws Exception {
        StreamExecutionEnvironment environment = environment(parallelism, savepoint);
        // A change that no event is for: it reaches all, and changes nothing.
        byte[] later = configuration("\"from_ns\":" + Long.MAX_VALUE + "," + new String(storm()).substring(1));
        Topology topology = new Topology(
                paced(environment, records), configurations(environment, List.of(later)), LEVELS, ROOM, List.of(storm()));
        return run(environment, topology);
    }

    /** With configurations that come while it runs: those in {@link #CHANGES}. */
    private JobClient later(List<SensorRecord> records, int parallelism, String savepoint, byte[] first) throws Exception {
        StreamExecutionEnvironment environment = environment(parallelism, savepoint);
        // As long as records come, and a little longer.
        DataStream<byte[]> changes = environment
                .fromSequence(0, 300)
                .uid("turns")
                .setParallelism(1)
                .flatMap(new Changes())
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .uid("changes")
                .setParallelism(1);
        return run(environment, new Topology(paced(environment, records), changes, LEVELS, ROOM, List.of(first)));
    }

    private StreamExecutionEnvironment environment(int parallelism, String savepoint) {
        Configuration configuration = new Configuration();
        configuration.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(50));
        configuration.setString("metrics.reporters", "gauges");
        configuration.setString("metrics.reporter.gauges.factory.class", Gauges.class.getName());
        configuration.setString("metrics.reporter.gauges.interval", "20 MILLISECONDS");
        if (savepoint != null) {
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint);
        }
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        environment.enableCheckpointing(100);
        return environment;
    }

    private static DataStream<SensorRecord> paced(StreamExecutionEnvironment environment, List<SensorRecord> records) {
        return environment
                .fromData(TypeInformation.of(SensorRecord.class), records.toArray(new SensorRecord[0]))
                .uid("records")
                .setParallelism(1)
                .map(new Pace())
                .returns(TypeInformation.of(SensorRecord.class))
                .uid("pace")
                .setParallelism(1);
    }

    private static DataStream<byte[]> configurations(StreamExecutionEnvironment environment, List<byte[]> all) {
        return environment
                .fromData(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, all.toArray(new byte[0][]))
                .uid("configurations")
                .setParallelism(1);
    }

    private static JobClient run(StreamExecutionEnvironment environment, Topology topology) throws Exception {
        topology.lines.map(new Keep(true)).returns(Types.STRING).uid("lines").sinkTo(new DiscardingSink<>());
        topology.asides.map(new Keep(false)).returns(Types.STRING).uid("asides").sinkTo(new DiscardingSink<>());
        return environment.executeAsync("test");
    }

    /** The records in another order of the sensors, each keeping its own, as its partition does; one numbered in 50 twice. */
    private static List<SensorRecord> mixed(long seed) throws Exception {
        Random random = new Random(seed);
        Map<String, Deque<SensorRecord>> bySensor = new TreeMap<>();
        for (SensorRecord record : KafkaTest.records("storm.records")) {
            String value = new String(record.value(), StandardCharsets.UTF_8);
            int copies = value.contains("\"sequence\"") && random.nextInt(50) == 0 ? 2 : 1;
            for (int copy = 0; copy < copies; copy++) {
                bySensor.computeIfAbsent(record.sensor(), name -> new ArrayDeque<>()).add(record);
            }
        }
        List<SensorRecord> mixed = new ArrayList<>();
        List<Deque<SensorRecord>> queues = new ArrayList<>(bySensor.values());
        while (!queues.isEmpty()) {
            Deque<SensorRecord> queue = queues.get(random.nextInt(queues.size()));
            mixed.add(queue.remove());
            if (queue.isEmpty()) {
                queues.remove(queue);
            }
        }
        return mixed;
    }

    /** Slow enough for checkpoints in between; fails as often as it is told to, each time after a checkpoint. */
    private static final class Pace implements MapFunction<SensorRecord, SensorRecord>, CheckpointListener {
        private static final long serialVersionUID = 1L;

        private transient int checkpoints;
        private transient int seen;

        @Override
        public SensorRecord map(SensorRecord record) throws Exception {
            PASSED.incrementAndGet();
            while (WAITS.get()) {
                Thread.sleep(10);
            }
            Thread.sleep(6);
            seen++;
            if (checkpoints > 0 && seen > 50 && CRASHES.get() > 0) {
                CRASHES.decrementAndGet();
                throw new IllegalStateException("a crash that the test asked for");
            }
            return record;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            checkpoints++;
        }
    }

    /** Half a second for intake to have it, then two seconds of records before anybody else does. */
    private static final class Slowly implements MapFunction<Broadcast, Broadcast> {
        private static final long serialVersionUID = 1L;

        @Override
        public Broadcast map(Broadcast told) throws Exception {
            Thread.sleep(500);
            WAITS.set(false);
            Thread.sleep(2000);
            return told;
        }
    }

    private static final class Changes implements FlatMapFunction<Long, byte[]> {
        private static final long serialVersionUID = 1L;

        @Override
        public void flatMap(Long turn, Collector<byte[]> out) throws Exception {
            Thread.sleep(20);
            byte[] change = CHANGES.poll();
            if (change != null) {
                out.collect(change);
            }
        }
    }

    private static final class Keep implements MapFunction<String, String>, Serializable {
        private static final long serialVersionUID = 1L;

        private final boolean isLine;

        Keep(boolean isLine) {
            this.isLine = isLine;
        }

        @Override
        public String map(String text) {
            (isLine ? LINES : ASIDES).add(text);
            return text;
        }
    }
}
