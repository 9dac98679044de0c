package flint;

/**
 * Recognises the JSON trees of libraries in the user's code, Gson's and Jackson's, whose {@code toString} is JSON. Matches the ends of
 * class names, because a build may have relocated the packages.
 */
final class JsonText {
    private JsonText() {
    }

    /** The JSON text of such a value, or null for any other. */
    static String of(Object value) {
        for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
            String name = type.getName();
            if (name.endsWith("gson.JsonElement") || name.endsWith("jackson.databind.JsonNode")) {
                String text = value.toString();
                return text.isEmpty() ? "null" : text; // Jackson's MissingNode
            }
        }
        return null;
    }
}
