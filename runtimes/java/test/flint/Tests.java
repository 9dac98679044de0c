package flint;

import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Objects;

/** Runs every method {@code test…} of the test classes; closes with "N passed, N failed". Arguments: the vectors file. */
public final class Tests {
    static String vectors;

    private Tests() {
    }

    public static void main(String[] arguments) throws Exception {
        vectors = arguments[0];
        PrintStream report = System.out;
        int passed = 0;
        int failed = 0;
        for (Class<?> type : new Class<?>[] {FrameTest.class, JsonTest.class, CodeTest.class, CallTest.class, CompileTest.class, ThreadsTest.class}) {
            Method[] methods = type.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (!method.getName().startsWith("test")) {
                    continue;
                }
                try {
                    method.invoke(null);
                    passed++;
                } catch (InvocationTargetException error) {
                    failed++;
                    report.println("FAILED " + type.getSimpleName() + "." + method.getName());
                    error.getCause().printStackTrace(report);
                }
            }
        }
        report.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void equal(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void contains(String text, String part) {
        if (text == null || !text.contains(part)) {
            throw new AssertionError("\"" + part + "\" is not in \"" + text + "\"");
        }
    }

    interface Action {
        void run() throws Exception;
    }

    static void unchecked(Action action) {
        try {
            action.run();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    static <T extends Throwable> T thrown(Class<T> type, Action action) {
        try {
            action.run();
        } catch (Throwable error) {
            if (type.isInstance(error)) {
                return type.cast(error);
            }
            throw new AssertionError("expected " + type.getSimpleName(), error);
        }
        throw new AssertionError("expected " + type.getSimpleName() + ", nothing was thrown");
    }
}
