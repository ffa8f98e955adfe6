/* notes.c: see notes.h. A table of ids that is at most half full; what it grows out of stays in the arena. */
#include "ir/base/notes.h"

static uint32_t place_of(const sn_notes *t, uint32_t id) {
    const uint32_t golden = 2654435769u;
    uint32_t h = id * golden, at = (h ^ h >> 16) & (t->room - 1); /* ids may be multiples of powers of two */
    while (t->id[at] && t->id[at] != id) at = (at + 1) & (t->room - 1);
    return at;
}

bool sn_notes_find(const sn_notes *t, uint32_t id, uint64_t *out) {
    if (!t->n) return false;
    uint32_t at = place_of(t, id);
    if (!t->id[at]) return false;
    *out = t->note[at];
    return true;
}

static void grow(sn_notes *t) {
    enum { FIRST = 64 };
    sn_notes old = *t;
    t->room = old.room ? 2 * old.room : FIRST;
    t->id = SN_NEWN(t->arena, uint32_t, t->room);
    t->note = SN_NEWN(t->arena, uint64_t, t->room);
    for (uint32_t i = 0; i < old.room; i++) {
        if (!old.id[i]) continue;
        uint32_t at = place_of(t, old.id[i]);
        t->id[at] = old.id[i], t->note[at] = old.note[i];
    }
}

void sn_notes_set(sn_notes *t, uint32_t id, uint64_t note) {
    if (2 * (t->n + 1) > t->room) grow(t);
    uint32_t at = place_of(t, id);
    t->n += !t->id[at];
    t->id[at] = id, t->note[at] = note;
}

bool sn_notes_add(sn_notes *t, uint32_t id) {
    uint64_t note;
    if (sn_notes_find(t, id, &note)) return false;
    sn_notes_set(t, id, 0);
    return true;
}
