/* equal.h: kernels that are one program on different buffers, as those of the layers of a network are.
 *
 *     kernel @k3(x, w0, y0) { .. }   kernel @k9(y0, w1, y1) { .. }      what a pass makes of k3 it makes of k9
 *
 * Equal kernels have the same statements in the same order, the same index expressions with terms in the same order, and buffers that agree
 * in all that a kernel is told of them. Names, notes and where statements come from may differ.
 */
#ifndef SN_IR_LOOP_EQUAL_H
#define SN_IR_LOOP_EQUAL_H

#include "ir/loop/loop.h"

/* A number that equal kernels share, and others hardly. */
uint64_t sn_kern_hash(const sn_module *m, sn_kern k);
/* Marks of values and axes are overwritten. */
bool sn_kerns_equal(const sn_module *m, sn_kern a, sn_kern b);

/* Kernels of which none is equal to another one. A zeroed one with a module and an arena is empty; a kernel in it stays as it is. */
typedef struct sn_kern_set {
    const sn_module *m;
    sn_arena *arena;
    struct sn_kern_slot *slots;
    uint32_t n, cap;
} sn_kern_set;

/* Is what else counts the same? */
typedef struct sn_kern_relation {
    bool (*same)(void *user, sn_kern a, sn_kern b);
    void *user;
} sn_kern_relation;

/* The kernel of the set that k is equal to, also by the relation (NULL: there is no more to it); none. */
sn_kern sn_kern_set_find(const sn_kern_set *s, sn_kern k, const sn_kern_relation *also);
/* One that is equal to none of them. */
void sn_kern_set_add(sn_kern_set *s, sn_kern k);

/* Statements of both that come from elsewhere each. */
typedef struct sn_origin_pair {
    const char *of, *own;
} sn_origin_pair;

/* What a kernel has as its own, beside an equal one that a pass has gone on with since. */
typedef struct sn_equal {
    sn_kern of;
    sn_buf_list was; /* parameters of that one, in the order of the kernel's own */
    SN_VEC(sn_origin_pair) origins;
} sn_equal;

/* Of k beside `of`, both as they are now. */
void sn_equal_note(sn_equal *out, const sn_module *m, sn_arena *arena, sn_kern of, sn_kern k);

#endif
