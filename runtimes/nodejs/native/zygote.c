/* Operating system functions that a Node.js zygote needs and JavaScript lacks: forking a frozen process, and turning the child into a
 * process of its own. Contract: docs/link-protocol.md, "Zygotes and clones".
 *
 * serve() never returns in the zygote: from the freeze on no JavaScript runs there. It returns in every clone. */
#define _GNU_SOURCE
#include "../../native/cloning.h"
#include "arena.h"
#include "napi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINK = 3 };

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* ------------------------------------------------------------------ memory */

struct mapping { uintptr_t start, end; bool writable, shared, private_anonymous, kernel; };

/* Reads all mappings before it calls `visit`, since changing one while the list is read would skip others. */
static int each_mapping(void (*visit)(const struct mapping *, void *), void *data) {
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t room = 1 << 20, length = 0;
  char *text = malloc(room);
  for (;;) {
    if (text != NULL && length + 1 >= room) {
      char *more = realloc(text, room *= 2);
      if (more == NULL) free(text);
      text = more;
    }
    if (text == NULL) {
      close(fd);
      return -1;
    }
    ssize_t got = read(fd, text + length, room - length - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += (size_t)got;
  }
  close(fd);
  text[length] = '\0';
  for (char *line = text; *line != '\0';) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next = '\0';
    unsigned long start, end, inode;
    char access[5];
    int name = 0;
    if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %n", &start, &end, access, &inode, &name) >= 4 && name > 0) {
      const char *path = line + name;
      struct mapping mapping = {
          .start = start,
          .end = end,
          .writable = access[1] == 'w',
          .shared = access[3] == 's',
          .private_anonymous = access[3] == 'p' && inode == 0 && (*path == '\0' || *path == '['),
          .kernel = strncmp(path, "[v", 2) == 0,
      };
      visit(&mapping, data);
    }
    if (next == NULL) break;
    line = next + 1;
  }
  free(text);
  return 0;
}

/* V8 excludes its heap from forks (MADV_DONTFORK), but a clone needs it. Shared mappings are excluded instead, such as an event loop's
 * io_uring where a function may have one: through them one clone could reach another. */
static void forkable(const struct mapping *mapping, void *data) {
  (void)data;
  if (!mapping->kernel) madvise((void *)mapping->start, mapping->end - mapping->start, mapping->shared ? MADV_DONTFORK : MADV_DOFORK);
}

/* Unmapped pages leave gaps in V8's heap. Once they are filled, the kernel merges the mappings around them, which can then share huge
 * pages. */
static void join(const struct mapping *mapping, void *data) {
  uintptr_t *reached = data;
  if (mapping->start > *reached) arena_fill(*reached, mapping->start);
  if (mapping->end > *reached) *reached = mapping->end;
}

/* A huge page replaces 512 page-table entries, which a fork would copy: a zygote of 140 MB forks in 0.15 ms instead of several. */
static void collapse(const struct mapping *mapping, void *data) {
  static const uintptr_t huge = 2 << 20;
  uintptr_t start = (mapping->start + huge - 1) & ~(huge - 1), end = mapping->end & ~(huge - 1);
  if (!mapping->writable || !mapping->private_anonymous || start >= end) return;
  double *bytes = data;
  for (uintptr_t at = start; at < end; at += huge) {
    unsigned char present[512];
    if (mincore((void *)at, huge, present) != 0) continue;
    int pages = 0;
    for (size_t page = 0; page < huge / 4096; page++) pages += present[page] & 1;
    if (pages < 256) continue; /* more than half would be filled with nothing */
    if (madvise((void *)at, huge, MADV_COLLAPSE) == 0) *bytes += (double)huge;
    else madvise((void *)at, huge, MADV_HUGEPAGE);
  }
}

/* ------------------------------------------------------------- descriptors */

enum { MOST_INHERITED = 1024 };
static struct inherited { int fd; bool pipe; ino_t inode; } inherited[MOST_INHERITED];
static size_t inherited_count;
static int null_fd = -1;

/* Records the descriptors that are open in the zygote besides 0-3 and 200: those of event loops. */
static int note_inherited(void) {
  DIR *folder = opendir("/proc/self/fd");
  if (folder == NULL) return -1;
  inherited_count = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    int fd = atoi(entry->d_name);
    struct stat status;
    if (fd <= LINK || fd == TMP || fd == dirfd(folder) || fd == null_fd || fstat(fd, &status) != 0) continue;
    if (inherited_count == MOST_INHERITED) {
      closedir(folder);
      return -1;
    }
    inherited[inherited_count++] = (struct inherited){fd, S_ISFIFO(status.st_mode), status.st_ino};
  }
  closedir(folder);
  return 0;
}

/* Replaces every inherited descriptor with /dev/null. uv_loop_fork then recreates those of this process's own loop. The others belong to
 * loops whose threads did not survive the fork, and a number to which those might still write must not become a file of the user's. A
 * pipe with another inode has already been recreated by libuv's own fork handler. */
static void part_from_zygote(void) {
  for (size_t i = 0; i < inherited_count; i++) {
    struct stat status;
    if (inherited[i].pipe && (fstat(inherited[i].fd, &status) != 0 || status.st_ino != inherited[i].inode)) continue;
    dup3(null_fd, inherited[i].fd, O_CLOEXEC);
  }
}

static void make_blocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* ------------------------------------------------------------------- clone */

static void become_clone(const struct order *order, const struct sigaction *child_signal, uv_loop_t *loop) {
  take_places(LINK, order);
  for (int fd = 1; fd <= LINK; fd++) make_blocking(fd);
  part_from_zygote();
  sigaction(SIGCHLD, child_signal, NULL);
  unblock_signals();
  confine(LINK);
  if (uv_loop_fork(loop) != 0) give_up(LINK, "the event loop does not survive the fork");
}

/* -------------------------------------------------------------- JavaScript */

static napi_value number(napi_env env, double value) {
  napi_value result = NULL;
  napi_create_double(env, value, &result);
  return result;
}

static napi_value fail(napi_env env, const char *what) {
  char message[256];
  snprintf(message, sizeof message, "%s: %s", what, strerror(errno));
  napi_throw_error(env, NULL, message);
  return NULL;
}

static int integers(napi_env env, napi_callback_info info, size_t wanted, int32_t *values) {
  napi_value arguments[2];
  size_t count = 2;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  for (size_t i = 0; i < wanted; i++) {
    if (i >= count || napi_get_value_int32(env, arguments[i], &values[i]) != 0) {
      errno = EINVAL;
      return -1;
    }
  }
  return 0;
}

static int buffers(napi_env env, napi_callback_info info, size_t wanted, void **data, size_t *length) {
  napi_value arguments[2];
  size_t count = 2;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  for (size_t i = 0; i < wanted; i++) {
    if (i >= count || napi_get_buffer_info(env, arguments[i], &data[i], &length[i]) != 0) {
      errno = EINVAL;
      return -1;
    }
  }
  return 0;
}

/* harden(): keeps processes of the same user from reading or tracing this process, which its clones inherit. Throws if this host cannot
 * separate clones. */
static napi_value harden(napi_env env, napi_callback_info info) {
  (void)info;
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail(env, "the process cannot be made non-dumpable");
  long abi = landlock_version();
  if (abi < 0) return fail(env, "Landlock is not there, which Linux 6.12 and newer offer");
  if (abi < LANDLOCK_ABI_WITH_SCOPES) {
    errno = ENOSYS;
    return fail(env, "Landlock has no scopes before Linux 6.12");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail(env, "no_new_privs cannot be set");
  return NULL;
}

/* duplicate(fd) -> a duplicate of the descriptor, close-on-exec. */
static napi_value duplicate(napi_env env, napi_callback_info info) {
  int32_t fd;
  if (integers(env, info, 1, &fd) != 0) return fail(env, "duplicate(fd)");
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, LINK + 1);
  return copy < 0 ? fail(env, "the descriptor cannot be duplicated") : number(env, copy);
}

/* glibc's; others have none. */
extern int malloc_trim(size_t pad) __attribute__((weak));

/* trim(): gives back the pages of buffers that were freed. Otherwise the warm-up's are the zygote's memory, and each clone that gets them
 * for its own buffers copies what nobody reads. */
static napi_value trim(napi_env env, napi_callback_info info) {
  (void)env;
  (void)info;
  if (malloc_trim != NULL) malloc_trim(0);
  return NULL;
}

/* hugePages() -> the number of bytes moved to huge pages. */
static napi_value huge_pages(napi_env env, napi_callback_info info) {
  (void)info;
  double bytes = 0;
  uintptr_t reached = 0;
  /* In this order: the kernel does not merge mappings of which only one is excluded from forks. */
  if (each_mapping(join, &reached) != 0 || each_mapping(forkable, NULL) != 0 || each_mapping(collapse, &bytes) != 0) return fail(env, "/proc/self/maps cannot be read");
  return number(env, bytes);
}

/* pid() -> this process's id; Node.js caches the one from its start. */
static napi_value pid(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, getpid());
}

/* exit(status): ends the process at once. A clone has none of the zygote's other threads, so nothing that waits for them may run. */
static napi_value exit_now(napi_env env, napi_callback_info info) {
  int32_t status = 0;
  integers(env, info, 1, &status);
  fflush(stdout);
  fflush(stderr);
  _exit(status);
}

/* RESTORE's ACK. It is not urgent while a call follows, and is sent with the next write or before the next wait. */
static char held_bytes[HEADER] = {0, 0, 0, 0, KIND_ACK};
static size_t held;

/* holdAck() */
static napi_value hold_ack(napi_env env, napi_callback_info info) {
  (void)info;
  held = HEADER;
  return number(env, 0);
}

static ssize_t put_held(int fd, const char *bytes, size_t length) {
  struct iovec pieces[2] = {{held_bytes, held}, {(void *)bytes, length}};
  for (;;) {
    ssize_t written = held == 0 ? write(fd, bytes, length) : writev(fd, pieces, 2);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    // So few bytes are written whole or not at all.
    size_t mine = held;
    held = 0;
    return written - (ssize_t)mine;
  }
}

/* read(buffer) -> the number of bytes read from the link; 0 at its end. Avoids the event loop and the overhead of fs.readSync. */
static napi_value read_link(napi_env env, napi_callback_info info) {
  void *data;
  size_t length;
  if (buffers(env, info, 1, &data, &length) != 0) return fail(env, "read(buffer)");
  if (held > 0) put_held(LINK, NULL, 0);
  ssize_t got;
  do got = read(LINK, data, length);
  while (got < 0 && errno == EINTR);
  return number(env, got < 0 ? 0 : (double)got);
}

/* Whether this clone's link is read by its event loop. */
static bool on_event_loop;

/* write(fd, buffer, at, length) -> the number of bytes written, -1 if none fits now, -2 if the reader has gone. */
static napi_value write_link(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  size_t count = 4, size;
  int32_t fd, at, length;
  void *data;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (count < 4 || napi_get_value_int32(env, arguments[0], &fd) != 0 || napi_get_buffer_info(env, arguments[1], &data, &size) != 0 ||
      napi_get_value_int32(env, arguments[2], &at) != 0 || napi_get_value_int32(env, arguments[3], &length) != 0 || at < 0 || length < 0 ||
      (size_t)at + (size_t)length > size) {
    errno = EINVAL;
    return fail(env, "write(fd, buffer, at, length)");
  }
  const char *bytes = (const char *)data + at;
  ssize_t written = put_held(fd, bytes, (size_t)length);
  // The process woken by the answer may be waiting for this very CPU, and what follows a clone's first answer is not short: its exit, or the
  // event loop's start. After later ones it is, and with many functions in turn, each with cold caches, another switch costs more.
  if (!on_event_loop && written == length && length >= HEADER && bytes[4] >= KIND_RESULT) sched_yield();
  return number(env, written >= 0 ? (double)written : errno == EAGAIN ? -1 : -2);
}

/* Reads the link on a clone's event loop without a Node.js socket, which would cost a new process some ninety pages. */
static struct {
  napi_env env;
  napi_ref arrived;
  napi_async_context context;
  void *buffer;
  size_t size;
  uv_poll_t *poll;
} watched;

static void on_readable(uv_poll_t *poll, int status, int events) {
  (void)poll, (void)events;
  ssize_t got = 0; /* what the event loop reports as an error is the end of the link */
  if (status == 0) {
    do got = read(LINK, watched.buffer, watched.size);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return;
  }
  napi_env env = watched.env;
  napi_handle_scope scope;
  napi_value self, arrived, length, error;
  if (napi_open_handle_scope(env, &scope) != 0) return;
  length = number(env, got < 0 ? 0 : (double)got);
  if (napi_get_global(env, &self) == 0 && napi_get_reference_value(env, watched.arrived, &arrived) == 0 &&
      napi_make_callback(env, watched.context, self, arrived, 1, &length, NULL) != 0 && napi_get_and_clear_last_exception(env, &error) == 0)
    napi_fatal_exception(env, error);
  napi_close_handle_scope(env, scope);
}

/* onArrival(buffer, arrived): sets up watch(), in the zygote, so that clones share its allocations. `arrived` is called with the number
 * of bytes in `buffer`; 0 at the link's end. Both must stay alive. */
static napi_value on_arrival(napi_env env, napi_callback_info info) {
  napi_value arguments[2], name;
  size_t count = 2;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  watched.env = env;
  if (watched.poll == NULL) watched.poll = malloc(uv_handle_size(UV_POLL));
  if (count < 2 || watched.poll == NULL || napi_get_buffer_info(env, arguments[0], &watched.buffer, &watched.size) != 0 ||
      napi_create_reference(env, arguments[1], 1, &watched.arrived) != 0 || napi_create_string_utf8(env, "FLINT", NAPI_AUTO_LENGTH, &name) != 0 ||
      napi_async_init(env, NULL, name, &watched.context) != 0) {
    errno = EINVAL;
    return fail(env, "onArrival(buffer, arrived)");
  }
  return number(env, 0);
}

/* watch(): from now on this clone's event loop reads from the link. */
static napi_value watch(napi_env env, napi_callback_info info) {
  (void)info;
  uv_loop_t *loop;
  if (held > 0) put_held(LINK, NULL, 0);
  if (napi_get_uv_event_loop(env, &loop) != 0 || uv_poll_init(loop, watched.poll, LINK) != 0 || uv_poll_start(watched.poll, UV_READABLE, on_readable) != 0) {
    errno = EINVAL;
    return fail(env, "the event loop cannot read from the link");
  }
  on_event_loop = true;
  return number(env, 0);
}

/* unwatch(): leaves the link to a socket. */
static napi_value unwatch(napi_env env, napi_callback_info info) {
  (void)info;
  if (watched.poll != NULL) uv_poll_stop(watched.poll);
  return number(env, 0);
}

/* serve(ack, hello): sends the frame `ack`, then forks a clone for each CLONE. `hello` is the JSON of a clone's HELLO up to its number.
 * Returns in a clone, which has sent HELLO: the flags of CLONE. */
static napi_value serve(napi_env env, napi_callback_info info) {
  void *data[2];
  size_t length[2];
  uv_loop_t *loop;
  if (buffers(env, info, 2, data, length) != 0 || keep_hello(data[1], length[1]) != 0 || napi_get_uv_event_loop(env, &loop) != 0) {
    errno = EINVAL;
    return fail(env, "serve(ack, hello)");
  }
  null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0 || dup3(null_fd, 0, 0) < 0 /* whatever the user made of stdin */) return fail(env, "/dev/null cannot be opened");
  if (note_inherited() != 0) return fail(env, "/proc/self/fd cannot be read");
  use_up_free_blocks();
  fflush(NULL); /* what libc holds back would come out of every clone */
  /* Nothing allocates memory in this process any more, so once is enough. */
  if (each_mapping(forkable, NULL) != 0) return fail(env, "/proc/self/maps cannot be read");
  arena_leave_gaps();
  struct sigaction ignore = {.sa_handler = SIG_IGN}, child_signal;
  sigaction(SIGCHLD, &ignore, &child_signal);
  make_blocking(LINK);
  write_all(LINK, data[0], length[0]);

  for (;;) {
    struct order order;
    receive_order(LINK, &order);
    pid_t child = fork();
    if (child == 0) {
      become_clone(&order, &child_signal, loop);
      send_hello(LINK, order.call);
      return number(env, order.flags);
    }
    if (child < 0) send_error(LINK, order.call, "snapshot", "the zygote cannot fork");
    forget_order(&order);
  }
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int32_t node_api_module_get_api_version_v1(void) { return 8; }

EXPORT napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  static const struct { const char *name; napi_callback call; } functions[] = {
      {"harden", harden}, {"duplicate", duplicate}, {"pid", pid}, {"trim", trim},
      {"hugePages", huge_pages}, {"exit", exit_now}, {"read", read_link}, {"write", write_link}, {"holdAck", hold_ack}, {"onArrival", on_arrival}, {"watch", watch}, {"unwatch", unwatch}, {"serve", serve},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_value function;
    if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function) != 0) return NULL;
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
