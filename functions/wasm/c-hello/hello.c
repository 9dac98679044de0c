/* Greets whoever calls. */
#include <stdio.h>

#include "flint.h"

/* The text of the string member `key`, escapes as they are; `otherwise` when there is none. No substitute for a JSON library. */
static flint_bytes member(const char *json, size_t len, const char *key, const char *otherwise) {
    size_t n = strlen(key);
    for (const char *at = json, *end = json + len; at + n < end; at++) {
        if (memcmp(at, key, n) != 0) continue;
        const char *from = memchr(at + n, '"', end - (at + n));
        if (!from) break;
        for (const char *to = ++from; to < end; to += *to == '\\' ? 2 : 1)
            if (*to == '"') return (flint_bytes){from, to - from};
        break;
    }
    return (flint_bytes){otherwise, strlen(otherwise)};
}

flint_bytes flint_handle(const char *input, size_t len) {
    flint_bytes name = member(input, len, "\"name\"", "world");
    size_t room = name.len + 64;
    char *text = malloc(room);
    snprintf(text, room, "called by %.*s", (int)name.len, name.data);
    flint_log(text);
    int written = snprintf(text, room, "{\"greeting\": \"Hello, %.*s!\"}", (int)name.len, name.data);
    return (flint_bytes){text, written};
}
