package flint;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.SequenceInputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs the shim once over synthetic frames and exits 0, for the training run that writes a CDS or AOT archive.
 *
 * <p>{@code flint.Train} trains the shim alone; {@code flint.Train CODE MAIN [PARAMS]} also loads and calls a function. Classes of CODE
 * enter the archive only if CODE is on the class path.
 */
public final class Train {
    static final int CALLS = 50;
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
        int status = new Shim(new Link(peer(code, main, params), OutputStream.nullOutputStream()), environment).run();
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

    /**
     * What the peer sends, one frame a read: the shim, which reads between calls or where it must wait, sees nothing of the next call in
     * the middle of one. Each call is followed by its cancellation. That is ignored after the call's end; where the answer's window is
     * full it ends the answer, however long that would become.
     */
    static InputStream peer(String code, String main, String params) throws JsonException {
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
        byte[] cancelled = "{\"kind\":\"cancelled\",\"message\":\"the caller has gone away\"}".getBytes(StandardCharsets.UTF_8);

        List<InputStream> frames = new ArrayList<>();
        frames.add(frame(Frame.INIT, 0, JsonWriter.write(init)));
        for (int call = 1; call <= CALLS; call++) {
            frames.add(frame(Frame.INVOKE, call, invoke));
            frames.add(frame(Frame.ERROR, call, cancelled));
        }
        return new SequenceInputStream(Collections.enumeration(frames));
    }

    private static InputStream frame(int kind, int call, byte[] payload) {
        byte[] bytes = new byte[Frame.HEADER_LENGTH + payload.length];
        Frame.writeHeader(bytes, payload.length, kind, kind == Frame.INVOKE, call);
        System.arraycopy(payload, 0, bytes, Frame.HEADER_LENGTH, payload.length);
        return new ByteArrayInputStream(bytes);
    }
}
