/* eval_sort.c: reference evaluation of sort and topk: a merge sort of positions, which keeps equal elements in
 * order. */
#include "ir/graph/eval_internal.h"

#include <math.h>
#include <string.h>

typedef struct sorter {
    const sn_array *x;
    const sn_groups *groups;
    int64_t base; /* of the row */
    bool descending;
    int64_t *at, *other; /* positions in the row, and room for as many */
} sorter;

static sn_scalar element(const sorter *s, int64_t j) { return sn_array_get(s->x, s->base + s->groups->offset[j]); }

static bool is_less(const sorter *s, sn_scalar a, sn_scalar b) {
    if (!sn_is_float(s->x->dtype)) return sn_int_less(a.i, b.i, sn_is_unsigned(s->x->dtype));
    return isnan(b.f) ? !isnan(a.f) : a.f < b.f;
}

/* Must element i stand before j, whatever their order was? */
static bool precedes(const sorter *s, int64_t i, int64_t j) {
    sn_scalar a = element(s, i), b = element(s, j);
    return s->descending ? is_less(s, b, a) : is_less(s, a, b);
}

static void merge_sort(sorter *s, int64_t begin, int64_t end) {
    int64_t middle = begin + (end - begin) / 2, a = begin, b = middle;
    if (end - begin < 2) return;
    merge_sort(s, begin, middle);
    merge_sort(s, middle, end);
    for (int64_t i = begin; i < end; i++) {
        bool second = a == middle || (b < end && precedes(s, s->at[b], s->at[a]));
        s->other[i] = second ? s->at[b++] : s->at[a++];
    }
    memcpy(s->at + begin, s->other + begin, (size_t)(end - begin) * sizeof *s->at);
}

sn_status sn_eval_sort(sn_eval *e) {
    bool top = e->n->op == SN_OP_TOPK;
    uint32_t axis = (uint32_t)sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    sn_groups from = sn_groups_of(e->arena, e->in[0], 1u << axis), to = sn_groups_of(e->arena, e->out, 1u << axis);
    sorter s = {.x = e->in[0], .groups = &from};
    s.descending = top ? sn_node_int(e->m, e->x, SN_ATTR_LARGEST, 1) : sn_node_int(e->m, e->x, SN_ATTR_DESCENDING, 0);
    s.at = SN_NEWN(e->arena, int64_t, from.members);
    s.other = SN_NEWN(e->arena, int64_t, from.members);
    for (int64_t g = 0; g < from.n; g++) {
        s.base = from.base[g];
        for (int64_t j = 0; j < from.members; j++) s.at[j] = j;
        merge_sort(&s, 0, from.members);
        for (int64_t j = 0; j < to.members; j++) {
            int64_t out = to.base[g] + to.offset[j];
            sn_array_set(&e->out[0], out, element(&s, s.at[j]));
            e->out[1].i[out] = s.at[j];
        }
    }
    return SN_OK;
}
