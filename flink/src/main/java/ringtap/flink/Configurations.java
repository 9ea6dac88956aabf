package ringtap.flink;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/** The versions of the configuration that an operator has: those it was started with, and those that came since. */
final class Configurations {
    /** By the time from which on one holds, ns. */
    static final MapStateDescriptor<Long, byte[]> KEPT = new MapStateDescriptor<>(
            "configurations", Types.LONG, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    private static final Logger LOG = LoggerFactory.getLogger(Configurations.class);

    private final Correlation correlation;
    private final int levels;
    private final BroadcastState<Long, byte[]> kept;

    /** What the module says of one. */
    private record Told(long fromNs, List<String> sensors) {}

    Configurations(Correlation correlation, int levels, BroadcastState<Long, byte[]> kept) {
        this.correlation = correlation;
        this.levels = levels;
        this.kept = kept;
    }

    /**
     * Tells the module all that are kept, and those that the job was started with: one of these that was changed since does not take
     * the place of what events were judged by. The names of the sensors that the last one registers.
     */
    List<String> tellAll(List<byte[]> first) throws Exception {
        Map<Long, byte[]> inOrder = new TreeMap<>();
        for (Map.Entry<Long, byte[]> entry : kept.immutableEntries()) {
            inOrder.put(entry.getKey(), entry.getValue());
        }
        List<String> sensors = List.of();
        for (byte[] configuration : inOrder.values()) {
            sensors = tell(configuration).sensors;
        }
        for (byte[] configuration : first) {
            List<String> told = add(configuration);
            sensors = told == null ? sensors : told;
        }
        return sensors;
    }

    /** Tells the module one more, and keeps it; one that is not understood is said, and changes nothing: null. */
    List<String> add(byte[] configuration) throws Exception {
        Told told;
        try {
            told = tell(configuration);
        } catch (IllegalStateException refused) {
            LOG.error("refused, what there is goes on: {}", refused.getMessage());
            return null;
        }
        kept.put(told.fromNs, configuration);
        return told.sensors;
    }

    /** Keeps those only of which the module says that they are needed. */
    void keep(List<Frame> versions) throws Exception {
        Set<Long> needed = new HashSet<>();
        versions.forEach(frame -> needed.add(frame.number()));
        List<Long> gone = new ArrayList<>();
        for (Map.Entry<Long, byte[]> entry : kept.immutableEntries()) {
            if (!needed.contains(entry.getKey())) {
                gone.add(entry.getKey());
            }
        }
        for (Long fromNs : gone) {
            kept.remove(fromNs);
        }
    }

    private Told tell(byte[] configuration) {
        List<String> sensors = new ArrayList<>();
        long fromNs = Long.MIN_VALUE;
        for (Frame frame : correlation.call(Broadcast.CONFIGURE, configuration, levels)) {
            switch (frame.kind()) {
                case SENSOR -> sensors.add(frame.text());
                case VERSION -> fromNs = frame.number();
                default -> LOG.warn("{}", frame.text());
            }
        }
        return new Told(fromNs, sensors);
    }
}
