package ringtap.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import run.endive.compiler.MachineFactoryCompiler;
import run.endive.runtime.ByteArrayMemory;
import run.endive.runtime.ExportFunction;
import run.endive.runtime.Instance;
import run.endive.runtime.Memory;
import run.endive.wasm.Parser;
import run.endive.wasm.WasmModule;

/** The vectors of ringtap-sigma give the same bytes under the JVM, where the module is bytecode, as natively. */
class VectorsTest {
    private static final Path VECTORS = Path.of("../crates/ringtap-sigma/tests/vectors");
    private static final Pattern RULES = Pattern.compile("\\{\"rules\":\"([^\"]+)\"");

    static List<Path> files() throws Exception {
        try (Stream<Path> files = Files.list(VECTORS)) {
            List<Path> vectors = files.filter(file -> file.toString().endsWith(".jsonl")).sorted().toList();
            assertTrue(vectors.size() >= 3, vectors.size() + " files of vectors");
            return vectors;
        }
    }

    @ParameterizedTest
    @MethodSource("files")
    void theSameBytes(Path file) throws Exception {
        String text = Files.readString(file);
        var first = RULES.matcher(text);
        assertTrue(first.lookingAt(), file + ": the first line names the rules");
        String rules = Files.readString(VECTORS.resolve(first.group(1)));
        List<String> expected = text.lines().toList();
        List<String> written = vectors(rules, text).lines().toList();
        for (int line = 0; line < Math.min(expected.size(), written.size()); line++) {
            assertEquals(expected.get(line), written.get(line), file + ":" + (line + 1));
        }
        assertEquals(expected.size(), written.size(), file.toString());
    }

    /** The interface is described in the module's source, crates/ringtap-sigma/examples/wasm_vectors.rs. */
    private static String vectors(String rules, String file) {
        WasmModule module = Parser.parse(new File(System.getProperty("wasm.folder"), "examples/wasm_vectors.wasm"));
        // As Correlation has it.
        Instance instance = Instance.builder(module)
                .withMachineFactory(MachineFactoryCompiler::compile)
                .withMemoryFactory(ByteArrayMemory::new)
                .build();
        Memory memory = instance.memory();
        ExportFunction reserve = instance.export("reserve");
        long[] request = new long[4];
        int at = 0;
        for (String part : List.of(rules, file)) {
            byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
            request[at] = reserve.apply(bytes.length)[0];
            memory.write((int) request[at], bytes);
            request[at + 1] = bytes.length;
            at += 2;
        }
        int pair = (int) instance.export("vectors").apply(request)[0];
        return new String(memory.readBytes(memory.readInt(pair), memory.readInt(pair + 4)), StandardCharsets.UTF_8);
    }
}
