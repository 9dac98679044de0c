package flint;

import java.util.Deque;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedDeque;

/**
 * Threads that serve one call after the other: what a function keeps in a {@link ThreadLocal} serves many calls, and none waits for the start
 * of a thread while one has nothing to do. There are about as many as there were calls at once: one is idle only some time after its call was
 * answered.
 */
final class Threads {
    private final Deque<Worker> idle = new ConcurrentLinkedDeque<>();
    private int started;

    /** Runs the work in a thread that has nothing to do, the one that worked last, or else in a new one; OutOfMemoryError if there can be none. */
    void run(Runnable work) {
        Worker worker = idle.pollFirst();
        if (worker == null) {
            worker = new Worker("flint-call-" + ++started);
            worker.start();
        }
        worker.inbox.add(work);
    }

    boolean isIdle(int threads) {
        return idle.size() == threads;
    }

    private final class Worker extends Thread {
        private final BlockingQueue<Runnable> inbox = new ArrayBlockingQueue<>(1);
        private final String name;
        private final ClassLoader loader = getContextClassLoader();

        Worker(String name) {
            super(name);
            this.name = name;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (true) {
                try {
                    inbox.take().run();
                } catch (InterruptedException late) { // meant for the function, which has returned
                    continue;
                }
                // What the function may have set.
                setContextClassLoader(loader);
                setName(name);
                setPriority(NORM_PRIORITY);
                idle.addFirst(this);
            }
        }
    }
}
