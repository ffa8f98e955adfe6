/* sort.c: sort and topk as kernels, for the pass `to-loops`.
 *
 *     %t = sort %x axis=1  becomes   kernel: blocks sort rows in their shared memory (sort_block.c)
 *
 *     rows that are too long for that:
 *                                    kernel: blocks sort parts of rows
 *                                    kernel: each element counts those of the sibling runs that go before it; ...
 *
 * Merges by ranking: the place of an element in the merged run is its place in its own run plus the number of elements
 * of every sibling run that go before it, which a binary search finds. These kernels are pointwise with gathers and one
 * scatter; the scatter is a permutation within a row, so that iterations write different elements. Runs keep at most
 * `keep` elements (all of them for sort, k for topk): what ranks behind is not stored. A topk of few elements needs no
 * merges: blocks sort short parts, then what is kept of those.
 *
 * A CPU has no shared memory that makes a network of a block cheap. There short rows go through one in registers, side by side (sort_network.c),
 * few elements of long rows are found in one reading (sort_select.c), those of others by as many passes, in a row that is alone each element
 * counts those before it, and long rows go by the digits of their keys (sort_radix.c).
 *
 * Elements are compared as integers (order.c). Keys of 64 bits carry the position in a second temporary, and equal
 * keys go by the order of the runs. The last kernel reads the values through the positions, so that they come out bit
 * by bit.
 *
 * Cost: one reading and one writing of rows that a block can sort; log4(n / 4096) more passes over longer ones,
 * each with up to 3 log2(n) loads an element. Runs that have reached `keep` are merged more at a time. On a CPU `keep` readings
 * of a row, or as many of a short row as it has elements.
 */
#include "passes/lower/order.h"

/* An element on its way. */
typedef struct item {
    sn_val key, place;
} item;

static sn_val op(sn_order *o, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(o->m, o->lw->at, lop, a, b); }

static sn_val integer(sn_order *o, sn_dtype t, int64_t x) { return sn_put_const_int(o->m, o->lw->at, t, x); }

static sn_val index_of(sn_order *o, sn_ix e) { return sn_put_index(o->m, o->lw->at, o->place, e); }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Does another element go before mine? Equal keys do where `ties` holds; only wide keys can be equal. */
static sn_val goes_before(sn_order *o, sn_val other, sn_val mine, sn_val ties) {
    sn_val before = op(o, SN_LOP_LT, other, mine);
    if (!o->wide) return before;
    return op(o, SN_LOP_OR, before, op(o, SN_LOP_AND, op(o, SN_LOP_EQ, other, mine), ties));
}

/* ---- kernels ---- */

/* Loops over the rows, and then over `count` elements of each: the position in it. A thread owns an element: neighbours in a row search nearly
 * the same places, whatever order the result is stored in. */
static sn_ix open_kernel(sn_order *o, int64_t count) {
    sn_order_open_rows(o);
    sn_kern_get(o->m, o->lw->kern)->sched.cls = SN_SCHED_ELEMENT;
    return sn_lower_open_loop(o->lw, "r", sn_ix_const(o->m, count));
}

static sn_ix in_row(sn_order *o, const sn_runs *r, sn_ix e) {
    return sn_ix_add(o->m, sn_ix_scale(o->m, o->row, r->count), e);
}

/* An element of the last merge; its value is read through its position. */
static void store_item(sn_order *o, item it, sn_ix rank, sn_val mask) {
    sn_val place = it.place;
    if (!o->wide) {
        place = op(o, SN_LOP_AND, it.key, integer(o, SN_I64, UINT32_MAX));
        place = sn_put_cast(o->m, o->lw->at, o->place, place);
    }
    sn_val x = sn_order_element(o, sn_order_bounded(o, place, o->n - 1));
    sn_order_store_result(o, rank, x, place, mask);
}

/* The element has that rank in run number `run` of `next`; no next: in the result. */
static void place_item(sn_order *o, item it, sn_val rank, sn_ix run, const sn_runs *next, int64_t ranks) {
    int64_t length = next ? next->length : o->keep;
    sn_val mask = {0};
    if (length < ranks) mask = op(o, SN_LOP_LT, rank, integer(o, o->place, length));
    sn_ix to = sn_order_bounded(o, rank, length - 1);
    if (!next) {
        store_item(o, it, to, mask);
        return;
    }
    sn_ix e = in_row(o, next, sn_ix_add(o->m, sn_ix_scale(o->m, run, length), to));
    sn_order_store(o, next->keys, e, it.key, mask);
    if (o->wide) sn_order_store(o, next->places, e, it.place, mask);
}

/* Runs of `length` elements at most, made of `members` elements each; with keys where they will be merged. */
static sn_runs new_runs(sn_order *o, int64_t length, int64_t members, int64_t count, bool keys) {
    int64_t full = sn_ceil_div(count, members) - 1;
    sn_runs r = {.length = length, .count = full * length + smaller(length, count - full * members)};
    sn_type t = {.dtype = SN_I64, .rank = 2, .shape = {sn_ix_const(o->m, o->rows), sn_ix_const(o->m, r.count)}};
    if (keys) r.keys = sn_lower_temp(o->lw, &t);
    t.dtype = o->place;
    if (o->wide || !keys) r.places = sn_lower_temp(o->lw, &t);
    return r;
}

/* ---- merges ---- */

/* A run that an element looks for its place in. */
typedef struct sibling {
    const sn_runs *from;
    sn_ix start;
    sn_val elements; /* how many it has; none: it is full, and its length is a power of two */
    sn_val ties;     /* it stands before the run of the element (wide keys) */
} sibling;

/* Step of a search: are the next `step` elements before mine too? Then they count. */
static sn_val search_step(sn_order *o, const sibling *s, sn_val mine, sn_val found, int64_t step) {
    const sn_runs *r = s->from;
    sn_ix skip = s->elements.i ? sn_order_bounded(o, found, r->length - step)
                               : sn_ix_modc(o->m, sn_ix_val(o->m, found), r->length); /* one `and`, and a range */
    sn_ix e = sn_ix_add(o->m, s->start, sn_ix_addc(o->m, skip, step - 1));
    if (s->elements.i) e = sn_ix_min(o->m, e, sn_ix_const(o->m, r->count - 1));
    sn_val other = sn_put_load(o->m, o->lw->at, r->keys, in_row(o, r, e));
    sn_val more = op(o, SN_LOP_ADD, found, integer(o, o->place, step));
    sn_val before = goes_before(o, other, mine, s->ties);
    if (s->elements.i) before = op(o, SN_LOP_AND, before, op(o, SN_LOP_LE, more, s->elements));
    return sn_put_op3(o->m, o->lw->at, SN_LOP_SELECT, before, more, found);
}

/* How many elements of the sibling go before mine. In a full run of 2^k the first k steps find 2^k - 1 at most, so that
 * no load is outside; the last step tells whether it is all of them. */
static sn_val count_before(sn_order *o, const sibling *s, sn_val mine) {
    int64_t step = 1;
    while (step * 2 <= s->from->length) step *= 2;
    sn_val found = integer(o, o->place, 0);
    if (!s->elements.i) step /= 2;
    for (; step > 0; step /= 2) found = search_step(o, s, mine, found, step);
    return s->elements.i ? found : search_step(o, s, mine, found, 1);
}

/* The sibling `distance` after the run of element e, counted round. */
static sibling sibling_of(sn_order *o, const sn_runs *r, sn_ix e, int64_t distance, int64_t ways) {
    sn_module *m = o->m;
    int64_t length = r->length;
    sn_ix own = sn_ix_modc(m, sn_ix_divc(m, e, length), ways);
    sn_ix group = sn_ix_divc(m, e, length * ways);
    sn_ix number = sn_ix_modc(m, sn_ix_addc(m, own, distance), ways);
    sibling s = {.from = r};
    s.start = sn_ix_scale(m, sn_ix_add(m, sn_ix_scale(m, group, ways), number), length);
    if (r->count % (length * ways) || (length & (length - 1))) {
        sn_ix left = sn_ix_sub(m, sn_ix_const(m, r->count), s.start);
        s.elements = index_of(o, sn_ix_max(m, sn_ix_min(m, left, sn_ix_const(m, length)), sn_ix_const(m, 0)));
    }
    if (o->wide) s.ties = sn_put_in(m, o->lw->at, sn_ix_addc(m, own, distance - ways), sn_ix_const(m, ways));
    return s;
}

static void merge(sn_order *o, const sn_runs *r, const sn_runs *next, int64_t ways) {
    sn_module *m = o->m;
    sn_ix e = open_kernel(o, r->count);
    item mine = {.key = sn_put_load(m, o->lw->at, r->keys, in_row(o, r, e))};
    if (o->wide) mine.place = sn_put_load(m, o->lw->at, r->places, in_row(o, r, e));
    sn_val rank = index_of(o, sn_ix_modc(m, e, r->length));
    for (int64_t d = 1; d < ways; d++) {
        sibling s = sibling_of(o, r, e, d, ways);
        rank = op(o, SN_LOP_ADD, rank, count_before(o, &s, mine.key));
    }
    place_item(o, mine, rank, sn_ix_divc(m, e, r->length * ways), next, smaller(r->count, r->length * ways));
    sn_lower_end(o->lw, "sort merge");
}

/* ---- all of it ---- */

/* A result without elements still has its kernel. */
static void store_nothing(sn_order *o) {
    open_kernel(o, o->keep);
    for (uint32_t k = 0; k < 2; k++)
        if (o->out[k].i) sn_order_store(o, o->out[k], sn_ix_const(o->m, 0), integer(o, SN_I64, 0), (sn_val){0});
    sn_lower_end(o->lw, "sort");
}

static bool is_empty(const sn_order *o) {
    int64_t size;
    for (uint32_t k = 0; k < o->type->rank; k++)
        if (sn_ix_is_const(o->m, o->type->shape[k], &size) && size == 0) return true;
    return o->keep == 0;
}

/* Do blocks that sort SN_SORT_LEAST elements each all find a multiprocessor of their own on a GPU? Then a block that had more would keep
 * others waiting: one of 16384 takes 61 us on an H200, those of 4096 20. */
static bool leaves_idle(const sn_order *o) {
    const sn_target *t = o->lw->cx->target;
    return t->is_gpu && o->n > 2 * SN_SORT_LEAST && o->rows * sn_ceil_div(o->n, SN_SORT_LEAST) <= (int64_t)t->units;
}

/* How many runs one pass merges. Those that have all that is kept do not grow: then fewer passes are better, and so they are
 * where elements are few, and a pass takes as long as a launch. */
static int64_t ways_of(const sn_order *o, const sn_runs *r) {
    return r->length < o->keep && !leaves_idle(o) ? SN_SORT_WAYS : 2 * SN_SORT_WAYS;
}

/* Longer parts leave fewer merges, but need blocks enough to keep the machine busy. */
static int64_t part_of(const sn_order *o, int64_t limit) {
    int64_t units = o->lw->cx->target->units, least = SN_SORT_LEAST;
    while (sn_ceil_div(o->n, least) > 2 * SN_SORT_WAYS && least < SN_SORT_PART) least *= 2;
    if (leaves_idle(o)) return least;
    return o->rows * (o->n / limit) >= 2 * units ? limit : SN_SORT_PART;
}

/* Parts of `length` elements are sorted by blocks, then merged. */
static void sort_and_merge(sn_order *o, int64_t length) {
    sn_runs now = new_runs(o, smaller(o->keep, length), length, o->n, true), next;
    sn_sort_blocks(o, NULL, length, &now);
    for (;;) {
        int64_t number = sn_ceil_div(now.count, now.length), ways = smaller(ways_of(o, &now), number);
        int64_t members = ways * now.length;
        if (number > ways) next = new_runs(o, smaller(o->keep, members), members, now.count, true);
        merge(o, &now, number > ways ? &next : NULL, ways);
        if (number <= ways) return;
        now = next;
    }
}

/* Some times what is kept of it. */
static int64_t part_to_select(const sn_order *o) {
    int64_t length = SN_SORT_SELECT_LEAST;
    while (length < SN_SORT_SELECT * o->keep && length < SN_SORT_PART) length *= 2;
    return length;
}

/* Blocks sort parts of some times `keep` elements, then in the same way the places that these keep, until one part is
 * left: short parts take fewer steps, and most elements are met only once. Few elements are not worth another
 * kernel. */
static void select_and_sort(sn_order *o) {
    sn_runs lists[2], *from = NULL;
    int64_t count = o->n, length = part_to_select(o);
    for (uint32_t k = 0;
         count > SN_SORT_PART || (count > SN_SORT_SELECT_PARTS * length && o->rows * count > SN_SORT_SELECT_FEW);
         k ^= 1) {
        lists[k] = new_runs(o, o->keep, length, count, false);
        sn_sort_blocks(o, from, length, &lists[k]);
        from = &lists[k];
        count = from->count;
    }
    sn_sort_blocks(o, from, sn_pow2_ceil(count), NULL);
}

/* ---- few of a row, on a CPU ---- */

/* The smallest item of the row behind the one before it; no item is there twice. */
typedef struct pass {
    sn_order *o;
    const sn_runs *items;
    sn_val before; /* none: the smallest of all */
} pass;

static void emit_pass(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const pass *p = user;
    sn_order *o = p->o;
    yield[0] = sn_put_load(o->m, lw->at, p->items->keys, in_row(o, p->items, index[0]));
    if (!p->before.i) return;
    sn_val behind = op(o, SN_LOP_GT, yield[0], p->before);
    yield[0] = sn_put_op3(o->m, lw->at, SN_LOP_SELECT, behind, yield[0], integer(o, SN_I64, INT64_MAX));
}

/* Twice the steps of a network for `length` elements: bits (bits + 1) / 2 for each digit of a key (sort_block.c). */
static int64_t steps_twice(const sn_order *o, int64_t length) {
    enum { WORD_BITS = 32 };
    int64_t bits = 0;
    while ((int64_t)1 << bits < length) bits++;
    return sn_ceil_div(8 * sn_dtype_bytes(o->type->dtype), WORD_BITS - bits) * bits * (bits + 1);
}

/* A step shuffles, compares and keeps two halves where a pass loads, compares and keeps one. So passes are worth it where there are
 * fewer of them. A long row is sorted in parts by all cores (select_and_sort), where a pass over it is one core's. */
static bool takes_passes(const sn_order *o) {
    int64_t part = o->n <= SN_SORT_PART ? o->n : part_to_select(o), units = o->lw->cx->target->units;
    int64_t cores = o->n <= SN_SORT_PART || o->rows >= units ? 1 : sn_ceil_div(units, o->rows);
    return !o->lw->cx->target->is_gpu && !o->wide && 2 * o->keep * cores <= steps_twice(o, part);
}

/* Kernel of the passes first .. end - 1, behind what `last` has; what it finds last goes to `next`. */
static void passes_of(sn_order *o, const sn_runs *items, const sn_runs *last, const sn_runs *next, int64_t first,
                      int64_t end) {
    sn_module *m = o->m;
    sn_ix extent = sn_ix_const(m, o->n), zero = sn_ix_const(m, 0);
    sn_dtype t = SN_I64;
    pass p = {.o = o, .items = items};
    sn_order_open_rows(o);
    sn_kern_get(m, o->lw->kern)->sched.cls = SN_SCHED_INNER;
    if (first) p.before = sn_put_load(m, o->lw->at, last->keys, in_row(o, last, zero));
    for (int64_t k = first; k < end; k++) {
        sn_val found;
        sn_lower_reduce_nest(o->lw, &found, SN_COMB_MIN, 1, &t, &extent, 1, emit_pass, &p);
        store_item(o, (item){.key = found}, sn_ix_const(m, k), (sn_val){0});
        p.before = found;
    }
    if (end < o->keep) sn_order_store(o, next->keys, in_row(o, next, zero), p.before, (sn_val){0});
    sn_lower_end(o->lw, "sort passes");
}

/* All items of all rows to memory. Nothing is searched: `fuse` has them made where their values are, by the schedule that suits these. */
static sn_runs store_items(sn_order *o) {
    sn_runs items = new_runs(o, o->n, o->n, o->n, true);
    sn_ix e = open_kernel(o, o->n);
    sn_kern_get(o->m, o->lw->kern)->sched.cls = SN_SCHED_NONE;
    sn_order_store(o, items.keys, in_row(o, &items, e), sn_order_item(o, sn_order_element(o, e), e), (sn_val){0});
    sn_lower_end(o->lw, "sort items");
    return items;
}

/* As many passes over a row as it keeps elements. */
static void select_by_passes(sn_order *o) {
    sn_runs items = store_items(o), last = {0};
    for (int64_t k = 0; k < o->keep; k += SN_SORT_PASSES) {
        int64_t end = smaller(k + SN_SORT_PASSES, o->keep);
        sn_runs next = last;
        if (end < o->keep) next = new_runs(o, 1, o->n, o->n, true);
        passes_of(o, &items, &last, &next, k, end);
        last = next;
    }
}

/* ---- short rows, on a CPU ---- */

/* Items of a row that go before one of them. */
typedef struct rank {
    sn_order *o;
    const sn_runs *items;
    sn_val mine;
} rank;

static void emit_before(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const rank *r = user;
    sn_order *o = r->o;
    sn_val other = sn_put_load(o->m, lw->at, r->items->keys, in_row(o, r->items, index[0]));
    yield[0] = sn_put_cast(o->m, lw->at, SN_I32, op(o, SN_LOP_LT, other, r->mine));
}

/* Two comparisons take no longer than a step. */
static bool takes_ranks(const sn_order *o) {
    return !o->lw->cx->target->is_gpu && !o->wide && o->n <= SN_SORT_PART && o->n <= steps_twice(o, o->n);
}

/* The rank of an item is the number of those before it. */
static void sort_by_ranks(sn_order *o) {
    sn_runs items = store_items(o);
    sn_ix extent = sn_ix_const(o->m, o->n), e = open_kernel(o, o->n);
    sn_dtype t = SN_I32;
    rank r = {.o = o, .items = &items, .mine = sn_put_load(o->m, o->lw->at, items.keys, in_row(o, &items, e))};
    sn_val before;
    sn_lower_reduce_nest(o->lw, &before, SN_COMB_SUM, 1, &t, &extent, 1, emit_before, &r);
    place_item(o, (item){.key = r.mine}, before, sn_ix_const(o->m, 0), NULL, o->n);
    sn_lower_end(o->lw, "sort ranks");
}

/* Networks have lanes, digits do not. */
static bool takes_digits(sn_order *o) {
    return !o->lw->cx->target->is_gpu && sn_sort_takes_radix(o, steps_twice(o, smaller(o->n, SN_SORT_PART)) / 2);
}

static void sort_rows(sn_order *o) {
    int64_t limit = sn_sort_block_limit(o);
    if (sn_sort_takes_network(o, takes_passes(o))) sn_sort_network(o);
    else if (sn_sort_takes_selection(o)) sn_sort_select(o);
    else if (takes_passes(o)) select_by_passes(o);
    else if (takes_ranks(o)) sort_by_ranks(o);
    else if (takes_digits(o)) sn_sort_radix(o);
    else if (o->keep < o->n && o->keep <= SN_SORT_PART / 4) select_and_sort(o);
    else if (o->n <= limit && !leaves_idle(o)) sn_sort_blocks(o, NULL, sn_pow2_ceil(o->n), NULL);
    else sort_and_merge(o, part_of(o, limit));
}

sn_status sn_lower_sort(sn_lower *lw, sn_nd x, const sn_buf out[2]) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    bool top = n->op == SN_OP_TOPK;
    sn_order o = {
        .rows = 1, .lw = lw, .m = m, .x = n->in[0], .type = &sn_node_get(m, n->in[0])->type, .out = {out[0], out[1]}};
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0), size;
    o.axis = (uint32_t)(axis < 0 ? axis + o.type->rank : axis);
    for (uint32_t k = 0; k < o.type->rank; k++) {
        if (!sn_ix_is_const(m, o.type->shape[k], &size))
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                           "%s: a size of its operand is symbolic (--dim NAME=SIZE binds it)", sn_ops[n->op].name);
        if (k != o.axis) o.rows *= size;
    }
    o.n = sn_ix_value(m, o.type->shape[o.axis]);
    o.keep = top ? sn_node_int(m, x, SN_ATTR_K, 0) : o.n;
    o.descending = top ? sn_node_int(m, x, SN_ATTR_LARGEST, 1) : sn_node_int(m, x, SN_ATTR_DESCENDING, 0);
    o.place = o.n <= INT32_MAX ? SN_I32 : SN_I64;
    o.wide = sn_dtype_bytes(o.type->dtype) == 8 || o.n > UINT32_MAX;
    if (is_empty(&o)) store_nothing(&o);
    else sort_rows(&o);
    return m->env->status;
}
