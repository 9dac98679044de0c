import java.util.Map;

/** The smallest function: parameters in, a JSON object out. */
public class Hello {
    public static Map<String, Object> main(Map<String, Object> params) {
        return Map.of("greeting", "Hello, " + params.getOrDefault("name", "world") + "!");
    }
}
