import java.util.Map;

public class Hello {
    public static Map<String, Object> main(Map<String, Object> params) {
        return Map.of("greeting", "Hello, " + params.get("name") + "!");
    }
}
