/** The same picture as {@link Simple}, eight points at a time: a byte of the bitmap is one pass over eight orbits. */
public final class Mandelbrot {
    private static final int STEPS = 50;
    private static final int LANES = 8;

    private Mandelbrot() {
    }

    public static void main(String[] args) {
        int n = Size.of(200);
        Bitmap picture = new Bitmap(n);
        double[] real = new double[(n + LANES - 1) / LANES * LANES];
        for (int x = 0; x < real.length; x++) {
            real[x] = 2.0 * x / n - 1.5;
        }
        double[] zr = new double[LANES];
        double[] zi = new double[LANES];
        for (int y = 0; y < n; y++) {
            double ci = 2.0 * y / n - 1.0;
            for (int x = 0; x < n; x += LANES) {
                int inside = eight(real, x, ci, zr, zi);
                // What lies beyond the right edge is white.
                int beyond = Math.max(0, x + LANES - n);
                picture.setByte(x, y, inside & 0xff << beyond);
            }
        }
        picture.print();
    }

    /** Which of the eight points from `x` on stay, the first in the highest bit. */
    private static int eight(double[] real, int x, double ci, double[] zr, double[] zi) {
        for (int lane = 0; lane < LANES; lane++) {
            zr[lane] = 0;
            zi[lane] = 0;
        }
        int inside = 0xff;
        for (int step = 0; step < STEPS && inside != 0; step++) {
            for (int lane = 0; lane < LANES; lane++) {
                double r = zr[lane];
                double i = zi[lane];
                double nextR = r * r - i * i + real[x + lane];
                double nextI = 2.0 * r * i + ci;
                zr[lane] = nextR;
                zi[lane] = nextI;
                if (nextR * nextR + nextI * nextI > 4.0) {
                    inside &= ~(0x80 >> lane);
                }
            }
        }
        return inside;
    }
}
