package flint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Where the function may be. */
final class CodeTest {
    private static final String READY = Frame.READY + " {}";

    private CodeTest() {
    }

    private static String source(String name, String method) {
        return "import java.util.*;\npublic class " + name + " { public static Map<String, Object> " + method
            + "(Map<String, Object> params) { return Map.of(\"from\", \"" + name + "\"); } }\n";
    }

    private static void finds(Path code, String main, String from) throws Exception {
        Tests.equal(Fixture.run(code, main, "{}").answers, List.of(READY, Frame.RESULT + " {\"from\":\"" + from + "\"}"));
    }

    private static void fails(Path code, String main, String message) throws Exception {
        Fixture run = Fixture.run(code, main);
        Tests.equal(run.status, 1);
        Tests.contains(run.answers.get(0), "{\"kind\":\"developer\",\"message\":\"Initialization has failed due to: ");
        Tests.contains(run.answers.get(0), message);
    }

    static void testClassAndMethod() throws Exception {
        Path classes = Fixture.classes("A", source("A", "run"), "p/B", "package p;\n" + source("B", "main"));
        finds(classes, "A#run", "A");
        finds(classes, "p.B", "B");
        finds(Fixture.jar(classes, null), "p.B#main", "B");
    }

    static void testTheSingleClassWithSuchAMethod() throws Exception {
        Path classes = Fixture.classes("A", source("A", "run"), "p/B", "package p;\n" + source("B", "main"));
        finds(classes, "main", "B");
        finds(classes, "#run", "A");
        finds(classes, "", "B");
        finds(Fixture.jar(classes, null), "main", "B");
    }

    static void testMainClassOfTheManifest() throws Exception {
        Path classes = Fixture.classes("A", source("A", "main"), "B", source("B", "main"));
        finds(Fixture.jar(classes, "B"), "main", "B");
    }

    static void testLibraries() throws Exception {
        Path library = Fixture.jar(Fixture.classes("L", "public class L { public static String name = \"L\"; }"), null);
        Path classes = Fixture.classes("A", "import java.util.*;\npublic class A { public static Map<String, Object> main(Map<String, Object> p) throws Exception {"
            + " return Map.of(\"from\", Thread.currentThread().getContextClassLoader().loadClass(\"L\").getField(\"name\").get(null)); } }");
        Files.createDirectory(classes.resolve("lib"));
        Files.copy(library, classes.resolve("lib/l.jar"));
        finds(classes, "A", "L");
    }

    static void testAMethodWithAContextIsPreferred() throws Exception {
        finds(Fixture.classes("A", source("A", "main").replace("} }", "} public static Object main(Map<String, Object> p, flint.Context c) { return Map.of(\"from\", c.getFunctionName()); } }")), "A", "f");
    }

    static void testFailures() throws Exception {
        Path classes = Fixture.classes("A", source("A", "main"), "B", source("B", "main"), "C", "public class C { public static void main(String[] a) { } }");
        fails(Path.of("/nowhere/at/all.jar"), "A", "/nowhere/at/all.jar does not exist");
        fails(classes, "Absent", "The class Absent is not in ");
        fails(classes, "A#absent", "The class A has no method public static Map<String, Object> absent");
        fails(classes, "C", "The class C has no method");
        fails(classes, "main", "More than one class in ");
        fails(classes, "#nowhere", "No class in ");
        Path broken = Fixture.jar(classes, null);
        Files.writeString(broken, "not a jar");
        fails(broken, "A", "");
    }
}
