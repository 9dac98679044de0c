package flint;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.tools.ToolProvider;

/** Compiles functions and runs the shim over them in memory. */
final class Fixture {
    /** What a call gave: frames' payloads as text. */
    final List<String> answers = new ArrayList<>();
    int status;
    String stderr;

    private Fixture() {
    }

    /** A directory of classes, compiled from sources given as name, text, name, text. */
    static Path classes(String... sources) throws IOException {
        Path directory = Files.createTempDirectory("flint-java");
        Path classes = Files.createDirectory(directory.resolve("classes"));
        List<String> arguments = new ArrayList<>(List.of("-nowarn", "-encoding", "UTF-8", "-cp", System.getProperty("java.class.path"), "-d", classes.toString()));
        for (int i = 0; i < sources.length; i += 2) {
            Path source = directory.resolve(sources[i] + ".java");
            Files.createDirectories(source.getParent());
            Files.writeString(source, sources[i + 1]);
            arguments.add(source.toString());
        }
        Tests.equal(ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(new String[0])), 0);
        return classes;
    }

    static Path jar(Path classes, String mainClass) throws Exception {
        Path jar = classes.resolveSibling("function.jar");
        List<String> arguments = new ArrayList<>(List.of("--create", "--file", jar.toString()));
        if (mainClass != null) {
            arguments.addAll(List.of("--main-class", mainClass));
        }
        arguments.addAll(List.of("-C", classes.toString(), "."));
        int status = java.util.spi.ToolProvider.findFirst("jar").orElseThrow().run(System.out, System.err, arguments.toArray(new String[0]));
        Tests.equal(status, 0);
        return jar;
    }

    /** Runs INIT and one call for each of {@code params}; the answers start behind HELLO. */
    static Fixture run(Path code, String main, String... params) throws Exception {
        return run(Map.of(), code, main, params);
    }

    /** The same with environment variables of the function. */
    static Fixture run(Map<String, Object> env, Path code, String main, String... params) throws Exception {
        ByteArrayOutputStream in = new ByteArrayOutputStream();
        Link to = new Link(null, in);
        to.send(Frame.INIT, 0, JsonWriter.write(Map.of("code", code.toString(), "main", main, "namespace", "guest", "name", "f", "version", "0.0.1", "env", env)));
        int call = 0;
        for (String text : params) {
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            byte[] payload = new byte[4 + body.length];
            System.arraycopy(body, 0, payload, 4, body.length);
            to.send(Frame.INVOKE, ++call, payload, 0, payload.length, true);
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Fixture fixture = new Fixture();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream before = System.err;
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            fixture.status = new Shim(new Link(new ByteArrayInputStream(in.toByteArray()), out), new Environment()).run();
        } finally {
            System.setErr(before);
            Thread.currentThread().setContextClassLoader(loader);
        }
        fixture.stderr = errors.toString(StandardCharsets.UTF_8);
        FrameReader reader = new FrameReader(new ByteArrayInputStream(out.toByteArray()));
        Tests.equal(reader.next().kind, Frame.HELLO);
        for (Frame frame = reader.next(); frame != null; frame = reader.next()) {
            int start = frame.kind == Frame.RESULT ? Frame.bodyStart(frame.payload) : 0;
            fixture.answers.add(frame.kind + " " + new String(frame.payload, start, frame.payload.length - start, StandardCharsets.UTF_8));
        }
        return fixture;
    }
}
