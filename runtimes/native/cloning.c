/* Implements cloning.h: receives fork requests and sets up clones. */
#define _GNU_SOURCE
#include "cloning.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

/* From linux/landlock.h of Linux 6.12 (ABI 6), which build machines may lack. */
struct landlock_ruleset { uint64_t handled_access_fs, handled_access_net, scoped; };
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2 };
enum { CLONE_FRAME = HEADER + 1 };

void write_all(int fd, const void *data, size_t length) {
  for (const char *at = data; length > 0;) {
    ssize_t written = write(fd, at, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return; /* the reader is gone: the end of the link says so too */
    at += written;
    length -= (size_t)written;
  }
}

void send_error(int fd, uint32_t call, const char *kind, const char *what) {
  char frame[HEADER + 512];
  int length = snprintf(frame + HEADER, sizeof frame - HEADER, "{\"kind\":\"%s\",\"message\":\"%s: %s\"}", kind, what, strerror(errno));
  unsigned char header[HEADER] = {0, 0, length >> 8, length, KIND_ERROR, 0, 0, 0, call >> 24, call >> 16, call >> 8, call};
  memcpy(frame, header, HEADER);
  write_all(fd, frame, HEADER + (size_t)length);
}

/* The clone's HELLO up to its number, prepared before the freeze. The number of page faults so far is appended, for measurements. */
enum { HELLO_REST = 64 };
static char hello[1024];
static size_t hello_length;

int keep_hello(const void *text, size_t length) {
  if (length > sizeof hello - HEADER - HELLO_REST) return -1;
  memcpy(hello + HEADER, text, length);
  hello_length = HEADER + length;
  return 0;
}

void send_hello(int link, uint32_t call) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  int length = (int)hello_length + snprintf(hello + hello_length, HELLO_REST, "%u,\"faults\":%ld}", call, usage.ru_minflt) - HEADER;
  const unsigned char header[HEADER] = {0, 0, length >> 8, length, KIND_HELLO};
  memcpy(hello, header, HEADER);
  write_all(link, hello, HEADER + (size_t)length);
}

/* Reads one CLONE frame; anything else ends the process. */
void receive_order(int link, struct order *order) {
  unsigned char frame[CLONE_FRAME];
  size_t length = 0;
  int handed = 0;
  while (length < sizeof frame) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int) * 2 * HANDED)]; } control;
    struct iovec piece = {frame + length, sizeof frame - length};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(link, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(0);
    length += (size_t)got;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      int count = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      for (int i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(part) + (size_t)i * sizeof fd, sizeof fd);
        if (handed < HANDED) order->handed[handed] = fd;
        handed++;
      }
    }
  }
  static const unsigned char expected[8] = {0, 0, 0, 1, KIND_CLONE, 0, 0, 0};
  if (memcmp(frame, expected, sizeof expected) != 0 || handed != HANDED) {
    errno = EPROTO;
    send_error(link, 0, "protocol", "a frozen zygote takes CLONE with one byte and four descriptors, and nothing else");
    _exit(EXIT_PROTOCOL);
  }
  order->call = (uint32_t)frame[8] << 24 | (uint32_t)frame[9] << 16 | (uint32_t)frame[10] << 8 | frame[11];
  order->flags = frame[12];
}

void forget_order(const struct order *order) {
  for (int i = 0; i < HANDED; i++) close(order->handed[i]);
}

long landlock_version(void) { return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION); }

void give_up(int link, const char *what) {
  send_error(link, 0, "snapshot", what);
  _exit(EXIT_BROKEN);
}

void take_places(int link, const struct order *order) {
  const int places[HANDED] = {link, 1, 2, TMP};
  for (int i = 0; i < HANDED; i++) {
    /* Only the link is closed in child processes. */
    if (dup3(order->handed[i], places[i], places[i] == link ? O_CLOEXEC : 0) < 0) give_up(link, "a descriptor cannot be put in its place");
    close(order->handed[i]);
  }
}

void unblock_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

void confine(int link) {
  /* A process may move between the groups of its session, and when one that others depend on ends, a group with a stopped process in it,
   * as the zygote is between forks, is ended as a whole. */
  if (setsid() < 0) give_up(link, "the clone cannot begin a session of its own");
  struct landlock_ruleset rules = {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL};
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) give_up(link, "the clone cannot enter a Landlock domain of its own");
  close(ruleset);
}

/* Uses up the free blocks between blocks in use. Otherwise the few allocations of a clone would be spread over a hundred pages, each of
 * which it would have to copy. Later allocations come from the end of the heap, page after page. */
void use_up_free_blocks(void) {
  static const size_t most = 8 << 20, largest = 64 << 10, small = 1 << 10, step = 16;
  const char *end = (char *)sbrk(0) - mallinfo2().keepcost;
  size_t used = 0;
  for (size_t size = largest; size >= step; size = size > small ? size / 2 : size - step) {
    for (;;) {
      const char *block = malloc(size);
      if (block == NULL || block >= end) break;
      used += size;
      if (used > most) return;
    }
  }
}
