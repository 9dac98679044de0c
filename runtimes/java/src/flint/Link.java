package flint;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Constructor;

/** The socket to Flint, blocking. With concurrent calls, a subclass presents it to each call. */
class Link {
    private static final int WINDOW = 1024 * 1024;
    private static final int PIECE = 64 * 1024;

    private final FrameReader reader;
    private final OutputStream out;

    Link(InputStream in, OutputStream out) {
        this.reader = in == null ? null : new FrameReader(in);
        this.out = out;
    }

    /**
     * Opens an inherited descriptor. Java has no public API for this if the descriptor is a socket ({@code /proc/self/fd/3} cannot be
     * opened again), so the JVM is started with {@code --add-opens java.base/java.io=ALL-UNNAMED}. Child processes do not inherit the
     * descriptor: the JVM closes all above 2 in them.
     */
    static Link open(int number) throws ReflectiveOperationException {
        Constructor<FileDescriptor> constructor = FileDescriptor.class.getDeclaredConstructor(int.class);
        constructor.setAccessible(true);
        FileDescriptor descriptor = constructor.newInstance(number);
        return new Link(new FileInputStream(descriptor), new FileOutputStream(descriptor));
    }

    Frame receive() throws ProtocolException, PeerGoneException {
        Frame frame;
        try {
            frame = reader.next();
        } catch (IOException reset) {
            throw new PeerGoneException();
        }
        if (frame == null) {
            throw new PeerGoneException();
        }
        return frame;
    }

    void send(int kind, int call, byte[] payload, int offset, int length, boolean fin) throws PeerGoneException {
        byte[] frame = new byte[Frame.HEADER_LENGTH + length];
        Frame.writeHeader(frame, length, kind, fin, call);
        System.arraycopy(payload, offset, frame, Frame.HEADER_LENGTH, length);
        write(frame, frame.length);
    }

    void send(int kind, int call, byte[] payload) throws PeerGoneException {
        send(kind, call, payload, 0, payload.length, false);
    }

    /** Writes complete frames that the caller has encoded. */
    void write(byte[] frames, int length) throws PeerGoneException {
        try {
            out.write(frames, 0, length);
        } catch (IOException gone) {
            throw new PeerGoneException();
        }
    }

    boolean hasInput() throws PeerGoneException {
        try {
            return reader.hasInput();
        } catch (IOException reset) {
            throw new PeerGoneException();
        }
    }

    /** Flow control of one response body, within the window of unacknowledged bytes. */
    final class Outgoing {
        private final int call;
        private int unacknowledged;
        private boolean cancelled;

        Outgoing(int call) {
            this.call = call;
        }

        /** Sends bytes of the body; false when the caller has gone away. */
        boolean send(byte[] bytes, int offset, int length) throws ProtocolException, PeerGoneException {
            while (length > 0) {
                int piece = Math.min(length, PIECE);
                while (!cancelled && (unacknowledged + piece > WINDOW || Link.this.hasInput())) {
                    take(receive());
                }
                if (cancelled) {
                    return false;
                }
                unacknowledged += piece;
                Link.this.send(Frame.BODY, call, bytes, offset, piece, false);
                offset += piece;
                length -= piece;
            }
            return true;
        }

        private void take(Frame frame) throws ProtocolException {
            if (frame.kind == Frame.ACK && frame.payload.length == 4) {
                if (frame.call == call) {
                    unacknowledged -= Frame.readInt(frame.payload, 0);
                    if (unacknowledged < 0) {
                        throw new ProtocolException("order", "more bytes were acknowledged than sent");
                    }
                }
            } else if (frame.kind == Frame.ERROR) {
                cancelled |= frame.call == call;
            } else {
                throw new ProtocolException("order", "a frame of kind " + frame.kind + " came while a call was running");
            }
        }
    }
}
