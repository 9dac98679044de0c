import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Gets and puts objects of an S3 store, with signature version 4. The environment says where: S3_URL, S3_BUCKET, S3_REGION,
 * S3_ACCESS_KEY, S3_SECRET_KEY. The JDK keeps the connection.
 */
final class S3 {
    private static final DateTimeFormatter STAMP = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'");
    private static final HexFormat HEX = HexFormat.of();

    static byte[] get(String key) throws IOException {
        return ask("GET", key, new byte[0]);
    }

    static void put(String key, byte[] data) throws IOException {
        ask("PUT", key, data);
    }

    private static byte[] ask(String method, String key, byte[] data) throws IOException {
        URL url = URI.create(System.getenv("S3_URL") + "/" + System.getenv("S3_BUCKET") + "/" + key).toURL();
        HttpURLConnection connection = (HttpURLConnection) url.openConnection();
        connection.setRequestMethod(method);
        connection.setReadTimeout(30_000);
        sign(connection, method, url, data);
        if (data.length > 0) {
            connection.setDoOutput(true);
            connection.setFixedLengthStreamingMode(data.length);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(data);
            }
        }
        if (connection.getResponseCode() != 200) {
            throw new IOException(method + " " + url + ": the store answered with " + connection.getResponseCode());
        }
        try (InputStream in = connection.getInputStream()) {
            return in.readAllBytes();
        }
    }

    private static void sign(HttpURLConnection connection, String method, URL url, byte[] data) {
        String now = ZonedDateTime.now(ZoneOffset.UTC).format(STAMP);
        String digest = HEX.formatHex(sha256(data));
        String names = "host;x-amz-content-sha256;x-amz-date";
        String asked = String.join("\n", method, url.getPath(), "", "host:" + url.getAuthority(),
                "x-amz-content-sha256:" + digest, "x-amz-date:" + now, "", names, digest);
        String scope = now.substring(0, 8) + "/" + System.getenv("S3_REGION") + "/s3/aws4_request";
        String text = String.join("\n", "AWS4-HMAC-SHA256", now, scope, HEX.formatHex(sha256(bytes(asked))));
        byte[] key = bytes("AWS4" + System.getenv("S3_SECRET_KEY"));
        for (String part : scope.split("/")) {
            key = hmac(key, part);
        }
        connection.setRequestProperty("x-amz-content-sha256", digest);
        connection.setRequestProperty("x-amz-date", now);
        connection.setRequestProperty("authorization", "AWS4-HMAC-SHA256 Credential=" + System.getenv("S3_ACCESS_KEY") + "/" + scope
                + ", SignedHeaders=" + names + ", Signature=" + HEX.formatHex(hmac(key, text)));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] sha256(byte[] data) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(data);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] hmac(byte[] key, String text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(bytes(text));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private S3() {}
}
