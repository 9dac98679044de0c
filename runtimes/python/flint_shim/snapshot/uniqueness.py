"""Replaces state that all clones of a zygote would share and must not: random generators, UUIDs, temporary names.

The rule: a clone behaves like a newly started process. A generator that was seeded from system entropy is seeded again; one to which
user code gave a seed (`random.Random(42)`, `numpy.random.default_rng(42)`) keeps its state, because a new process would yield the
same numbers. The two global generators (`random.random()`, `numpy.random.random()`) are always reseeded, as CPython itself does after
a fork. The seed of `hash(str)` belongs to the process and cannot be changed.
"""

import os
import posix
import random
import sys
import types
import weakref

# The least size of a seed that numpy or user code draws from the system.
_SEED_BITS = 96
_SEEDS_KEPT = 10_000
_urandom = posix.urandom
_seed, _setstate, _getrandbits = random.Random.seed, random.Random.setstate, random.SystemRandom.getrandbits


class Uniqueness:
    """Tracks which generators were seeded from system entropy, from before user code is loaded until the freeze."""

    def __init__(self):
        self._seeded = {}
        self._drawn = set()
        self._randoms = []
        self._numpy_generators = []
        self._watch()

    def _watch(self):
        def seed(instance, a=None, version=2):
            if a is None:
                self._remember(instance)
            else:
                self._seeded.pop(id(instance), None)
            _seed(instance, a, version)

        def setstate(instance, state):
            self._seeded.pop(id(instance), None)
            _setstate(instance, state)

        def getrandbits(instance, k):
            bits = _getrandbits(instance, k)
            if k >= _SEED_BITS and len(self._drawn) < _SEEDS_KEPT:
                self._drawn.add(bits)  # `secrets.randbits`, from which numpy takes its seeds
            return bits

        random.Random.seed, random.Random.setstate, random.SystemRandom.getrandbits = seed, setstate, getrandbits

    def _remember(self, instance):
        if not isinstance(instance, random.SystemRandom):
            key = id(instance)
            self._seeded[key] = weakref.ref(instance, lambda _: self._seeded.pop(key, None))

    def prepare(self):
        """At the freeze: finds the generators that must be seeded again."""
        random.Random.seed, random.Random.setstate, random.SystemRandom.getrandbits = _seed, _setstate, _getrandbits
        shared = random._inst
        self._randoms = [found for found in (reference() for reference in self._seeded.values()) if found not in (None, shared)]
        self._randoms.append(shared)
        self._numpy_generators = list(self._find_numpy_generators())
        self._seeded, self._drawn = {}, set()

    def _find_numpy_generators(self):
        """Bit generators behind `numpy.random.default_rng()` and the like that were not seeded by user code."""
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is None:
            return
        import gc

        shared = getattr(getattr(numpy_random.mtrand, "_rand", None), "_bit_generator", None)
        for found in gc.get_objects():
            if issubclass(type(found), numpy_random.BitGenerator) and found is not shared:
                sequence = getattr(found, "seed_seq", None) or getattr(found, "_seed_seq", None)
                entropy = getattr(sequence, "entropy", None)
                if isinstance(entropy, int) and entropy in self._drawn and not _is_behind_random_state(found, numpy_random, gc):
                    yield found

    def restore(self, entropy):
        """In a clone, before user code runs."""
        for generator in self._randoms:
            generator.seed(int.from_bytes(_new_seed(entropy), "little"))
        modules = sys.modules
        if "numpy.random" in modules:
            self._seed_numpy(modules["numpy.random"], entropy)
        if "uuid" in modules:
            _renew_uuid(modules["uuid"])
        if "_ssl" in modules:
            modules["_ssl"].RAND_add(entropy + _urandom(32), 32.0)
        if "tempfile" in modules:
            _renew_tempfile(modules["tempfile"])
        if "multiprocessing.process" in modules:
            modules["multiprocessing.process"].current_process().authkey = _urandom(32)

    @staticmethod
    def replaces(handler):
        """Whether a fork handler only repeats what `restore` does."""
        return type(handler) is types.MethodType and handler.__self__ is random._inst

    def _seed_numpy(self, numpy_random, entropy):
        words = memoryview(_new_seed(entropy)).cast("I").tolist()
        try:
            numpy_random.seed(words)
        except (TypeError, ValueError):  # user code installed another kind of bit generator
            _seed_bit_generator(numpy_random.mtrand._rand._bit_generator, words)
        for generator in self._numpy_generators:
            _seed_bit_generator(generator, memoryview(_new_seed(entropy)).cast("I").tolist())


def _new_seed(entropy):
    return entropy + _urandom(32)


def _seed_bit_generator(generator, words):
    generator.state = type(generator)(words).state


def _is_behind_random_state(generator, numpy_random, gc):
    """`RandomState(42)` first creates its bit generator from system entropy, so that its own seed is not visible there."""
    return any(issubclass(type(holder), numpy_random.RandomState) for holder in gc.get_referrers(generator))


def _renew_uuid(uuid):
    """uuid1: a new node, random as RFC 9562 allows, and a fresh timestamp and clock sequence. uuid4 reads system entropy each time."""
    uuid._node = int.from_bytes(_urandom(6), "big") | 1 << 40
    uuid._generate_time_safe = None  # keeps state of its own in the C library
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(uuid, name):
            setattr(uuid, name, None)
    if hasattr(uuid, "_last_counter_v7"):
        uuid._last_counter_v7 = 0


def _renew_tempfile(tempfile):
    """The clone has another /tmp: a directory that user code created there is gone, and so is `tempfile.tempdir`."""
    tempfile._name_sequence = None
    if tempfile.tempdir is not None and not os.path.isdir(tempfile.tempdir):
        tempfile.tempdir = None
