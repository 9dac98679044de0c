import java.util.Map;

public final class Broken {
    static {
        if (true) {
            throw new IllegalStateException("broken at load");
        }
    }

    private Broken() {
    }

    public static Map<String, Object> main(Map<String, Object> params) {
        return params;
    }
}
