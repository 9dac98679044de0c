/**
 * The spectral norm of the infinite matrix a(i, j) = 1 / ((i + j)(i + j + 1) / 2 + i + 1), cut to n rows and columns: ten rounds of the
 * power method with AᵀA, then the square root of a Rayleigh quotient.
 */
public final class SpectralNorm {
    private SpectralNorm() {
    }

    public static void main(String[] args) {
        int n = Size.of(100);
        double[] u = new double[n];
        double[] v = new double[n];
        double[] between = new double[n];
        java.util.Arrays.fill(u, 1.0);
        for (int round = 0; round < 10; round++) {
            timesBoth(u, between, v);
            timesBoth(v, between, u);
        }
        double uv = 0;
        double vv = 0;
        for (int i = 0; i < n; i++) {
            uv += u[i] * v[i];
            vv += v[i] * v[i];
        }
        System.out.println(Decimal.nine(Math.sqrt(uv / vv)));
    }

    private static double element(int i, int j) {
        return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1);
    }

    private static void timesBoth(double[] x, double[] between, double[] to) {
        int n = x.length;
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < n; j++) {
                sum += element(i, j) * x[j];
            }
            between[i] = sum;
        }
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < n; j++) {
                sum += element(j, i) * between[j];
            }
            to[i] = sum;
        }
    }
}
