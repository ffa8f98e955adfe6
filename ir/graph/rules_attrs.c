/* rules_attrs.c: attributes of graph operations: checked against ops.def, brought to canonical form, compared,
 * hashed, copied. Relies on the attribute column of ops.def. What values make sense for an operation (is the axis in
 * range?) is up to its rule.
 */
#include "ir/graph/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

/* Look the name up in the attribute column of the operation ("axes keepdim?"). */
static bool op_takes(sn_op op, const char *name) {
    size_t n = strlen(name);
    for (const char *s = sn_ops[op].attrs; *s;) {
        size_t word = strcspn(s, " ?");
        if (word == n && memcmp(s, name, n) == 0) return true;
        s += word;
        s += strspn(s, " ?");
    }
    return false;
}

static sn_status check_required(const sn_rule *r) {
    for (const char *s = sn_ops[r->op].attrs; *s;) {
        size_t word = strcspn(s, " ?");
        bool found = s[word] == '?';
        for (uint32_t i = 0; i < r->n_attrs && !found; i++) {
            const char *name = sn_attrs[r->attrs[i].id].name;
            found = strlen(name) == word && memcmp(name, s, word) == 0;
        }
        if (!found) return sn_rule_fail(r, "attribute '%.*s' is missing", (int)word, s);
        s += word;
        s += strspn(s, " ?");
    }
    return SN_OK;
}

static sn_status check_list(const sn_rule *r, const sn_attr *a, uint32_t n, const void *at) {
    if (n > SN_MAX_RANK)
        return sn_rule_fail(r, "attribute '%s' has %u entries; a tensor has at most %d axes", sn_attrs[a->id].name, n,
                            SN_MAX_RANK);
    return n == 0 || at ? SN_OK : sn_rule_fail(r, "attribute '%s' has no entries", sn_attrs[a->id].name);
}

static sn_status check_shape(const sn_rule *r, const sn_attr *a) {
    bool wildcard = r->op == SN_OP_RESHAPE || r->op == SN_OP_EXPAND, any = a->id == SN_ATTR_ELEMENTS;
    SN_TRY(check_list(r, a, a->shape.n, a->shape.at));
    for (uint32_t k = 0; k < a->shape.n; k++) {
        int64_t c;
        if (a->shape.at[k].i == 0 || a->shape.at[k].i >= r->m->ixs.count)
            return sn_rule_fail(r, "the size of axis %u is missing", k);
        if (sn_ix_is_const(r->m, a->shape.at[k], &c) && c < 0 && !any && !(wildcard && c == -1))
            return sn_rule_fail(r, "axis %u has the negative size %lld", k, (long long)c);
    }
    return SN_OK;
}

static sn_status check_word(const sn_rule *r, const sn_attr *a) {
    int64_t n = 0;
    while (sn_attrs[a->id].words[n]) n++;
    return a->i >= 0 && a->i < n ? SN_OK
                                 : sn_rule_fail(r, "attribute '%s' is no word of its list", sn_attrs[a->id].name);
}

static sn_status check_value(const sn_rule *r, const sn_attr *a) {
    const char *name = sn_attrs[a->id].name;
    switch (sn_attrs[a->id].kind) {
    case SN_KIND_INT:
    case SN_KIND_FLOAT: return SN_OK;
    case SN_KIND_BOOL:
        return a->i == 0 || a->i == 1 ? SN_OK : sn_rule_fail(r, "attribute '%s' is neither true nor false", name);
    case SN_KIND_DTYPE:
        return a->i >= 0 && a->i < SN_N_DTYPES ? SN_OK : sn_rule_fail(r, "attribute '%s' is no dtype", name);
    case SN_KIND_WORD: return check_word(r, a);
    case SN_KIND_INTS: return check_list(r, a, a->ints.n, a->ints.at);
    case SN_KIND_SHAPE: return check_shape(r, a);
    case SN_KIND_NUMBERS: return SN_OK; /* the rule of constant knows the dtype */
    case SN_KIND_STRING: return a->text && *a->text ? SN_OK : sn_rule_fail(r, "attribute '%s' is empty", name);
    }
    return SN_OK;
}

sn_status sn_rule_check_attrs(const sn_rule *r) {
    for (uint32_t i = 0; i < r->n_attrs; i++) {
        const sn_attr *a = &r->attrs[i];
        if ((unsigned)a->id >= SN_N_ATTRS) return sn_rule_fail(r, "there is no attribute number %d", (int)a->id);
        const char *name = sn_attrs[a->id].name;
        if (!op_takes(r->op, name)) return sn_rule_fail(r, "takes no attribute '%s'", name);
        for (uint32_t j = 0; j < i; j++)
            if (r->attrs[j].id == a->id) return sn_rule_fail(r, "attribute '%s' is given twice", name);
        SN_TRY(check_value(r, a));
    }
    return check_required(r);
}

/* ---- canonical form ---- */

static int by_id(const void *a, const void *b) { return (int)((const sn_attr *)a)->id - (int)((const sn_attr *)b)->id; }

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t from_start(int64_t axis, uint32_t rank) { return axis < 0 ? axis + rank : axis; }

int64_t sn_slice_clamp(int64_t position, int64_t size) {
    if (position < 0) position += size;
    return position < 0 ? 0 : position > size ? size : position;
}

static void canonical_ints(sn_attr *a, uint32_t rank, int64_t *store) {
    for (uint32_t k = 0; k < a->ints.n; k++) store[k] = from_start(a->ints.at[k], rank);
    if (a->id == SN_ATTR_AXES) qsort(store, a->ints.n, sizeof *store, by_value);
    a->ints.at = store;
}

void sn_attrs_canonical(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, const sn_type *out, sn_attr *attrs,
                        uint32_t n_attrs, sn_attr_store *store) {
    /* Axes are positions in the operand, but in the result for iota and unsqueeze. */
    bool in_result = n_in == 0 || op == SN_OP_UNSQUEEZE;
    const sn_type *t = in_result ? out : &sn_node_get(m, in[0])->type;
    uint32_t axis = 0;
    qsort(attrs, n_attrs, sizeof *attrs, by_id);
    for (uint32_t i = 0; i < n_attrs; i++) {
        sn_attr *a = &attrs[i];
        int64_t size;
        if (a->id == SN_ATTR_AXIS) {
            a->i = from_start(a->i, t->rank);
            axis = (uint32_t)a->i; /* sorts before start, stop and step */
        } else if (a->id == SN_ATTR_AXES || a->id == SN_ATTR_PERM) {
            canonical_ints(a, t->rank, store->ints[a->id]);
        } else if (op == SN_OP_SLICE && (a->id == SN_ATTR_START || a->id == SN_ATTR_STOP)) {
            if (sn_ix_is_const(m, t->shape[axis], &size)) a->i = sn_slice_clamp(a->i, size);
        } else if (a->id == SN_ATTR_STEP) {
            /* Beyond the axis one step is like another; the shorter one is multiplied by strides without overflow. */
            if (sn_ix_is_const(m, t->shape[axis], &size) && a->i > size) a->i = size > 1 ? size : 1;
        } else if (a->id == SN_ATTR_SHAPE) {
            a->shape.at = out->shape; /* reshape and expand: -1 resolved */
        } else if (a->id == SN_ATTR_VALUES) {
            bool is_float = sn_is_float(out->dtype); /* of no elements neither list is kept */
            if (is_float || !a->numbers.n) a->numbers.i = NULL;
            if (!is_float || !a->numbers.n) a->numbers.f = NULL;
        } else if (a->id == SN_ATTR_PRECISION && out->dtype != SN_F32) {
            a->i = SN_PRECISION_EXACT; /* it means nothing, also when the product becomes one of f32 */
        } else if (sn_attrs[a->id].kind == SN_KIND_FLOAT && isnan(a->f)) {
            a->f = (double)NAN; /* one bit pattern */
        }
    }
}

/* ---- equality, hash, copy ---- */

static const void *numbers_at(const sn_attr *a) {
    return a->numbers.f ? (const void *)a->numbers.f : (const void *)a->numbers.i;
}

static bool same_bytes(const void *a, const void *b, size_t n) { return n == 0 || memcmp(a, b, n) == 0; }

bool sn_attr_eq(const sn_attr *a, const sn_attr *b) {
    if (a->id != b->id) return false;
    switch (sn_attrs[a->id].kind) {
    case SN_KIND_INT:
    case SN_KIND_BOOL:
    case SN_KIND_DTYPE:
    case SN_KIND_WORD: return a->i == b->i;
    case SN_KIND_FLOAT: return same_bytes(&a->f, &b->f, sizeof a->f); /* 0 and -0 differ */
    case SN_KIND_INTS:
        return a->ints.n == b->ints.n && same_bytes(a->ints.at, b->ints.at, a->ints.n * sizeof *a->ints.at);
    case SN_KIND_SHAPE:
        return a->shape.n == b->shape.n && same_bytes(a->shape.at, b->shape.at, a->shape.n * sizeof *a->shape.at);
    case SN_KIND_NUMBERS:
        return a->numbers.n == b->numbers.n && !a->numbers.f == !b->numbers.f &&
               same_bytes(numbers_at(a), numbers_at(b), a->numbers.n * 8);
    case SN_KIND_STRING: return strcmp(a->text, b->text) == 0;
    }
    return false;
}

uint64_t sn_attr_hash(uint64_t h, const sn_attr *a) {
    h = sn_hash(h, a->id);
    switch (sn_attrs[a->id].kind) {
    case SN_KIND_INT:
    case SN_KIND_BOOL:
    case SN_KIND_DTYPE:
    case SN_KIND_WORD: return sn_hash(h, (uint64_t)a->i);
    case SN_KIND_FLOAT: return sn_hash_bytes(h, &a->f, sizeof a->f);
    case SN_KIND_INTS: return sn_hash_bytes(h, a->ints.at, a->ints.n * sizeof *a->ints.at);
    case SN_KIND_SHAPE: return sn_hash_bytes(h, a->shape.at, a->shape.n * sizeof *a->shape.at);
    case SN_KIND_NUMBERS: return sn_hash_bytes(h, numbers_at(a), a->numbers.n * 8);
    case SN_KIND_STRING: return sn_hash_bytes(h, a->text, strlen(a->text));
    }
    return h;
}

sn_attr sn_attr_copy(sn_arena *arena, const sn_attr *a) {
    sn_attr c = *a;
    sn_attr_kind kind = sn_attrs[a->id].kind;
    if (kind == SN_KIND_INTS) c.ints.at = sn_memdup(arena, a->ints.at, a->ints.n * sizeof *a->ints.at);
    if (kind == SN_KIND_SHAPE) c.shape.at = sn_memdup(arena, a->shape.at, a->shape.n * sizeof *a->shape.at);
    if (kind == SN_KIND_NUMBERS && a->numbers.f) c.numbers.f = sn_memdup(arena, a->numbers.f, a->numbers.n * 8);
    if (kind == SN_KIND_NUMBERS && a->numbers.i) c.numbers.i = sn_memdup(arena, a->numbers.i, a->numbers.n * 8);
    if (kind == SN_KIND_STRING) c.text = sn_strdup(arena, a->text);
    return c;
}
