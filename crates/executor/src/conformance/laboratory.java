import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

public class Laboratory {
    private static final int MEGABYTE = 1 << 20;
    private static int calls;

    public static Object main(Map<String, Object> params) throws Exception {
        if (params.get("body") instanceof byte[] body) {
            return Map.of("length", body.length, "last", body[body.length - 1], "type", params.get("contentType"));
        }
        // The training run at deploy brings no op. It draws, since nothing drawn may be in the archive that it writes.
        String op = params.get("op") == null ? "random" : (String) params.get("op");
        return switch (op) {
            case "state" -> state();
            case "echo" -> Map.of("text", params.get("text"));
            case "random" -> random();
            case "loop" -> loop();
            case "forks" -> shell("b() { b | b & }; b");
            case "memory" -> memory();
            case "log" -> log((Integer) params.get("from"), (Integer) params.get("to"));
            case "flood" -> flood((Integer) params.get("megabytes"));
            case "close" -> close();
            case "exit" -> exit();
            case "crash" -> shell("kill -ABRT " + ProcessHandle.current().pid());
            case "throw" -> throw new IllegalStateException("asked to");
            case "throwHalf" -> throw new IllegalStateException("asked to \ud83d");
            case "big" -> Map.of("text", "y".repeat((Integer) params.get("bytes")));
            case "number" -> 17;
            case "read" -> read(new File((String) params.get("path")));
            case "write" -> write(Path.of((String) params.get("path")));
            case "connect" -> connect((String) params.get("host"), (Integer) params.get("port"));
            case "stream" -> new Pieces((Integer) params.get("megabytes"));
            case "binary" -> new byte[] {0, (byte) 255, 1};
            default -> throw new IllegalArgumentException(op);
        };
    }

    private static Object state() throws Exception {
        File mark = new File("/tmp/mark");
        boolean marked = mark.exists();
        String env = System.getenv().getOrDefault("MARK", "");
        Files.writeString(mark.toPath(), "x");
        environment().put("MARK", "set");
        return Map.of("calls", calls++, "tmp", marked, "env", env, "greeting", System.getenv("GREETING"));
    }

    /** What is behind Java's read-only view of the environment. */
    @SuppressWarnings("unchecked")
    private static Map<String, String> environment() throws ReflectiveOperationException {
        Field below = System.getenv().getClass().getDeclaredField("m");
        below.setAccessible(true);
        return (Map<String, String>) below.get(System.getenv());
    }

    private static Object random() {
        Object[] drawn = {
            Math.random(), UUID.randomUUID(), new SecureRandom().nextLong(), ThreadLocalRandom.current().nextLong(), new Random().nextLong(),
        };
        List<String> values = new ArrayList<>();
        for (Object value : drawn) {
            values.add(value.toString());
        }
        return Map.of("values", values);
    }

    private static Object loop() {
        while (true) {
        }
    }

    /** Leaves everything else to a shell. */
    private static Object shell(String script) throws Exception {
        ProcessBuilder shell = new ProcessBuilder("/bin/sh", "-c", script);
        shell.redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        Thread.sleep(Long.MAX_VALUE);
        return null;
    }

    private static Object memory() {
        List<byte[]> kept = new ArrayList<>();
        while (true) {
            byte[] piece = new byte[16 * MEGABYTE];
            Arrays.fill(piece, (byte) 1);
            kept.add(piece);
        }
    }

    private static Object log(int from, int to) {
        for (int n = from; n < to; n++) {
            System.out.println("out " + n);
            System.err.println("err " + n);
        }
        System.out.print("no newline");
        return Map.of();
    }

    private static Object flood(int megabytes) throws IOException {
        byte[] piece = ("x".repeat(1023) + "\n").repeat(1024).getBytes(StandardCharsets.ISO_8859_1);
        FileOutputStream out = new FileOutputStream(FileDescriptor.out);
        for (int n = 0; n < megabytes; n++) {
            out.write(piece);
        }
        return Map.of("written", megabytes);
    }

    private static Object close() {
        System.out.close();
        System.err.close();
        return Map.of("closed", true);
    }

    private static Object exit() {
        System.exit(7);
        return null;
    }

    private static Object read(File file) {
        try {
            String[] names = file.list();
            String text = names == null ? Files.readString(file.toPath(), StandardCharsets.ISO_8859_1) : String.join(",", names);
            return Map.of("read", text);
        } catch (IOException error) {
            return Map.of("refused", error.toString());
        }
    }

    private static Object write(Path path) {
        try {
            Files.writeString(path, "x");
            return Map.of("written", true);
        } catch (IOException error) {
            return Map.of("refused", error.toString());
        }
    }

    private static Object connect(String host, int port) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(host, port), 2000);
            return Map.of("connected", true);
        } catch (IOException error) {
            return Map.of("refused", error.toString());
        }
    }

    /** A stream of so many megabytes, each of another byte. */
    private static final class Pieces extends InputStream {
        private final int megabytes;
        private int at;

        Pieces(int megabytes) {
            this.megabytes = megabytes;
        }

        @Override
        public int read() {
            throw new UnsupportedOperationException();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) {
            if (at == megabytes * MEGABYTE) {
                System.out.println("streamed");
                return -1;
            }
            int count = Math.min(length, MEGABYTE - at % MEGABYTE);
            Arrays.fill(bytes, offset, offset + count, (byte) (at / MEGABYTE % 251));
            at += count;
            return count;
        }
    }
}
