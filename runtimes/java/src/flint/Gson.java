package flint;

import java.lang.reflect.InvocationTargetException;

/**
 * Supports the signature of OpenWhisk's Java actions, {@code JsonObject main(JsonObject)}. Gson is loaded with the user's code and
 * therefore called by reflection; values are converted through JSON text.
 */
final class Gson {
    private static final String PACKAGE = "com.google.gson.";

    private Gson() {
    }

    static boolean isJson(Class<?> type) {
        String name = type.getName();
        return name.startsWith(PACKAGE)
            && (name.equals(PACKAGE + "JsonObject") || name.equals(PACKAGE + "JsonArray") || name.equals(PACKAGE + "JsonElement"));
    }

    /** The JSON text as an instance of Gson's {@code type}. */
    static Object parse(Class<?> type, String json) throws ReflectiveOperationException, JsonException {
        Class<?> parser = Class.forName(PACKAGE + "JsonParser", true, type.getClassLoader());
        Object value;
        try {
            // The static parseString exists since Gson 2.8.6; the instance method exists in every version.
            value = parser.getMethod("parse", String.class).invoke(parser.getConstructor().newInstance(), json);
        } catch (InvocationTargetException error) {
            throw new JsonException(String.valueOf(error.getCause()));
        }
        if (!type.isInstance(value)) {
            throw new JsonException("the parameters are not a " + type.getSimpleName());
        }
        return value;
    }
}
