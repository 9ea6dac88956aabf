package ringtap.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.util.OutputTag;
import ringtap.flink.Correlation.Frame;

/** Where frames go: lines on, fillings to the operator of their level, missing times to all that run rules, events that were
 * not judged aside. All is counted. */
final class Outputs {
    static final OutputTag<String> ASIDE = new OutputTag<>("aside", Types.STRING);
    static final OutputTag<Broadcast> MISSING = new OutputTag<>("missing", TypeInformation.of(Broadcast.class));
    private static final TypeInformation<Filling> FILLING = TypeInformation.of(Filling.class);

    private final Counter fillings;
    private final Counter lines;
    private final Counter asides;
    private final Counter skipped;
    private final Counter missing;
    private final List<OutputTag<Filling>> tags = new ArrayList<>();

    /** What takes an element of a side output. */
    interface Aside {
        <T> void collect(OutputTag<T> tag, T element);
    }

    Outputs(MetricGroup group, int levels) {
        fillings = group.counter("ringtapFillings");
        lines = group.counter("ringtapLines");
        asides = group.counter("ringtapAsides");
        skipped = group.counter("ringtapSkipped");
        missing = group.counter("ringtapMissing");
        for (int level = 0; level < levels; level++) {
            tags.add(level(level));
        }
    }

    /** The side output to the operator of a level. */
    static OutputTag<Filling> level(int level) {
        return new OutputTag<>("level-" + level, FILLING);
    }

    /** Sends a frame on; false: it is for the operator itself. */
    boolean send(Frame frame, Consumer<String> line, Aside aside) {
        switch (frame.kind()) {
            case FILLING -> {
                fillings.inc();
                aside.collect(tags.get(Filling.level(frame.bytes())), Filling.of(frame.bytes()));
            }
            case LINE -> {
                lines.inc();
                line.accept(frame.text());
            }
            case ASIDE -> {
                asides.inc();
                aside.collect(ASIDE, frame.text());
            }
            case MISSING -> {
                missing.inc();
                aside.collect(MISSING, Broadcast.missing(frame.bytes()));
            }
            case SKIPPED -> skipped.inc();
            default -> {
                return false;
            }
        }
        return true;
    }
}
