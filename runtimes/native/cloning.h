/* What the native helpers of all zygotes share: receiving fork requests over the link, and setting up a clone before its runtime goes
 * on. Contract: docs/link-protocol.md, "Zygotes and clones". Only one thread calls these functions, so state is static. */
#ifndef FLINT_CLONING_H
#define FLINT_CLONING_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

enum { TMP = 200, HEADER = 12, HANDED = 4 };
enum { KIND_HELLO = 1, KIND_CLONE = 5, KIND_ACK = 7, KIND_RESULT = 11, KIND_ERROR = 13 };
enum { EXIT_PROTOCOL = 3, EXIT_BROKEN = 70 };

/* The flag of landlock_create_ruleset that queries the ABI, and the first ABI with scopes. */
enum { LANDLOCK_VERSION = 1, LANDLOCK_ABI_WITH_SCOPES = 6 };

/* A CLONE frame and its descriptors: link, stdout, stderr, /tmp. */
struct order { uint32_t call; unsigned char flags; int handed[HANDED]; };

void write_all(int fd, const void *data, size_t length);
void send_error(int fd, uint32_t call, const char *kind, const char *what);

/* The kernel's Landlock ABI; negative without Landlock. */
long landlock_version(void);

/* Called in the zygote. */

/* Stores the beginning of every clone's HELLO, up to its number; -1 if it is too long. */
int keep_hello(const void *text, size_t length);
/* Uses up malloc's free blocks between blocks in use. */
void use_up_free_blocks(void);
/* Waits for a CLONE frame; any other frame ends the process. */
void receive_order(int link, struct order *order);
/* Closes the frame's descriptors, which are the clone's. */
void forget_order(const struct order *order);

/* Called in a clone. */

/* Reports that the clone cannot be set up, and ends the process. */
void give_up(int link, const char *what);
/* Moves the received descriptors to their fixed numbers. */
void take_places(int link, const struct order *order);
void unblock_signals(void);
/* Begins a session and enters a Landlock domain, both its own. */
void confine(int link);
void send_hello(int link, uint32_t call);

#endif
