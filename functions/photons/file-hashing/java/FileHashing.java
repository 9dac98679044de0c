import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;

public class FileHashing {
    public static Map<String, Object> main(Map<String, Object> params) throws IOException, GeneralSecurityException {
        long started = System.nanoTime();
        byte[] data = S3.get("files/file-" + params.get("seed") + ".dat");
        MessageDigest md5 = MessageDigest.getInstance("MD5");
        md5.update(data, 0, Math.min(data.length, ((Number) params.get("bytes")).intValue()));
        String hash = HexFormat.of().withUpperCase().formatHex(md5.digest());
        return Map.of("hash", hash, "time", (System.nanoTime() - started) / 1e6);
    }
}
