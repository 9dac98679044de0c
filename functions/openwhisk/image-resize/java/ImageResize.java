import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Base64;
import java.util.Map;
import javax.imageio.ImageIO;

/** Takes a picture in base64 and makes it exactly w by h, bilinear; the answer is a PNG in base64. */
public class ImageResize {
    static {
        System.setProperty("java.awt.headless", "true");
        ImageIO.setUseCache(false);
    }

    public static Map<String, Object> main(Map<String, Object> params) throws IOException {
        long startTime = System.currentTimeMillis();
        long started = System.nanoTime();
        byte[] bytes = Base64.getDecoder().decode((String) params.get("img"));
        BufferedImage picture = ImageIO.read(new ByteArrayInputStream(bytes));
        if (picture == null) {
            return Map.of("error", "img is not a picture");
        }
        BufferedImage resized = resize(picture, number(params, "w"), number(params, "h"));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ImageIO.write(resized, "png", out);
        String image = Base64.getEncoder().encodeToString(out.toByteArray());
        return Map.of("image", image, "executeTime", System.nanoTime() - started, "startTime", startTime);
    }

    private static BufferedImage resize(BufferedImage picture, int width, int height) {
        int type = picture.getType() == BufferedImage.TYPE_CUSTOM ? BufferedImage.TYPE_INT_ARGB : picture.getType();
        BufferedImage resized = new BufferedImage(width, height, type);
        Graphics2D graphics = resized.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_INTERPOLATION, RenderingHints.VALUE_INTERPOLATION_BILINEAR);
        graphics.drawImage(picture, 0, 0, width, height, null);
        graphics.dispose();
        return resized;
    }

    private static int number(Map<String, Object> params, String name) {
        return ((Number) params.get(name)).intValue();
    }
}
