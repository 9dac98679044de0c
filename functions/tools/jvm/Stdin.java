import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Standard input of the java-faas programs when a JVM runs them, instead of the class that knows TeaVM. */
final class Stdin {
    private Stdin() {}

    static String readAll() {
        try {
            return new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
