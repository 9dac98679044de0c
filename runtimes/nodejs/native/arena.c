/* Places the pages of V8's heap next to each other. Works when this library is preloaded.
 *
 * V8 asks for each 256 KiB heap page at a random address. Thirty of them then need ninety page tables, which every fork copies and every
 * exit of a clone frees, and none of them can share a huge page. Here they get consecutive addresses in one range, whose place is
 * random. An address is only a hint: if it is taken, the kernel chooses another. */
#define _GNU_SOURCE
#include "arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const size_t small_page = 4 << 10, heap_page = 256 << 10, huge_page = 2 << 20;
/* Larger mappings are reserved for compiled code, which must be near Node.js's own. */
static const size_t largest = 64 << 20;
static const uintptr_t lowest = (uintptr_t)1 << 40, range_length = (uintptr_t)1 << 40, ranges = 63;

static bool fills = true;
static uintptr_t first;
static _Atomic uintptr_t next;

__attribute__((constructor)) static void choose_range(void) {
  uint64_t random = 0;
  const void *drawn = (const void *)getauxval(AT_RANDOM);
  if (drawn != NULL) memcpy(&random, drawn, sizeof random);
  random *= UINT64_C(0x9e3779b97f4a7c15); /* those bytes also guard the stack: an address must not tell them */
  first = lowest + (random >> 58) % ranges * range_length + ((random >> 20) & 0x3ffff) * huge_page;
  /* V8's first heap page is read-only, and so cannot share a huge page with others. */
  atomic_store(&next, first - heap_page);
  unsetenv("LD_PRELOAD");
}

/* Maps unused memory with the attributes of V8's, so that the kernel merges the mappings on both sides of it. */
static void fill(uintptr_t start, uintptr_t end) {
  void *at = (void *)start;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE; /* existing mappings stay */
  if (end > start && (void *)syscall(SYS_mmap, at, end - start, PROT_READ | PROT_WRITE, flags, -1, 0) == at) madvise(at, end - start, MADV_DONTFORK);
}

/* Large objects end within a heap page, and V8 unmaps the rest of it. */
static void fill_behind(uintptr_t at) {
  unsigned char present;
  uintptr_t gap = at;
  while (gap > at - heap_page && mincore((void *)(gap - small_page), small_page, &present) != 0) gap -= small_page;
  fill(gap, at);
}

/* The address to ask for. V8 asks for more than it keeps, so that it can trim the mapping to a multiple of a heap page. */
static void *place(void *wish, size_t length, int access, int flags, int fd) {
  const int others = MAP_SHARED | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK | MAP_HUGETLB;
  const size_t to_align = heap_page - small_page;
  if (wish == NULL || fd != -1 || !(flags & MAP_ANONYMOUS) || (flags & others) || (access & PROT_EXEC) || length <= to_align ||
      length > largest || atomic_load(&next) == 0)
    return wish;
  size_t kept = (length - to_align + heap_page - 1) & ~(heap_page - 1);
  uintptr_t at = atomic_fetch_add(&next, kept);
  if (fills && at > first) fill_behind(at);
  return (void *)at;
}

static void *map(void *wish, size_t length, int access, int flags, int fd, off_t offset) {
  return (void *)syscall(SYS_mmap, place(wish, length, access, flags, fd), length, access, flags, fd, offset);
}

EXPORT void *mmap(void *wish, size_t length, int access, int flags, int fd, off_t offset) {
  return map(wish, length, access, flags, fd, offset);
}

EXPORT void *mmap64(void *wish, size_t length, int access, int flags, int fd, off64_t offset) {
  return map(wish, length, access, flags, fd, offset);
}

void arena_leave_gaps(void) { fills = false; }

void arena_fill(uintptr_t start, uintptr_t end) {
  uintptr_t last = (atomic_load(&next) + huge_page - 1) & ~(huge_page - 1);
  fill(start > first ? start : first, end < last ? end : last);
}
