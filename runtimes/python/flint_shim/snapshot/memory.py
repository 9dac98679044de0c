"""Moves a frozen process into huge pages: fork copies page tables, which are 512 times smaller for huge pages."""

import posix

from . import native

_HUGE = 2 << 20


def use_huge_pages():
    """Collapses heap and arenas into huge pages where the kernel supports it; returns the number of bytes in huge pages."""
    native.trim()
    for start, end in list(_private_memory()):
        for address in range(-(-start // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
            if _is_used(address) and not native.advise(address, _HUGE, native.MADV_COLLAPSE):
                native.advise(address, _HUGE, native.MADV_HUGEPAGE)
    return _in_huge_pages()


def _is_used(address):
    """Whether at least half of a huge page is resident: collapsing an array that was never written would only cost memory."""
    return native.resident_pages(address, _HUGE) * posix.sysconf("SC_PAGE_SIZE") * 2 >= _HUGE


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * posix.sysconf("SC_PAGE_SIZE")


def _private_memory():
    """Private writable anonymous mappings: (start, end)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            name = fields[5].strip() if len(fields) > 5 else ""
            if fields[1] == "rw-p" and (not name or name == "[heap]" or name.startswith("[anon:")):
                start, _, end = fields[0].partition("-")
                yield int(start, 16), int(end, 16)


def _in_huge_pages():
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("AnonHugePages:"))
    except OSError:
        return 0
