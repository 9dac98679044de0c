import hashlib
import os
import tempfile


def text(seed, i, size):
    """What file i holds: a mark of its own, then letters A."""
    return f"{(seed * 1000003 + i) % 2**32:08x}" + "A" * (size - 8)


def write_and_read(folder, n, size, seed):
    for i in range(n):
        with open(os.path.join(folder, f"{i}.txt"), "w") as file:
            file.write(text(seed, i, size))
    files = len(os.listdir(folder))
    # Of what was read, so that the answer shows that it was there.
    digest = hashlib.sha256()
    for i in range(files):
        with open(os.path.join(folder, f"{i}.txt"), "rb") as file:
            digest.update(file.read())
    return {"files": files, "digest": digest.hexdigest()}


def main(params):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        return write_and_read(folder, params["n"], params["size"], params["seed"])
