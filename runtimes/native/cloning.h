/* What the native helpers of all zygotes have in common: the orders that come over the link, and what a clone is before its runtime goes on.
 * Contract: docs/link-protocol.md, "Zygotes and clones". One thread calls these, so what is kept between calls is static. */
#ifndef FLINT_CLONING_H
#define FLINT_CLONING_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

enum { TMP = 200, HEADER = 12, HANDED = 4 };
enum { KIND_HELLO = 1, KIND_CLONE = 5, KIND_ACK = 7, KIND_RESULT = 11, KIND_ERROR = 13 };
enum { EXIT_PROTOCOL = 3, EXIT_BROKEN = 70 };

/* landlock_create_ruleset's flag, and the version that has scopes. */
enum { LANDLOCK_VERSION = 1, LANDLOCK_ABI_WITH_SCOPES = 6 };

/* A CLONE frame, with the descriptors that came with it: link, stdout, stderr, /tmp. */
struct order { uint32_t call; unsigned char flags; int handed[HANDED]; };

void write_all(int fd, const void *data, size_t length);
void send_error(int fd, uint32_t call, const char *kind, const char *what);

/* Landlock's version on this kernel, negative without it. */
long landlock_version(void);

/* In the zygote. */

/* Keeps what every clone's HELLO says, up to its number; -1 when that is too long. */
int keep_hello(const void *text, size_t length);
/* Uses up what malloc has free between blocks in use. */
void use_up_free_blocks(void);
/* Waits for an order; anything else on the link ends the process. */
void receive_order(int link, struct order *order);
/* Closes what came with it: it is the clone's. */
void forget_order(const struct order *order);

/* In a clone. */

/* Says that it cannot be what it has to be, and ends. */
void give_up(int link, const char *what);
/* Puts the descriptors that came where they belong. */
void take_places(int link, const struct order *order);
void unblock_signals(void);
/* A Landlock domain of its own. */
void confine(int link);
void send_hello(int link, uint32_t call);

#endif
