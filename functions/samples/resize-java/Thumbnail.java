import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Iterator;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import javax.imageio.IIOImage;
import javax.imageio.ImageIO;
import javax.imageio.ImageReader;
import javax.imageio.ImageWriteParam;
import javax.imageio.ImageWriter;
import javax.imageio.stream.ImageInputStream;
import javax.imageio.stream.ImageOutputStream;

/** A small version of a picture, encoded in the picture's format. */
record Thumbnail(byte[] bytes, String contentType) {
    private static final Set<String> FORMATS = Set.of("jpeg", "png");
    private static final float JPEG_QUALITY = 0.85f;

    static {
        System.setProperty("java.awt.headless", "true");
        ImageIO.setUseCache(false); // in memory, not in files
    }

    /**
     * Makes a thumbnail whose longest side is at most `longest` pixels; empty when `picture` is neither JPEG nor PNG.
     *
     * @throws IOException when the picture is damaged
     */
    static Optional<Thumbnail> of(byte[] picture, int longest) throws IOException {
        try (ImageInputStream input = ImageIO.createImageInputStream(new ByteArrayInputStream(picture))) {
            Iterator<ImageReader> readers = ImageIO.getImageReaders(input);
            if (!readers.hasNext()) return Optional.empty();
            ImageReader reader = readers.next();
            try {
                String format = reader.getFormatName().toLowerCase(Locale.ROOT);
                if (!FORMATS.contains(format)) return Optional.empty();
                reader.setInput(input, true, true);
                BufferedImage small = shrink(reader.read(0), longest);
                return Optional.of(new Thumbnail(encode(small, format), "image/" + format));
            } finally {
                reader.dispose();
            }
        }
    }

    private static BufferedImage shrink(BufferedImage picture, int longest) {
        int width = picture.getWidth();
        int height = picture.getHeight();
        double scale = Math.min(1, (double) longest / Math.max(width, height));
        int toWidth = Math.max(1, (int) Math.round(width * scale));
        int toHeight = Math.max(1, (int) Math.round(height * scale));
        return AreaAverage.shrink(picture, toWidth, toHeight);
    }

    private static byte[] encode(BufferedImage picture, String format) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ImageWriter writer = ImageIO.getImageWritersByFormatName(format).next();
        try (ImageOutputStream output = ImageIO.createImageOutputStream(bytes)) {
            ImageWriteParam options = writer.getDefaultWriteParam();
            if (format.equals("jpeg")) {
                options.setCompressionMode(ImageWriteParam.MODE_EXPLICIT);
                options.setCompressionQuality(JPEG_QUALITY);
            }
            writer.setOutput(output);
            writer.write(null, new IIOImage(picture, null, null), options);
        } finally {
            writer.dispose();
        }
        return bytes.toByteArray();
    }
}
