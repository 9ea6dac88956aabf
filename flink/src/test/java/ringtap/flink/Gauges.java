package ringtap.flink;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;
import org.apache.flink.metrics.reporter.Scheduled;

/** What the gauges and counters of the job's operators showed, for tests that run it in this process. */
public final class Gauges implements MetricReporter, MetricReporterFactory, Scheduled {
    private static final Map<Metric, String> WATCHED = new ConcurrentHashMap<>();
    private static final Map<String, Integer> MOST = new ConcurrentHashMap<>();
    private static final Map<String, Integer> LAST = new ConcurrentHashMap<>();

    static void forget() {
        WATCHED.clear();
        MOST.clear();
        LAST.clear();
    }

    static int most(String name) {
        return MOST.getOrDefault(name, 0);
    }

    /** What it showed when it ended, at those where it was greatest. */
    static int last(String name) {
        return LAST.getOrDefault(name, 0);
    }

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return this;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        if (name.startsWith("ringtap")) {
            WATCHED.put(metric, name);
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {
        if (WATCHED.remove(metric) != null) {
            LAST.merge(name, value(metric), Math::max);
        }
    }

    @Override
    public void report() {
        WATCHED.forEach((metric, name) -> MOST.merge(name, value(metric), Math::max));
    }

    private static int value(Metric metric) {
        return metric instanceof Counter counter ? (int) counter.getCount() : (Integer) ((Gauge<?>) metric).getValue();
    }
}
