package flint;

import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/**
 * Compiles one source against its own class path, and ends: {@code javac} and {@code jar} in one process. The first line of stdin is the
 * source's file name, and all that follows its text. The jar goes to stdout. What {@code javac} says goes to stderr, and its exit status
 * is the process's.
 *
 * <p>{@code flint.Compile warm} first compiles a sample, after which the JVM has loaded and compiled most of what a source needs of the
 * compiler. The files are in the working directory, which is one in memory (crates/runtimes/src/java/compiler.rs).
 */
public final class Compile {
    static final String SAMPLE_NAME = "Sample.java";
    static final String SAMPLE = "import java.util.*;\n"
        + "public class Sample {\n"
        + "    public static Map<String, Object> main(Map<String, Object> params) {\n"
        + "        List<String> names = new ArrayList<>();\n"
        + "        for (String name : params.keySet()) {\n"
        + "            names.add(\"Hello \" + name + '!');\n"
        + "        }\n"
        + "        names.sort((one, other) -> one.compareTo(other));\n"
        + "        return Map.of(\"names\", names, \"count\", names.size());\n"
        + "    }\n"
        + "}\n";
    /** So that the same source gives the same bytes. */
    private static final LocalDateTime TIME = LocalDateTime.of(2020, 1, 1, 0, 0);

    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final String classPath = System.getProperty("java.class.path");

    public static void main(String[] arguments) throws IOException {
        OutputStream jar = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // nothing but the jar goes to stdout
        Path here = Path.of("");
        Compile compile = new Compile();
        if (arguments.length > 0 && arguments[0].equals("warm")) {
            compile.warmUp(Files.createDirectory(here.resolve("sample")));
        }
        int status = compile.serve(here, System.in, jar, System.err);
        System.err.flush();
        Runtime.getRuntime().halt(status); // nothing of the compiler's is left to be waited for
    }

    private void warmUp(Path folder) throws IOException {
        compile(folder, SAMPLE_NAME, SAMPLE.getBytes(StandardCharsets.UTF_8), OutputStream.nullOutputStream(), new PrintStream(OutputStream.nullOutputStream()));
    }

    /** Compiles the source that comes, if one does; returns the exit status. */
    int serve(Path folder, InputStream in, OutputStream jar, PrintStream said) throws IOException {
        String name = line(in);
        return name.isEmpty() ? 0 : compile(folder, name, in.readAllBytes(), jar, said);
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = in.read(); next >= 0 && next != '\n'; next = in.read()) {
            line.write(next);
        }
        return line.toString(StandardCharsets.UTF_8);
    }

    /** Returns the exit status of {@code javac}. */
    int compile(Path folder, String name, byte[] source, OutputStream jar, PrintStream said) throws IOException {
        Path file = folder.resolve(name);
        Path classes = folder.resolve("classes");
        Files.write(file, source);
        // no annotation processors, which would be user code
        int status = compiler.run(null, null, said, "-proc:none", "-encoding", "UTF-8", "-nowarn", "-cp", classPath, "-d", classes.toString(), file.toString());
        if (status == 0) {
            try (ZipOutputStream packed = new ZipOutputStream(new BufferedOutputStream(jar))) {
                pack(classes.toFile(), "", packed);
            }
        }
        return status;
    }

    /** Uncompressed, since a function's start reads it. */
    private static void pack(File folder, String prefix, ZipOutputStream jar) throws IOException {
        File[] files = folder.listFiles();
        if (files == null) {
            return;
        }
        Arrays.sort(files);
        for (File file : files) {
            String name = prefix + file.getName();
            if (file.isDirectory()) {
                pack(file, name + "/", jar);
                continue;
            }
            byte[] bytes = Files.readAllBytes(file.toPath());
            CRC32 checksum = new CRC32();
            checksum.update(bytes);
            ZipEntry entry = new ZipEntry(name);
            entry.setMethod(ZipEntry.STORED);
            entry.setTimeLocal(TIME);
            entry.setSize(bytes.length);
            entry.setCrc(checksum.getValue());
            jar.putNextEntry(entry);
            jar.write(bytes);
            jar.closeEntry();
        }
    }
}
