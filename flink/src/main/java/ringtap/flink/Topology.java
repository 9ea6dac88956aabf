package ringtap.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;

/** The job between its sources and sinks: intake, and one operator for each level of chains. */
final class Topology {
    /** Incidents and matches, as lines. */
    final DataStream<String> lines;
    /** Events that were not judged, and why. */
    final DataStream<String> asides;

    /**
     * @param levels how many correlations may lie above each other, 1 to 8
     * @param room bytes of memory in which each operator keeps the states that were used last
     * @param first configurations that are there from the beginning
     * @param configurations those that come later
     */
    Topology(DataStream<SensorRecord> records, DataStream<byte[]> configurations, int levels, int room, List<byte[]> first) {
        this(records, told(configurations), UnaryOperator.identity(), levels, room, first);
    }

    /** With another way of configurations to those who run rules. */
    Topology(
            DataStream<SensorRecord> records,
            DataStream<Broadcast> timeless,
            UnaryOperator<DataStream<Broadcast>> way,
            int levels,
            int room,
            List<byte[]> first) {
        SingleOutputStreamOperator<String> intake = records.keyBy(SensorRecord::sensor)
                .connect(timeless.broadcast())
                .transform("intake", Types.STRING, new IntakeOperator(levels, first, room))
                .uid("intake");
        // What sensors could not tell comes with their watermark: whoever has that has it.
        DataStream<Broadcast> told = way.apply(timeless).union(intake.getSideOutput(Outputs.MISSING));
        DataStream<String> allLines = intake;
        DataStream<String> allAsides = intake.getSideOutput(Outputs.ASIDE);
        List<SingleOutputStreamOperator<String>> below = new ArrayList<>(List.of(intake));
        for (int level = 0; level < levels; level++) {
            DataStream<Filling> fillings = intake.getSideOutput(Outputs.level(level));
            for (SingleOutputStreamOperator<String> operator : below.subList(1, below.size())) {
                fillings = fillings.union(operator.getSideOutput(Outputs.level(level)));
            }
            SingleOutputStreamOperator<String> step = fillings.keyBy(Filling::key)
                    .connect(told.broadcast())
                    .transform("level " + level, Types.STRING, new StepOperator(levels, first, room))
                    .uid("level-" + level);
            below.add(step);
            allLines = allLines.union(step);
            allAsides = allAsides.union(step.getSideOutput(Outputs.ASIDE));
        }
        lines = allLines;
        asides = allAsides;
    }

    /** A configuration is no event: it neither holds the watermark back nor moves it. */
    static DataStream<Broadcast> told(DataStream<byte[]> configurations) {
        return configurations
                .map(Broadcast::configuration)
                .returns(Broadcast.class)
                .name("told")
                .uid("told")
                .setParallelism(1)
                .assignTimestampsAndWatermarks(WatermarkStrategy.<Broadcast>forGenerator(context -> new Never()))
                .setParallelism(1);
    }

    /** No time at all. */
    private static final class Never implements WatermarkGenerator<Broadcast> {
        @Override
        public void onEvent(Broadcast told, long timestamp, WatermarkOutput output) {}

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            output.markIdle();
        }
    }
}
