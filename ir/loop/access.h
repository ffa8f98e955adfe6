/* access.h: who touches which buffer, and where: the questions about memory that passes ask.
 *
 * All of them rest on one fact: two accesses touch the same element of a buffer if, and only if, their offsets are
 * equal (ir/loop/loop.h). A question about one statement or kernel is a walk over it. Who asks many makes a list or
 * an index once: sn_access_list of a kernel, in the order of the text; sn_users of a module, by buffer.
 */
#ifndef SN_IR_LOOP_ACCESS_H
#define SN_IR_LOOP_ACCESS_H

#include "ir/loop/loop.h"

/* ---- loops around an access ---- */

enum { SN_MAX_CHAIN = 24 };

/* Loops and reduces around something, outermost first. */
typedef struct sn_chain {
    sn_stmt at[SN_MAX_CHAIN];
    uint32_t n;
} sn_chain;

/* Those around s; if there are more than a chain holds, the innermost. */
void sn_chain_around(sn_chain *out, const sn_module *m, sn_stmt s);
/* Those of them that stand in the region of `outer`; none: all. */
void sn_chain_below(sn_chain *out, const sn_module *m, sn_stmt s, sn_stmt outer);
/* e over the axes of the loops `to` instead of those of `from`, pair by pair. */
sn_ix sn_ix_over(sn_module *m, sn_ix e, const sn_stmt *from, const sn_stmt *to, uint32_t n);
/* Do they run alike, pair by pair: the same extents, of the same kinds? */
bool sn_loops_alike(const sn_module *m, const sn_stmt *a, const sn_stmt *b, uint32_t n);

/* ---- elements ---- */

/* Do a and b touch the same element whenever the loops of_a stand where the loops of_b do? The loops have to be
 * alike. */
bool sn_same_element(sn_module *m, sn_stmt a, const sn_chain *of_a, sn_stmt b, const sn_chain *of_b);
/* Does the access touch another element in every iteration of the loops around it? false: not provably. */
bool sn_access_distinct(sn_module *m, sn_stmt s);
/* Do two different iterations of the loop, which is around both, touch different elements by a and b? Not provably:
 * false. */
bool sn_access_apart(sn_module *m, sn_stmt a, sn_stmt b, sn_stmt loop);

/* ---- who, in a statement with its region, or in a kernel; b none: in any buffer ---- */

bool sn_stmt_stores(const sn_module *m, sn_stmt s, sn_buf b);
bool sn_stmt_loads(const sn_module *m, sn_stmt s, sn_buf b);
bool sn_kern_stores(const sn_module *m, sn_kern k, sn_buf b);
bool sn_kern_loads(const sn_module *m, sn_kern k, sn_buf b);
/* Does anything from s up to `until`, a later statement of its region, store to b? Not counting `until`. */
bool sn_stores_between(const sn_module *m, sn_stmt s, sn_stmt until, sn_buf b);

/* ---- lists ---- */

typedef struct sn_access {
    sn_stmt s;
    sn_buf buf;
    sn_ix ix;
    bool store;
} sn_access;

typedef struct sn_access_list {
    sn_access *at;
    uint32_t n, cap;
} sn_access_list;

/* Every access from s up to `until` (none: to the end of the kernel), in the order of the text. */
void sn_access_find(sn_access_list *out, const sn_module *m, sn_arena *a, sn_stmt s, sn_stmt until);
/* Those of a kernel. */
void sn_access_find_all(sn_access_list *out, const sn_module *m, sn_arena *a, sn_kern k);
/* Does one of the list store to b inside the region of `nest`? Answers after statements other than stores have
 * moved. */
bool sn_access_stored(const sn_access_list *list, const sn_module *m, sn_buf b, sn_stmt nest);

/* ---- kernels, by buffer ---- */

/* That a kernel touches a buffer; `at`: its position among the kernels. */
typedef struct sn_user {
    uint32_t at;
    bool loads, stores;
} sn_user;

/* Users of buffer b, in order: user[first[b.i]] up to user[first[b.i + 1]]. Buffers that are made later have none.
 * Positions stay those of the kernels when the index was made. */
typedef struct sn_users {
    uint32_t n_bufs, *first;
    sn_user *user;
} sn_users;

/* Alternatives of a kernel (sn_kern_rec.alternative_of) are no users: the kernel stands for them. Time and memory are linear in
 * the statements and buffers of the module. */
void sn_users_find(sn_users *out, const sn_module *m, sn_arena *a);
/* Position of the last kernel before `at` that stores to b; UINT32_MAX: there is none. */
uint32_t sn_users_storer(const sn_users *u, sn_buf b, uint32_t at);
/* What the kernel at `at` does to b; NULL: nothing. */
const sn_user *sn_users_get(const sn_users *u, sn_buf b, uint32_t at);
/* Does a kernel at `from`, or behind it and before `until`, touch b? */
bool sn_users_touch(const sn_users *u, sn_buf b, uint32_t from, uint32_t until);
/* Does a kernel other than the one at `at` load b? */
bool sn_users_load_elsewhere(const sn_users *u, sn_buf b, uint32_t at);
/* What the kernel at `from` does to b is done by the one at `into`, an earlier one, from now on. */
void sn_users_move(sn_users *u, sn_buf b, uint32_t from, uint32_t into);

/* Which kernels, by position, store temporaries alone, computed from constants alone: what they give is the same in
 * all runs. The pass `plan` lets them run when a program is loaded. Linear in the statements, times the passes over
 * them that kernels which store over what others have stored take. */
bool *sn_kerns_constant(const sn_module *m, sn_arena *a);

#endif
