package ringtap.flink;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/**
 * The step function for the rules of one level of chains, keyed by rule and key. The module says when it has to be
 * called again for a key; a timer calls it then.
 *
 * <p>An event may come before the rules that it is for, as configurations take another way. It is kept with its key then, and
 * time stands still here until they come: what is found does not depend on who was faster.
 */
final class StepOperator extends ModuleOperator<Filling> implements Triggerable<String, VoidNamespace> {
    private static final long serialVersionUID = 1L;
    private static final String WAITING = "waiting";

    private transient InternalTimerService<VoidNamespace> timers;
    private transient ListState<byte[]> waiting;
    private transient boolean areWaiting;
    private transient Watermark held;

    StepOperator(int levels, List<byte[]> first, int room) {
        super(levels, first, room);
    }

    @Override
    public void open() throws Exception {
        timers = getInternalTimerService("timers", VoidNamespaceSerializer.INSTANCE, this);
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        waiting = getRuntimeContext().getListState(new ListStateDescriptor<>(WAITING, bytes));
        areWaiting = !waitingKeys().isEmpty();
        getMetricGroup().gauge("ringtapWaiting", () -> areWaiting ? 1 : 0);
        super.open();
    }

    @Override
    public void processElement1(StreamRecord<Filling> element) throws Exception {
        step(element.getValue());
    }

    private void step(Filling filling) throws Exception {
        List<Frame> frames = callFor("step", filling.keyBytes(), filling.bytes(), timers.currentWatermark());
        if (!frames.isEmpty() && frames.get(0).kind() == Kind.EARLY) {
            waiting.add(filling.bytes());
            areWaiting = true;
        } else {
            send(frames);
        }
    }

    @Override
    public void onEventTime(InternalTimer<String, VoidNamespace> timer) throws Exception {
        step(new Filling(timer.getKey(), null));
    }

    @Override
    public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) {}

    @Override
    boolean own(Frame frame) {
        if (frame.kind() != Kind.TIMER) {
            return false;
        }
        ByteBuffer times = Correlation.littleEndian(frame.bytes());
        long before = times.getLong();
        if (before != Long.MAX_VALUE) {
            timers.deleteEventTimeTimer(VoidNamespace.INSTANCE, before);
        }
        long after = times.getLong();
        if (after != Long.MAX_VALUE) {
            timers.registerEventTimeTimer(VoidNamespace.INSTANCE, after);
        }
        return true;
    }

    @Override
    String key(byte[] key) {
        return Filling.key(key);
    }

    /** What waits is taken again, each key's in its order; what still waits goes on with it. */
    @Override
    void configured(List<String> sensors) throws Exception {
        if (!areWaiting) {
            return;
        }
        areWaiting = false;
        for (String key : waitingKeys()) {
            setCurrentKey(key);
            Iterable<byte[]> events = waiting.get();
            waiting.clear();
            for (byte[] event : events) {
                step(new Filling(key, event));
            }
        }
        if (!areWaiting && held != null) {
            Watermark mark = held;
            held = null;
            super.processWatermark(mark);
        }
    }

    private List<String> waitingKeys() {
        try (Stream<String> keys = this.<String>getKeyedStateBackend().getKeys(WAITING, VoidNamespace.INSTANCE)) {
            return keys.toList();
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        if (areWaiting) {
            held = mark;
        } else {
            super.processWatermark(mark);
        }
    }

    @Override
    long watermark() {
        return timers.currentWatermark();
    }
}
