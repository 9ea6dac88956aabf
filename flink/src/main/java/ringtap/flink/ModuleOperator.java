package ringtap.flink;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.metrics.Counter;
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
 * beside what all instances are told. The module has the states that were used last, asks for others, and gives back what is to
 * be kept: at a checkpoint, and when there is no more room for it.
 */
abstract class ModuleOperator<IN> extends AbstractStreamOperator<String>
        implements TwoInputStreamOperator<IN, Broadcast, String> {
    private static final long serialVersionUID = 1L;

    private final int levels;
    private final List<byte[]> first;
    /** Bytes of memory for the states that were used last. */
    private final int room;

    private transient Outputs outputs;
    private transient Configurations configurations;
    private transient ListState<byte[]> snapshots;
    private transient ValueState<byte[]> kept;
    private transient volatile int versions;
    /** States that the module did not have, and perhaps nobody. */
    private transient Counter wanted;

    transient Correlation correlation;

    ModuleOperator(int levels, List<byte[]> first, int room) {
        this.levels = levels;
        this.first = first;
        this.room = room;
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
        wanted = getMetricGroup().counter("ringtapWanted");
        byte[] secret = new byte[16];
        new SecureRandom().nextBytes(secret);
        correlation.call("room", secret, room);
        configured(configurations.tellAll(first));
    }

    /** Other sensors and rules hold: at the beginning, and when a configuration has come. */
    abstract void configured(List<String> sensors) throws Exception;

    /** A frame that is the operator's own; false: none that it knows. */
    abstract boolean own(Frame frame) throws Exception;

    /** The watermark that states of this operator have seen. */
    abstract long watermark();

    /** A key as the module names it, as Flink has it. */
    abstract String key(byte[] key);

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

    /** Calls a function for the current key: with what is kept of it only if the module asks for that. */
    final List<Frame> callFor(String function, byte[] key, byte[] element, long argument) throws Exception {
        List<Frame> frames = correlation.call(function, Correlation.request(key, null, element), argument, 0);
        if (frames.isEmpty() || frames.get(0).kind() != Kind.WANTED) {
            return frames;
        }
        wanted.inc();
        return correlation.call(function, Correlation.request(key, kept.value(), element), argument, 1);
    }

    /** Keeps these bytes of the current key, or none. */
    private void keep(byte[] bytes) throws Exception {
        if (bytes.length == 0) {
            kept.clear();
        } else {
            kept.update(bytes);
        }
    }

    /** Keeps what a frame has for a key that need not be the current one. */
    private void keepStored(Frame frame) throws Exception {
        ByteBuffer stored = Correlation.littleEndian(frame.bytes());
        byte[] key = new byte[stored.getInt()];
        stored.get(key);
        byte[] bytes = new byte[stored.remaining()];
        stored.get(bytes);
        Object current = getCurrentKey();
        setCurrentKey(key(key));
        keep(bytes);
        setCurrentKey(current);
    }

    /** What the module has of keys goes to the state backend, which is what the checkpoint is of. */
    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) throws Exception {
        super.prepareSnapshotPreBarrier(checkpoint);
        List<Frame> stored;
        do {
            stored = correlation.call("keep", new byte[0]);
            send(stored);
        } while (!stored.isEmpty());
    }

    final void send(List<Frame> frames) throws Exception {
        for (Frame frame : frames) {
            send(frame);
        }
    }

    private void send(Frame frame) throws Exception {
        if (frame.kind() == Kind.STATE) {
            keep(frame.bytes());
        } else if (frame.kind() == Kind.STORED) {
            keepStored(frame);
        } else if (!outputs.send(frame, line -> output.collect(new StreamRecord<>(line)), this::aside) && !own(frame)) {
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
