package ringtap.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Folders of tests within the build's own, which outlive their test: who writes there may end later. */
final class Folders {
    private Folders() {}

    static Path make() throws IOException {
        Path all = Files.createDirectories(Path.of("target", "folders").toAbsolutePath());
        return Files.createTempDirectory(all, "test");
    }
}
