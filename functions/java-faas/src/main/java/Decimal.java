/** Numbers as text with nine decimals. */
final class Decimal {
    private static final long SCALE = 1_000_000_000L;

    private Decimal() {
    }

    /** `value`, whose size is below 10⁹, rounded half up in its absolute value. */
    static String nine(double value) {
        long scaled = (long) (Math.abs(value) * SCALE + 0.5);
        StringBuilder digits = new StringBuilder(Long.toString(scaled % SCALE));
        while (digits.length() < 9) {
            digits.insert(0, '0');
        }
        return (value < 0 && scaled != 0 ? "-" : "") + scaled / SCALE + "." + digits;
    }
}
