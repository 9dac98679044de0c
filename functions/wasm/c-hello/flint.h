/* Flint's core ABI: bytes in, bytes out, no WASI needed. Include it in one file and write flint_handle. Every call has an
   instance of its own, so nothing has to be freed. */
#ifndef FLINT_H
#define FLINT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FLINT_HOST(name) __attribute__((import_module("flint"), import_name(name)))
#define FLINT_ENTRY(name) __attribute__((export_name(name)))

FLINT_HOST("log") void flint_host_log(int32_t stream, const char *text, size_t len);
FLINT_HOST("fail") void flint_host_fail(const char *text, size_t len);

/* Writes a line to the call's log. */
static inline void flint_log(const char *text) { flint_host_log(1, text, strlen(text)); }
/* Ends the call as an error of the function. */
static inline void flint_fail(const char *text) { flint_host_fail(text, strlen(text)); }

typedef struct { const char *data; size_t len; } flint_bytes;

/* Yours: the call's arguments as JSON, or a request's body, and the answer to it. */
flint_bytes flint_handle(const char *input, size_t len);

FLINT_ENTRY("flint_alloc") void *flint_alloc(size_t len) { return malloc(len ? len : 1); }
FLINT_ENTRY("flint_call") uint64_t flint_call(const char *input, size_t len) {
    flint_bytes answer = flint_handle(input, len);
    return (uint64_t)(uintptr_t)answer.data << 32 | answer.len;
}

#endif
