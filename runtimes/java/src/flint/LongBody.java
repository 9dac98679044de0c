package flint;

import java.util.ArrayList;
import java.util.List;

/** A request body that comes in several frames. In blocks, since a buffer that grows would take half as much memory again. */
final class LongBody {
    private static final int BLOCK = 256 * 1024;

    private final List<byte[]> full = new ArrayList<>();
    private byte[] last = new byte[BLOCK];
    private int filled;

    /** Appends the bytes from {@code start} on. */
    void add(byte[] bytes, int start) {
        int at = start;
        while (at < bytes.length) {
            if (filled == BLOCK) {
                full.add(last);
                last = new byte[BLOCK];
                filled = 0;
            }
            int count = Math.min(bytes.length - at, BLOCK - filled);
            System.arraycopy(bytes, at, last, filled, count);
            filled += count;
            at += count;
        }
    }

    byte[] whole() {
        byte[] whole = new byte[Math.addExact(Math.multiplyExact(full.size(), BLOCK), filled)];
        int at = 0;
        for (byte[] block : full) {
            System.arraycopy(block, 0, whole, at, BLOCK);
            at += BLOCK;
        }
        System.arraycopy(last, 0, whole, at, filled);
        return whole;
    }
}
