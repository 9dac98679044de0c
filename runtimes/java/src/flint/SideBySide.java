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
 * Runs calls concurrently, each in a thread ({@link Threads}). The output of a call, including that of threads it starts, is sent as its own LOG
 * lines. The shared threads of a fork-join pool belong to no call; those of other pools belong to the call during which they were started,
 * until it is over, because the submitter of a task is not visible here.
 */
final class SideBySide {
    private static final int LONGEST_LINE = Frame.MAX_PAYLOAD / 2;
    /** The class on the stack of every thread of an executor. */
    private static final String POOLED = "java.util.concurrent.ThreadPoolExecutor$Worker";
    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();

    private final Shim shim;
    private final Link link;
    private final Map<Integer, Call> calls = new ConcurrentHashMap<>();
    private final Threads threads = new Threads();

    SideBySide(Shim shim, Link link) {
        this.shim = shim;
        this.link = link;
    }

    /** Installed before user code is loaded, which may keep a reference to the {@code System.out} that it finds. */
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

    /** Receives frames and passes them to their calls, until the link ends. */
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
                call.begin();
            } else if (frame.kind == Frame.INIT) {
                throw new ProtocolException("order", "Cannot initialize the action more than once.");
            } else if (call != null) {
                call.frames.add(frame); // bounded by the window of its body
                if (frame.kind == Frame.ERROR) {
                    call.cancel();
                }
            } else if (frame.kind != Frame.ACK && frame.kind != Frame.ERROR) {
                throw new ProtocolException("order", "a frame of kind " + frame.kind + " does not belong to a call");
            }
        }
    }

    /** One call: its thread, its output, and its view of the link. */
    private final class Call extends Link implements Runnable {
        private final Frame first;
        /** While it runs. */
        private Thread thread;
        private final BlockingQueue<Frame> frames = new LinkedBlockingQueue<>();
        private boolean streams;
        private boolean cancelled;
        private volatile boolean over;
        private final ByteArrayOutputStream[] unfinished = {null, new ByteArrayOutputStream(), new ByteArrayOutputStream()};

        Call(Frame first) {
            super(null, null);
            this.first = first;
        }

        /** Gives it a thread; if there can be no more, the call fails and others go on. */
        void begin() throws PeerGoneException {
            try {
                threads.run(this);
            } catch (OutOfMemoryError error) {
                calls.remove(first.call);
                shim.with(this).failWith(first.call, error);
            }
        }

        @Override
        public void run() {
            CURRENT.set(this);
            servedBy(Thread.currentThread());
            try {
                shim.with(this).invoke(first);
            } catch (PeerGoneException gone) {
                Runtime.getRuntime().halt(0);
            } catch (ProtocolException error) {
                shim.abandon(error);
                Runtime.getRuntime().halt(Shim.EXIT_PROTOCOL);
            } catch (Throwable error) { // for want of memory, for instance
                answerWith(error);
            } finally {
                calls.remove(first.call);
                servedBy(null);
                CURRENT.remove();
            }
        }

        private synchronized void servedBy(Thread its) {
            thread = its;
        }

        private void answerWith(Throwable error) {
            try {
                shim.with(this).failWith(first.call, error);
            } catch (PeerGoneException gone) {
                Runtime.getRuntime().halt(0);
            }
        }

        @Override
        Frame receive() throws PeerGoneException {
            while (true) {
                try {
                    return frames.take();
                } catch (InterruptedException interrupted) {
                    // Meant for the function, which has returned; must not reach the link. The interrupt status is clear now.
                }
            }
        }

        @Override
        boolean hasInput() {
            return !frames.isEmpty();
        }

        /** Sends the call's output before its last frame, and nothing after it. */
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

        /** The caller is gone: ends a stream at once, because its next piece may be long in coming. */
        synchronized void cancel() throws PeerGoneException {
            cancelled = true;
            endStream();
        }

        private void endStream() throws PeerGoneException {
            if (streams && !over) {
                send(Frame.END, first.call, new byte[0]);
                if (thread != null) { // it may have just returned
                    thread.interrupt();
                }
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

    /** Passes the output of a call to the call, and all other output to the process's own stream. */
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

        /** Whether the thread is a pool's and no longer works for this call. */
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
