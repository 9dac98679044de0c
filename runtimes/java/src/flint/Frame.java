package flint;

/** A frame of the link: 12 bytes of header, then the payload. */
final class Frame {
    static final int HEADER_LENGTH = 12;
    static final int MAX_PAYLOAD = 1024 * 1024;
    static final int MAX_HEAD = 256 * 1024;

    static final int HELLO = 1;
    static final int INIT = 2;
    static final int READY = 3;
    static final int FREEZE = 4;
    static final int CLONE = 5;
    static final int RESTORE = 6;
    static final int ACK = 7;
    static final int INVOKE = 8;
    static final int BODY = 9;
    static final int END = 10;
    static final int RESULT = 11;
    static final int LOG = 12;
    static final int ERROR = 13;

    final int kind;
    final boolean fin;
    /** Holds an unsigned 32-bit number. */
    final int call;
    final byte[] payload;

    Frame(int kind, boolean fin, int call, byte[] payload) {
        this.kind = kind;
        this.fin = fin;
        this.call = call;
        this.payload = payload;
    }

    static int readInt(byte[] bytes, int at) {
        return (bytes[at] & 0xff) << 24 | (bytes[at + 1] & 0xff) << 16 | (bytes[at + 2] & 0xff) << 8 | bytes[at + 3] & 0xff;
    }

    static void writeInt(byte[] bytes, int at, int value) {
        bytes[at] = (byte) (value >>> 24);
        bytes[at + 1] = (byte) (value >>> 16);
        bytes[at + 2] = (byte) (value >>> 8);
        bytes[at + 3] = (byte) value;
    }

    static void writeHeader(byte[] bytes, int length, int kind, boolean fin, int call) {
        writeInt(bytes, 0, length);
        bytes[4] = (byte) kind;
        bytes[5] = (byte) (fin ? 1 : 0);
        bytes[6] = 0;
        bytes[7] = 0;
        writeInt(bytes, 8, call);
    }

    /** Checks the header at {@code at} and returns the length of its payload. */
    static int checkHeader(byte[] bytes, int at) throws ProtocolException {
        int length = readInt(bytes, at);
        if (length < 0 || length > MAX_PAYLOAD) {
            throw new ProtocolException("length", "a frame of " + (length & 0xffffffffL) + " bytes exceeds " + MAX_PAYLOAD);
        }
        int kind = bytes[at + 4];
        if (kind < HELLO || kind > ERROR) {
            throw new ProtocolException("kind", "unknown frame kind " + (kind & 0xff));
        }
        if ((bytes[at + 5] & ~1) != 0 || bytes[at + 6] != 0 || bytes[at + 7] != 0) {
            throw new ProtocolException("reserved", "a reserved bit of a frame header is set");
        }
        return length;
    }

    /** The offset of the body in the payload of an INVOKE or RESULT; the head lies between 4 and it. */
    static int bodyStart(byte[] payload) throws ProtocolException {
        if (payload.length < 4) {
            throw new ProtocolException("truncated", "the payload is too short for a head length");
        }
        int length = readInt(payload, 0);
        if (length < 0 || length > MAX_HEAD) {
            throw new ProtocolException("length", "a head of " + (length & 0xffffffffL) + " bytes exceeds " + MAX_HEAD);
        }
        if (4 + length > payload.length) {
            throw new ProtocolException("truncated", "the head is longer than the payload");
        }
        return 4 + length;
    }
}
