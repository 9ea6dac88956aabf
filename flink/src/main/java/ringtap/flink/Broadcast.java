package ringtap.flink;

/** What all that run rules have to know: the module's function that takes it, and what it takes. */
public record Broadcast(String function, byte[] bytes) {
    static final String CONFIGURE = "configure";
    static final String MISSING = "missing";

    static Broadcast configuration(byte[] bytes) {
        return new Broadcast(CONFIGURE, bytes);
    }

    static Broadcast missing(byte[] bytes) {
        return new Broadcast(MISSING, bytes);
    }
}
