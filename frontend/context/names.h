/* names.h: looking for a name among some, and what to say when it is not there. */
#ifndef SN_FRONTEND_CONTEXT_NAMES_H
#define SN_FRONTEND_CONTEXT_NAMES_H

#include "ir/base/base.h"

enum { SN_NAMES_NEAR = 3 }; /* names to propose */

/* Names that can be counted: number k of n. */
typedef struct sn_name_list {
    const void *at;
    uint32_t n;
    const char *(*name)(const void *at, uint32_t k);
} sn_name_list;

/* "a, b, c": the names nearest to one, nearest first. */
const char *sn_names_nearest(sn_arena *arena, const sn_name_list *list, const char *name);
/* The number of a name. `where`, `what`: for the message, "graph f", "input". */
sn_status sn_names_find(unsigned *out, sn_env *env, sn_arena *arena, const sn_name_list *list, const char *where,
                        const char *what, const char *name);

#endif
