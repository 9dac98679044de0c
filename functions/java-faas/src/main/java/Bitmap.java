/** A picture of one bit a pixel, in the PBM format (P4): rows of whole bytes, the highest bit first. */
final class Bitmap {
    private final int size;
    private final int rowBytes;
    private final byte[] bits;

    Bitmap(int size) {
        this.size = size;
        rowBytes = (size + 7) / 8;
        bits = new byte[rowBytes * size];
    }

    void set(int x, int y) {
        bits[y * rowBytes + (x >> 3)] |= (byte) (0x80 >> (x & 7));
    }

    /** Eight pixels from `x` on, which divides by eight. */
    void setByte(int x, int y, int eight) {
        bits[y * rowBytes + (x >> 3)] = (byte) eight;
    }

    void print() {
        System.out.print("P4\n" + size + " " + size + "\n");
        System.out.write(bits, 0, bits.length);
        System.out.flush();
    }
}
