import java.util.LinkedHashMap;
import java.util.Map;

public final class Hello {
    private Hello() {
    }

    public static Map<String, Object> main(Map<String, Object> params) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("greeting", "Hello " + params.get("name"));
        return result;
    }
}
