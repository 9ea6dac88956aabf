package ringtap.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReadOnlyBroadcastState;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import ringtap.flink.Correlation.Frame;
import ringtap.flink.Correlation.Kind;

/** The versions of the configuration that an operator has: those it was started with, and those that came since. */
final class Configurations {
    static final MapStateDescriptor<Integer, byte[]> KEPT = new MapStateDescriptor<>(
            "configurations", Types.INT, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    private static final Logger LOG = LoggerFactory.getLogger(Configurations.class);

    private Configurations() {}

    /** Tells the module all of them; the names of the sensors that the last one registers. */
    static List<String> tell(
            Correlation correlation, int levels, List<byte[]> first, ReadOnlyBroadcastState<Integer, byte[]> kept)
            throws Exception {
        Map<Integer, byte[]> inOrder = new TreeMap<>();
        for (Map.Entry<Integer, byte[]> entry : kept.immutableEntries()) {
            inOrder.put(entry.getKey(), entry.getValue());
        }
        List<String> sensors = List.of();
        for (byte[] configuration : first) {
            sensors = tell(correlation, levels, configuration);
        }
        for (byte[] configuration : inOrder.values()) {
            sensors = tell(correlation, levels, configuration);
        }
        return sensors;
    }

    /** Tells the module one more, and keeps it; one that is not understood is said, and changes nothing. */
    static List<String> add(
            Correlation correlation, int levels, byte[] configuration, BroadcastState<Integer, byte[]> kept)
            throws Exception {
        List<String> sensors;
        try {
            sensors = tell(correlation, levels, configuration);
        } catch (IllegalStateException refused) {
            LOG.error("refused, the configuration before it goes on: {}", refused.getMessage());
            return null;
        }
        int next = 0;
        for (Map.Entry<Integer, byte[]> entry : kept.immutableEntries()) {
            next = Math.max(next, entry.getKey() + 1);
        }
        kept.put(next, configuration);
        return sensors;
    }

    private static List<String> tell(Correlation correlation, int levels, byte[] configuration) {
        List<String> sensors = new ArrayList<>();
        for (Frame frame : correlation.call("configure", configuration, levels)) {
            if (frame.kind() == Kind.SENSOR) {
                sensors.add(frame.text());
            } else {
                LOG.warn("{}", frame.text());
            }
        }
        return sensors;
    }
}
