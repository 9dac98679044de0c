package flint;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

final class ThreadsTest {
    private ThreadsTest() {
    }

    /** How many calls the thread has served, itself included. */
    private static final class Count extends ThreadLocal<Integer> {
        private final List<Integer> seen = Collections.synchronizedList(new ArrayList<>());
        private final List<Thread> threads = Collections.synchronizedList(new ArrayList<>());

        @Override
        protected Integer initialValue() {
            return 0;
        }

        void call() {
            set(get() + 1);
            seen.add(get());
            threads.add(Thread.currentThread());
        }
    }

    private static void until(Threads threads, int idle) throws InterruptedException {
        while (!threads.isIdle(idle)) {
            Thread.sleep(1);
        }
    }

    static void testAThreadServesOneCallAfterTheOther() throws Exception {
        Threads threads = new Threads();
        Count count = new Count();
        for (int call = 0; call < 3; call++) {
            threads.run(() -> {
                count.call();
                Thread.currentThread().setContextClassLoader(null);
                Thread.currentThread().interrupt();
            });
            until(threads, 1);
        }
        Tests.equal(count.seen, List.of(1, 2, 3));
        Tests.equal(new HashSet<>(count.threads).size(), 1);
        ClassLoader[] loader = {null};
        threads.run(() -> loader[0] = Thread.currentThread().getContextClassLoader());
        until(threads, 1);
        Tests.equal(loader[0], Thread.currentThread().getContextClassLoader());
    }

    static void testCallsAtOnceHaveAThreadEachAndTheseStay() throws Exception {
        Threads threads = new Threads();
        Count count = new Count();
        CyclicBarrier together = new CyclicBarrier(4);
        for (int round = 0; round < 2; round++) {
            for (int call = 0; call < 3; call++) {
                threads.run(() -> {
                    count.call();
                    Tests.unchecked(together::await);
                });
            }
            together.await();
            until(threads, 3);
        }
        List<Integer> seen = new ArrayList<>(count.seen);
        Collections.sort(seen);
        Tests.equal(seen, List.of(1, 1, 1, 2, 2, 2));
    }
}
