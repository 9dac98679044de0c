package flint;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs the shim once over synthetic frames and exits 0, for the training run that writes a CDS or AOT archive.
 *
 * <p>{@code flint.Train} trains the shim alone; {@code flint.Train CODE MAIN [PARAMS]} also loads and calls a function. Classes of CODE
 * enter the archive only if CODE is on the class path.
 */
public final class Train {
    private static final int CALLS = 50;
    /** Begins a refusal of the code; Flint knows it too (crates/runtimes/src/java/archive.rs). */
    private static final String NO_ENTRY_POINT = "flint: no entry point: ";

    private Train() {
    }

    public static void main(String[] arguments) throws Exception {
        String jar = new File(Train.class.getProtectionDomain().getCodeSource().getLocation().toURI()).getPath();
        String code = arguments.length > 0 ? arguments[0] : jar;
        String main = arguments.length > 1 ? arguments[1] : "flint.Train#sample";
        String params = arguments.length > 2 ? arguments[2] : "{\"name\":\"Ada\",\"n\":[1,2.5,true,null,12345678901]}";

        if (arguments.length > 0) {
            requireEntryPoint(code, main);
        }
        Link.open(3); // the descriptor itself is not touched
        loadAsUserCode(jar);
        Environment environment = new Environment();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        int status = new Shim(new Link(new ByteArrayInputStream(frames(code, main, params)), out), environment).run();
        System.out.flush();
        System.exit(status);
    }

    /** Ends the run if no call could find the function. */
    private static void requireEntryPoint(String code, String main) throws Exception {
        try {
            new Code(code).find(main);
        } catch (LoadException missing) {
            System.err.println(NO_ENTRY_POINT + missing.getMessage());
            System.exit(Shim.EXIT_FAILED);
        }
    }

    /** A function to call. */
    public static Map<String, Object> sample(Map<String, Object> params, Context context) {
        Map<String, Object> result = new LinkedHashMap<>(params);
        result.put("activation", context.getActivationId());
        result.put("remaining", context.getRemainingTimeInMillis());
        return result;
    }

    /** Exercises the path by which user code in a jar is loaded, although its own classes cannot be archived. */
    private static void loadAsUserCode(String jar) throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {new File(jar).toURI().toURL()}, null)) {
            Class.forName("flint.Response", true, loader);
        }
    }

    private static byte[] frames(String code, String main, String params) throws JsonException {
        Map<String, Object> init = new LinkedHashMap<>();
        init.put("code", code);
        init.put("main", main);
        init.put("env", new LinkedHashMap<String, Object>());
        init.put("namespace", "guest");
        init.put("name", "sample");
        init.put("version", "0.0.1");
        byte[] head = "{\"activation\":\"0123456789abcdef0123456789abcdef\",\"deadline\":4000000000000}".getBytes(StandardCharsets.UTF_8);
        byte[] body = params.getBytes(StandardCharsets.UTF_8);
        byte[] invoke = new byte[4 + head.length + body.length];
        Frame.writeInt(invoke, 0, head.length);
        System.arraycopy(head, 0, invoke, 4, head.length);
        System.arraycopy(body, 0, invoke, 4 + head.length, body.length);

        ByteArrayOutputStream frames = new ByteArrayOutputStream();
        append(frames, Frame.INIT, 0, JsonWriter.write(init));
        for (int call = 1; call <= CALLS; call++) {
            append(frames, Frame.INVOKE, call, invoke);
        }
        return frames.toByteArray();
    }

    private static void append(ByteArrayOutputStream frames, int kind, int call, byte[] payload) {
        byte[] header = new byte[Frame.HEADER_LENGTH];
        Frame.writeHeader(header, payload.length, kind, kind == Frame.INVOKE, call);
        frames.write(header, 0, header.length);
        frames.write(payload, 0, payload.length);
    }
}
