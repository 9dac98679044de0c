import json
import unittest

from support import PYTHON

from flint_shim import frame

VECTORS = json.loads((PYTHON.parent / "link-vectors.json").read_text(encoding="utf-8"))


def data(value):
    return bytes.fromhex(value) if isinstance(value, str) else bytes.fromhex(value["repeat"]) * value["times"]


def reader_of(pieces):
    """A FrameReader that gets the pieces one by one."""
    left = [piece for piece in pieces if piece]

    def read_into(view):
        if not left:
            return 0
        taken, rest = left[0][:len(view)], left[0][len(view):]
        view[:len(taken)] = taken
        left[:1] = [rest] if rest else []
        return len(taken)

    return frame.FrameReader(read_into)


class Vectors(unittest.TestCase):
    def test_kinds(self):
        self.assertEqual({name: getattr(frame, name) for name in VECTORS["kinds"]}, VECTORS["kinds"])

    def test_frames(self):
        for vector in VECTORS["frames"]:
            with self.subTest(vector["name"]):
                self._check_frames(vector)

    def _check_frames(self, vector):
        reader, frames, error = reader_of(map(data, vector["feed"])), [], None
        try:
            for found in iter(reader.next, None):
                frames.append(found)
        except frame.ProtocolError as refused:
            error = refused.code
        self.assertEqual(error, vector["error"])
        expected = [(frame_["kind"], frame_["fin"], frame_["call"], data(frame_["payload"])) for frame_ in vector["frames"]]
        self.assertEqual([(kind, bool(fin), call, bytes(payload)) for kind, fin, call, payload in frames],
                         [(VECTORS["kinds"][kind], *rest) for kind, *rest in expected])
        if error is None:
            self.assertEqual(reader.rest, vector["rest"])
            if vector["rest"] == 0:
                encoded = b"".join(frame.encode(VECTORS["kinds"][kind], call, payload, fin) for kind, fin, call, payload in expected)
                self.assertEqual(encoded, b"".join(map(data, vector["feed"])))

    def test_heads(self):
        for vector in VECTORS["heads"]:
            with self.subTest(vector["name"]):
                if vector["error"] is None:
                    self.assertEqual(frame.split_head(data(vector["payload"])), (vector["head"], data(vector["body"])))
                else:
                    with self.assertRaises(frame.ProtocolError) as refused:
                        frame.split_head(data(vector["payload"]))
                    self.assertEqual(refused.exception.code, vector["error"])


if __name__ == "__main__":
    unittest.main()
