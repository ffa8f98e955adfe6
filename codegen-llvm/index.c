/* index.c: index expressions to integer arithmetic.
 *
 * Values are shared through a table by ix id: equal expression, equal id, one instruction. Arithmetic is 32 bits wide
 * when the byte range of every access of the kernel allows it. Ranges (sn_ix_range) decide between unsigned and floor
 * division and put no-wrap flags on sums. Relies on symbolic sizes having been replaced by constants; the symbols that
 * are left stand for what segments differ in (segments.c).
 */
#include "codegen-llvm/gen.h"

/* ---- table ---- */

uint32_t sn_gen_mark(const sn_gen *g) { return g->memo_log.n; }

void sn_gen_release(sn_gen *g, uint32_t mark) {
    while (g->memo_log.n > mark) {
        sn_gen_memo *entry = &g->memo_log.at[--g->memo_log.n];
        g->memo.at[entry->e.i] = entry->old;
    }
}

static lv recall(sn_gen *g, sn_ix e) { return e.i < g->memo.n ? g->memo.at[e.i] : NULL; }

static lv remember(sn_gen *g, sn_ix e, lv x) {
    while (g->memo.n <= e.i) SN_PUSH(g->arena, &g->memo, NULL);
    SN_PUSH(g->arena, &g->memo_log, ((sn_gen_memo){e, g->memo.at[e.i]}));
    g->memo.at[e.i] = x;
    return x;
}

void sn_gen_fix_to(sn_gen *g, sn_axis ax, sn_ix e) {
    SN_PUSH(g->arena, &g->fixed, ax);
    SN_PUSH(g->arena, &g->fixed_to, e);
}

void sn_gen_fix(sn_gen *g, sn_axis ax, int64_t value) { sn_gen_fix_to(g, ax, sn_ix_const(g->m, value)); }

void sn_gen_unfix(sn_gen *g) { g->fixed.n--, g->fixed_to.n--; }

sn_ix sn_gen_resolve(sn_gen *g, sn_ix e) {
    return g->fixed.n ? sn_ix_subst(g->m, e, g->fixed.at, g->fixed_to.at, g->fixed.n) : e;
}

int64_t sn_gen_extent(sn_gen *g, sn_axis ax) {
    int64_t n;
    return sn_ix_is_const(g->m, sn_gen_resolve(g, sn_axis_get(g->m, ax)->extent), &n) ? n : -1;
}

/* ---- expressions ---- */

static lv constant(sn_gen *g, int64_t c) { return sn_em_ci(g->index, c); }

static lv binary(sn_gen *g, lv (*op)(LLVMBuilderRef, lv, lv, const char *), lv a, lv b) {
    lv in[2] = {a, b};
    sn_em_unify(&g->em, in, 2);
    return op(g->em.b, in[0], in[1], "");
}

static lv pick_smaller(sn_gen *g, lv a, lv b, LLVMIntPredicate p) {
    lv in[2] = {a, b};
    sn_em_unify(&g->em, in, 2);
    return em_select(&g->em, em_icmp(&g->em, p, in[0], in[1]), in[0], in[1]);
}

/* No partial sum of non-negative terms passes the whole, so neither kind of overflow can happen. */
static void no_wrap(lv x) {
    if (LLVMIsAInstruction(x) && (LLVMGetInstructionOpcode(x) == LLVMAdd || LLVMGetInstructionOpcode(x) == LLVMMul)) {
        LLVMSetNSW(x, 1);
        LLVMSetNUW(x, 1);
    }
}

static bool only_grows(sn_gen *g, const sn_ix_rec *r) {
    for (uint32_t i = 0; i < r->n_terms; i++)
        if (r->terms[i].c < 0 || sn_ix_range(g->m, r->terms[i].atom).lo < 0) return false;
    return r->c0 >= 0;
}

static bool is_bounded(sn_range r) { return r.lo != INT64_MIN && r.hi != INT64_MAX; }

static lv sum(sn_gen *g, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    if (!r->n_terms) return constant(g, r->c0);
    bool flags = only_grows(g, r) && is_bounded(sn_ix_range(g->m, e));
    if (r->c0) {
        int64_t c0 = r->c0;
        lv x = binary(g, LLVMBuildAdd, sn_gen_ix(g, sn_ix_addc(g->m, e, -c0)), constant(g, c0));
        if (flags) no_wrap(x);
        return x;
    }
    lv total = NULL;
    for (uint32_t i = 0; i < r->n_terms; i++) {
        lv x = sn_gen_ix(g, r->terms[i].atom);
        if (r->terms[i].c != 1) x = binary(g, LLVMBuildMul, x, constant(g, r->terms[i].c));
        if (flags) no_wrap(x);
        total = total ? binary(g, LLVMBuildAdd, total, x) : x;
        if (flags) no_wrap(total);
    }
    return total;
}

/* A lane's place in a row follows from the first lane's: x + c of n elements is there, or n less in the next row. NULL: it is no such lane,
 * or nobody has asked where the first one is (of class element); other classes have few vectors that cross rows, and few registers to
 * spare. */
static lv behind_first_lane(sn_gen *g, const sn_ix_rec *r) {
    sn_em *em = &g->em;
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c, n;
    bool deals = g->k->sched.cls == SN_SCHED_DEAL,
         lane = g->gpu && g->lanes > 1 && (deals || g->k->sched.cls == SN_SCHED_ELEMENT);
    if (!lane || !sn_ix_is_const(g->m, r->b, &n) || !(n & (n - 1))) return NULL;
    sn_ix_terms(g->m, r->a, &terms, &c, &one);
    sn_ix first = sn_ix_addc(g->m, r->a, -c), place = sn_ix_modc(g->m, first, n);
    if (c < 1 || c >= n || c >= g->lanes || sn_ix_range(g->m, first).lo < 0 || !(deals || recall(g, place)))
        return NULL;
    lv x = sn_gen_ix(g, place), here = em_iadd(em, x, sn_em_i(em, x, c));
    if (r->kind == SN_IX_MOD) return em_call2(em, "llvm.umin", here, em_isub(em, here, sn_em_i(em, here, n)));
    lv q = sn_gen_ix(g, sn_ix_divc(g->m, first, n)), next = em_icmp(em, LLVMIntUGE, here, sn_em_i(em, here, n));
    return em_iadd(em, q, LLVMBuildZExt(em->b, next, LLVMTypeOf(q), ""));
}

/* floor(a / b) or a - b floor(a / b), b > 0. */
static lv divide(sn_gen *g, const sn_ix_rec *r) {
    lv near = behind_first_lane(g, r);
    if (near) return near;
    lv a = sn_gen_ix(g, r->a), b = sn_gen_ix(g, r->b);
    bool is_div = r->kind == SN_IX_DIV;
    if (sn_ix_range(g->m, r->a).lo >= 0) return binary(g, is_div ? LLVMBuildUDiv : LLVMBuildURem, a, b);
    lv in[2] = {a, b};
    sn_em_unify(&g->em, in, 2);
    int64_t k;
    if (sn_ix_is_const(g->m, r->b, &k) && (k & (k - 1)) == 0) /* two's complement rounds down by itself */
        return is_div ? em_ashr(&g->em, in[0], sn_em_i(&g->em, in[0], __builtin_ctzll((uint64_t)k)))
                      : em_and(&g->em, in[0], sn_em_i(&g->em, in[0], k - 1));
    lv rest = LLVMBuildSRem(g->em.b, in[0], in[1], "");
    lv below = em_icmp(&g->em, LLVMIntSLT, rest, sn_em_i(&g->em, rest, 0));
    if (!is_div) return em_select(&g->em, below, em_iadd(&g->em, rest, in[1]), rest);
    lv q = LLVMBuildSDiv(g->em.b, in[0], in[1], "");
    return em_select(&g->em, below, em_isub(&g->em, q, sn_em_i(&g->em, q, 1)), q);
}

static lv lane_numbers(sn_gen *g) {
    lv all[SN_GEN_LANES];
    for (uint32_t i = 0; i < g->lanes; i++) all[i] = constant(g, i);
    return LLVMConstVector(all, g->lanes);
}

static lv value_as(sn_gen *g, uint32_t id, sn_dtype to) {
    lv x = g->vals[id];
    if (g->pick >= 0) x = sn_em_lane(&g->em, x, (uint32_t)g->pick);
    return sn_math_cast(&g->em, to, sn_val_get(g->m, (sn_val){id})->dtype, x);
}

static sn_dtype index_type(const sn_gen *g) { return g->index == g->em.cg->i64 ? SN_I64 : SN_I32; }

static lv value(sn_gen *g, uint32_t id) { return value_as(g, id, index_type(g)); }

static bool fits(sn_range r, int64_t scale) { return r.lo >= INT32_MIN / scale && r.hi <= INT32_MAX / scale; }

static bool fits_by_type(sn_dtype t) { return sn_dtype_bytes(t) < 4 || t == SN_I32; }

/* Numbers and values of 64 bits, the smaller and larger of which are taken. */
static bool is_choice(const sn_gen *g, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    int64_t c;
    if (r->kind == SN_IX_MIN || r->kind == SN_IX_MAX) return is_choice(g, r->a) && is_choice(g, r->b);
    return r->kind == SN_IX_VAL || sn_ix_is_const(g->m, e, &c);
}

/* Does it bring values of 64 bits, as positions that are looked up are, between numbers of 32? */
static bool is_clamped(const sn_gen *g, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    bool chosen = r->kind == SN_IX_MIN || r->kind == SN_IX_MAX;
    return chosen && fits(sn_ix_range(g->m, e), 1) && sn_ix_uses_vals(g->m, e) && is_choice(g, e);
}

/* Are there no others than of 32 bits among the values and numbers of a choice? */
static bool is_narrow_choice(const sn_gen *g, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    if (r->kind == SN_IX_VAL) return fits_by_type(sn_val_get(g->m, (sn_val){r->id})->dtype);
    if (r->kind == SN_IX_SUM) return fits(sn_ix_range(g->m, e), 1);
    return is_narrow_choice(g, r->a) && is_narrow_choice(g, r->b);
}

/* The same in 64 bits; on a CPU in 32 where that is enough: twice as many lanes are a register. */
static lv choice(sn_gen *g, sn_ix e, sn_dtype type) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    if (r->kind == SN_IX_VAL) return value_as(g, r->id, type);
    if (r->kind == SN_IX_SUM) return sn_em_ci(sn_math_storage(g->em.cg, type), sn_ix_value(g->m, e));
    lv in[2] = {choice(g, r->a, type), choice(g, r->b, type)};
    sn_em_unify(&g->em, in, 2);
    lv less = em_icmp(&g->em, r->kind == SN_IX_MIN ? LLVMIntSLT : LLVMIntSGT, in[0], in[1]);
    return em_select(&g->em, less, in[0], in[1]);
}

static lv emit(sn_gen *g, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(g->m, e);
    if (is_clamped(g, e)) {
        sn_dtype type = !g->gpu && is_narrow_choice(g, e) ? SN_I32 : SN_I64;
        return sn_math_cast(&g->em, index_type(g), type, choice(g, e, type));
    }
    switch (r->kind) {
    case SN_IX_SUM: return sum(g, e);
    case SN_IX_AXIS:
        if (g->lane_axis.i == r->id && g->lanes > 1) return lane_numbers(g);
        SN_ASSERT(g->axes[r->id]);
        return g->axes[r->id];
    case SN_IX_DIV:
    case SN_IX_MOD: return divide(g, r);
    case SN_IX_MIN: return pick_smaller(g, sn_gen_ix(g, r->a), sn_gen_ix(g, r->b), LLVMIntSLT);
    case SN_IX_MAX: return pick_smaller(g, sn_gen_ix(g, r->a), sn_gen_ix(g, r->b), LLVMIntSGT);
    case SN_IX_PROD: return binary(g, LLVMBuildMul, sn_gen_ix(g, r->a), sn_gen_ix(g, r->b));
    case SN_IX_VAL: return value(g, r->id);
    case SN_IX_SYM: break;
    }
    if (g->symbols && g->symbols[r->id]) return g->symbols[r->id];
    g->status =
        sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: size %s is symbolic; give it a value before code generation",
                g->k->name, sn_sym_get(g->m, (sn_sym){r->id})->name);
    return sn_em_ci(g->index, 0);
}

lv sn_gen_ix(sn_gen *g, sn_ix e) {
    lv x = recall(g, e);
    if (x) return x;
    x = emit(g, e);
    /* What depends on SSA values changes when a region is written out again; a lane's pick is not the whole. */
    return sn_ix_uses_vals(g->m, e) ? x : remember(g, e, x);
}

/* ---- bounds tests ---- */

/* With lanes at rest + 0 .. V-1, rest and bound multiples of V, all lanes are inside or all outside. */
bool sn_gen_in_uniform(sn_gen *g, sn_ix e, sn_ix bound) {
    if (g->lanes <= 1) return true;
    if (sn_ix_uses_axis(g->m, bound, g->lane_axis)) return false;
    if (!sn_ix_uses_axis(g->m, e, g->lane_axis)) return true;
    int64_t c;
    if (!sn_ix_coef(g->m, e, g->lane_axis, &c) || c != 1) return false;
    sn_ix zero = sn_ix_const(g->m, 0), rest = sn_ix_subst(g->m, e, &g->lane_axis, &zero, 1);
    return sn_ix_is_multiple(g->m, rest, g->lanes) && sn_ix_is_multiple(g->m, bound, g->lanes);
}

/* Where e is below the bound anyway: is it negative? Its constant goes to the other side, so that tests of one number by
 * different constants (elements of a tile that a mask cuts) are a comparison each. NULL: not so. */
static lv one_sided(sn_gen *g, sn_ix e, sn_ix bound) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c;
    if (sn_ix_range(g->m, e).hi >= sn_ix_range(g->m, bound).lo) return NULL;
    sn_ix_terms(g->m, e, &terms, &c, &one);
    sn_ix rest = sn_ix_addc(g->m, e, -c);
    if (!fits(sn_ix_range(g->m, rest), 1) || !fits((sn_range){-c, -c}, 1)) return NULL;
    lv x = sn_gen_ix(g, rest);
    return em_icmp(&g->em, LLVMIntSGE, x, sn_em_i(&g->em, x, -c));
}

/* Lanes of a CPU that are neighbours, rest + 0 .. V-1, of which some are inside: as few registers as tell them apart. More lanes than numbers of 32
 * bits have in one are compared as bytes with the first lane and the last one. NULL: they are no such lanes.
 *
 *     rest = -2, bound = 100, 64 lanes: lanes 2 .. 63      rest = 94: lanes 0 .. 5 */
static lv in_by_lanes(sn_gen *g, sn_ix e, sn_ix bound) {
    enum { WORDS = 16 };
    sn_em *em = &g->em;
    sn_ix zero = sn_ix_const(g->m, 0), rest = sn_ix_subst(g->m, e, &g->lane_axis, &zero, 1);
    int64_t c;
    if (g->gpu || g->lanes <= 1 || !sn_ix_coef(g->m, e, g->lane_axis, &c) || c != 1) return NULL;
    if (sn_ix_uses_vals(g->m, e) || sn_ix_uses_vals(g->m, bound) || sn_ix_uses_axis(g->m, bound, g->lane_axis))
        return NULL;
    if (!fits(sn_ix_range(g->m, e), 2) || !fits(sn_ix_range(g->m, bound), 2) || sn_ix_range(g->m, bound).lo < 0)
        return NULL;
    bool bytes = g->lanes > WORDS;
    LLVMTypeRef word = bytes ? em->cg->i8 : em->cg->i32;
    lv all[SN_GEN_LANES], first = sn_gen_ix(g, rest), end = sn_gen_ix(g, bound);
    for (uint32_t i = 0; i < g->lanes; i++) all[i] = sn_em_ci(word, i);
    lv lanes = LLVMConstVector(all, g->lanes);
    if (!bytes) {
        first = sn_em_splat(em, LLVMBuildTrunc(em->b, first, word, ""), g->lanes);
        end = sn_em_splat(em, LLVMBuildTrunc(em->b, end, word, ""), g->lanes);
        return em_icmp(em, LLVMIntULT, em_iadd(em, first, lanes), end);
    }
    lv none = sn_em_i(em, first, 0), most = sn_em_i(em, first, g->lanes);
    lv from = em_call2(em, "llvm.smin", em_call2(em, "llvm.smax", em_isub(em, none, first), none), most);
    lv to = em_call2(em, "llvm.smin", em_call2(em, "llvm.smax", em_isub(em, end, first), from), most);
    lv n = sn_em_splat(em, LLVMBuildTrunc(em->b, em_isub(em, to, from), word, ""), g->lanes);
    from = sn_em_splat(em, LLVMBuildTrunc(em->b, from, word, ""), g->lanes);
    return em_icmp(em, LLVMIntULT, em_isub(em, lanes, from), n);
}

lv sn_gen_in(sn_gen *g, sn_ix e, sn_ix bound) {
    e = sn_gen_resolve(g, e);
    bound = sn_gen_resolve(g, bound);
    if (g->lanes > 1 && sn_ix_uses_axis(g->m, e, g->lane_axis) && sn_gen_in_uniform(g, e, bound)) {
        sn_ix zero = sn_ix_const(g->m, 0);
        e = sn_ix_subst(g->m, e, &g->lane_axis, &zero, 1);
    }
    if (sn_ix_in(g->m, e, bound)) return LLVMConstInt(g->em.cg->i1, 1, 0);
    lv one = in_by_lanes(g, e, bound);
    if (!one) one = one_sided(g, e, bound);
    if (one) return one;
    lv in[2] = {sn_gen_ix(g, e), sn_gen_ix(g, bound)};
    sn_em_unify(&g->em, in, 2);
    /* As unsigned numbers, negative ones lie above every bound. */
    if (sn_ix_range(g->m, bound).lo >= 0) return em_icmp(&g->em, LLVMIntULT, in[0], in[1]);
    return em_and(&g->em, em_icmp(&g->em, LLVMIntSGE, in[0], sn_em_i(&g->em, in[0], 0)),
                  em_icmp(&g->em, LLVMIntSLT, in[0], in[1]));
}

/* ---- width ---- */

/* Does e with all parts that a division or comparison reads fit in 32 bits? Sums may wrap on the way. A value fits by
 * its dtype, the smaller or larger of two numbers when both do, or it is between numbers that fit. */
static bool narrow(sn_gen *g, sn_ix e, int64_t scale) {
    const sn_ix_rec *whole = sn_ix_get(g->m, e);
    bool chosen = whole->kind == SN_IX_MIN || whole->kind == SN_IX_MAX;
    if (scale == 1 && is_clamped(g, e)) return true;
    if (scale == 1 && whole->kind == SN_IX_VAL) return fits_by_type(sn_val_get(g->m, (sn_val){whole->id})->dtype);
    if (!(chosen && scale == 1) && !fits(sn_ix_range(g->m, e), scale)) return false;
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(g->m, e, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        bool pair = r->kind == SN_IX_DIV || r->kind == SN_IX_MOD || r->kind == SN_IX_MIN || r->kind == SN_IX_MAX;
        if (pair && !is_clamped(g, terms[i].atom) && !(narrow(g, r->a, 1) && narrow(g, r->b, 1))) return false;
    }
    return true;
}

static void find_symbol(void *user, sn_ix atom) {
    sn_gen *g = user;
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    if (r->kind == SN_IX_SYM && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                            "kernel %s: size %s is symbolic; give it a value before code generation", g->k->name,
                            sn_sym_get(g->m, (sn_sym){r->id})->name);
}

static bool statement_is_narrow(sn_gen *g, const sn_stmt_rec *s) {
    bool access = sn_is_access(s);
    if (s->axis.i) {
        sn_ix extent = sn_axis_get(g->m, s->axis)->extent;
        sn_ix_walk(g->m, extent, find_symbol, g);
        if (!narrow(g, extent, 1)) return false;
    }
    if (s->ix.i) {
        sn_ix_walk(g->m, s->ix, find_symbol, g);
        if (!narrow(g, s->ix, access ? sn_dtype_bytes(sn_buf_get(g->m, s->buf)->dtype) : 1)) return false;
    }
    return !s->bound.i || narrow(g, s->bound, 1);
}

/* Vectors that lie anywhere look at what is up to some pieces around them (unaligned.c). */
static bool has_margins(const sn_gen *g) {
    enum { MARGIN = 256 };
    for (uint32_t i = 0; g->k->sched.runs && i < g->k->params.n; i++) {
        const sn_buf_rec *b = sn_buf_get(g->m, g->k->params.at[i]);
        int64_t n;
        if (!sn_ix_is_const(g->m, b->size, &n) || n > (INT32_MAX - MARGIN) / sn_dtype_bytes(b->dtype)) return false;
    }
    return true;
}

/* A tensor copy is told where it begins, and nothing of what the nest says of each element. */
static bool is_narrow_box(sn_gen *g, sn_stmt s) {
    enum { FIRST_SM = 90 };
    const char *why_not;
    sn_box box;
    bool copies = g->gpu && g->em.cg->target->sm >= FIRST_SM && sn_stmt_get(g->m, s)->bulk && sn_is_box(g->m, s);
    if (!copies || !sn_box_find(&box, &why_not, g->m, s)) return false;
    bool all = narrow(g, box.shared_at, sn_dtype_bytes(sn_buf_get(g->m, box.shared)->dtype));
    for (uint32_t k = 0; k < box.rank; k++)
        all &= narrow(g, box.dims[k].at, 1) && (!box.dims[k].tap.i || narrow(g, box.dims[k].tap, 1));
    return all;
}

sn_status sn_gen_index_width(sn_gen *g) {
    bool all = g->gpu && g->grid <= INT32_MAX && has_margins(g);
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern), next; s.i; s = next) {
        bool box = is_narrow_box(g, s);
        if (!box && !statement_is_narrow(g, sn_stmt_get(g->m, s))) all = false;
        next = box ? sn_stmt_walk_skip(g->m, s) : sn_stmt_walk_next(g->m, s);
    }
    g->index = all ? g->em.cg->i32 : g->em.cg->i64;
    return g->status;
}
