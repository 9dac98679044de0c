package flint;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TimeZone;

/**
 * Sets the environment variables of the OpenWhisk contract. Java offers only a read-only view of the environment; the map behind it is
 * changed by reflection, so that {@code System.getenv} and {@code ProcessBuilder.environment()} see the variables. Needs {@code --add-opens
 * java.base/java.util=ALL-UNNAMED}.
 */
final class Environment {
    private static final String[][] PER_CALL = {
        {"activation", "__OW_ACTIVATION_ID"},
        {"deadline", "__OW_DEADLINE"},
        {"transaction", "__OW_TRANSACTION_ID"},
        {"apiKey", "__OW_API_KEY"},
        {"apiHost", "__OW_API_HOST"},
    };

    private final Map<String, String> variables;
    /** The API key and host of INIT, for calls that bring none of their own. */
    private final Map<String, String> initial = new HashMap<>();

    @SuppressWarnings("unchecked")
    Environment() throws ReflectiveOperationException {
        Map<String, String> readOnly = System.getenv();
        Field below = readOnly.getClass().getDeclaredField("m");
        below.setAccessible(true);
        variables = (Map<String, String>) below.get(readOnly);
    }

    /** Sets the variables of INIT, before user code is loaded. */
    void setInitial(Map<String, Object> init) throws JsonException {
        Object env = init.get("env");
        if (env instanceof Map) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) env).entrySet()) {
                set((String) entry.getKey(), entry.getValue() == null ? "" : entry.getValue());
            }
            setTimeZone(((Map<?, ?>) env).get("TZ"));
        }
        set("__OW_NAMESPACE", init.get("namespace"));
        if (init.get("name") != null) {
            set("__OW_ACTION_NAME", "/" + init.get("namespace") + "/" + init.get("name"));
        }
        set("__OW_ACTION_VERSION", init.get("version"));
        for (String name : new String[] {"__OW_API_KEY", "__OW_API_HOST"}) {
            if (variables.get(name) != null) {
                initial.put(name, variables.get(name));
            }
        }
    }

    /** Java has read the variable TZ already, or never does because the process had none. A colon before the name is POSIX's. */
    private static void setTimeZone(Object name) {
        if (name instanceof String && !((String) name).isEmpty()) {
            String text = (String) name;
            TimeZone.setDefault(TimeZone.getTimeZone(text.startsWith(":") ? text.substring(1) : text));
        }
    }

    void remove(String name) {
        variables.remove(name);
    }

    /** Sets the variables that differ from call to call. */
    synchronized void setPerCall(Map<String, Object> head) throws JsonException {
        for (String[] pair : PER_CALL) {
            Object value = head.get(pair[0]) == null ? initial.get(pair[1]) : head.get(pair[0]);
            if (value == null) {
                variables.remove(pair[1]);
            } else {
                set(pair[1], value);
            }
        }
    }

    private void set(String name, Object value) throws JsonException {
        if (value instanceof String) {
            variables.put(name, (String) value);
        } else if (value != null) {
            variables.put(name, new String(JsonWriter.write(value), StandardCharsets.UTF_8));
        }
    }
}
