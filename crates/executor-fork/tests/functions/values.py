"""Everything that two clones could have in common, taken through references from before the freeze and through new ones."""
import os, random, secrets, ssl, tempfile, threading, uuid
from multiprocessing import current_process
from random import random as imported

own, system = random.Random(), random.SystemRandom()


def main(params):
    with tempfile.NamedTemporaryFile(delete=False) as file:
        name = file.name
    return {
        "random": random.random(), "imported": imported(), "randint": str(random.randint(0, 2**64)), "own": own.random(),
        "system": system.random(), "gauss": random.gauss(0, 1), "bits": str(random.getrandbits(128)),
        "urandom": os.urandom(16).hex(), "secrets": secrets.token_hex(), "ssl": ssl.RAND_bytes(16).hex(),
        "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "node": uuid.getnode(), "tempfile": name,
        "authkey": current_process().authkey.hex(), "pid": os.getpid(), "thread": threading.get_native_id(),
    }
