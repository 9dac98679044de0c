import os
import tempfile


def write_and_read(folder, n, size):
    text = "A" * size
    for i in range(n):
        with open(os.path.join(folder, f"{i}.txt"), "w") as file:
            file.write(text)
    whole = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            whole += file.read() == text
    return whole


def main(params):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        return {"files": write_and_read(folder, params["n"], params["size"])}
