import flint.Context;
import flint.Response;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class Probe {
    private static final String AT_LOAD = System.getenv("GREETING");
    private static int calls;
    private static int streamsClosed;

    private Probe() {
    }

    public static Object main(Object parameters, Context context) throws Exception {
        calls++;
        if (!(parameters instanceof Map)) {
            return parameters;
        }
        Map<?, ?> params = (Map<?, ?>) parameters;
        if (params.get("body") instanceof byte[]) {
            byte[] body = (byte[]) params.get("body");
            return Response.of(body, (String) params.get("contentType")).header("X-Length", "" + body.length).header("x-method", "" + params.get("method"));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        switch (String.valueOf(params.get("do"))) {
            case "fail": throw new IllegalStateException("boom");
            case "scalar": return 5;
            case "unencodable": return Map.of("value", Double.NaN);
            case "binary": return new byte[] {0, (byte) 255, (byte) 128, 10};
            case "response": return Response.of("héllo", "text/plain; charset=utf-8").status(201).header("x-made", "by probe");
            case "stream":
                if (params.containsKey("interrupted")) {
                    Thread.currentThread().interrupt();
                }
                int pauseMs = params.containsKey("pauseMs") ? (Integer) params.get("pauseMs") : 5;
                return pieces((Integer) params.get("pieces"), (Integer) params.get("size"), pauseMs);
            case "streamFails": return failing();
            case "log":
                for (int i = 0; i < (Integer) params.get("lines"); i++) {
                    System.out.println("out " + i + " ☃");
                    System.err.println("err " + i + " ☃");
                }
                return result;
            case "env":
                for (Object name : (List<?>) params.get("names")) {
                    result.put((String) name, System.getenv((String) name));
                }
                return result;
            case "envOfChild":
                ProcessBuilder env = new ProcessBuilder("env");
                env.environment(); // without it a process gets what the JVM was started with
                return Map.of("lines", new String(env.start().getInputStream().readAllBytes(), StandardCharsets.UTF_8).lines().toList());
            case "context":
                result.put("activation", context.getActivationId());
                result.put("name", context.getFunctionName());
                result.put("version", context.getFunctionVersion());
                result.put("namespace", context.getNamespace());
                result.put("remaining", context.getRemainingTimeInMillis());
                result.put("method", context.getMethod());
                result.put("headers", context.getHeaders());
                return result;
            case "exit": System.exit(7); return null;
            case "closeStdout": System.out.close(); return Map.of("closed", true);
            case "descriptors":
                Process process = new ProcessBuilder("ls", "-l", "/proc/self/fd").start();
                return Map.of("text", new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
            case "state":
                result.put("calls", calls);
                result.put("streamsClosed", streamsClosed);
                result.put("atLoad", AT_LOAD);
                return result;
            case "echoArray": return params.get("items");
            default: return params;
        }
    }

    private static InputStream pieces(Integer count, int size, int pauseMs) {
        return new InputStream() {
            private int piece;

            @Override
            public int read() {
                throw new UnsupportedOperationException();
            }

            @Override
            public int read(byte[] target, int offset, int length) throws IOException {
                if (count != null && piece >= count * (long) size) {
                    return -1;
                }
                if (count == null && piece > 0) {
                    try {
                        Thread.sleep(pauseMs);
                    } catch (InterruptedException stop) {
                        throw new IOException(stop);
                    }
                }
                int taken = Math.min(length, size - piece % size);
                Arrays.fill(target, offset, offset + taken, (byte) (piece / size));
                piece += taken;
                return taken;
            }

            @Override
            public void close() {
                streamsClosed++;
            }
        };
    }

    private static InputStream failing() {
        return new InputStream() {
            private boolean begun;

            @Override
            public int read() throws IOException {
                throw new IOException("boom");
            }

            @Override
            public int read(byte[] target, int offset, int length) throws IOException {
                if (begun) {
                    throw new IOException("boom");
                }
                begun = true;
                byte[] text = "a beginning".getBytes(StandardCharsets.UTF_8);
                System.arraycopy(text, 0, target, offset, text.length);
                return text.length;
            }
        };
    }
}
