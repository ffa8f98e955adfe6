/* contract_made.c: left operands of matrix instructions that are computed from what boxes bring, for class contract on GPUs.
 *
 *     loop k : pipe { boxes of i8   barrier   fragment = bf16(i8) * scale   acc += fragment * right   .. }
 *
 * Weights of few bits, their scales and zeros: boxes bring what there is one of for each row and step (the raw elements), and
 * threads compute the operand from it, in registers, where it passes through these anyway (contract_left.c). All else that it is
 * made of is loaded where it is wanted: it belongs to rows, or to groups of steps, and caches have it. So nothing of the operand is
 * in memory but the raw elements, and each is computed once, since a tile of few columns has all of them.
 *
 * The other operand stands in memory as halves, which the instruction takes. What is computed is narrower or the same halves, as the
 * kernel rounds it. Raw elements lie along the sum, whose steps fill whole parts of the pipe: beyond the last one of a row other loads
 * would be outside, and what they scale by is not 0.
 */
#include "passes/schedule/products/contract_bind.h"
#include "passes/schedule/base/model.h"

static const sn_stmt_rec *def_of(const sn_contract *ct, sn_val v) {
    return sn_stmt_get(ct->m, sn_val_get(ct->m, v)->def);
}

sn_val sn_contract_narrowed(const sn_contract *ct, sn_val v) {
    for (const sn_stmt_rec *r = def_of(ct, v); r->op == SN_LOP_CAST; r = def_of(ct, v)) {
        sn_dtype from = sn_val_get(ct->m, r->in[0])->dtype;
        if (from == SN_BOOL || !sn_dtype_holds(r->dtype, from)) break;
        v = r->in[0];
    }
    return v;
}

/* ---- raw elements ---- */

typedef struct looker {
    const sn_contract *ct;
    const sn_contraction_operand *o;
    sn_notes seen;    /* sn_val */
    sn_stmt raw;      /* a load of raw elements: all others are of the same ones */
    int64_t together; /* steps that such an element is for */
    bool strange;     /* it is made of something else than loads and operations by element */
} looker;

static bool has_rows(const looker *l, sn_ix e) {
    const sn_contraction *c = &l->ct->c;
    bool any = false;
    for (uint32_t i = 0; i < c->outer.n; i++)
        any |= c->side[i] == (l->o->right ? SN_SIDE_N : SN_SIDE_M) &&
               sn_ix_uses_axis(l->ct->m, e, sn_stmt_axis(l->ct->m, c->outer.at[i]));
    return any;
}

/* How many steps a loaded element is for, which follow each other, and the next element for the next ones; 0: it is not so. */
static int64_t steps_of(const looker *l, sn_ix e) {
    enum { MOST = 8 /* numbers of 4 bits in a word */ };
    sn_module *m = l->ct->m;
    sn_axis step = sn_stmt_axis(m, l->ct->c.inner.at[0]);
    if (!has_rows(l, e)) return 0;
    for (int64_t n = 1; n <= MOST && l->ct->c.k % n == 0; n *= 2) {
        sn_axis element = sn_axis_new(m, "u", sn_ix_const(m, l->ct->c.k / n)),
                one = sn_axis_new(m, "v", sn_ix_const(m, n));
        sn_ix number = sn_ix_fma(m, n, sn_ix_axis(m, element), sn_ix_axis(m, one)),
              at = sn_ix_subst(m, e, &step, &number, 1);
        int64_t c;
        if (sn_ix_coef(m, at, element, &c) && c == 1 && !sn_ix_uses_axis(m, at, one)) return n;
        if (n == 1 && sn_ix_coef(m, e, step, &c) && c == 1) return 1;
    }
    return 0;
}

/* Is what a load asks for in its buffer where its mask does not hold, too? Boxes know no masks. */
static bool stays_inside(const looker *l, const sn_stmt_rec *load) {
    sn_range at = sn_ix_range(l->ct->m, load->ix);
    int64_t size;
    return sn_ix_is_const(l->ct->m, sn_buf_get(l->ct->m, load->buf)->size, &size) && at.lo >= 0 && at.hi < size;
}

static void look_at(looker *l, sn_val v) {
    sn_module *m = l->ct->m;
    if (!sn_notes_add(&l->seen, v.i)) return;
    sn_stmt def = sn_val_get(m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(m, def);
    for (uint32_t i = 0; i < r->n_in; i++) look_at(l, r->in[i]);
    l->strange |= sn_lop_has_region(r->op);
    if (r->op != SN_LOP_LOAD) return;
    l->strange |= sn_ix_uses_vals(m, r->ix) || sn_kern_stores(m, l->ct->k, r->buf);
    int64_t together = steps_of(l, r->ix);
    if (!together) {
        l->strange |= r->has_mask;
        return;
    }
    const sn_stmt_rec *raw = l->raw.i ? sn_stmt_get(m, l->raw) : r;
    l->strange |= r->has_mask && !stays_inside(l, r);
    l->strange |= !sn_buf_eq(raw->buf, r->buf) || !sn_ix_eq(raw->ix, r->ix);
    l->raw = def;
    l->together = together;
}

static bool find_raw(sn_contract *ct, uint32_t i, sn_dtype to) {
    sn_contraction_operand *o = &ct->c.operands[i];
    looker l = {.ct = ct, .o = o, .seen = {.arena = ct->cx->scratch}};
    ct->sources[i] = sn_contract_narrowed(ct, o->value);
    if (!sn_dtype_holds(to, sn_val_get(ct->m, ct->sources[i])->dtype)) return false;
    look_at(&l, ct->sources[i]);
    if (l.strange || !l.raw.i || (ct->together && ct->together != l.together)) return false;
    ct->together = l.together;
    o->load = l.raw;
    o->from = sn_stmt_get(ct->m, l.raw)->dtype;
    return sn_is_float(o->from) || sn_is_integral(o->from);
}

/* ---- which operands ---- */

static bool is_half(sn_dtype t) { return t == SN_BF16 || t == SN_F16; }

static bool is_plain(const sn_contraction_operand *o) { return o->load.i && is_half(o->from); }

bool sn_contract_find_made(sn_contract *ct) {
    sn_contraction *c = &ct->c;
    bool plain[2] = {true, true};
    sn_dtype to = SN_F32;
    for (uint32_t i = 0; i < c->n_operands; i++) {
        const sn_contraction_operand *o = &c->operands[i];
        plain[o->right] &= is_plain(o) && (to == SN_F32 || to == o->from);
        if (is_plain(o)) to = o->from;
    }
    if (c->dtype != SN_F32 || c->inner.n != 1 || plain[0] == plain[1]) return false;
    if (plain[0]) sn_contraction_swap(c);
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (!c->operands[i].right && !find_raw(ct, i, to)) return false;
    ct->operand = to;
    return ct->made = true;
}

int64_t sn_contract_together(const sn_contract *ct, uint32_t operand) {
    return ct->made && !ct->c.operands[operand].right ? ct->together : 1;
}

bool sn_contract_made_fits(const sn_contract *ct, int64_t depth, int64_t split) {
    return !ct->made || ct->c.k % (depth * split) == 0;
}

double sn_contract_made_work(const sn_contract *ct) {
    double work = SN_MADE_PASSES;
    for (sn_stmt s = ct->c.top, end = sn_stmt_walk_skip(ct->m, s); s.i != end.i; s = sn_stmt_walk_next(ct->m, s)) {
        sn_lop op = (sn_lop)sn_stmt_get(ct->m, s)->op;
        if (op < SN_N_LOPS) work += sn_schedule_op_cost(op);
    }
    return work;
}

double sn_contract_made_cycles(const sn_contract *ct, int64_t blocks) {
    int64_t units = ct->cx->target->units;
    double elements = (double)ct->c.batch * (double)ct->c.m * (double)ct->c.k / (double)blocks;
    return (double)sn_ceil_div(blocks, units) * elements * sn_contract_made_work(ct) / (SN_WARP * SN_SCHEDULERS);
}

/* ---- binding ---- */

/* All loads of it become the raw element; where such a load has a mask, what it has there. */
static void put_raw(sn_contraction_copier *p, sn_contract_binding *b, sn_notes *seen, sn_val v, sn_stmt load,
                    sn_val raw) {
    sn_module *m = b->m;
    const sn_stmt_rec *r = def_of(&b->ct, v), *of = sn_stmt_get(m, load);
    if (!sn_notes_add(seen, v.i)) return;
    bool same = r->op == SN_LOP_LOAD && sn_buf_eq(r->buf, of->buf) && sn_ix_eq(r->ix, of->ix);
    if (!same) {
        for (uint32_t i = 0; i < r->n_in; i++) put_raw(p, b, seen, r->in[i], load, raw);
        return;
    }
    sn_val x = raw;
    if (r->has_mask) {
        sn_val mask = sn_contraction_copy(p, r->in[0]), other = sn_contraction_copy(p, r->in[1]);
        x = sn_put_op3(m, p->at, SN_LOP_SELECT, mask, raw, other);
    }
    sn_contraction_becomes(p, v, x);
}

sn_val sn_contract_make(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix row, sn_ix step, sn_val raw) {
    sn_module *m = b->m;
    const sn_contraction_operand *o = &b->ct.c.operands[operand];
    sn_ix place_row = sn_contract_inside(b, b->edge_m, sn_ix_add(m, b->row, row), b->ct.c.m);
    sn_contraction_place place = {b->batch, place_row, b->column, sn_ix_add(m, b->step, step)};
    sn_contraction_copier p;
    sn_contraction_copier_start(&p, b->ct.cx, at, b->n_vals);
    p.n = sn_contraction_axes(p.axes, p.with, m, &b->ct.c, &place);
    sn_notes seen = {.arena = b->ct.cx->scratch};
    put_raw(&p, b, &seen, b->ct.sources[operand], o->load, raw);
    return sn_put_cast(m, at, b->ct.operand, sn_contraction_copy(&p, b->ct.sources[operand]));
}
