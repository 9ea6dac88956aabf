package ringtap.flink;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import ringtap.flink.module.Compiled;
import run.endive.runtime.ByteArrayMemory;
import run.endive.runtime.ExportFunction;
import run.endive.runtime.Instance;

/**
 * One instance of the module that knows what rules mean. Its interface is described in crates/ringtap-wasm/src/lib.rs: a
 * request is parts, an answer frames.
 */
final class Correlation {
    /** What a frame holds, by its number. */
    enum Kind {
        FAILED,
        NOTE,
        STATE,
        FILLING,
        LINE,
        ASIDE,
        WATERMARK,
        IDLE,
        SENSOR,
        SKIPPED,
        VERSION,
        EARLY,
        MISSING,
        WANTED,
        TIMER,
        STORED
    }

    record Frame(Kind kind, byte[] bytes) {
        String text() {
            return new String(bytes, StandardCharsets.UTF_8);
        }

        long number() {
            return firstNumber(bytes);
        }
    }

    private static final Kind[] KINDS = Kind.values();

    private final Instance instance;
    private final ExportFunction reserve;

    Correlation() {
        // Endive's default memory goes through NIO's buffers: slower with each access.
        instance = Instance.builder(Compiled.load())
                .withMachineFactory(Compiled::create)
                .withMemoryFactory(ByteArrayMemory::new)
                .build();
        reserve = instance.export("reserve");
    }

    /** Calls a function; a call that could not be carried out is an exception, and so a restart from the last checkpoint. */
    List<Frame> call(String function, byte[] request, long... arguments) {
        int at = (int) reserve.apply(request.length)[0];
        instance.memory().write(at, request);
        long answer = instance.export(function).apply(arguments)[0];
        byte[] bytes = instance.memory().readBytes((int) (answer >>> 32), (int) answer);
        List<Frame> frames = new ArrayList<>();
        ByteBuffer buffer = littleEndian(bytes);
        while (buffer.hasRemaining()) {
            Kind kind = KINDS[buffer.get()];
            byte[] content = new byte[buffer.getInt()];
            buffer.get(content);
            frames.add(new Frame(kind, content));
        }
        if (!frames.isEmpty() && frames.get(0).kind == Kind.FAILED) {
            throw new IllegalStateException(frames.get(0).text());
        }
        return frames;
    }

    /** Parts of a request; what is not there is empty. */
    static byte[] request(byte[]... parts) {
        int len = 0;
        for (byte[] part : parts) {
            len += Integer.BYTES + (part == null ? 0 : part.length);
        }
        ByteBuffer request = littleEndian(new byte[len]);
        for (byte[] part : parts) {
            request.putInt(part == null ? 0 : part.length);
            if (part != null) {
                request.put(part);
            }
        }
        return request.array();
    }

    static ByteBuffer littleEndian(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    static long firstNumber(byte[] bytes) {
        return littleEndian(bytes).getLong();
    }
}
