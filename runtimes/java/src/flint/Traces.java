package flint;

import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/** Removes the shim's frames below the function's from stack traces. */
final class Traces {
    private Traces() {
    }

    /** Trims an exception, its causes and its suppressed exceptions. */
    static void trim(Throwable error) {
        trim(error, Collections.newSetFromMap(new IdentityHashMap<>()));
    }

    private static void trim(Throwable error, Set<Throwable> done) {
        if (error == null || !done.add(error)) {
            return;
        }
        StackTraceElement[] frames = error.getStackTrace();
        int end = 0;
        while (end < frames.length && !isShim(frames[end])) {
            end++;
        }
        boolean called = end < frames.length; // false in a thread that the function started itself
        while (called && end > 0 && isReflection(frames[end - 1])) {
            end--;
        }
        error.setStackTrace(Arrays.copyOf(frames, end));
        trim(error.getCause(), done);
        for (Throwable suppressed : error.getSuppressed()) {
            trim(suppressed, done);
        }
    }

    private static boolean isShim(StackTraceElement frame) {
        String name = frame.getClassName();
        return name.equals("flint.Function") || name.equals("flint.Code") || name.equals("flint.Shim");
    }

    private static boolean isReflection(StackTraceElement frame) {
        String name = frame.getClassName();
        return name.equals("java.lang.reflect.Method") || name.startsWith("jdk.internal.reflect.");
    }
}
