package ringtap.flink;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** An event on its way to a rule: under which key, and its bytes, which the module alone understands. */
public record Filling(String key, byte[] bytes) {
    /** The level of a frame's filling: which operator it is for. */
    static int level(byte[] frame) {
        return frame[0];
    }

    static Filling of(byte[] frame) {
        ByteBuffer buffer = Correlation.littleEndian(frame).position(1);
        byte[] key = new byte[buffer.getInt()];
        buffer.get(key);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new Filling(key(key), bytes);
    }

    /** One character for each byte, so that equal keys are equal texts. */
    static String key(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }

    byte[] keyBytes() {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
