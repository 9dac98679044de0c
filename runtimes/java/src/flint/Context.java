package flint;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The call's metadata, which a handler gets as the second parameter of {@code main(Map, Context)}. */
public final class Context {
    private final Map<String, Object> init;
    private final Map<String, Object> head;

    Context(Map<String, Object> init, Map<String, Object> head) {
        this.init = init;
        this.head = head;
    }

    public String getActivationId() {
        return (String) head.get("activation");
    }

    public String getTransactionId() {
        return (String) head.get("transaction");
    }

    public String getNamespace() {
        return (String) init.get("namespace");
    }

    public String getFunctionName() {
        return (String) init.get("name");
    }

    public String getFunctionVersion() {
        return (String) init.get("version");
    }

    /** The deadline of the call, in milliseconds since the epoch. */
    public long getDeadlineMs() {
        Object deadline = head.get("deadline");
        return deadline instanceof Number ? ((Number) deadline).longValue() : Long.MAX_VALUE;
    }

    public long getRemainingTimeInMillis() {
        return Math.max(0, getDeadlineMs() - System.currentTimeMillis());
    }

    /** The HTTP method of the request; null, as for the next three, if the call did not come by HTTP. */
    public String getMethod() {
        return (String) head.get("method");
    }

    public String getPath() {
        return (String) head.get("path");
    }

    public String getQuery() {
        return (String) head.get("query");
    }

    /** The request's headers by lower-case name. */
    public Map<String, String> getHeaders() {
        return head.get("headers") == null ? null : Collections.unmodifiableMap(headers(head));
    }

    /** The header pairs of the head as a map; values of a repeated name are joined with a comma, as HTTP allows. */
    static Map<String, String> headers(Map<String, Object> head) {
        Map<String, String> headers = new LinkedHashMap<>();
        for (Object pair : (List<?>) head.get("headers")) {
            String name = (String) ((List<?>) pair).get(0);
            String value = (String) ((List<?>) pair).get(1);
            String before = headers.get(name);
            headers.put(name, before == null ? value : before + ", " + value);
        }
        return headers;
    }
}
