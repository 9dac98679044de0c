package flint;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Parses JSON in UTF-8 into {@code Map<String, Object>}, {@code List<Object>}, {@code String}, {@code Boolean} and null. An integer becomes
 * the first of {@code Integer}, {@code Long} and {@code BigInteger} that holds it, any other number a {@code Double} ({@code BigDecimal}
 * beyond its range).
 */
final class JsonReader {
    static final int MAX_DEPTH = 1000;

    private final byte[] text;
    private final int end;
    private int at;
    private int depth;

    private JsonReader(byte[] text, int start, int end) {
        this.text = text;
        this.at = start;
        this.end = end;
    }

    static Object parse(byte[] text, int start, int end) throws JsonException {
        JsonReader reader = new JsonReader(text, start, end);
        Object value = reader.value();
        reader.skipSpace();
        if (reader.at < end) {
            throw reader.error("text after the value");
        }
        return value;
    }

    private Object value() throws JsonException {
        skipSpace();
        switch (peek()) {
            case '{': return object();
            case '[': return array();
            case '"': return string();
            case 't': return literal("true", Boolean.TRUE);
            case 'f': return literal("false", Boolean.FALSE);
            case 'n': return literal("null", null);
            default: return number();
        }
    }

    private Map<String, Object> object() throws JsonException {
        enter();
        Map<String, Object> map = new LinkedHashMap<>();
        skipSpace();
        if (peek() == '}') {
            at++;
        } else {
            int next;
            do {
                skipSpace();
                if (peek() != '"') {
                    throw error("a key is expected");
                }
                String key = string();
                skipSpace();
                if (peek() != ':') {
                    throw error("a colon is expected");
                }
                at++;
                map.put(key, value());
                next = separator('}');
            } while (next == ',');
        }
        depth--;
        return map;
    }

    private List<Object> array() throws JsonException {
        enter();
        List<Object> list = new ArrayList<>();
        skipSpace();
        if (peek() == ']') {
            at++;
        } else {
            do {
                list.add(value());
            } while (separator(']') == ',');
        }
        depth--;
        return list;
    }

    private void enter() throws JsonException {
        at++;
        if (++depth > MAX_DEPTH) {
            throw error("nested more than " + MAX_DEPTH + " deep");
        }
    }

    private int separator(int close) throws JsonException {
        skipSpace();
        int found = peek();
        if (found != ',' && found != close) {
            throw error("a comma or the closing bracket is expected");
        }
        at++;
        return found;
    }

    private String string() throws JsonException {
        int start = ++at;
        boolean ascii = true;
        while (at < end) {
            int b = text[at];
            if (b == '"') {
                String plain = new String(text, start, at - start, ascii ? StandardCharsets.ISO_8859_1 : StandardCharsets.UTF_8);
                at++;
                return plain;
            }
            if (b == '\\') {
                return escapedString(start);
            }
            if (b >= 0 && b < ' ') {
                throw error("a control character in a string");
            }
            ascii &= b >= 0;
            at++;
        }
        throw error("a string without an end");
    }

    /** Decodes a string with escapes; each run of plain bytes between them is decoded in one piece. */
    private String escapedString(int start) throws JsonException {
        StringBuilder string = new StringBuilder();
        int runStart = start;
        while (at < end) {
            int b = text[at];
            if (b == '"' || b == '\\') {
                string.append(new String(text, runStart, at - runStart, StandardCharsets.UTF_8));
                at++;
                if (b == '"') {
                    return string.toString();
                }
                string.append(escape());
                runStart = at;
            } else if (b >= 0 && b < ' ') {
                throw error("a control character in a string");
            } else {
                at++;
            }
        }
        throw error("a string without an end");
    }

    private char escape() throws JsonException {
        int c = peek();
        at++;
        switch (c) {
            case '"': case '\\': case '/': return (char) c;
            case 'b': return '\b';
            case 'f': return '\f';
            case 'n': return '\n';
            case 'r': return '\r';
            case 't': return '\t';
            case 'u':
                int unit = 0;
                for (int i = 0; i < 4; i++) {
                    int digit = Character.digit(peek(), 16);
                    if (digit < 0) {
                        throw error("four hexadecimal digits are expected");
                    }
                    unit = unit << 4 | digit;
                    at++;
                }
                return (char) unit;
            default: throw error("an unknown escape");
        }
    }

    private Object literal(String word, Object value) throws JsonException {
        for (int i = 0; i < word.length(); i++) {
            if (peek() != word.charAt(i)) {
                throw error("not a JSON value");
            }
            at++;
        }
        return value;
    }

    private Object number() throws JsonException {
        int start = at;
        if (peek() == '-') {
            at++;
        }
        if (peek() == '0') {
            at++;
        } else {
            digits();
        }
        boolean integer = true;
        if (peek() == '.') {
            integer = false;
            at++;
            digits();
        }
        if (peek() == 'e' || peek() == 'E') {
            integer = false;
            at++;
            if (peek() == '+' || peek() == '-') {
                at++;
            }
            digits();
        }
        String digits = new String(text, start, at - start, StandardCharsets.ISO_8859_1);
        if (!integer) {
            double value = Double.parseDouble(digits);
            return Double.isInfinite(value) ? (Object) new BigDecimal(digits) : (Object) value;
        }
        if (digits.length() > 18) {
            BigInteger value = new BigInteger(digits);
            return value.bitLength() < 64 ? (Object) value.longValue() : (Object) value;
        }
        long value = Long.parseLong(digits);
        return value == (int) value ? (Object) (int) value : (Object) value;
    }

    private void digits() throws JsonException {
        if (peek() < '0' || peek() > '9') {
            throw error("not a JSON value");
        }
        while (peek() >= '0' && peek() <= '9') {
            at++;
        }
    }

    private void skipSpace() {
        while (at < end && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) {
            at++;
        }
    }

    /** The next byte, or -1 at the end. */
    private int peek() {
        return at < end ? text[at] & 0xff : -1;
    }

    private JsonException error(String message) {
        return new JsonException(message + " (at byte " + at + ")");
    }
}
