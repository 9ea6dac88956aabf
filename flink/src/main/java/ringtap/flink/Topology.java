package ringtap.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.Watermark;
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
     * @param first configurations that are there from the beginning
     * @param configurations those that come later
     */
    Topology(DataStream<SensorRecord> records, DataStream<byte[]> configurations, int levels, List<byte[]> first) {
        // A configuration is no event: it holds no watermark back.
        DataStream<byte[]> timeless = configurations.assignTimestampsAndWatermarks(
                WatermarkStrategy.<byte[]>forGenerator(context -> new Always()));
        SingleOutputStreamOperator<String> intake = records.keyBy(SensorRecord::sensor)
                .connect(timeless.broadcast())
                .transform("intake", Types.STRING, new IntakeOperator(levels, first))
                .uid("intake");
        DataStream<String> allLines = intake;
        DataStream<String> allAsides = intake.getSideOutput(Outputs.ASIDE);
        List<SingleOutputStreamOperator<String>> below = new ArrayList<>(List.of(intake));
        for (int level = 0; level < levels; level++) {
            DataStream<Filling> fillings = intake.getSideOutput(Outputs.level(level));
            for (SingleOutputStreamOperator<String> operator : below.subList(1, below.size())) {
                fillings = fillings.union(operator.getSideOutput(Outputs.level(level)));
            }
            SingleOutputStreamOperator<String> step = fillings.keyBy(Filling::key)
                    .connect(timeless.broadcast(Configurations.KEPT))
                    .process(new StepFunction(levels, first), Types.STRING)
                    .name("level " + level)
                    .uid("level-" + level);
            below.add(step);
            allLines = allLines.union(step);
            allAsides = allAsides.union(step.getSideOutput(Outputs.ASIDE));
        }
        lines = allLines;
        asides = allAsides;
    }

    /** As far as time can be. */
    private static final class Always implements WatermarkGenerator<byte[]> {
        @Override
        public void onEvent(byte[] event, long timestamp, WatermarkOutput output) {}

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            output.emitWatermark(new Watermark(Long.MAX_VALUE));
        }
    }
}
