/* notes.h: notes about a few of a module's values, axes or buffers, by id: what a question about one kernel keeps, at a cost that hangs on that
 * kernel and not on the module. A zeroed sn_notes with an arena is an empty one; no destructor, the memory is the arena's. */
#ifndef SN_IR_BASE_NOTES_H
#define SN_IR_BASE_NOTES_H

#include "ir/base/base.h"

typedef struct sn_notes {
    sn_arena *arena;
    uint32_t *id; /* open addressing; 0: free */
    uint64_t *note;
    uint32_t n, room;
} sn_notes;

/* Is something noted about id (not 0)? *out is what, and is left alone otherwise. */
bool sn_notes_find(const sn_notes *t, uint32_t id, uint64_t *out);
/* Note it, in place of what was noted before. */
void sn_notes_set(sn_notes *t, uint32_t id, uint64_t note);
/* Note id, unless it is noted: is it new? */
bool sn_notes_add(sn_notes *t, uint32_t id);

#endif
