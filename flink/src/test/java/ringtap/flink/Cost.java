package ringtap.flink;

import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * What an event costs in a TaskManager: CPU time of each operator's thread, over records that the example storm of
 * ringtap-wasm wrote, after a first half that warms the JVM up. Not a test: `scripts/flink-cost`.
 */
final class Cost {
    private static final int LEVELS = 3;
    private static final AtomicLong PASSED = new AtomicLong();
    private static final AtomicLong LINES = new AtomicLong();

    private Cost() {}

    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[0]);
        byte[] first = Files.readString(Path.of(arguments[1])).strip().getBytes(StandardCharsets.UTF_8);
        long records;
        try (var lines = Files.lines(file)) {
            records = lines.count();
        }
        Path folder = Files.createTempDirectory("ringtap-cost");
        Configuration configuration = new Configuration();
        configuration.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        environment.enableCheckpointing(1000);
        environment.disableOperatorChaining();
        DataStream<SensorRecord> source = environment
                .fromSequence(0, records - 1)
                .map(new Lines(file.toString()))
                .returns(TypeInformation.of(SensorRecord.class));
        DataStream<byte[]> none = environment
                .fromData(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, first)
                .setParallelism(1);
        Topology topology = new Topology(source, none, LEVELS, 32 << 20, List.of(first));
        topology.lines.map(line -> LINES.incrementAndGet()).returns(Types.LONG).sinkTo(new DiscardingSink<>());
        topology.asides.sinkTo(new DiscardingSink<>());
        JobClient job = environment.executeAsync("cost");
        while (PASSED.get() < records / 2) {
            Thread.sleep(5);
        }
        long from = PASSED.get();
        Map<String, Long> before = cpu();
        while (PASSED.get() < records - records / 20) {
            Thread.sleep(5);
        }
        long events = PASSED.get() - from;
        Map<String, Long> after = cpu();
        double sum = 0;
        for (String operator : List.of("intake", "level 0", "level 1", "level 2")) {
            double us = (after.get(operator) - before.get(operator)) / 1e3 / events;
            sum += us;
            System.out.printf("%-8s %6.2f us of CPU per record%n", operator, us);
        }
        System.out.printf("%-8s %6.2f us of CPU per record, %d records%n", "all", sum, events);
        job.getJobExecutionResult().get();
        System.out.printf("%d lines of all%n", LINES.get());
    }

    /** CPU time of the operators' threads, ns. */
    private static Map<String, Long> cpu() {
        var threads = ManagementFactory.getThreadMXBean();
        Map<String, Long> times = new TreeMap<>();
        for (long id : threads.getAllThreadIds()) {
            var info = threads.getThreadInfo(id);
            String name = info == null ? "" : info.getThreadName();
            for (String operator : List.of("intake", "level 0", "level 1", "level 2")) {
                if (name.startsWith(operator)) {
                    times.merge(operator, threads.getThreadCpuTime(id), Long::sum);
                }
            }
        }
        return times;
    }

    /** The lines of a file, one for each element. */
    private static final class Lines implements MapFunction<Long, SensorRecord> {
        private static final long serialVersionUID = 1L;

        private final String file;
        private transient BufferedReader reader;

        Lines(String file) {
            this.file = file;
        }

        @Override
        public SensorRecord map(Long number) throws Exception {
            if (reader == null) {
                reader = Files.newBufferedReader(Path.of(file));
            }
            String[] parts = reader.readLine().split("\t", 3);
            PASSED.incrementAndGet();
            long receivedMs = Long.parseLong(parts[1]) / 1_000_000;
            return new SensorRecord(parts[0], receivedMs, parts[2].getBytes(StandardCharsets.UTF_8));
        }
    }
}
