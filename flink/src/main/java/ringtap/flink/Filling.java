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
        return of(Correlation.littleEndian(frame).position(1));
    }

    /** The length of a key, the key, what belongs to it. */
    static Filling of(ByteBuffer buffer) {
        byte[] key = new byte[buffer.getInt()];
        buffer.get(key);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        // One character for each byte, so that equal keys are equal texts.
        return new Filling(new String(key, StandardCharsets.ISO_8859_1), bytes);
    }

    byte[] keyBytes() {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
