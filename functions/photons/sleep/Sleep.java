import java.util.Map;

public class Sleep {
    public static Map<String, Object> main(Map<String, Object> params) throws InterruptedException {
        long ms = Long.parseLong(params.get("time").toString());
        Thread.sleep(ms);
        return Map.of("slept", ms);
    }
}
