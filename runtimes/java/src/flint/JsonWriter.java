package flint;

import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;

/**
 * Writes maps, iterables, arrays, strings, numbers, booleans, enums, null and the trees that {@link JsonText} recognises as UTF-8 JSON into
 * one growing array.
 */
final class JsonWriter {
    private static final byte[] HEX = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

    private byte[] bytes;
    private int length;
    private int depth;

    /** Reserves the first {@code reserved} bytes for the caller. */
    JsonWriter(int reserved) {
        bytes = new byte[Math.max(512, reserved * 2)];
        length = reserved;
    }

    static byte[] write(Object value) throws JsonException {
        JsonWriter writer = new JsonWriter(0);
        writer.value(value);
        return Arrays.copyOf(writer.bytes, writer.length);
    }

    byte[] buffer() {
        return bytes;
    }

    int length() {
        return length;
    }

    void value(Object value) throws JsonException {
        if (value == null) {
            ascii("null");
        } else if (value instanceof CharSequence || value instanceof Character || value instanceof Enum) {
            string(value.toString());
        } else if (value instanceof Number) {
            number((Number) value);
        } else if (value instanceof Boolean) {
            ascii(value.toString());
        } else if (value instanceof Map) {
            map((Map<?, ?>) value);
        } else if (value instanceof Collection) {
            iterable((Iterable<?>) value);
        } else if (value.getClass().isArray()) {
            array(value);
        } else {
            other(value);
        }
    }

    /** Appends text that is JSON already. */
    void raw(String json) {
        byte[] utf8 = json.getBytes(StandardCharsets.UTF_8);
        reserve(utf8.length);
        System.arraycopy(utf8, 0, bytes, length, utf8.length);
        length += utf8.length;
    }

    private void other(Object value) throws JsonException {
        String text = JsonText.of(value); // first, because some of these are iterable
        if (text != null) {
            raw(text);
        } else if (value instanceof Iterable && !(value instanceof Path)) { // iterating over a path yields paths, without end
            iterable((Iterable<?>) value);
        } else {
            throw new JsonException("a value of class " + value.getClass().getName() + " has no JSON form");
        }
    }

    private void number(Number value) throws JsonException {
        if (value instanceof Double || value instanceof Float) {
            double number = value.doubleValue();
            if (Double.isNaN(number) || Double.isInfinite(number)) {
                throw new JsonException("the number " + value + " has no JSON form");
            }
        }
        ascii(value.toString());
    }

    private void map(Map<?, ?> map) throws JsonException {
        enter('{');
        boolean first = true;
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            if (!first) {
                put(',');
            }
            first = false;
            string(String.valueOf(entry.getKey()));
            put(':');
            value(entry.getValue());
        }
        leave('}');
    }

    private void iterable(Iterable<?> values) throws JsonException {
        enter('[');
        boolean first = true;
        for (Object value : values) {
            if (!first) {
                put(',');
            }
            first = false;
            value(value);
        }
        leave(']');
    }

    private void array(Object array) throws JsonException {
        enter('[');
        int count = Array.getLength(array);
        for (int i = 0; i < count; i++) {
            if (i > 0) {
                put(',');
            }
            value(Array.get(array, i));
        }
        leave(']');
    }

    private void enter(char bracket) throws JsonException {
        if (++depth > JsonReader.MAX_DEPTH) {
            throw new JsonException("it is nested more than " + JsonReader.MAX_DEPTH + " deep, or contains itself");
        }
        put(bracket);
    }

    private void leave(char bracket) {
        depth--;
        put(bracket);
    }

    private void string(String string) {
        int count = string.length();
        reserve(count * 3L + 2);
        bytes[length++] = '"';
        for (int i = 0; i < count; i++) {
            char c = string.charAt(i);
            if (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
                bytes[length++] = (byte) c;
            } else if (c < 0x80) {
                reserve((count - i) * 3L + 8);
                escape(c);
            } else if (c < 0x800) {
                bytes[length++] = (byte) (0xc0 | c >> 6);
                bytes[length++] = (byte) (0x80 | c & 0x3f);
            } else if (!Character.isSurrogate(c)) {
                bytes[length++] = (byte) (0xe0 | c >> 12);
                bytes[length++] = (byte) (0x80 | c >> 6 & 0x3f);
                bytes[length++] = (byte) (0x80 | c & 0x3f);
            } else if (Character.isHighSurrogate(c) && i + 1 < count && Character.isLowSurrogate(string.charAt(i + 1))) {
                int point = Character.toCodePoint(c, string.charAt(++i));
                bytes[length++] = (byte) (0xf0 | point >> 18);
                bytes[length++] = (byte) (0x80 | point >> 12 & 0x3f);
                bytes[length++] = (byte) (0x80 | point >> 6 & 0x3f);
                bytes[length++] = (byte) (0x80 | point & 0x3f);
            } else {
                reserve((count - i) * 3L + 8); // a lone surrogate: only a JSON escape can carry it
                unicodeEscape(c);
            }
        }
        put('"');
    }

    private void escape(char c) {
        int letter;
        switch (c) {
            case '"': case '\\': letter = c; break;
            case '\n': letter = 'n'; break;
            case '\r': letter = 'r'; break;
            case '\t': letter = 't'; break;
            default: letter = 0;
        }
        if (letter == 0) {
            unicodeEscape(c);
        } else {
            bytes[length++] = '\\';
            bytes[length++] = (byte) letter;
        }
    }

    private void unicodeEscape(char c) {
        bytes[length++] = '\\';
        bytes[length++] = 'u';
        for (int shift = 12; shift >= 0; shift -= 4) {
            bytes[length++] = HEX[c >> shift & 15];
        }
    }

    private void ascii(String text) {
        int count = text.length();
        reserve(count);
        for (int i = 0; i < count; i++) {
            bytes[length++] = (byte) text.charAt(i);
        }
    }

    private void put(char c) {
        reserve(1);
        bytes[length++] = (byte) c;
    }

    private void reserve(long more) {
        if (length + more > bytes.length) {
            long size = Math.max(length + more, bytes.length * 2L);
            bytes = Arrays.copyOf(bytes, (int) Math.min(size, Integer.MAX_VALUE - 8));
        }
    }
}
