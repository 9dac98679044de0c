package flint;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

final class JsonTest {
    private JsonTest() {
    }

    private static Object parse(String text) throws JsonException {
        byte[] bytes = ("xx" + text + "xx").getBytes(StandardCharsets.UTF_8);
        return JsonReader.parse(bytes, 2, bytes.length - 2);
    }

    private static String write(Object value) throws JsonException {
        return new String(JsonWriter.write(value), StandardCharsets.UTF_8);
    }

    static void testValues() throws JsonException {
        Tests.equal(parse(" true "), true);
        Tests.equal(parse("false"), false);
        Tests.equal(parse("null"), null);
        Tests.equal(parse("{}"), Map.of());
        Tests.equal(parse(" [ ] "), List.of());
        Tests.equal(parse("[1, [2], {\"a\": [3]}]"), List.of(1, List.of(2), Map.of("a", List.of(3))));
        Tests.equal(new ArrayList<>(((Map<?, ?>) parse("{\"z\":1,\"a\":2,\"m\":3}")).keySet()), List.of("z", "a", "m"));
        Tests.equal(parse("{\"a\":1,\"a\":2}"), Map.of("a", 2));
    }

    static void testNumbers() throws JsonException {
        Tests.equal(parse("0"), 0);
        Tests.equal(parse("-7"), -7);
        Tests.equal(parse("2147483648"), 2147483648L);
        Tests.equal(parse("9223372036854775807"), Long.MAX_VALUE);
        Tests.equal(parse("-9223372036854775808"), Long.MIN_VALUE);
        Tests.equal(parse("9223372036854775808"), new BigInteger("9223372036854775808"));
        Tests.equal(parse("1.5"), 1.5);
        Tests.equal(parse("-0.0"), -0.0);
        Tests.equal(parse("1e3"), 1000.0);
        Tests.equal(parse("1E-2"), 0.01);
        Tests.equal(parse("1e999"), new BigDecimal("1e999"));
    }

    static void testStrings() throws JsonException {
        Tests.equal(parse("\"\""), "");
        Tests.equal(parse("\"héllo ☃ 🚀\""), "héllo ☃ 🚀");
        Tests.equal(parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE80é\""), "\"\\/\b\f\n\r\té🚀é");
        Tests.equal(parse("\"\\ud800\""), "\ud800");
    }

    static void testRefused() {
        for (String text : new String[] {"", " ", "{", "[", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "01", "-", "1.", ".5", "1e",
            "+1", "NaN", "nul", "truex", "\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\n\"", "1 2", "'a'"}) {
            Tests.thrown(JsonException.class, () -> parse(text));
        }
        Tests.thrown(JsonException.class, () -> parse("[".repeat(1001)));
    }

    static void testWriting() throws JsonException {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("text", "é☃🚀\"\\\n\u0001\u007f");
        map.put("list", Arrays.asList(1, 2L, 1.5, 2f, true, null, 'c', new BigDecimal("1e3"), Thread.State.NEW, new StringBuilder("sb")));
        map.put("arrays", new Object[] {new int[] {1, 2}, new String[0]});
        Tests.equal(write(map), "{\"text\":\"é☃🚀\\\"\\\\\\n\\u0001\u007f\",\"list\":[1,2,1.5,2.0,true,null,\"c\",1E+3,\"NEW\",\"sb\"],\"arrays\":[[1,2],[]]}");
        Tests.equal(write(Collections.singletonMap(null, 1)), "{\"null\":1}");
        Tests.equal(write("a\ud800b"), "\"a\\ud800b\"");
        String controls = "\u0001".repeat(5000) + "é".repeat(5000);
        Tests.equal(parse(write(controls)), controls);
    }

    static void testRefusedWriting() {
        Tests.thrown(JsonException.class, () -> write(Double.NaN));
        Tests.thrown(JsonException.class, () -> write(List.of(Float.NEGATIVE_INFINITY)));
        Tests.contains(Tests.thrown(JsonException.class, () -> write(List.of(new Thread()))).getMessage(), "java.lang.Thread");
        Tests.contains(Tests.thrown(JsonException.class, () -> write(List.of(Path.of("/a/b")))).getMessage(), "Path has no JSON form");
        List<Object> circle = new ArrayList<>();
        circle.add(circle);
        Tests.contains(Tests.thrown(JsonException.class, () -> write(circle)).getMessage(), "contains itself");
    }
}
