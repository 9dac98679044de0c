package flint;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A reply that is not JSON: bytes, text or a stream, with status and headers. */
public final class Response {
    private final Object body;
    private final String contentType;
    private int status = 200;
    private final List<Object> headers = new ArrayList<>();

    private Response(Object body, String contentType) {
        this.body = body;
        this.contentType = contentType;
    }

    public static Response of(byte[] body, String contentType) {
        return new Response(body, contentType);
    }

    public static Response of(String body, String contentType) {
        return new Response(body.getBytes(StandardCharsets.UTF_8), contentType);
    }

    /** The stream is sent as it is read, and then closed. */
    public static Response of(InputStream body, String contentType) {
        return new Response(body, contentType);
    }

    public Response status(int status) {
        this.status = status;
        return this;
    }

    /** Adds a header; a name may be added repeatedly. */
    public Response header(String name, String value) {
        headers.add(new Object[] {name.toLowerCase(Locale.ROOT), value});
        return this;
    }

    /** A {@code byte[]} or an {@code InputStream}. */
    Object body() {
        return body;
    }

    byte[] head() throws JsonException {
        List<Object> pairs = new ArrayList<>(headers);
        pairs.add(new Object[] {"content-type", contentType});
        Map<String, Object> head = new LinkedHashMap<>();
        head.put("status", status);
        head.put("headers", pairs);
        byte[] json = JsonWriter.write(head);
        if (json.length > Frame.MAX_HEAD) {
            throw new JsonException("The head of the answer is too large: status and headers have " + json.length + " bytes as JSON, and may have "
                + Frame.MAX_HEAD + ".");
        }
        return json;
    }
}
