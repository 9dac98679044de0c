package flint;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The user's method behind one signature. */
final class Function {
    private final Method method;
    private final Class<?> parameter;
    private final boolean wantsContext;
    private final boolean wantsGson;

    Function(Method method) {
        this.method = method;
        this.parameter = method.getParameterTypes()[0];
        this.wantsContext = method.getParameterCount() == 2;
        this.wantsGson = Gson.isJson(parameter);
        method.setAccessible(true); // the class itself need not be public
    }

    /** Whether the method has a signature that is allowed for a function. */
    static boolean accepts(Method method) {
        Class<?>[] types = method.getParameterTypes();
        return (types.length == 1 || types.length == 2 && types[1] == Context.class)
            && (types[0] == Map.class || types[0] == List.class || types[0] == Object.class || Gson.isJson(types[0]));
    }

    /** Calls the method; an exception of its own is the cause of an {@code InvocationTargetException}. */
    Object call(Map<String, Object> head, byte[] payload, int start, int end, Context context)
            throws JsonException, ReflectiveOperationException, InvocationTargetException {
        String type = contentType(head);
        Object argument;
        if (!isJson(type)) {
            argument = wantsGson ? gson(binary(head, type, payload, start, end, true)) : binary(head, type, payload, start, end, false);
        } else if (wantsGson) {
            argument = Gson.parse(parameter, start == end ? "{}" : new String(payload, start, end - start, StandardCharsets.UTF_8));
        } else {
            argument = start == end ? new LinkedHashMap<String, Object>() : parse(payload, start, end);
        }
        if (argument != null && !parameter.isInstance(argument)) {
            throw new JsonException("the parameters are not a " + parameter.getSimpleName());
        }
        return wantsContext ? method.invoke(null, argument, context) : method.invoke(null, argument);
    }

    private static Object parse(byte[] payload, int start, int end) throws JsonException {
        try {
            return JsonReader.parse(payload, start, end);
        } catch (JsonException error) {
            throw new JsonException("the request body is not JSON: " + error.getMessage());
        }
    }

    private Object gson(Map<String, Object> value) throws ReflectiveOperationException, JsonException {
        return Gson.parse(parameter, new String(JsonWriter.write(value), StandardCharsets.UTF_8));
    }

    private static Map<String, Object> binary(Map<String, Object> head, String type, byte[] payload, int start, int end, boolean asText) {
        byte[] body = start == 0 && end == payload.length ? payload : Arrays.copyOfRange(payload, start, end);
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("body", asText ? Base64.getEncoder().encodeToString(body) : body);
        params.put("contentType", type);
        params.put("headers", Context.headers(head));
        params.put("method", head.get("method"));
        params.put("path", head.get("path"));
        params.put("query", head.get("query"));
        return params;
    }

    private static String contentType(Map<String, Object> head) {
        return head.get("headers") == null ? null : Context.headers(head).get("content-type");
    }

    private static boolean isJson(String type) {
        if (type == null) {
            return true;
        }
        int semicolon = type.indexOf(';');
        return (semicolon < 0 ? type : type.substring(0, semicolon)).trim().equalsIgnoreCase("application/json");
    }
}
