package flint;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** How a source becomes a jar. */
final class CompileTest {
    private static final String TWO = "package demo;\n"
        + "public class Grüße { public static String main() { return Other.of(\"ä\"); } }\n"
        + "class Other { static String of(String text) { return text + \"ö\"; } }\n";
    private static final String BROKEN = "public class A {\n    int x = \"text\";\n}\n";
    private static final String REFUSAL = "A.java:2: error: incompatible types: String cannot be converted to int\n"
        + "    int x = \"text\";\n"
        + "            ^\n"
        + "1 error\n";

    private final byte[] jar;
    private final String said;
    private final int status;

    private CompileTest(int status, byte[] jar, String said) {
        this.status = status;
        this.jar = jar;
        this.said = said;
    }

    private static byte[] input(String name, String source) {
        return (name + "\n" + source).getBytes(StandardCharsets.UTF_8);
    }

    /** Compiled in this process. */
    private static CompileTest compiled(byte[] input) throws IOException {
        Path folder = Files.createTempDirectory("flint-compile");
        ByteArrayOutputStream jar = new ByteArrayOutputStream();
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int status = new Compile().serve(folder, new ByteArrayInputStream(input), jar, new PrintStream(said, true, StandardCharsets.UTF_8));
        return new CompileTest(status, jar.toByteArray(), said.toString(StandardCharsets.UTF_8).replace(folder + File.separator, ""));
    }

    /** Compiled by a process of its own. */
    private static CompileTest started(byte[] input, String... arguments) throws Exception {
        Path folder = Files.createTempDirectory("flint-compile");
        Path said = folder.resolve("said");
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-cp", System.getProperty("java.class.path"), "flint.Compile"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectError(said.toFile()).start();
        try (OutputStream in = process.getOutputStream()) {
            in.write(input);
        }
        byte[] jar = process.getInputStream().readAllBytes();
        return new CompileTest(process.waitFor(), jar, Files.readString(said));
    }

    /** Its entries are the classes, uncompressed. */
    private void has(String... classes) throws IOException {
        Tests.equal(status + said, "0");
        List<String> names = new ArrayList<>();
        try (ZipFile zip = new ZipFile(file().toFile())) {
            for (ZipEntry entry : zip.stream().toArray(ZipEntry[]::new)) {
                names.add(entry.getName());
                Tests.equal(entry.getMethod(), ZipEntry.STORED);
            }
        }
        Tests.equal(names, List.of(classes));
    }

    private Path file() throws IOException {
        return Files.write(Files.createTempFile("flint-compile", ".jar"), jar);
    }

    private void isRefused(String message) {
        Tests.equal(status, 1);
        Tests.equal(said, message);
        Tests.equal(jar.length, 0);
    }

    static void testAPackageOfTwoClasses() throws Exception {
        CompileTest compiled = compiled(input("Grüße.java", TWO));
        compiled.has("demo/Grüße.class", "demo/Other.class");
        try (URLClassLoader loader = new URLClassLoader(new URL[] {compiled.file().toUri().toURL()}, null)) {
            Tests.equal(loader.loadClass("demo.Grüße").getMethod("main").invoke(null), "äö");
        }
        Tests.equal(compiled(input("Grüße.java", TWO)).jar, compiled.jar);
    }

    static void testAgainstTheShim() throws Exception {
        String source = "public class A { public static Object main(flint.Context context) { return flint.Response.of(context.getFunctionName(), \"text/plain\"); } }";
        compiled(input("A.java", source)).has("A.class");
    }

    static void testWhatDoesNotCompile() throws Exception {
        compiled(input("A.java", BROKEN)).isRefused(REFUSAL);
        CompileTest misnamed = compiled(input("A.java", "public class B { }"));
        Tests.contains(misnamed.said, "A.java:1: error: class B is public, should be declared in a file named B.java\n");
        misnamed.isRefused(misnamed.said);
    }

    static void testNothingComes() throws Exception {
        CompileTest nothing = compiled(new byte[0]);
        Tests.equal(nothing.status + nothing.said + nothing.jar.length, "00");
    }

    static void testTheSampleCompiles() throws Exception {
        compiled(input(Compile.SAMPLE_NAME, Compile.SAMPLE)).has("Sample.class");
    }

    static void testAProcessCold() throws Exception {
        started(input("A.java", "public class A { }")).has("A.class");
        started(input("A.java", BROKEN)).isRefused(REFUSAL);
    }

    /** Of the sample, which it has compiled, a source sees nothing. */
    static void testAProcessWarm() throws Exception {
        started(input("Sample.java", "public class Sample { int own; }"), "warm").has("Sample.class");
        started(input("A.java", BROKEN), "warm").isRefused(REFUSAL);
        Tests.contains(started(input("A.java", "class A extends Sample { }"), "warm").said, "A.java:1: error: cannot find symbol\n");
    }
}
