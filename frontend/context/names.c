/* names.c: names of ports and tensors: finding one, and those that are nearest to one that is not there. Every message
 * that proposes names gets them here.
 */
#include "frontend/context/names.h"

#include <string.h>

enum { NEAR_NAMES = 4096, NEAR_LENGTH = 128 }; /* names, and bytes of them, that are compared */

/* Insertions, deletions and replacements between two names (Levenshtein), of their last NEAR_LENGTH bytes. */
static unsigned distance(const char *a, const char *b) {
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > NEAR_LENGTH) a += n_a - NEAR_LENGTH, n_a = NEAR_LENGTH;
    if (n_b > NEAR_LENGTH) b += n_b - NEAR_LENGTH, n_b = NEAR_LENGTH;
    unsigned row[NEAR_LENGTH + 1];
    for (unsigned j = 0; j <= n_b; j++) row[j] = j;
    for (unsigned i = 1; i <= n_a; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n_b; j++) {
            unsigned replaced = diagonal + (a[i - 1] != b[j - 1]), other = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = replaced < other + 1 ? replaced : other + 1;
        }
    }
    return row[n_b];
}

const char *sn_names_nearest(sn_arena *arena, const sn_name_list *list, const char *name) {
    const char *best[SN_NAMES_NEAR] = {0};
    unsigned far[SN_NAMES_NEAR] = {0};
    for (uint32_t k = 0; k < list->n && k < NEAR_NAMES; k++) {
        const char *other = list->name(list->at, k);
        unsigned d = distance(name, other), i = SN_NAMES_NEAR;
        while (i > 0 && (!best[i - 1] || d < far[i - 1])) i--;
        for (unsigned j = SN_NAMES_NEAR; j-- > i + 1;) best[j] = best[j - 1], far[j] = far[j - 1];
        if (i < SN_NAMES_NEAR) best[i] = other, far[i] = d;
    }
    const char *text = "";
    for (unsigned i = 0; i < SN_NAMES_NEAR && best[i]; i++)
        text = sn_strf(arena, "%s%s%.*s", text, i ? ", " : "", 256, best[i]);
    return text;
}

sn_status sn_names_find(unsigned *out, sn_env *env, sn_arena *arena, const sn_name_list *list, const char *where,
                        const char *what, const char *name) {
    for (uint32_t k = 0; k < list->n; k++)
        if (!strcmp(list->name(list->at, k), name)) return *out = k, SN_OK;
    if (!list->n) return sn_fail(env, SN_ERROR_ARGUMENT, "%s: no %s %s; there are none", where, what, name);
    return sn_fail(env, SN_ERROR_ARGUMENT, "%s: no %s %s; nearest of its %u: %s", where, what, name, list->n,
                   sn_names_nearest(arena, list, name));
}
