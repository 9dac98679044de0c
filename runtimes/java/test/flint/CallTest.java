package flint;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TimeZone;

/** What a function may take and return. */
final class CallTest {
    private CallTest() {
    }

    /** Answers of calls of {@code main}, whose declaration and body are given, behind READY. */
    private static List<String> calls(String declaration, String body, String... params) throws Exception {
        Path classes = Fixture.classes("F", "import java.util.*;\nimport java.io.*;\npublic class F { public static " + declaration + " throws Exception { " + body + " } }");
        List<String> answers = Fixture.run(classes, "F", params).answers;
        return answers.subList(1, answers.size());
    }

    private static void gives(String body, String answer) throws Exception {
        Tests.equal(calls("Object main(Map<String, Object> p)", body, "{}").get(0), Frame.RESULT + " " + answer);
    }

    private static void refused(String body, String message) throws Exception {
        Tests.equal(calls("Object main(Map<String, Object> p)", body, "{}").get(0), Frame.ERROR + " {\"kind\":\"developer\",\"message\":\"" + message + "\"}");
    }

    static void testResults() throws Exception {
        gives("return p;", "{}");
        gives("return List.of(1, \"two\");", "[1,\"two\"]");
        gives("return new String[] {\"a\"};", "[\"a\"]");
        gives("return new int[] {1, 2};", "[1,2]");
        gives("return new double[][] {{0.5}, {}};", "[[0.5],[]]");
        gives("return Set.of(1);", "[1]");
        gives("return \"bytes\".getBytes();", "bytes");
        gives("return flint.Response.of(\"text\", \"text/plain\");", "text");
        gives("p.put(\"mutable\", true); return p;", "{\"mutable\":true}");
    }

    static void testRefusedResults() throws Exception {
        String text = "The action did not return a dictionary or array. ";
        refused("return null;", text + "It returned null.");
        refused("return 5;", text + "It returned a value of class java.lang.Integer.");
        refused("return Map.of(\"a\", new Object());", text + "It cannot be written as JSON: a value of class java.lang.Object has no JSON form.");
        refused("throw new IllegalStateException(\"no\");", "An error has occurred (see logs for details): java.lang.IllegalStateException: no");
        refused("throw new StackOverflowError();", "An error has occurred (see logs for details): java.lang.StackOverflowError");
    }

    static void testABodyInFramesIsWhole() {
        byte[] bytes = new byte[700_000];
        new Random(1).nextBytes(bytes);
        LongBody body = new LongBody();
        body.add(Arrays.copyOf(bytes, 300_000), 0);
        body.add(new byte[0], 0);
        body.add(bytes, 300_000);
        Tests.equal(body.whole(), bytes);
    }

    static void testMessagesWithHalfACharacterAreText() throws Exception {
        String text = "An error has occurred (see logs for details): java.lang.IllegalStateException: ";
        refused("throw new IllegalStateException(\"no \\uD83D\\uDE00\".substring(0, 4));", text + "no \uFFFD");
        String cut = "\uD83D\uDE00".repeat((64 * 1024 - text.length()) / 2);
        refused("throw new IllegalStateException(\"\\uD83D\\uDE00\".repeat(40000));", text + cut + "\uFFFD");
    }

    static void testAnExceptionThatCannotBePrintedIsAnAnswer() throws Exception {
        String body = "if (p.isEmpty()) { throw new RuntimeException() { public String getMessage() { throw new IllegalStateException(); } }; } return p;";
        Tests.equal(calls("Object main(Map<String, Object> p)", body, "{}", "{\"a\":1}"),
            List.of(Frame.ERROR + " {\"kind\":\"developer\",\"message\":\"An error has occurred (see logs for details): F$1\"}", Frame.RESULT + " {\"a\":1}"));
    }

    static void testWantOfMemoryBetweenCallsIsToldAndEndsTheProcess() throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Link link = new Link(null, out) {
            @Override
            Frame receive() {
                throw new OutOfMemoryError("no room");
            }
        };
        PrintStream before = System.err;
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        int status;
        try {
            status = new Shim(link, new Environment()).run();
        } finally {
            System.setErr(before);
        }
        Tests.equal(status, Shim.EXIT_FAILED);
        FrameReader frames = new FrameReader(new ByteArrayInputStream(out.toByteArray()));
        Tests.equal(frames.next().kind, Frame.HELLO);
        Frame last = frames.next();
        Tests.equal(last.kind + " " + last.call, Frame.ERROR + " 0");
        Tests.contains(new String(last.payload, StandardCharsets.UTF_8), "java.lang.OutOfMemoryError: no room");
    }

    static void testACallThatLeavesItsThreadInterruptedDisturbsNoOther() throws Exception {
        String body = "if (p.isEmpty()) { Thread.currentThread().interrupt(); } else { Thread.sleep(1); } return p;";
        Tests.equal(calls("Object main(Map<String, Object> p)", body, "{}", "{\"a\":1}"), List.of(Frame.RESULT + " {}", Frame.RESULT + " {\"a\":1}"));
    }

    static void testTheTimeZoneIsThatOfTheFunctionsEnvironment() throws Exception {
        Path classes = Fixture.classes("Z", "public class Z { public static Object main(Object p) { return new Object[] {java.time.ZoneId.systemDefault().getId()}; } }");
        TimeZone before = TimeZone.getDefault();
        try {
            for (String name : new String[] {"Asia/Tokyo", ":America/Lima"}) {
                Tests.equal(Fixture.run(Map.of("TZ", name), classes, "Z", "{}").answers.get(1), Frame.RESULT + " [\"" + name.replace(":", "") + "\"]");
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }

    static void testStreams() throws Exception {
        Tests.equal(calls("InputStream main(Map<String, Object> p)", "return new ByteArrayInputStream(\"bytes\".getBytes());", "{}"),
            List.of(Frame.RESULT + " ", Frame.BODY + " bytes", Frame.END + " "));
    }

    static void testAHeadThatIsTooLargeIsADeveloperError() throws Exception {
        String body = "return flint.Response.of(%s, \"text/plain\").header(\"x-a\", \"y\".repeat(%d));";
        for (String text : new String[] {"\"text\"", "new ByteArrayInputStream(new byte[1])"}) {
            for (int length : new int[] {300 << 10, 2 << 20}) {
                String answer = calls("Object main(Map<String, Object> p)", String.format(body, text, length), "{}").get(0);
                Tests.contains(answer, Frame.ERROR + " {\"kind\":\"developer\",\"message\":\"The head of the answer is too large: ");
                Tests.contains(answer, " and may have 262144.");
            }
        }
        Tests.equal(calls("Object main(Map<String, Object> p)", String.format(body, "\"text\"", 200 << 10), "{}").get(0), Frame.RESULT + " text");
    }

    /** Endless ones too. */
    static void testTrainingTakesStreams() throws Exception {
        String[] streams = {"new ByteArrayInputStream(\"bytes\".getBytes())", "new InputStream() { public int read() { return 'x'; } public int read(byte[] b, int o, int n) { return n; } }"};
        for (String stream : streams) {
            Path classes = Fixture.classes("T", "import java.io.*;\npublic class T { public static InputStream main(Object p) { return " + stream + "; } }");
            int[] kinds = new int[Frame.ERROR + 1];
            OutputStream out = new OutputStream() {
                @Override
                public void write(int one) {
                    throw new AssertionError("frames are written whole");
                }

                @Override
                public void write(byte[] frame, int offset, int length) {
                    kinds[frame[offset + 4]]++;
                }
            };
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            try {
                Tests.equal(new Shim(new Link(Train.peer(classes.toString(), "T", "{}"), out), new Environment()).run(), 0);
            } finally {
                Thread.currentThread().setContextClassLoader(loader);
            }
            Tests.equal(new int[] {kinds[Frame.RESULT], kinds[Frame.END], kinds[Frame.ERROR]}, new int[] {Train.CALLS, Train.CALLS, 0});
        }
    }

    static void testParameters() throws Exception {
        Tests.equal(calls("Object main(List<Object> p)", "return p;", "[1]"), List.of(Frame.RESULT + " [1]"));
        Tests.contains(calls("Object main(Map<String, Object> p)", "return p;", "[1]").get(0), "the parameters are not a Map");
    }

    static void testStackTraceGoesToStderr() throws Exception {
        Path classes = Fixture.classes("F", "import java.util.*;\npublic class F {\n  public static Object main(Map<String, Object> p) {\n    throw new IllegalStateException(\"no\");\n  }\n}");
        Tests.equal(Fixture.run(classes, "F", "{}").stderr, "java.lang.IllegalStateException: no\n\tat F.main(F.java:4)\n");
        classes = Fixture.classes("F", "public class F {\n  public static Object main(Object p) {\n    try {\n      throw new IllegalStateException(\"in\");\n"
            + "    } catch (IllegalStateException error) {\n      throw new RuntimeException(\"out\", error);\n    }\n  }\n}");
        Tests.equal(Fixture.run(classes, "F", "{}").stderr,
            "java.lang.RuntimeException: out\n\tat F.main(F.java:6)\nCaused by: java.lang.IllegalStateException: in\n\tat F.main(F.java:4)\n");
    }

    /** Gson itself is not needed for the test: the shim knows it by its names only. */
    static void testGsonSignature() throws Exception {
        Path classes = Fixture.classes(
            "com/google/gson/JsonElement", "package com.google.gson; public class JsonElement { String text; public String toString() { return text; } }",
            "com/google/gson/JsonObject", "package com.google.gson; public class JsonObject extends JsonElement { }",
            "com/google/gson/JsonParser", "package com.google.gson; public class JsonParser { public JsonElement parse(String text) {"
                + " JsonElement e = text.startsWith(\"{\") ? new JsonObject() : new JsonElement(); e.text = text; return e; } }",
            "G", "import com.google.gson.JsonObject; public class G { public static JsonObject main(JsonObject p) { return p; } }");
        List<String> answers = Fixture.run(classes, "G", "{\"a\": [1]}", "[]", "").answers;
        Tests.equal(answers.get(1), Frame.RESULT + " {\"a\": [1]}");
        Tests.contains(answers.get(2), "the parameters are not a JsonObject");
        Tests.equal(answers.get(3), Frame.RESULT + " {}");
    }

    /** The same of Jackson. What it calls a node is iterable: an object's values, and of a text nothing. */
    static void testTreesOfJsonLibraries() throws Exception {
        Path classes = Fixture.classes(
            "moved/jackson/databind/JsonNode", "package moved.jackson.databind; import java.util.*; public class JsonNode implements Iterable<JsonNode> {"
                + " String text; public JsonNode(String text) { this.text = text; } public String toString() { return text; }"
                + " public Iterator<JsonNode> iterator() { return Collections.emptyIterator(); } }",
            "moved/jackson/databind/ObjectNode", "package moved.jackson.databind; public class ObjectNode extends JsonNode { public ObjectNode(String text) { super(text); } }",
            "com/google/gson/JsonElement", "package com.google.gson; public class JsonElement { public String toString() { return \"\\\"text\\\"\"; } }",
            "J", "import moved.jackson.databind.*; import java.util.*; public class J { public static Object main(Map<String, Object> p) { switch ((String) p.get(\"do\")) {"
                + " case \"inside\": return List.of(new ObjectNode(\"{\\\"a\\\":[1]}\"), new com.google.gson.JsonElement(), new JsonNode(\"\"));"
                + " case \"object\": return new ObjectNode(\"{\\\"a\\\":1}\");"
                + " default: return new JsonNode(\"5\"); } } }");
        List<String> answers = Fixture.run(classes, "J", "{\"do\":\"inside\"}", "{\"do\":\"object\"}", "{\"do\":\"number\"}").answers;
        Tests.equal(answers.get(1), Frame.RESULT + " [{\"a\":[1]},\"text\",null]");
        Tests.equal(answers.get(2), Frame.RESULT + " {\"a\":1}");
        Tests.contains(answers.get(3), "It returned a value of class moved.jackson.databind.JsonNode.");
    }
}
