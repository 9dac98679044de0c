/* Where the pages of V8's heap are. */
#ifndef FLINT_ARENA_H
#define FLINT_ARENA_H

#include <stdint.h>

/* Maps what of these addresses belongs to the heap's range. Nothing may be mapped there. */
void arena_fill(uintptr_t start, uintptr_t end);

/* From now on nothing is mapped behind large objects: what is, stays, and a process may have so many mappings and no more. */
void arena_leave_gaps(void);

#endif
