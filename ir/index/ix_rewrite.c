/* ix_rewrite.c: substitution of axes, symbols and values, re-simplifying on the way up. Shared subexpressions are kept
 * in a small lossy memo, so a substitution costs about one step per distinct node and no memory. Does not change
 * extents of axes.
 */
#include "ir/index/ix_build.h"

#include <string.h>

enum { MEMO_SLOTS = 64 };

typedef struct substitution {
    sn_module *m;
    sn_ix_kind kind; /* of the atoms that are replaced */
    const uint32_t *ids;
    const sn_ix *with;
    uint32_t n;
    sn_ix memo_key[MEMO_SLOTS], memo_value[MEMO_SLOTS];
} substitution;

static sn_ix rewrite(substitution *s, sn_ix e);

static sn_ix rewrite_leaf(const substitution *s, sn_ix e, const sn_ix_rec *r) {
    if (r->kind == s->kind)
        for (uint32_t i = 0; i < s->n; i++)
            if (s->ids[i] == r->id) return s->with[i];
    return e;
}

static sn_ix rewrite_sum(substitution *s, sn_ix e, const sn_ix_rec *r) {
    bool changed = false;
    sn_ix_sum sum;
    sn_ix_sum_begin(&sum, s->m);
    sn_ix_sum_addc(&sum, r->c0);
    for (uint32_t i = 0; i < r->n_terms; i++) {
        sn_ix atom = rewrite(s, r->terms[i].atom);
        changed |= !sn_ix_eq(atom, r->terms[i].atom);
        sn_ix_sum_add(&sum, r->terms[i].c, atom);
    }
    return changed ? sn_ix_sum_end(&sum) : e;
}

static sn_ix rewrite_pair(substitution *s, sn_ix e, const sn_ix_rec *r) {
    sn_ix a = rewrite(s, r->a), b = rewrite(s, r->b);
    if (sn_ix_eq(a, r->a) && sn_ix_eq(b, r->b)) return e;
    switch (r->kind) {
    case SN_IX_DIV: return sn_ix_div(s->m, a, b);
    case SN_IX_MOD: return sn_ix_mod(s->m, a, b);
    case SN_IX_MIN: return sn_ix_min(s->m, a, b);
    case SN_IX_MAX: return sn_ix_max(s->m, a, b);
    case SN_IX_PROD: return sn_ix_mul(s->m, a, b);
    case SN_IX_SUM:
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL: break;
    }
    SN_ASSERT(!"an atom of two operands");
    return e;
}

static sn_ix rewrite(substitution *s, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(s->m, e);
    if (r->kind == SN_IX_AXIS || r->kind == SN_IX_SYM || r->kind == SN_IX_VAL) return rewrite_leaf(s, e, r);
    uint32_t slot = e.i % MEMO_SLOTS;
    if (sn_ix_eq(s->memo_key[slot], e)) return s->memo_value[slot];
    sn_ix to = r->kind == SN_IX_SUM ? rewrite_sum(s, e, r) : rewrite_pair(s, e, r);
    s->memo_key[slot] = e;
    s->memo_value[slot] = to;
    return to;
}

static sn_ix substitute(sn_module *m, sn_ix e, sn_ix_kind kind, const uint32_t *ids, const sn_ix *with, uint32_t n) {
    substitution s;
    s.m = m, s.kind = kind, s.ids = ids, s.with = with, s.n = n;
    memset(s.memo_key, 0, sizeof s.memo_key);
    return rewrite(&s, e);
}

_Static_assert(sizeof(sn_axis) == sizeof(uint32_t), "a list of axes is a list of ids");

sn_ix sn_ix_subst(sn_module *m, sn_ix e, const sn_axis *axes, const sn_ix *with, uint32_t n) {
    return n ? substitute(m, e, SN_IX_AXIS, &axes->i, with, n) : e;
}

sn_ix sn_ix_subst_sym(sn_module *m, sn_ix e, sn_sym s, sn_ix with) {
    return substitute(m, e, SN_IX_SYM, &s.i, &with, 1);
}

sn_ix sn_ix_subst_val(sn_module *m, sn_ix e, sn_val v, sn_ix with) {
    return substitute(m, e, SN_IX_VAL, &v.i, &with, 1);
}
