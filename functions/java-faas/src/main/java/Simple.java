/**
 * The Mandelbrot set, the plain way: z becomes z² + c at most fifty times; a point whose |z| stays within 2 is in the set. The
 * picture covers the real axis from -1.5 to 0.5 and the imaginary one from -1 to 1.
 */
public final class Simple {
    private static final int STEPS = 50;

    private Simple() {
    }

    public static void main(String[] args) {
        int n = Size.of(200);
        Bitmap picture = new Bitmap(n);
        for (int y = 0; y < n; y++) {
            double ci = 2.0 * y / n - 1.0;
            for (int x = 0; x < n; x++) {
                if (stays(2.0 * x / n - 1.5, ci)) {
                    picture.set(x, y);
                }
            }
        }
        picture.print();
    }

    private static boolean stays(double cr, double ci) {
        double zr = 0;
        double zi = 0;
        for (int step = 0; step < STEPS; step++) {
            double r = zr * zr - zi * zi + cr;
            zi = 2.0 * zr * zi + ci;
            zr = r;
            if (zr * zr + zi * zi > 4.0) {
                return false;
            }
        }
        return true;
    }
}
