/* Controls where the pages of V8's heap are. */
#ifndef FLINT_ARENA_H
#define FLINT_ARENA_H

#include <stdint.h>

/* Maps the part of these addresses that is in the heap's range. Nothing may be mapped there yet. */
void arena_fill(uintptr_t start, uintptr_t end);

/* Stops filling gaps behind large objects; earlier fillings stay. A process may have only so many mappings. */
void arena_leave_gaps(void);

#endif
