package ringtap.flink;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.metrics.Counter;
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
 * The step function for the rules of one level of chains, keyed by rule and key. The module has the states that were used
 * last, asks for others, and gives back what is to be kept: bytes, at a checkpoint and when there is no more room for it. It
 * says when it has to be called again for a key; a timer calls it then.
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
    /** States that the module did not have, and perhaps nobody. */
    private transient Counter wanted;

    /** Bytes of memory for the states that were used last. */
    private final int room;

    StepOperator(int levels, List<byte[]> first, int room) {
        super(levels, first);
        this.room = room;
    }

    @Override
    public void open() throws Exception {
        timers = getInternalTimerService("timers", VoidNamespaceSerializer.INSTANCE, this);
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        waiting = getRuntimeContext().getListState(new ListStateDescriptor<>(WAITING, bytes));
        areWaiting = !waitingKeys().isEmpty();
        getMetricGroup().gauge("ringtapWaiting", () -> areWaiting ? 1 : 0);
        wanted = getMetricGroup().counter("ringtapWanted");
        byte[] secret = new byte[16];
        new SecureRandom().nextBytes(secret);
        correlation.call("room", secret, room);
        super.open();
    }

    @Override
    public void processElement1(StreamRecord<Filling> element) throws Exception {
        step(element.getValue());
    }

    private void step(Filling filling) throws Exception {
        byte[] key = filling.keyBytes();
        long watermark = timers.currentWatermark();
        List<Frame> frames = correlation.call("step", Correlation.request(key, null, filling.bytes()), watermark, 0);
        if (!frames.isEmpty() && frames.get(0).kind() == Kind.WANTED) {
            wanted.inc();
            frames = correlation.call("step", Correlation.request(key, kept(), filling.bytes()), watermark, 1);
        }
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
    boolean own(Frame frame) throws Exception {
        switch (frame.kind()) {
            case TIMER -> {
                ByteBuffer times = Correlation.littleEndian(frame.bytes());
                long before = times.getLong();
                if (before != Long.MAX_VALUE) {
                    timers.deleteEventTimeTimer(VoidNamespace.INSTANCE, before);
                }
                long after = times.getLong();
                if (after != Long.MAX_VALUE) {
                    timers.registerEventTimeTimer(VoidNamespace.INSTANCE, after);
                }
            }
            case STORED -> {
                Filling stored = Filling.of(Correlation.littleEndian(frame.bytes()));
                Object current = getCurrentKey();
                setCurrentKey(stored.key());
                keep(stored.bytes());
                setCurrentKey(current);
            }
            default -> {
                return false;
            }
        }
        return true;
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
