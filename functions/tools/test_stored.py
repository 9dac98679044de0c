import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import backends
import manifest

PIPELINE = manifest.Workload(manifest.FUNCTIONS / "serverlessbench" / "image-pipeline")
PYTHON = PIPELINE.folder / "python" / "virtualenv" / "bin" / "python"
# Puts a document and a thumbnail into the stores as the functions do, the thumbnail of the photograph or a black one; says the answer to that.
STORES = """
import io, json, sys
sys.path[:0] = sys.argv[1:3]
from PIL import Image
import couchdb
from s3 import Store

store, picture = Store(), io.BytesIO()
data = store.get("images/test.jpg")
made = Image.open(io.BytesIO(data))
made.thumbnail((250, 250))
if sys.argv[3] == "black":
    made = Image.new("RGB", made.size)
made.save(picture, "JPEG", quality=85)
store.put("thumbnails/test.jpg", picture.getvalue())
metadata = {"fileSize": len(data) + int(sys.argv[4])}
couchdb.write("image-metadata", "test.jpg", {"metadata": metadata})
print(json.dumps({"metadata": metadata, "thumbnail": {"key": "thumbnails/test.jpg", "width": made.width, "height": made.height}}))
"""


@unittest.skipUnless(PYTHON.exists(), f"{PIPELINE} is not built")
class Pictures(unittest.TestCase):
    def test_a_thumbnail_of_something_else_and_another_size_of_the_file_are_noticed(self):
        with tempfile.TemporaryDirectory() as scratch:
            ends = backends.BackEnds(scratch)
            try:
                values = {name: ends.get(name) for name in PIPELINE.back_ends}
                backends.seed(PIPELINE, "test", values)
                said = [self.judged(values, *kind) for kind in (("right", "0"), ("black", "0"), ("right", "1"))]
            finally:
                ends.close()
        self.assertEqual(said[0], "")
        self.assertIn("the thumbnail differs from the photograph by", said[1])
        self.assertIn("the photograph has", said[2])

    def judged(self, values, *kind):
        folders = [manifest.FUNCTIONS / "clients", PIPELINE.folder / "python"]
        env = backends.environment(values)
        stored = subprocess.run([PYTHON, "-c", STORES, *folders, *kind], env=env, capture_output=True, text=True)
        self.assertEqual(stored.returncode, 0, stored.stderr)
        asked = {"size": "test", "params": {"image": "test.jpg"}, "answer": json.loads(stored.stdout)}
        program = PIPELINE.said["oracle"]["program"]
        return subprocess.run(program, cwd=PIPELINE.folder, env=env, input=json.dumps(asked), capture_output=True, text=True).stderr


class Networks(unittest.TestCase):
    def test_a_network_that_was_not_begun_leaves_no_folder_and_another_folder_stays(self):
        stop = backends.SCRIPTS / "network" / "stop.sh"
        with tempfile.TemporaryDirectory() as scratch:
            begun, other = Path(scratch, "begun"), Path(scratch, "other")
            begun.mkdir()
            (other / "letters").mkdir(parents=True)
            ended = [subprocess.run([stop, folder], capture_output=True, text=True) for folder in (begun, other, Path(scratch, "none"))]
            self.assertEqual([one.returncode for one in ended], [0, 1, 1])
            self.assertFalse(begun.exists())
            self.assertTrue((other / "letters").exists())
            self.assertIn("there is no network in", ended[1].stderr)


if __name__ == "__main__":
    unittest.main()
