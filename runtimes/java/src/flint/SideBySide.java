package flint;

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UnsupportedEncodingException;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Calls that run side by side, a thread each. What a call prints, also from threads that it starts, is sent as its own lines (LOG); the shared
 * threads of a fork-join pool belong to no call, and those of other pools to the call that had them started, until it is over: who gives a pool
 * its work cannot be seen from here.
 */
final class SideBySide {
    private static final int LONGEST_LINE = Frame.MAX_PAYLOAD / 2;
    /** What the threads of an executor run. */
    private static final String POOLED = "java.util.concurrent.ThreadPoolExecutor$Worker";
    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();

    private final Shim shim;
    private final Link link;
    private final Map<Integer, Call> calls = new ConcurrentHashMap<>();

    SideBySide(Shim shim, Link link) {
        this.shim = shim;
        this.link = link;
    }

    /** Before user code is loaded: it may keep what it finds as {@code System.out}. */
    static void tellOutputApart() {
        System.setOut(stream(FileDescriptor.out, 1));
        System.setErr(stream(FileDescriptor.err, 2));
    }

    private static PrintStream stream(FileDescriptor descriptor, int number) {
        try {
            return new PrintStream(new Output(new FileOutputStream(descriptor), number), true, "UTF-8");
        } catch (UnsupportedEncodingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Receives frames and hands them to the calls that they are for, until the link ends. */
    void serve() throws ProtocolException, PeerGoneException {
        while (true) {
            Frame frame = link.receive();
            Call call = calls.get(frame.call);
            if (frame.kind == Frame.INVOKE) {
                if (call != null) {
                    throw new ProtocolException("order", "INVOKE for call " + frame.call + ", which is running");
                }
                call = new Call(frame);
                calls.put(frame.call, call);
                call.thread.setDaemon(true);
                call.thread.start();
            } else if (frame.kind == Frame.INIT) {
                throw new ProtocolException("order", "Cannot initialize the action more than once.");
            } else if (call != null) {
                call.frames.add(frame); // no more than the window of its body
                if (frame.kind == Frame.ERROR) {
                    call.cancel();
                }
            } else if (frame.kind != Frame.ACK && frame.kind != Frame.ERROR) {
                throw new ProtocolException("order", "a frame of kind " + frame.kind + " does not belong to a call");
            }
        }
    }

    /** One call: its thread, its output, and the link as the shim sees it. */
    private final class Call extends Link implements Runnable {
        private final Frame first;
        private final Thread thread;
        private final BlockingQueue<Frame> frames = new LinkedBlockingQueue<>();
        private boolean streams;
        private boolean cancelled;
        private volatile boolean over;
        private final ByteArrayOutputStream[] unfinished = {null, new ByteArrayOutputStream(), new ByteArrayOutputStream()};

        Call(Frame first) {
            super(null, null);
            this.first = first;
            this.thread = new Thread(this, "flint-call-" + first.call);
        }

        @Override
        public void run() {
            CURRENT.set(this);
            try {
                shim.with(this).invoke(first);
            } catch (PeerGoneException gone) {
                Runtime.getRuntime().halt(0);
            } catch (ProtocolException error) {
                shim.abandon(error);
                Runtime.getRuntime().halt(Shim.EXIT_PROTOCOL);
            } finally {
                calls.remove(first.call);
            }
        }

        @Override
        Frame receive() throws PeerGoneException {
            while (true) {
                try {
                    return frames.take();
                } catch (InterruptedException interrupted) {
                    // Meant for the function, which has left it: nothing to the link. The flag is off now.
                }
            }
        }

        @Override
        boolean hasInput() {
            return !frames.isEmpty();
        }

        /** What the call has printed goes before its last frame, and nothing after it. */
        @Override
        synchronized void write(byte[] bytes, int length) throws PeerGoneException {
            if (over) {
                return; // it was cancelled
            }
            int kind = bytes[4];
            if (kind == Frame.END || kind == Frame.ERROR || kind == Frame.RESULT && (bytes[5] & 1) == 1) {
                finishLines();
                over = true;
            }
            send(bytes, length);
            streams |= kind == Frame.RESULT;
            if (cancelled) {
                endStream();
            }
        }

        /** Its caller is gone: a stream ends now, and not with its next piece, for which there may be long to wait. */
        synchronized void cancel() throws PeerGoneException {
            cancelled = true;
            endStream();
        }

        private void endStream() throws PeerGoneException {
            if (streams && !over) {
                send(Frame.END, first.call, new byte[0]);
                thread.interrupt();
            }
        }

        private void send(byte[] bytes, int length) throws PeerGoneException {
            synchronized (link) {
                link.write(bytes, length);
            }
        }

        private synchronized void finishLines() throws PeerGoneException {
            for (int stream = 1; stream <= 2; stream++) {
                if (unfinished[stream].size() > 0) {
                    sendLine(stream);
                }
            }
        }

        synchronized void print(int stream, byte[] bytes, int offset, int length) throws PeerGoneException {
            if (over) {
                return; // Flint drops lines of calls that have ended
            }
            int start = offset;
            for (int at = offset; at < offset + length; at++) {
                if (bytes[at] == '\n') {
                    unfinished[stream].write(bytes, start, at - start);
                    sendLine(stream);
                    start = at + 1;
                }
            }
            unfinished[stream].write(bytes, start, offset + length - start);
        }

        private void sendLine(int stream) throws PeerGoneException {
            byte[] line = unfinished[stream].toByteArray();
            unfinished[stream].reset();
            int at = 0;
            do {
                int part = Math.min(line.length - at, LONGEST_LINE);
                byte[] frame = new byte[Frame.HEADER_LENGTH + 1 + part];
                Frame.writeHeader(frame, 1 + part, Frame.LOG, false, first.call);
                frame[Frame.HEADER_LENGTH] = (byte) stream;
                System.arraycopy(line, at, frame, Frame.HEADER_LENGTH + 1, part);
                send(frame, frame.length);
                at += part;
            } while (at < line.length);
        }
    }

    /** What a call writes goes to the call, anything else to the process's own stream. */
    private static final class Output extends OutputStream {
        private final OutputStream real;
        private final int stream;

        Output(OutputStream real, int stream) {
            this.real = real;
            this.stream = stream;
        }

        @Override
        public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            Call call = CURRENT.get();
            if (call == null || isSharedThread(call)) {
                real.write(bytes, offset, length);
                return;
            }
            try {
                call.print(stream, bytes, offset, length);
            } catch (PeerGoneException gone) {
                throw new IOException("Flint is gone");
            }
        }

        /** A thread that works for whoever comes, and not for this call any more. */
        private static boolean isSharedThread(Call call) {
            Thread thread = Thread.currentThread();
            if (thread instanceof ForkJoinWorkerThread) {
                return true;
            }
            if (call.over) {
                for (StackTraceElement frame : thread.getStackTrace()) {
                    if (frame.getClassName().equals(POOLED)) {
                        return true;
                    }
                }
            }
            return false;
        }
    }
}
