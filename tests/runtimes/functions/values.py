"""Everything that two clones could have in common, taken through references from before the freeze and through new ones."""

import os
import random
import secrets
import ssl
import tempfile
import threading
import uuid
from multiprocessing import current_process
from random import randint
from random import random as captured

own, system, chosen = random.Random(), random.SystemRandom(), random.Random(42)


def main(params):
    return {
        "random": random.random(), "captured": captured(), "randint": randint(0, 2**64), "own generator": own.random(), "system": system.random(),
        "gauss": random.gauss(0, 1), "bits": random.getrandbits(128), "urandom": os.urandom(16).hex(), "secrets": secrets.token_hex(),
        "uuid1": str(uuid.uuid1()), "uuid1 node": uuid.uuid1().node, "uuid4": str(uuid.uuid4()), "uuid node": uuid.getnode(),
        "ssl": ssl.RAND_bytes(16).hex(), "tempfile": tempfile.mktemp(), "authkey": current_process().authkey.hex(),
        "pid": os.getpid(), "thread": threading.get_native_id(), "main thread": threading.main_thread().native_id,
        # As in a process that was started anew: a seed of one's own gives its numbers.
        "same: chosen seed": chosen.random(),
    }
