/* Serves CLONE requests in a frozen Python process, without touching the interpreter: Python code would write reference counts to pages
 * all over the heap, each of which the zygote and its clones would have to copy. */
#define _GNU_SOURCE
#include "../../native/cloning.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static void close_all(unsigned first, unsigned last) {
  if (first <= last) syscall(SYS_close_range, first, last, 0);
}

/* Sends the frame `ack`, then forks a clone for each CLONE on `link`. `hello` is the JSON of a clone's HELLO up to its number. Never
 * returns in the zygote; in a clone, sends HELLO and returns the flags of CLONE. */
__attribute__((visibility("default"))) int flint_serve(int link, const void *ack, size_t ack_length, const void *hello, size_t hello_length) {
  if (keep_hello(hello, hello_length) != 0) give_up(link, "what a clone says of itself is too long");
  fflush(NULL); /* what is still in a buffer would come out of every clone */
  use_up_free_blocks();
  struct sigaction ignore = {.sa_handler = SIG_IGN}, child_signal;
  sigaction(SIGCHLD, &ignore, &child_signal);
  write_all(link, ack, ack_length);
  for (;;) {
    struct order order;
    receive_order(link, &order);
    pid_t child = fork();
    if (child == 0) {
      take_places(link, &order);
      close_all(3, (unsigned)link - 1);
      close_all((unsigned)link + 1, TMP - 1);
      close_all(TMP + 1, ~0U);
      sigaction(SIGCHLD, &child_signal, NULL);
      unblock_signals();
      confine(link);
      send_hello(link, order.call);
      return order.flags;
    }
    if (child < 0) send_error(link, order.call, "snapshot", "the zygote cannot fork");
    forget_order(&order);
  }
}
