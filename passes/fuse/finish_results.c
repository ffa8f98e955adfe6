/* finish_results.c: the pass `finish-results`: what a kernel makes of results of another one alone is made where they are.
 *
 *     k0: loop i in 13 { %0 = reduce .. store t0[i], %0  %1 = reduce .. store t1[i], %1 }
 *     k1: loop i in 13 { loop j in 1834087 { %0 = load x[..]  %1 = load t0[i]  %2 = div %1, N  %3 = sub %0, %2
 *                                            %4 = load t1[i]  %5 = div %4, N  %6 = rsqrt %5  %7 = mul %3, %6  store y[..], %7 } }
 *  -> k0: loop i in 13 { .. %2 = div %0, N  store r0[i], %2  %3 = div %1, N  %4 = rsqrt %3  store r1[i], %4 }
 *     k1: loop i in 13 { loop j in 1834087 { .. %1 = load r0[i]  %2 = sub %0, %1  %3 = load r1[i]  %4 = mul %2, %3  store y[..], %4 } }
 *
 * Where a norm or a softmax does not stay one kernel, its last one computes for each element what belongs to a row: a logarithm,
 * divisions, a root, which take longer than to move the element. There are few results, so there it costs nothing.
 *
 * Only straight-line kernels, of temporaries that the same kernel has stored, once, each next to the others: the same index in all
 * stores, and the same in all loads, so that what is loaded together was made together. As many new temporaries as old ones at
 * most, for each kernel; what several kernels want is one. Operations stay what they are, in their order: the same bits, but that a division is computed in full whose quotient went into
 * halves alone. After `fuse`, and before split-reduction, which leaves what stands behind a reduction to its second kernel. On the CPU
 * results of columns alone, which are other ones for each lane: what belongs to a row is hoisted anyway. Cost: linear in the kernel for
 * each buffer that it loads so.
 */
#include "passes/fuse/fuse.h"

#include <string.h>

#include "ir/base/notes.h"
#include "passes/base/rebuild.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/model.h"

/* A temporary that the pass has made. */
typedef struct made {
    sn_kern by, in; /* who stores it, and who loads it */
    sn_buf b;
    sn_stmt store;
} made;

typedef struct finish {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_users users;
    uint32_t at;        /* position of the kernel */
    sn_kern k;          /* ... and itself */
    sn_chain outer;     /* its loops */
    sn_kern by;         /* who stores the results */
    sn_ix load, store;  /* their index here, and there */
    sn_stmt_vec values; /* loads of them, and what is made of these and constants alone, in order */
    sn_notes number;    /* of a value, its position there */
    uint32_t loads;     /* of the values */
    SN_VEC(made) made;
} finish;

/* ---- which results ---- */

static bool reduces(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_REDUCE) return true;
    return false;
}

/* The only store of the kernel to b, if it stands in its innermost outer loop. */
static sn_stmt store_of(const finish *f, sn_kern by, sn_buf b) {
    const sn_module *m = f->m;
    sn_chain outer;
    sn_stmt found = {0};
    sn_chain_outer(&outer, m, by);
    sn_stmt body = outer.n ? outer.at[outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_stmt_walk_first(m, by); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_stores(r) || !sn_buf_eq(r->buf, b)) continue;
        if (found.i || r->op != SN_LOP_STORE || r->has_mask || r->parent.i != body.i) return (sn_stmt){0};
        found = s;
    }
    return found;
}

/* Is it stored by this kernel alone, which reduces something, in the same part of the program? */
static bool may_finish(const finish *f, uint32_t by, sn_buf b) {
    const sn_kern_rec *a = sn_kern_get(f->m, f->m->kernels.at[by]), *k = sn_kern_get(f->m, f->k);
    if (a->scheduled || a->section != k->section || sn_users_storer(&f->users, b, by) != UINT32_MAX) return false;
    if (sn_users_storer(&f->users, b, f->m->kernels.n) != by) return false;
    return reduces(f->m, f->m->kernels.at[by]);
}

/* The store of what the load gives; none: it is no result, or there are hardly fewer of them than elements. */
static sn_stmt made_by(const finish *f, const sn_stmt_rec *load, sn_kern *by) {
    sn_module *m = f->m;
    if (load->op != SN_LOP_LOAD || load->has_mask || sn_ix_uses_vals(m, load->ix)) return (sn_stmt){0};
    const sn_buf_rec *b = sn_buf_get(m, load->buf);
    uint32_t at = b->scope == SN_BUF_TEMP ? sn_users_storer(&f->users, load->buf, f->at) : UINT32_MAX;
    if (at == UINT32_MAX || !may_finish(f, at, load->buf)) return (sn_stmt){0};
    bool hoisted =
        !f->cx->target->is_gpu && !sn_ix_uses_axis(m, load->ix, sn_stmt_axis(m, f->outer.at[f->outer.n - 1]));
    int64_t results = sn_buf_bytes(m, load->buf) / sn_dtype_bytes(b->dtype);
    if (hoisted || sn_mul_clamped(results, SN_FINISH_FEWER) > sn_chain_count(m, &f->outer)) return (sn_stmt){0};
    *by = m->kernels.at[at];
    return store_of(f, *by, load->buf);
}

/* ---- what is made of them ---- */

static bool is_of_results(const finish *f, const sn_stmt_rec *r) {
    sn_kern by;
    if (r->op == SN_LOP_LOAD) {
        sn_stmt store = made_by(f, r, &by);
        return store.i && by.i == f->by.i && sn_ix_eq(r->ix, f->load) &&
               sn_ix_eq(sn_stmt_get(f->m, store)->ix, f->store);
    }
    if (r->op >= SN_N_LOPS && r->op != SN_LOP_CAST && r->op != SN_LOP_CONST) return false;
    uint64_t number;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!sn_notes_find(&f->number, r->in[i].i, &number)) return false;
    return true;
}

/* All of them whose results are those of the load. */
static void find_values(finish *f, sn_stmt load) {
    const sn_module *m = f->m;
    f->load = sn_stmt_get(m, load)->ix;
    f->store = sn_stmt_get(m, made_by(f, sn_stmt_get(m, load), &f->by))->ix;
    f->values.n = f->loads = 0;
    f->number = (sn_notes){.arena = f->cx->scratch};
    for (sn_stmt s = sn_stmt_get(m, load)->parent.i ? sn_stmt_get(m, sn_stmt_get(m, load)->parent)->first : load; s.i;
         s = sn_next(m, s)) {
        if (!is_of_results(f, sn_stmt_get(m, s))) continue;
        sn_notes_set(&f->number, sn_stmt_get(m, s)->result.i, f->values.n);
        SN_PUSH(f->cx->scratch, &f->values, s);
        f->loads += sn_stmt_get(m, s)->op == SN_LOP_LOAD;
    }
}

/* Which values something else wants, by position. */
static bool *find_used(const finish *f) {
    const sn_module *m = f->m;
    bool *used = SN_NEWN(f->cx->scratch, bool, f->values.n + 1);
    uint32_t before = 0; /* values that stand in front of the statement */
    for (sn_stmt s = f->values.at[0]; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        uint64_t number;
        bool own = before < f->values.n && f->values.at[before].i == s.i;
        for (uint32_t i = 0; i < r->n_in && !own; i++)
            if (sn_notes_find(&f->number, r->in[i].i, &number)) used[number] = true;
        if (r->ix.i && sn_ix_uses_vals(m, r->ix)) memset(used, true, before * sizeof *used);
        before += own;
    }
    return used;
}

/* An instruction of f64 takes the time of two, at least. */
static double cost_of(const sn_stmt_rec *r) {
    enum { DOUBLE = 2 };
    return sn_schedule_op_cost(r->op) * (r->dtype == SN_F64 ? DOUBLE : 1);
}

/* What is made and wanted; false: it is not worth it. */
static bool find_wanted(sn_stmt_vec *out, const finish *f) {
    double cost = 0;
    const bool *used = find_used(f);
    for (uint32_t i = 0; i < f->values.n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, f->values.at[i]);
        if (r->op == SN_LOP_LOAD || r->op == SN_LOP_CONST) continue;
        cost += cost_of(r);
        if (used[i]) SN_PUSH(f->cx->scratch, out, f->values.at[i]);
    }
    return out->n && out->n <= f->loads && cost >= SN_FINISH_LEAST;
}

/* ---- the change ---- */

/* The values once more, at the end of the body of the kernel that stores the results; copies[i] is that of values.at[i]. */
static void copy_values(sn_val *copies, const finish *f, sn_cursor at) {
    sn_module *m = f->m;
    for (uint32_t i = 0; i < f->values.n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, f->values.at[i]);
        if (r->op == SN_LOP_LOAD) {
            copies[i] = sn_stmt_get(m, store_of(f, f->by, r->buf))->in[0];
            continue;
        }
        sn_stmt copy = sn_stmt_clone(m, at, f->values.at[i]);
        uint64_t number;
        for (uint32_t k = 0; k < r->n_in; k++)
            if (sn_notes_find(&f->number, r->in[k].i, &number)) sn_stmt_get(m, copy)->in[k] = copies[number];
        copies[i] = sn_stmt_get(m, copy)->result;
    }
}

static void give(finish *f, sn_cursor at, sn_stmt wanted, sn_val value, const sn_buf_rec *like) {
    sn_module *m = f->m;
    sn_val old = sn_stmt_get(m, wanted)->result;
    const char *name = sn_strf(&m->arena, "%s_f", sn_kern_get(m, f->by)->name);
    sn_buf b = sn_buf_new(m, name, sn_val_get(m, old)->dtype, SN_BUF_TEMP, like->shape, like->rank);
    sn_buf_get(m, b)->align = 256;
    SN_PUSH(f->cx->scratch, &f->made, ((made){f->by, f->k, b, sn_put_store(m, at, b, f->store, value)}));
    sn_val_replace(m, f->k, old, sn_put_load(m, sn_at_before(m, wanted), b, f->load));
}

static void finish_values(finish *f, const sn_stmt_vec *wanted, sn_buf like) {
    sn_module *m = f->m;
    sn_chain outer;
    sn_chain_outer(&outer, m, f->by);
    sn_cursor at = sn_at_end(f->by, outer.n ? outer.at[outer.n - 1] : (sn_stmt){0});
    sn_val *copies = SN_NEWN(f->cx->scratch, sn_val, f->values.n);
    copy_values(copies, f, at);
    for (uint32_t w = 0; w < wanted->n; w++) {
        uint64_t number = 0;
        sn_buf_rec shape = *sn_buf_get(m, like);
        sn_notes_find(&f->number, sn_stmt_get(m, wanted->at[w])->result.i, &number);
        give(f, at, wanted->at[w], copies[number], &shape);
    }
    sn_kern_dead_code(m, f->k);
    sn_remark(f->cx, sn_kern_get(m, f->by)->name, "finishes %u results of which %s is made", wanted->n,
              sn_kern_get(m, f->k)->name);
}

/* Several kernels may want the same of a row: it is stored once. Where values are one has been seen already. */
static void share_equal(const finish *f) {
    sn_module *m = f->m;
    for (uint32_t i = 0; i < f->made.n; i++) {
        const made *a = &f->made.at[i];
        const sn_stmt_rec *r = sn_stmt_get(m, a->store);
        uint32_t p = 0;
        if (!r->parent.i) continue; /* nobody loads it any more */
        for (; p < i; p++) {
            const sn_stmt_rec *o = sn_stmt_get(m, f->made.at[p].store);
            if (sn_kern_eq(f->made.at[p].by, a->by) && o->in[0].i == r->in[0].i && sn_ix_eq(o->ix, r->ix)) break;
        }
        if (p == i) continue;
        for (sn_stmt s = sn_stmt_walk_first(m, a->in); s.i; s = sn_stmt_walk_next(m, s))
            if (sn_buf_eq(sn_stmt_get(m, s)->buf, a->b)) sn_stmt_get(m, s)->buf = f->made.at[p].b;
        sn_stmt_unlink(m, a->store);
        sn_kern_cse(m, a->in);
        sn_kern_collect_params(m, a->in);
        sn_kern_collect_params(m, a->by);
        sn_remark(f->cx, sn_kern_get(m, a->by)->name, "what %s and %s want is one result",
                  sn_kern_get(m, f->made.at[p].in)->name, sn_kern_get(m, a->in)->name);
    }
}

static bool is_straight(const finish *f) {
    const sn_module *m = f->m;
    if (!f->outer.n) return false;
    for (sn_stmt s = sn_stmt_get(m, f->outer.at[f->outer.n - 1])->first; s.i; s = sn_next(m, s))
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) return false;
    return true;
}

static bool finish_kernel(finish *f) {
    sn_module *m = f->m;
    sn_kern by;
    bool changed = false;
    sn_chain_outer(&f->outer, m, f->k);
    if (sn_kern_get(m, f->k)->scheduled || !is_straight(f)) return false;
    for (sn_stmt s = sn_stmt_get(m, f->outer.at[f->outer.n - 1])->first, next; s.i; s = next) {
        sn_stmt_vec wanted = {0};
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || !made_by(f, r, &by).i) continue;
        find_values(f, s);
        if (!find_wanted(&wanted, f)) continue;
        finish_values(f, &wanted, r->buf);
        changed = true;
        next = sn_stmt_get(m, f->outer.at[f->outer.n - 1])->first; /* what stood next may be gone */
    }
    return changed;
}

sn_status sn_pass_finish_results(sn_pass_ctx *cx, bool *changed) {
    finish f = {.cx = cx, .m = cx->m};
    bool any = false;
    sn_users_find(&f.users, cx->m, cx->scratch);
    for (f.at = 1; f.at < cx->m->kernels.n; f.at++) {
        f.k = cx->m->kernels.at[f.at];
        any |= finish_kernel(&f);
    }
    if (any) {
        sn_fuse_drop_dead(cx); /* equal values become one there */
        share_equal(&f);
    }
    *changed |= any;
    return cx->m->env->status;
}
