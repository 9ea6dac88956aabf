package ringtap.flink;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.OutputTag;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/**
 * Records of sensors, keyed by sensor, into events for rules; and the watermark, which is what the sensors of this instance
 * promise. It is an operator as functions can't send watermarks: the least promise of an instance's sensors is that of its
 * keys, however the broker's partitions are spread, and Flink takes the least of all instances.
 */
final class IntakeOperator extends AbstractStreamOperator<String>
        implements TwoInputStreamOperator<SensorRecord, byte[], String> {
    private static final long serialVersionUID = 1L;

    private final int levels;
    private final List<byte[]> first;
    private transient Correlation correlation;
    private transient List<OutputTag<Filling>> tags;
    private transient Outputs outputs;
    private transient ValueState<byte[]> kept;
    private transient BroadcastState<Integer, byte[]> configurations;
    private transient ListState<byte[]> promises;

    IntakeOperator(int levels, List<byte[]> first) {
        this.levels = levels;
        this.first = first;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        configurations = context.getOperatorStateStore().getBroadcastState(Configurations.KEPT);
        promises = context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("promises", bytes));
        correlation = new Correlation();
        for (byte[] promised : promises.get()) {
            correlation.call("restore", promised);
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        tags = Outputs.levels(levels);
        outputs = new Outputs(getMetricGroup());
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        kept = getRuntimeContext().getState(new ValueStateDescriptor<>("sensor", bytes));
        List<String> sensors = Configurations.tell(correlation, levels, first, configurations);
        // Once all runs: also an instance that gets no record must say that it waits for nobody.
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now, time -> waitFor(sensors));
    }

    @Override
    public void processElement1(StreamRecord<SensorRecord> element) throws Exception {
        SensorRecord record = element.getValue();
        byte[] sensor = record.sensor().getBytes(StandardCharsets.UTF_8);
        byte[] before = kept.value();
        byte[] after = null;
        byte[] request = Correlation.request(sensor, before, record.value());
        for (Frame frame : correlation.call("intake", request, record.receivedMs() * 1_000_000)) {
            if (frame.kind() == Kind.STATE) {
                after = frame.bytes();
            } else {
                send(frame);
            }
        }
        if (after != null) {
            kept.update(after);
        } else if (before != null) {
            kept.clear();
        }
    }

    @Override
    public void processElement2(StreamRecord<byte[]> configuration) throws Exception {
        List<String> sensors = Configurations.add(correlation, levels, configuration.getValue(), configurations);
        if (sensors != null) {
            waitFor(sensors);
        }
    }

    /** Waits for those of these sensors whose records come here. */
    private void waitFor(List<String> sensors) {
        var task = getRuntimeContext().getTaskInfo();
        List<byte[]> mine = new ArrayList<>();
        for (String sensor : sensors) {
            int instance = KeyGroupRangeAssignment.assignKeyToParallelOperator(
                    sensor, task.getMaxNumberOfParallelSubtasks(), task.getNumberOfParallelSubtasks());
            if (instance == task.getIndexOfThisSubtask()) {
                mine.add(sensor.getBytes(StandardCharsets.UTF_8));
            }
        }
        correlation.call("wait_for", Correlation.request(mine.toArray(new byte[0][]))).forEach(this::send);
    }

    private void send(Frame frame) {
        if (outputs.send(frame, tags, line -> output.collect(new StreamRecord<>(line)), this::aside)) {
            return;
        }
        switch (frame.kind()) {
            case WATERMARK -> {
                output.emitWatermarkStatus(WatermarkStatus.ACTIVE);
                output.emitWatermark(new Watermark(frame.number()));
            }
            case IDLE -> output.emitWatermarkStatus(WatermarkStatus.IDLE);
            default -> throw new IllegalStateException("a frame that no intake sends: " + frame.kind());
        }
    }

    private <T> void aside(OutputTag<T> tag, T element) {
        output.collect(tag, new StreamRecord<>(element));
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        List<byte[]> promised = new ArrayList<>();
        correlation.call("snapshot", new byte[0]).forEach(frame -> promised.add(frame.bytes()));
        promises.update(promised);
    }

    /** Time is what sensors promise; the end of all input is the end of all time. */
    @Override
    public void processWatermark(Watermark mark) {
        if (mark.getTimestamp() == Long.MAX_VALUE) {
            output.emitWatermarkStatus(WatermarkStatus.ACTIVE);
            output.emitWatermark(mark);
        }
    }

    /** Nor is anything idle that only reads nothing. */
    @Override
    protected void processWatermarkStatus(WatermarkStatus status, int input) {}
}
