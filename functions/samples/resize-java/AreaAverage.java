import java.awt.color.ColorSpace;
import java.awt.image.BufferedImage;

/** Shrinks pictures: every pixel of the result is the mean of the area that it covers in the source. */
final class AreaAverage {
    private static final int CHANNELS = 4;

    private AreaAverage() {}

    /**
     * Makes a smaller copy of a picture. Colours are weighted by their opacity, so that transparent pixels do not bleed into
     * visible ones.
     */
    static BufferedImage shrink(BufferedImage source, int toWidth, int toHeight) {
        int width = source.getWidth();
        int height = source.getHeight();
        float[][] columns = coverage(width, toWidth);
        float[][] rows = coverage(height, toHeight);

        // Along each row first; the line that comes out is added to every row of the result that it lies in.
        float[] sums = new float[toWidth * toHeight * CHANNELS];
        float[] line = new float[toWidth * CHANNELS];
        int[] pixels = new int[width];
        int firstRow = 0;
        for (int y = 0; y < height; y++) {
            readRow(source, y, pixels);
            shrinkLine(pixels, columns, line);
            while (y >= end(rows[firstRow])) firstRow++;
            for (int row = firstRow; row < toHeight && y >= first(rows[row]); row++) {
                float weight = rows[row][1 + y - first(rows[row])];
                int at = row * line.length;
                for (int i = 0; i < line.length; i++) sums[at + i] += line[i] * weight;
            }
        }

        boolean opaque = !source.getColorModel().hasAlpha();
        int type = opaque ? BufferedImage.TYPE_INT_RGB : BufferedImage.TYPE_INT_ARGB;
        BufferedImage result = new BufferedImage(toWidth, toHeight, type);
        for (int i = 0; i < toWidth * toHeight; i++) {
            result.setRGB(i % toWidth, i / toWidth, pixel(sums, i * CHANNELS));
        }
        return result;
    }

    /**
     * One row as ARGB. `getRGB` takes the values of a grey picture for linear light and makes them brighter; the files hold
     * them as they are to be shown.
     */
    private static void readRow(BufferedImage source, int y, int[] argb) {
        if (source.getColorModel().getColorSpace().getType() != ColorSpace.TYPE_GRAY) {
            source.getRGB(0, y, argb.length, 1, argb, 0, argb.length);
            return;
        }
        int to8Bits = Math.max(0, source.getColorModel().getComponentSize(0) - 8);
        source.getRaster().getSamples(0, y, argb.length, 1, 0, argb);
        for (int x = 0; x < argb.length; x++) {
            int grey = argb[x] >> to8Bits;
            int alpha = source.getColorModel().getAlpha(source.getRaster().getDataElements(x, y, null));
            argb[x] = alpha << 24 | grey << 16 | grey << 8 | grey;
        }
    }

    private static void shrinkLine(int[] pixels, float[][] columns, float[] line) {
        for (int x = 0; x < columns.length; x++) {
            float red = 0, green = 0, blue = 0, alpha = 0;
            int first = first(columns[x]);
            for (int i = 1; i < columns[x].length; i++) {
                int argb = pixels[first + i - 1];
                float opacity = (argb >>> 24) * columns[x][i];
                red += (argb >> 16 & 0xff) * opacity;
                green += (argb >> 8 & 0xff) * opacity;
                blue += (argb & 0xff) * opacity;
                alpha += opacity;
            }
            int at = x * CHANNELS;
            line[at] = red;
            line[at + 1] = green;
            line[at + 2] = blue;
            line[at + 3] = alpha;
        }
    }

    private static int pixel(float[] sums, int at) {
        float alpha = sums[at + 3];
        float scale = alpha > 0 ? 1 / alpha : 0;
        int red = Math.round(sums[at] * scale);
        int green = Math.round(sums[at + 1] * scale);
        int blue = Math.round(sums[at + 2] * scale);
        return Math.round(alpha) << 24 | red << 16 | green << 8 | blue;
    }

    /** For each of `to` cells: the first of the `from` cells that it covers, then the share of each in it (sum 1). */
    private static float[][] coverage(int from, int to) {
        float[][] cells = new float[to][];
        double size = (double) from / to;
        for (int cell = 0; cell < to; cell++) {
            double start = cell * size;
            double end = Math.min(from, start + size);
            int first = (int) start;
            int last = Math.min(from, (int) Math.ceil(end));
            cells[cell] = new float[1 + last - first];
            cells[cell][0] = first;
            for (int i = first; i < last; i++) {
                cells[cell][1 + i - first] = (float) ((Math.min(end, i + 1) - Math.max(start, i)) / (end - start));
            }
        }
        return cells;
    }

    private static int first(float[] cell) {
        return (int) cell[0];
    }

    private static int end(float[] cell) {
        return first(cell) + cell.length - 1;
    }
}
