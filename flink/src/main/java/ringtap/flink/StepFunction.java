package ringtap.flink;

import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ReadOnlyBroadcastState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/**
 * The step function for the rules of one level of chains, keyed by rule and key. What it keeps is bytes that begin with the
 * watermark at which it has to be called again; a timer calls it then.
 */
final class StepFunction extends KeyedBroadcastProcessFunction<String, Filling, byte[], String> {
    private static final long serialVersionUID = 1L;

    private final int levels;
    private final List<byte[]> first;
    private transient Correlation correlation;
    private transient List<OutputTag<Filling>> tags;
    private transient Outputs outputs;
    private transient ValueState<byte[]> kept;

    StepFunction(int levels, List<byte[]> first) {
        this.levels = levels;
        this.first = first;
    }

    @Override
    public void open(OpenContext context) {
        tags = Outputs.levels(levels);
        outputs = new Outputs(getRuntimeContext().getMetricGroup());
        var bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        kept = getRuntimeContext().getState(new ValueStateDescriptor<>("key", bytes));
    }

    @Override
    public void processElement(Filling filling, ReadOnlyContext context, Collector<String> out) throws Exception {
        ready(context.getBroadcastState(Configurations.KEPT));
        step(filling, context.timerService(), out, context::output);
    }

    @Override
    public void onTimer(long at, OnTimerContext context, Collector<String> out) throws Exception {
        ready(context.getBroadcastState(Configurations.KEPT));
        step(new Filling(context.getCurrentKey(), null), context.timerService(), out, context::output);
    }

    @Override
    public void processBroadcastElement(byte[] configuration, Context context, Collector<String> out) throws Exception {
        var configurations = context.getBroadcastState(Configurations.KEPT);
        ready(configurations);
        Configurations.add(correlation, levels, configuration, configurations);
    }

    private void ready(ReadOnlyBroadcastState<Integer, byte[]> configurations) throws Exception {
        if (correlation == null) {
            correlation = new Correlation();
            Configurations.tell(correlation, levels, first, configurations);
        }
    }

    private void step(Filling filling, TimerService timers, Collector<String> out, Outputs.Aside aside)
            throws Exception {
        byte[] before = kept.value();
        byte[] after = null;
        byte[] request = Correlation.request(filling.keyBytes(), before, filling.bytes());
        for (Frame frame : correlation.call("step", request, timers.currentWatermark())) {
            if (frame.kind() == Kind.STATE) {
                after = frame.bytes();
            } else if (!outputs.send(frame, tags, out::collect, aside)) {
                throw new IllegalStateException("a frame that no step sends: " + frame.kind());
            }
        }
        Long was = before == null ? null : Correlation.firstNumber(before);
        Long is = after == null ? null : Correlation.firstNumber(after);
        if (was != null && !was.equals(is)) {
            timers.deleteEventTimeTimer(was);
        }
        if (is != null && !is.equals(was)) {
            timers.registerEventTimeTimer(is);
        }
        if (after != null) {
            kept.update(after);
        } else if (before != null) {
            kept.clear();
        }
    }
}
