package ringtap.flink;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import ringtap.flink.Correlation.Frame;

/**
 * Records of sensors, keyed by sensor, into events for rules; and the watermark, which is what the sensors of this instance
 * promise. It is an operator as functions can't send watermarks: the least promise of an instance's sensors is that of its
 * keys, however the broker's partitions are spread, and Flink takes the least of all instances.
 */
final class IntakeOperator extends ModuleOperator<SensorRecord> {
    private static final long serialVersionUID = 1L;

    /** Sensors that are to be waited for, until the module knows of them. */
    private transient List<String> sensors;

    IntakeOperator(int levels, List<byte[]> first, int room) {
        super(levels, first, room);
    }

    /** Waits for those of these sensors whose records come here. */
    @Override
    void configured(List<String> sensors) {
        this.sensors = sensors;
        // Once all runs: also an instance that gets no record must say that it waits for nobody.
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now, time -> waitForThem());
    }

    /** At the timer, or at a record that was faster: the module must know a sensor before it takes what that says. */
    private void waitForThem() throws Exception {
        if (sensors == null) {
            return;
        }
        var task = getRuntimeContext().getTaskInfo();
        List<byte[]> mine = new ArrayList<>();
        for (String sensor : sensors) {
            int instance = KeyGroupRangeAssignment.assignKeyToParallelOperator(
                    sensor, task.getMaxNumberOfParallelSubtasks(), task.getNumberOfParallelSubtasks());
            if (instance == task.getIndexOfThisSubtask()) {
                mine.add(utf8(sensor));
            }
        }
        sensors = null;
        send(correlation.call("wait_for", Correlation.request(mine.toArray(new byte[0][]))));
    }

    /** Nor is a checkpoint without what is known of them. */
    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) throws Exception {
        super.prepareSnapshotPreBarrier(checkpoint);
        waitForThem();
    }

    @Override
    String key(byte[] key) {
        return new String(key, StandardCharsets.UTF_8);
    }

    @Override
    public void processElement1(StreamRecord<SensorRecord> element) throws Exception {
        waitForThem();
        SensorRecord record = element.getValue();
        send(callFor("intake", utf8(record.sensor()), record.value(), record.receivedMs() * 1_000_000));
    }

    @Override
    boolean own(Frame frame) {
        switch (frame.kind()) {
            case WATERMARK -> {
                output.emitWatermarkStatus(WatermarkStatus.ACTIVE);
                output.emitWatermark(new Watermark(frame.number()));
            }
            case IDLE -> output.emitWatermarkStatus(WatermarkStatus.IDLE);
            default -> {
                return false;
            }
        }
        return true;
    }

    /** What the module has promised: it knows that itself. */
    @Override
    long watermark() {
        return Long.MIN_VALUE;
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
