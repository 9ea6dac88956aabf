package ringtap.flink;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.OutputTag;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/**
 * An operator around an instance of the module: elements with a key, whose state is bytes that the module alone understands,
 * beside what all instances are told.
 */
abstract class ModuleOperator<IN> extends AbstractStreamOperator<String>
        implements TwoInputStreamOperator<IN, Broadcast, String> {
    private static final long serialVersionUID = 1L;

    private final int levels;
    private final List<byte[]> first;
    private transient Outputs outputs;
    private transient Configurations configurations;
    private transient ListState<byte[]> snapshots;
    private transient ValueState<byte[]> kept;
    private transient volatile int versions;
    transient Correlation correlation;

    ModuleOperator(int levels, List<byte[]> first) {
        this.levels = levels;
        this.first = first;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        var store = context.getOperatorStateStore();
        snapshots = store.getUnionListState(new ListStateDescriptor<>("module", bytes));
        correlation = new Correlation();
        configurations = new Configurations(correlation, levels, store.getBroadcastState(Configurations.KEPT));
        for (byte[] snapshot : snapshots.get()) {
            correlation.call("restore", snapshot);
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        outputs = new Outputs(getMetricGroup(), levels);
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        kept = getRuntimeContext().getState(new ValueStateDescriptor<>("kept", bytes));
        getMetricGroup().gauge("ringtapVersions", () -> versions);
        configured(configurations.tellAll(first));
    }

    /** Other sensors and rules hold: at the beginning, and when a configuration has come. */
    abstract void configured(List<String> sensors) throws Exception;

    /** A frame that is the operator's own; false: none that it knows. */
    abstract boolean own(Frame frame) throws Exception;

    /** The watermark that states of this operator have seen. */
    abstract long watermark();

    @Override
    public void processElement2(StreamRecord<Broadcast> element) throws Exception {
        Broadcast told = element.getValue();
        if (!told.function().equals(Broadcast.CONFIGURE)) {
            send(correlation.call(told.function(), told.bytes()));
            return;
        }
        List<String> sensors = configurations.add(told.bytes());
        if (sensors != null) {
            configured(sensors);
        }
    }

    /** Keeps these bytes of the current key, or none. */
    final void keep(byte[] bytes) throws Exception {
        if (bytes.length == 0) {
            kept.clear();
        } else {
            kept.update(bytes);
        }
    }

    /** What is kept of the current key; null: nothing. */
    final byte[] kept() throws Exception {
        return kept.value();
    }

    final void send(List<Frame> frames) throws Exception {
        for (Frame frame : frames) {
            send(frame);
        }
    }

    private void send(Frame frame) throws Exception {
        if (frame.kind() == Kind.STATE) {
            keep(frame.bytes());
            return;
        }
        if (!outputs.send(frame, line -> output.collect(new StreamRecord<>(line)), this::aside) && !own(frame)) {
            throw new IllegalStateException("a frame that is not expected here: " + frame.kind());
        }
    }

    private <T> void aside(OutputTag<T> tag, T element) {
        output.collect(tag, new StreamRecord<>(element));
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        List<byte[]> known = new ArrayList<>();
        List<Frame> needed = new ArrayList<>();
        for (Frame frame : correlation.call("snapshot", new byte[0], watermark())) {
            if (frame.kind() == Kind.VERSION) {
                needed.add(frame);
            } else {
                known.add(frame.bytes());
            }
        }
        snapshots.update(known);
        configurations.keep(needed);
        versions = needed.size();
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
