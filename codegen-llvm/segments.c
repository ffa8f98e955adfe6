/* segments.c: kernels of several segments: many independent nests in one launch.
 *
 *     loop g in 3 : grid { A on x0, y0 below 768 }         block -> segment: binary search in a table of first blocks
 *     loop g in 9 : grid { A on x1, y1 below 2304 }   ->   segment -> row of a table: numbers, and which parameters
 *     loop g in 5 : grid { B on z }                        code of A once, for any row; code of B behind a branch
 *
 * Segments that are alike (ir/loop/alike.h) are one group and one piece of code. A number that differs within a group
 * becomes a symbol of the index expressions; its value is read from the group's table, or computed from the row when it
 * grows evenly. The code is translated from a kernel of copies, one a group, which is not in the module's list. All
 * threads of a block have the same row, so nothing here makes them differ.
 *
 * The buffers come as one array: on a GPU as one parameter by value, on the host as `params` always does.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>
#include <string.h>

/* A number for each segment of a group. */
typedef struct column {
    int64_t *at;
    int64_t first, step; /* at[i] == first + i * step, if even */
    bool even;
    sn_sym sym;
} column;

typedef struct group {
    SN_VEC(sn_alike *) segments;
    int64_t blocks;
    sn_stmt code;        /* the copy that is translated */
    column starts;       /* first block of a segment within the group; one entry more: blocks */
    SN_VEC(column) rows; /* numbers that differ */
    column *slots;       /* parameter number of each slot */
} group;

struct sn_gen_segments {
    SN_VEC(group) groups;
    uint32_t n_params;
    uint32_t *param_number; /* by buffer id */
    size_t table_bytes;     /* so far */
    lv params;              /* the array of addresses */
};

/* ---- numbers ---- */

static column column_new(sn_gen *g, uint32_t n) { return (column){.at = SN_NEWN(g->arena, int64_t, n + 1)}; }

static void find_step(column *c, uint32_t n) {
    c->first = c->at[0];
    c->step = n > 1 ? c->at[1] - c->at[0] : 0;
    c->even = true;
    for (uint32_t i = 1; i < n; i++) c->even = c->even && c->at[i] - c->at[i - 1] == c->step;
}

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* The symbol of a new column, or of one that has the same numbers. */
static sn_sym symbol_of(sn_gen *g, group *gr, column *c) {
    uint32_t n = gr->segments.n;
    for (uint32_t i = 0; i < gr->rows.n; i++)
        if (memcmp(gr->rows.at[i].at, c->at, n * sizeof *c->at) == 0) return gr->rows.at[i].sym;
    char name[24];
    snprintf(name, sizeof name, "row.%u", gr->rows.n);
    c->sym = sn_sym_named(g->m, name);
    find_step(c, n);
    SN_PUSH(g->arena, &gr->rows, *c);
    return c->sym;
}

/* What stands for hole k in the code of the group: base + d * symbol, d the greatest common divisor, so that what
 * divides all the numbers is still seen. */
static sn_ix lift(sn_gen *g, group *gr, uint32_t k) {
    uint32_t n = gr->segments.n;
    column c = column_new(g, n);
    int64_t least = INT64_MAX, most = INT64_MIN, base, d = 0;
    for (uint32_t i = 0; i < n; i++) {
        c.at[i] = gr->segments.at[i]->holes.at[k];
        if (c.at[i] < least) least = c.at[i];
        if (c.at[i] > most) most = c.at[i];
    }
    if (k == 0 || least == most) return sn_ix_const(g->m, most); /* of the grid only a bound matters */
    base = least < 0 ? least : 0;
    for (uint32_t i = 0; i < n; i++) d = gcd(c.at[i] -= base, d);
    for (uint32_t i = 0; i < n; i++) c.at[i] /= d;
    sn_ix symbol = sn_ix_sym(g->m, symbol_of(g, gr, &c));
    return sn_ix_addc(g->m, sn_ix_scale(g->m, symbol, d), base);
}

/* ---- groups ---- */

static void add_segment(sn_gen *g, struct sn_gen_segments *b, sn_stmt top) {
    sn_alike *a = SN_NEW(g->arena, sn_alike);
    sn_alike_read(a, g->m, g->arena, top);
    uint32_t i = 0;
    while (i < b->groups.n && !sn_alike_equal(b->groups.at[i].segments.at[0], a)) i++;
    if (i == b->groups.n) SN_PUSH(g->arena, &b->groups, (group){0});
    SN_PUSH(g->arena, &b->groups.at[i].segments, a);
}

static int64_t blocks_in(const sn_module *m, sn_stmt s) {
    int64_t n = sn_ix_value(m, sn_axis_get(m, sn_stmt_get(m, s)->axis)->extent);
    for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_stmt_get(m, t)->next)
        if (sn_is_grid(m, t)) n *= blocks_in(m, t);
    return n;
}

static void number_blocks(sn_gen *g, group *gr) {
    uint32_t n = gr->segments.n;
    gr->starts = column_new(g, n);
    for (uint32_t i = 0; i < n; i++) {
        gr->starts.at[i] = gr->blocks;
        gr->blocks += blocks_in(g->m, gr->segments.at[i]->top);
    }
    gr->starts.at[n] = gr->blocks;
    find_step(&gr->starts, n + 1);
}

static void number_slots(sn_gen *g, const struct sn_gen_segments *b, group *gr) {
    uint32_t n = gr->segments.n, n_slots = gr->segments.at[0]->slots.n;
    gr->slots = SN_NEWN(g->arena, column, n_slots + 1);
    for (uint32_t k = 0; k < n_slots; k++) {
        gr->slots[k] = column_new(g, n);
        for (uint32_t i = 0; i < n; i++) {
            sn_buf buf = gr->segments.at[i]->slots.at[k];
            gr->slots[k].at[i] = b->param_number[buf.i];
            if (!g->steady[buf.i]) g->steady[gr->segments.at[0]->slots.at[k].i] = false;
        }
        find_step(&gr->slots[k], n);
    }
}

static void make_code(sn_gen *g, sn_kern copies, group *gr) {
    const sn_alike *a = gr->segments.at[0];
    sn_ix *with = SN_NEWN(g->arena, sn_ix, a->holes.n);
    for (uint32_t k = 0; k < a->holes.n; k++) with[k] = lift(g, gr, k);
    gr->code = sn_alike_copy(g->m, sn_at_end(copies, (sn_stmt){0}), a, with, g->arena);
}

void sn_gen_segments_prepare(sn_gen *g) {
    if (sn_kern_segments(g->m, g->kern) < 2) return;
    struct sn_gen_segments *b = g->segments = SN_NEW(g->arena, struct sn_gen_segments);
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_get(g->m, s)->next) add_segment(g, b, s);
    b->n_params = g->k->params.n;
    b->param_number = SN_NEWN(g->arena, uint32_t, g->m->bufs.count);
    for (uint32_t i = 0; i < b->n_params; i++) b->param_number[g->k->params.at[i].i] = i;
    sn_kern copies = {sn_table_add(&g->m->kerns)};
    *sn_kern_get(g->m, copies) = (sn_kern_rec){.name = g->k->name, .sched = g->k->sched, .scheduled = true};
    for (uint32_t i = 0; i < b->groups.n; i++) {
        number_blocks(g, &b->groups.at[i]);
        number_slots(g, b, &b->groups.at[i]);
        make_code(g, copies, &b->groups.at[i]);
    }
    sn_kern_collect_params(g->m, copies);
    g->kern = copies;
    g->k = sn_kern_get(g->m, copies);
    g->symbols = SN_NEWN(g->arena, lv, g->m->syms.count);
}

/* ---- parameters ---- */

static void param_attribute(sn_gen *g, LLVMAttributeRef a) { LLVMAddAttributeAtIndex(g->em.fn, 1, a); }

void sn_gen_segments_params(sn_gen *g) {
    LLVMContextRef cx = g->em.cg->cx;
    g->segments->params = LLVMGetParam(g->em.fn, 0);
    if (!g->gpu) return;
    LLVMTypeRef block = LLVMArrayType2(g->em.cg->i8, 8ull * g->segments->n_params);
    param_attribute(g, LLVMCreateTypeAttribute(cx, LLVMGetEnumAttributeKindForName("byval", 5), block));
    param_attribute(g, LLVMCreateStringAttribute(cx, "nvvm.grid_constant", 18, "", 0));
    LLVMSetParamAlignment(g->segments->params, 8);
    LLVMSetValueName2(g->segments->params, "buffers", 7);
}

/* ---- tables ---- */

static bool fits_word(const column *c, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (c->at[i] > INT32_MAX) return false;
    return true;
}

/* An array of constants; beyond n it is filled up to `size` with a number that no block reaches. */
static lv table(sn_gen *g, const column *c, LLVMTypeRef word, uint32_t n, uint32_t size) {
    enum { CONST_SPACE = 4, GLOBAL_SPACE = 1, CONST_LIMIT = 32 << 10 };
    lv *all = SN_NEWN(g->arena, lv, size);
    int64_t beyond = word == g->em.cg->i32 ? INT32_MAX : INT64_MAX;
    for (uint32_t i = 0; i < size; i++) all[i] = sn_em_ci(word, i < n ? c->at[i] : beyond);
    size_t bytes = g->segments->table_bytes += size * (word == g->em.cg->i32 ? 4 : 8);
    unsigned space = !g->gpu ? 0 : bytes <= CONST_LIMIT ? CONST_SPACE : GLOBAL_SPACE;
    lv t = LLVMAddGlobalInAddressSpace(g->em.mod, LLVMArrayType2(word, size), "rows", space);
    LLVMSetInitializer(t, LLVMConstArray2(word, all, size));
    LLVMSetGlobalConstant(t, 1);
    LLVMSetLinkage(t, LLVMPrivateLinkage);
    LLVMSetAlignment(t, 8);
    return t;
}

static lv read_table(sn_gen *g, lv t, LLVMTypeRef word, lv row) {
    lv x = LLVMBuildLoad2(g->em.b, word, LLVMBuildInBoundsGEP2(g->em.b, word, t, &row, 1, ""), "");
    return word == g->index ? x : LLVMBuildZExt(g->em.b, x, g->index, "");
}

/* The number in the row. */
static lv number(sn_gen *g, const column *c, uint32_t n, lv row) {
    if (c->even) {
        lv x = em_imul(&g->em, row, sn_em_i(&g->em, row, c->step));
        return em_iadd(&g->em, x, sn_em_i(&g->em, row, c->first));
    }
    LLVMTypeRef word = fits_word(c, n) ? g->em.cg->i32 : g->em.cg->i64;
    return read_table(g, table(g, c, word, n, n), word, row);
}

/* The last row whose first block is not after `block`; it is not one of the empty segments, whose successor begins
 * where they do. */
static lv find_row(sn_gen *g, const group *gr, lv block, lv *start) {
    sn_em *em = &g->em;
    uint32_t n = gr->segments.n, size = 1;
    if (n > 1 && gr->starts.even && gr->starts.step) {
        lv step = sn_em_i(em, block, gr->starts.step), row = LLVMBuildUDiv(em->b, block, step, "row");
        *start = em_imul(em, row, step);
        return row;
    }
    lv row = *start = sn_em_ci(g->index, 0);
    if (n == 1) return row;
    while (size < n) size *= 2;
    LLVMTypeRef word = fits_word(&gr->starts, n) ? em->cg->i32 : em->cg->i64;
    lv t = table(g, &gr->starts, word, n, size);
    for (uint32_t half = size / 2; half; half /= 2) {
        lv next = em_iadd(em, row, sn_em_i(em, row, half)), first = read_table(g, t, word, next);
        lv reached = em_icmp(em, LLVMIntULE, first, block);
        row = em_select(em, reached, next, row);
        *start = em_select(em, reached, first, *start);
    }
    return row;
}

/* ---- code ---- */

static lv load_address(sn_gen *g, lv number) {
    LLVMTypeRef ptr = g->gpu ? g->em.cg->global_ptr : g->em.cg->ptr;
    return LLVMBuildLoad2(g->em.b, ptr, LLVMBuildInBoundsGEP2(g->em.b, ptr, g->segments->params, &number, 1, ""), "");
}

/* Code of the group for the block with that number among its own. */
static void translate(sn_gen *g, group *gr, lv block) {
    uint32_t n = gr->segments.n;
    const sn_alike *a = gr->segments.at[0];
    lv start, row = find_row(g, gr, block, &start);
    for (uint32_t i = 0; i < gr->rows.n; i++) g->symbols[gr->rows.at[i].sym.i] = number(g, &gr->rows.at[i], n, row);
    for (uint32_t k = 0; k < a->slots.n; k++)
        g->memory[a->slots.at[k].i] = load_address(g, number(g, &gr->slots[k], n, row));
    g->block = em_isub(&g->em, block, start);
    g->turn = (sn_gen_turn){0};
    sn_gen_statement(g, gr->code);
}

void sn_gen_segments_body(sn_gen *g) {
    sn_em *em = &g->em;
    lv all = g->block;
    int64_t first = 0;
    for (uint32_t i = 0; i < g->segments->groups.n && g->status == SN_OK; i++) {
        group *gr = &g->segments->groups.at[i];
        if (!gr->blocks) continue;
        uint32_t mark = sn_gen_mark(g);
        lv block = em_isub(em, all, sn_em_i(em, all, first));
        bool alone = gr->blocks == g->grid;
        sn_em_if mine;
        if (!alone) mine = sn_em_then(em, em_icmp(em, LLVMIntULT, block, sn_em_i(em, block, gr->blocks)), "group");
        translate(g, gr, block);
        if (!alone) sn_em_end(em, &mine);
        sn_gen_release(g, mark);
        first += gr->blocks;
    }
    g->block = all;
}
