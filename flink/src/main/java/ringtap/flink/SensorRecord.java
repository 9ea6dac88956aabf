package ringtap.flink;

/** A record of a sensor: whose it is (its key), when the broker got it, and what it says. */
public record SensorRecord(String sensor, long receivedMs, byte[] value) {}
