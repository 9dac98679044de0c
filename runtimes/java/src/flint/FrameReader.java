package flint;

import java.io.IOException;
import java.io.InputStream;

/** Reads frames from a stream. */
final class FrameReader {
    private final InputStream in;
    private final byte[] buffer = new byte[64 * 1024];
    private int start;
    private int end;
    /** The number of bytes of an incomplete frame at the end of the stream. */
    int rest;

    FrameReader(InputStream in) {
        this.in = in;
    }

    /** The next frame, or null at the end of the stream. */
    Frame next() throws IOException, ProtocolException {
        while (end - start < Frame.HEADER_LENGTH) {
            if (!fill()) {
                rest = end - start;
                return null;
            }
        }
        int length = Frame.checkHeader(buffer, start);
        int kind = buffer[start + 4];
        boolean fin = buffer[start + 5] == 1;
        int call = Frame.readInt(buffer, start + 8);
        byte[] payload = new byte[length];
        start += Frame.HEADER_LENGTH;
        int filled = Math.min(length, end - start);
        System.arraycopy(buffer, start, payload, 0, filled);
        start += filled;
        while (filled < length) {
            int count = in.read(payload, filled, length - filled);
            if (count < 0) {
                rest = Frame.HEADER_LENGTH + filled;
                return null;
            }
            filled += count;
        }
        return new Frame(kind, fin, call, payload);
    }

    /** Whether the start of a frame can be read without blocking. */
    boolean hasInput() throws IOException {
        return start < end || in.available() > 0;
    }

    private boolean fill() throws IOException {
        if (start > 0) {
            System.arraycopy(buffer, start, buffer, 0, end - start);
            end -= start;
            start = 0;
        }
        int count = in.read(buffer, end, buffer.length - end);
        if (count < 0) {
            return false;
        }
        end += count;
        return true;
    }
}
