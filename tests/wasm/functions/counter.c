/* Counts its calls: always 1, when every call has an instance of its own. */
#include <stdio.h>
#include "flint.h"

static int calls;
static char answer[32];

flint_bytes flint_handle(const char *input, size_t len) {
    if (len > 2 && memchr(input, '!', len)) flint_fail("no exclamation marks");
    return (flint_bytes){answer, snprintf(answer, sizeof answer, "{\"calls\": %d}", ++calls)};
}
