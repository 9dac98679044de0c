package flint;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.Manifest;

/** Loads the user's code: a jar, or a directory of classes with jars beside them or in {@code lib}. */
final class Code {
    /** The system's Gson, for functions that do not bring their own, because OpenWhisk's runtime includes one. */
    private static final File GSON = new File("/usr/share/java/gson.jar");

    private final File file;
    final ClassLoader loader;

    Code(String path) throws LoadException, IOException {
        if (path == null || path.isEmpty()) {
            throw new LoadException("Missing main/no code to execute.");
        }
        file = new File(path);
        if (!file.exists()) {
            throw new LoadException("The code " + path + " does not exist.");
        }
        loader = isOnClassPath(path) ? Code.class.getClassLoader() : new URLClassLoader(urls(), Code.class.getClassLoader());
    }

    /** Classes on the JVM's own class path can be loaded from its CDS or AOT archive. */
    private static boolean isOnClassPath(String path) {
        String classPath = System.getProperty("java.class.path");
        int start = 0;
        while (start <= classPath.length()) {
            int end = classPath.indexOf(File.pathSeparatorChar, start);
            if (end < 0) {
                end = classPath.length();
            }
            if (classPath.substring(start, end).equals(path)) {
                return true;
            }
            start = end + 1;
        }
        return false;
    }

    private URL[] urls() throws IOException {
        List<URL> urls = new ArrayList<>();
        urls.add(file.toURI().toURL());
        if (file.isDirectory()) {
            addJars(urls, file);
            addJars(urls, new File(file, "lib"));
        }
        if (GSON.exists()) {
            urls.add(GSON.toURI().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    private static void addJars(List<URL> urls, File directory) throws IOException {
        String[] names = directory.list();
        if (names == null) {
            return;
        }
        Arrays.sort(names);
        for (String name : names) {
            if (name.endsWith(".jar")) {
                urls.add(new File(directory, name).toURI().toURL());
            }
        }
    }

    /** Finds the method that {@code main} names: {@code pkg.Class#method}; each part has a default. */
    Method find(String main) throws LoadException, IOException {
        String name = main == null ? "" : main;
        int hash = name.indexOf('#');
        String className = hash < 0 ? name : name.substring(0, hash);
        String methodName = hash < 0 ? "main" : name.substring(hash + 1);
        if (className.isEmpty() || className.equals("main")) {
            className = mainClass();
            if (className == null) {
                return only(methodName);
            }
        }
        Class<?> type = load(className);
        if (type == null) {
            throw new LoadException("The class " + className + " is not in " + file + ".");
        }
        Method method;
        try {
            method = entry(type, methodName);
        } catch (NoClassDefFoundError missing) {
            if (missing.getMessage() != null && missing.getMessage().startsWith("com/google/gson/")) {
                throw new LoadException("The class " + className + " uses Gson, which is neither in its jar nor on this host: put it into the jar, "
                    + "or install it with 'apt-get install libgoogle-gson-java'.");
            }
            throw missing;
        }
        if (method == null) {
            throw new LoadException("The class " + className + " has no method public static Map<String, Object> " + methodName
                + "(Map<String, Object>), nor one of the other signatures that a function may have.");
        }
        return method;
    }

    /** Ensures that the class's static initialisers have run. */
    static void initialise(Class<?> type) throws ClassNotFoundException {
        Class.forName(type.getName(), true, type.getClassLoader());
    }

    private Class<?> load(String name) {
        try {
            return Class.forName(name, false, loader);
        } catch (ClassNotFoundException missing) {
            return null;
        }
    }

    /** Among methods of that name, prefers one that takes a context, then one that takes a Map. */
    private static Method entry(Class<?> type, String name) {
        Method best = null;
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && Modifier.isStatic(method.getModifiers()) && Function.accepts(method)
                && (best == null || rank(method) > rank(best))) {
                best = method;
            }
        }
        return best;
    }

    private static int rank(Method method) {
        return method.getParameterCount() * 2 + (method.getParameterTypes()[0] == Map.class ? 1 : 0);
    }

    private String mainClass() throws IOException {
        if (file.isDirectory()) {
            return null;
        }
        try (JarFile jar = new JarFile(file)) {
            Manifest manifest = jar.getManifest();
            return manifest == null ? null : manifest.getMainAttributes().getValue(Attributes.Name.MAIN_CLASS);
        }
    }

    /** The method of that name, which exactly one class may have. */
    private Method only(String methodName) throws LoadException, IOException {
        List<Method> found = new ArrayList<>();
        for (String name : classNames()) {
            try {
                Class<?> type = load(name);
                Method method = type == null ? null : entry(type, methodName);
                if (method != null) {
                    found.add(method);
                }
            } catch (LinkageError incomplete) {
                // an optional dependency of this class is absent
            }
        }
        if (found.size() == 1) {
            return found.get(0);
        }
        throw new LoadException((found.isEmpty() ? "No class" : "More than one class") + " in " + file + " has a method public static "
            + "Map<String, Object> " + methodName + "(Map<String, Object>). Name it: main = \"pkg.Class#method\".");
    }

    private List<String> classNames() throws IOException {
        List<String> names = new ArrayList<>();
        if (file.isDirectory()) {
            collect(file, "", names);
            return names;
        }
        try (JarFile jar = new JarFile(file)) {
            Enumeration<JarEntry> entries = jar.entries();
            while (entries.hasMoreElements()) {
                add(entries.nextElement().getName(), names);
            }
        }
        return names;
    }

    private static void collect(File directory, String prefix, List<String> names) {
        File[] children = directory.listFiles();
        if (children == null) {
            return;
        }
        for (File child : children) {
            if (child.isDirectory()) {
                collect(child, prefix + child.getName() + "/", names);
            } else {
                add(prefix + child.getName(), names);
            }
        }
    }

    private static void add(String path, List<String> names) {
        if (path.endsWith(".class") && path.indexOf('$') < 0 && path.indexOf('-') < 0) {
            names.add(path.substring(0, path.length() - 6).replace('/', '.'));
        }
    }
}
