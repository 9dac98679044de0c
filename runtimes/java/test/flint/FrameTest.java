package flint;

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/** The shared vectors. */
final class FrameTest {
    private FrameTest() {
    }

    static void testFrames() throws Exception {
        for (Map<?, ?> vector : vectors("frames")) {
            try {
                check(vector);
            } catch (Throwable error) {
                throw new AssertionError((String) vector.get("name"), error);
            }
        }
    }

    private static void check(Map<?, ?> vector) throws Exception {
        FrameReader reader = new FrameReader(new Pieces((List<?>) vector.get("feed")));
        List<Frame> found = new ArrayList<>();
        String error = null;
        try {
            for (Frame frame = reader.next(); frame != null; frame = reader.next()) {
                found.add(frame);
            }
        } catch (ProtocolException refused) {
            error = refused.code;
        }
        Tests.equal(error, vector.get("error"));
        List<?> expected = (List<?>) vector.get("frames");
        Tests.equal(found.size(), expected.size());
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        Link link = new Link(null, encoded);
        for (int i = 0; i < expected.size(); i++) {
            Map<?, ?> frame = (Map<?, ?>) expected.get(i);
            byte[] payload = bytes(frame.get("payload"));
            int kind = Frame.class.getDeclaredField((String) frame.get("kind")).getInt(null);
            int call = (int) ((Number) frame.get("call")).longValue();
            Tests.equal(found.get(i).kind, kind);
            Tests.equal(found.get(i).fin, frame.get("fin"));
            Tests.equal(found.get(i).call, call);
            Tests.equal(found.get(i).payload, payload);
            link.send(kind, call, payload, 0, payload.length, (Boolean) frame.get("fin"));
        }
        if (error == null) {
            Tests.equal(reader.rest, vector.get("rest"));
            if (reader.rest == 0) {
                Tests.equal(encoded.toByteArray(), new Pieces((List<?>) vector.get("feed")).readAllBytes());
            }
        }
    }

    static void testHeads() throws Exception {
        for (Map<?, ?> vector : vectors("heads")) {
            byte[] payload = bytes(vector.get("payload"));
            String error = null;
            try {
                int start = Frame.bodyStart(payload);
                Object head = start == 4 ? null : JsonReader.parse(payload, 4, start);
                if (start > 4 && !(head instanceof Map)) {
                    error = "json";
                } else {
                    Tests.equal(head, vector.get("head"));
                    Tests.equal(Arrays.copyOfRange(payload, start, payload.length), bytes(vector.get("body")));
                }
            } catch (ProtocolException refused) {
                error = refused.code;
            } catch (JsonException refused) {
                error = "json";
            }
            Tests.equal(error, vector.get("error"));
        }
    }

    private static List<Map<?, ?>> vectors(String section) throws Exception {
        byte[] text = Files.readAllBytes(Path.of(Tests.vectors));
        List<Map<?, ?>> vectors = new ArrayList<>();
        for (Object vector : (List<?>) ((Map<?, ?>) JsonReader.parse(text, 0, text.length)).get(section)) {
            vectors.add((Map<?, ?>) vector);
        }
        return vectors;
    }

    private static byte[] bytes(Object value) {
        String hex = value instanceof String ? (String) value : (String) ((Map<?, ?>) value).get("repeat");
        int times = value instanceof String ? 1 : (Integer) ((Map<?, ?>) value).get("times");
        byte[] once = new byte[hex.length() / 2];
        for (int i = 0; i < once.length; i++) {
            once[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        byte[] all = new byte[once.length * times];
        for (int i = 0; i < all.length; i++) {
            all[i] = once[i % once.length];
        }
        return all;
    }

    /** Gives at most one piece to a read. */
    private static final class Pieces extends InputStream {
        private final Deque<byte[]> left = new ArrayDeque<>();

        Pieces(List<?> feed) {
            for (Object piece : feed) {
                if (bytes(piece).length > 0) {
                    left.add(bytes(piece));
                }
            }
        }

        @Override
        public int read() {
            throw new UnsupportedOperationException();
        }

        @Override
        public int read(byte[] target, int offset, int length) {
            byte[] piece = left.poll();
            if (piece == null) {
                return -1;
            }
            int taken = Math.min(length, piece.length);
            System.arraycopy(piece, 0, target, offset, taken);
            if (taken < piece.length) {
                left.addFirst(Arrays.copyOfRange(piece, taken, piece.length));
            }
            return taken;
        }
    }
}
