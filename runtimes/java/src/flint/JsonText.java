package flint;

/** Values of JSON libraries that come with the user's code, Gson's and Jackson's: their text is JSON. They are known by the names of their classes, also of those that a build has moved. */
final class JsonText {
    private JsonText() {
    }

    /** The JSON of such a value; null of any other. */
    static String of(Object value) {
        for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
            String name = type.getName();
            if (name.endsWith("gson.JsonElement") || name.endsWith("jackson.databind.JsonNode")) {
                String text = value.toString();
                return text.isEmpty() ? "null" : text; // Jackson's node for what is missing
            }
        }
        return null;
    }
}
