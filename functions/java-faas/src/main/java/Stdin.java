import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import org.teavm.interop.Address;
import org.teavm.interop.Import;

/** Standard input, which TeaVM's own library does not read. */
final class Stdin {
    private Stdin() {
    }

    static String readAll() {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] chunk = new byte[16384];
        int[] vector = new int[2];
        int[] read = new int[1];
        do {
            // Addresses are taken right before the call: the collector moves objects when something is allocated.
            vector[0] = Address.ofData(chunk).toInt();
            vector[1] = chunk.length;
            if (fdRead(0, Address.ofData(vector), 1, Address.ofData(read)) != 0) {
                throw new IllegalStateException("standard input cannot be read");
            }
            all.write(chunk, 0, read[0]);
        } while (read[0] > 0);
        return new String(all.toByteArray(), StandardCharsets.UTF_8);
    }

    @Import(module = "wasi_snapshot_preview1", name = "fd_read")
    private static native short fdRead(int descriptor, Address vectors, int count, Address read);
}
