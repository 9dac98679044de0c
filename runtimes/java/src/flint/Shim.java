package flint;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Flint's shim for Java functions: one process, one link to Flint, one function. Contract: docs/link-protocol.md.
 *
 * <p>A cold call waits for start-up, so nothing here loads classes that it does not need: no lambdas, streams, regular expressions or
 * formatters.
 */
public final class Shim {
    static final int EXIT_FAILED = 1;
    static final int EXIT_PROTOCOL = 3;
    private static final int ACK_EVERY = 256 * 1024;
    private static final int MAX_MESSAGE = 64 * 1024;
    private static final int RESULT_START = Frame.HEADER_LENGTH + 4;
    private static final String NOT_JSON = "The action did not return a dictionary or array.";
    private static final Map<String, Object> NO_HEAD = new LinkedHashMap<>();

    private final Link link;
    private final Environment environment;
    private Map<String, Object> init;
    private Function function;
    /** Calls run concurrently. */
    private boolean sideBySide;

    Shim(Link link, Environment environment) {
        this.link = link;
        this.environment = environment;
    }

    public static void main(String[] arguments) throws Exception {
        String number = System.getenv("FLINT_LINK_FD");
        Environment environment = new Environment();
        environment.remove("FLINT_LINK_FD");
        int status = EXIT_FAILED;
        try {
            status = new Shim(Link.open(number == null ? 3 : Integer.parseInt(number)), environment).run();
            flush();
        } finally {
            Runtime.getRuntime().halt(status); // does not wait for user code's threads or shutdown hooks
        }
    }

    /** Serves until the link ends; returns the exit status. */
    int run() {
        try {
            sendJson(Frame.HELLO, 0, map("protocol", 1, "runtime", "java", "version", System.getProperty("java.version")));
            if (!load()) {
                return EXIT_FAILED;
            }
            if (sideBySide) {
                new SideBySide(this, link).serve();
            }
            while (true) {
                serveOne();
            }
        } catch (PeerGoneException gone) {
            return 0;
        } catch (ProtocolException error) {
            abandon(error);
            return EXIT_PROTOCOL;
        } catch (Throwable error) { // for want of memory, for instance: nobody would read the link any more
            sendErrorIfPossible("developer", failure(error));
            return EXIT_FAILED;
        }
    }

    void abandon(ProtocolException error) {
        System.err.println("flint: protocol error: " + error.getMessage());
        sendErrorIfPossible("protocol", error.getMessage());
    }

    /** The same function on another link. */
    Shim with(Link other) {
        Shim same = new Shim(other, environment);
        same.init = init;
        same.function = function;
        return same;
    }

    private boolean load() throws ProtocolException, PeerGoneException {
        Frame frame = link.receive();
        if (frame.kind != Frame.INIT) {
            throw new ProtocolException("order", "a frame of kind " + frame.kind + " came before INIT");
        }
        init = parseObject(frame.payload, 0, frame.payload.length);
        try {
            environment.setInitial(init);
            sideBySide = init.get("concurrency") instanceof Integer && (Integer) init.get("concurrency") > 1;
            if (sideBySide) {
                SideBySide.tellOutputApart();
            }
            Code code = new Code((String) init.get("code"));
            Thread.currentThread().setContextClassLoader(code.loader);
            Method method = code.find((String) init.get("main"));
            Code.initialise(method.getDeclaringClass());
            function = new Function(method);
        } catch (Throwable error) {
            Throwable cause = error instanceof ExceptionInInitializerError && error.getCause() != null ? error.getCause() : error;
            String message;
            if (error instanceof LoadException) {
                message = error.getMessage();
                System.err.println(message);
            } else {
                message = "An error has occurred (see logs for details): " + printed(cause);
            }
            flush();
            sendErrorIfPossible("developer", "Initialization has failed due to: " + message);
            return false;
        }
        sendJson(Frame.READY, 0, NO_HEAD);
        return true;
    }

    // --- receiving a call

    /** Receives the next call, runs it and answers. */
    void serveOne() throws ProtocolException, PeerGoneException {
        Frame frame = link.receive();
        switch (frame.kind) {
            case Frame.INVOKE:
                invoke(frame);
                break;
            case Frame.ACK:
            case Frame.ERROR:
                break; // may have crossed with the end of a call
            case Frame.INIT:
                throw new ProtocolException("order", "Cannot initialize the action more than once.");
            default:
                throw new ProtocolException("order", "a frame of kind " + frame.kind + " does not begin a call");
        }
    }

    void invoke(Frame frame) throws ProtocolException, PeerGoneException {
        if (frame.call == 0) {
            throw new ProtocolException("order", "call 0 is the instance itself");
        }
        int bodyStart = Frame.bodyStart(frame.payload);
        Map<String, Object> head = bodyStart == 4 ? NO_HEAD : parseObject(frame.payload, 4, bodyStart);
        if (frame.fin) {
            run(frame.call, head, frame.payload, bodyStart, frame.payload.length);
            return;
        }
        byte[] body = receiveBody(frame, bodyStart);
        if (body != null) {
            run(frame.call, head, body, 0, body.length);
        }
    }

    /** The complete request body, or null if the caller went away before it had arrived. */
    private byte[] receiveBody(Frame first, int bodyStart) throws ProtocolException, PeerGoneException {
        LongBody body = new LongBody();
        body.add(first.payload, bodyStart);
        int unreported = first.payload.length - bodyStart;
        while (true) {
            if (unreported >= ACK_EVERY) {
                byte[] count = new byte[4];
                Frame.writeInt(count, 0, unreported);
                link.send(Frame.ACK, first.call, count);
                unreported = 0;
            }
            Frame frame = link.receive();
            if (frame.kind == Frame.ERROR) {
                if (frame.call == first.call) {
                    return null;
                }
            } else if (frame.kind != Frame.ACK) {
                if (frame.call != first.call || frame.kind != Frame.BODY && frame.kind != Frame.END) {
                    throw new ProtocolException("order", "a frame of kind " + frame.kind + " is not part of the open request body");
                }
                body.add(frame.payload, 0);
                unreported += frame.payload.length;
                if (frame.fin || frame.kind == Frame.END) {
                    return body.whole();
                }
            }
        }
    }

    // --- running it

    private void run(int call, Map<String, Object> head, byte[] payload, int start, int end) throws ProtocolException, PeerGoneException {
        Object result;
        try {
            environment.setPerCall(head);
            Thread.interrupted(); // clears an interrupt left over from the previous call
            result = function.call(head, payload, start, end, new Context(init, head));
        } catch (JsonException error) {
            fail(call, "An error has occurred: " + error.getMessage() + ".");
            return;
        } catch (Throwable error) {
            failWith(call, error instanceof InvocationTargetException ? error.getCause() : error);
            return;
        }
        try {
            answer(call, result);
        } catch (JsonException error) {
            fail(call, error.getMessage());
        } catch (ProtocolException | PeerGoneException error) {
            throw error;
        } catch (Throwable error) { // thrown by the user's stream or map
            failWith(call, error);
        }
    }

    void failWith(int call, Throwable error) throws PeerGoneException {
        fail(call, failure(error));
    }

    private static String failure(Throwable error) {
        return "An error has occurred (see logs for details): " + printed(error);
    }

    /** The exception with its stack trace; its own {@code toString} may fail. */
    private static String printed(Throwable error) {
        try {
            String text = String.valueOf(error);
            Traces.trim(error);
            error.printStackTrace();
            return text;
        } catch (Throwable unprintable) {
            return error.getClass().getName();
        }
    }

    // --- answering

    private void answer(int call, Object result) throws JsonException, IOException, ProtocolException, PeerGoneException {
        if (result instanceof Map || result instanceof Collection || isArray(result)) {
            JsonWriter json = new JsonWriter(RESULT_START);
            try {
                json.value(result);
            } catch (JsonException error) {
                throw new JsonException(NOT_JSON + " It cannot be written as JSON: " + error.getMessage() + ".");
            }
            answerJson(call, json);
        } else if (result instanceof byte[] || result instanceof InputStream) {
            String type = "application/octet-stream";
            answer(call, result instanceof byte[] ? Response.of((byte[]) result, type) : Response.of((InputStream) result, type));
        } else if (result instanceof Response) {
            answer(call, (Response) result);
        } else {
            String text = result == null ? null : JsonText.of(result);
            if (text != null && (text.startsWith("{") || text.startsWith("["))) {
                JsonWriter json = new JsonWriter(RESULT_START);
                json.raw(text);
                answerJson(call, json);
                return;
            }
            throw new JsonException(NOT_JSON + " It returned " + (result == null ? "null." : "a value of " + result.getClass() + "."));
        }
    }

    /** Of values or of a primitive type; bytes are a body. */
    private static boolean isArray(Object result) {
        return result != null && result.getClass().isArray() && !(result instanceof byte[]);
    }

    private void answerJson(int call, JsonWriter json) throws ProtocolException, PeerGoneException {
        flush();
        int length = json.length() - Frame.HEADER_LENGTH;
        byte[] bytes = json.buffer();
        if (length <= Frame.MAX_PAYLOAD) {
            Frame.writeHeader(bytes, length, Frame.RESULT, true, call); // the four bytes after it are 0: no head
            link.write(bytes, json.length());
        } else {
            link.send(Frame.RESULT, call, new byte[4]);
            link.new Outgoing(call).send(bytes, RESULT_START, json.length() - RESULT_START);
            link.send(Frame.END, call, new byte[0]);
        }
    }

    private void answer(int call, Response response) throws JsonException, IOException, ProtocolException, PeerGoneException {
        byte[] head = response.head();
        flush();
        if (response.body() instanceof InputStream) {
            try (InputStream in = (InputStream) response.body()) {
                sendResult(call, head, new byte[0], false);
                Link.Outgoing outgoing = link.new Outgoing(call);
                byte[] piece = new byte[64 * 1024];
                int count;
                do {
                    count = in.read(piece);
                } while (count >= 0 && outgoing.send(piece, 0, count));
            }
        } else {
            byte[] body = (byte[]) response.body();
            if (4 + head.length + body.length <= Frame.MAX_PAYLOAD) {
                sendResult(call, head, body, true);
                return;
            }
            sendResult(call, head, new byte[0], false);
            link.new Outgoing(call).send(body, 0, body.length);
        }
        flush();
        link.send(Frame.END, call, new byte[0]);
    }

    private void sendResult(int call, byte[] head, byte[] body, boolean fin) throws PeerGoneException {
        byte[] payload = new byte[4 + head.length + body.length];
        Frame.writeInt(payload, 0, head.length);
        System.arraycopy(head, 0, payload, 4, head.length);
        System.arraycopy(body, 0, payload, 4 + head.length, body.length);
        link.send(Frame.RESULT, call, payload, 0, payload.length, fin);
    }

    private void fail(int call, String message) throws PeerGoneException {
        flush();
        sendError(call, "developer", message);
    }

    private void sendError(int call, String kind, String message) throws PeerGoneException {
        String text = message.length() > MAX_MESSAGE ? message.substring(0, MAX_MESSAGE) : message;
        // Java's UTF-16 encoder replaces a lone surrogate by U+FFFD, its UTF-8 encoder by a question mark.
        text = new String(text.getBytes(StandardCharsets.UTF_16BE), StandardCharsets.UTF_16BE);
        sendJson(Frame.ERROR, call, map("kind", kind, "message", text));
    }

    /** Reports an error that ends the process to Flint, which may be gone already. */
    private void sendErrorIfPossible(String kind, String message) {
        try {
            sendError(0, kind, message);
        } catch (PeerGoneException gone) {
            // Flint is gone
        }
    }

    private void sendJson(int kind, int call, Map<String, Object> value) throws PeerGoneException {
        try {
            link.send(kind, call, JsonWriter.write(value));
        } catch (JsonException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void flush() {
        System.out.flush();
        System.err.flush();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> parseObject(byte[] bytes, int start, int end) throws ProtocolException {
        Object value;
        try {
            value = JsonReader.parse(bytes, start, end);
        } catch (JsonException error) {
            throw new ProtocolException("json", "malformed JSON from the peer: " + error.getMessage());
        }
        if (!(value instanceof Map)) {
            throw new ProtocolException("json", "the peer sent JSON that is not an object");
        }
        return (Map<String, Object>) value;
    }

    private static Map<String, Object> map(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }
}
