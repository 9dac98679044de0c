import java.math.BigInteger;

/**
 * The first n decimal digits of π, ten a line with their count. They come from a stream of linear fractional transformations
 * (Gibbons, "Unbounded Spigot Algorithms for the Digits of Pi", 2006): π = 2 + 1/3 (2 + 2/5 (2 + 3/7 (…))), taken in term by term; a
 * digit is known when the bounds 3 and 4 of what is left agree on it.
 */
public final class PiDigits {
    private static final BigInteger THREE = BigInteger.valueOf(3);
    private static final BigInteger FOUR = BigInteger.valueOf(4);

    private PiDigits() {
    }

    public static void main(String[] args) {
        int n = Size.of(100);
        StringBuilder text = new StringBuilder();
        // x becomes (q x + r) / t
        BigInteger q = BigInteger.ONE;
        BigInteger r = BigInteger.ZERO;
        BigInteger t = BigInteger.ONE;
        int found = 0;
        for (int k = 1; found < n; ) {
            BigInteger digit = q.multiply(THREE).add(r).divide(t);
            if (digit.equals(q.multiply(FOUR).add(r).divide(t))) {
                text.append((char) ('0' + digit.intValue()));
                found++;
                if (found % 10 == 0) {
                    text.append("\t:").append(found).append('\n');
                }
                r = r.subtract(digit.multiply(t)).multiply(BigInteger.TEN);
                q = q.multiply(BigInteger.TEN);
            } else {
                BigInteger odd = BigInteger.valueOf(2L * k + 1);
                r = q.shiftLeft(1).add(r).multiply(odd);
                q = q.multiply(BigInteger.valueOf(k));
                t = t.multiply(odd);
                k++;
            }
        }
        if (n % 10 != 0) {
            for (int missing = n % 10; missing < 10; missing++) {
                text.append(' ');
            }
            text.append("\t:").append(n).append('\n');
        }
        System.out.print(text);
    }
}
