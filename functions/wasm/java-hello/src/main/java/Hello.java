/** Greets whoever calls: arguments come on standard input, the answer goes to standard output, the log to standard error. */
public final class Hello {
    private Hello() {
    }

    public static void main(String[] args) {
        try {
            System.out.print(greet(Stdin.readAll()));
        } catch (RuntimeException error) {
            // What leaves main ends the call without its message.
            System.err.println(error);
            throw error;
        }
    }

    private static String greet(String json) {
        String name = member(json, "name", "world");
        System.err.println("called by " + name);
        return "{\"greeting\": \"Hello, " + name + "!\"}";
    }

    /** The text of a string member, escapes as they are. No substitute for a JSON library. */
    private static String member(String json, String key, String otherwise) {
        int at = json.indexOf('"' + key + '"');
        int from = at < 0 ? -1 : json.indexOf('"', at + key.length() + 2) + 1;
        if (from <= 0) {
            return otherwise;
        }
        int to = from;
        while (to < json.length() && json.charAt(to) != '"') {
            to += json.charAt(to) == '\\' ? 2 : 1;
        }
        return to < json.length() ? json.substring(from, to) : otherwise;
    }
}
