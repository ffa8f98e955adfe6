/* sort_radix.c: sort and topk on a CPU, by the digits of the keys. Part of the pass `to-loops`.
 *
 *     %t = sort %x axis=1 : f32[3, 1000000]       three digits, the low one first; two parts of a row for two threads
 *
 *     loop g in 6 : grid {                                         a part
 *       count[2048] = 0
 *       loop i in 500000 { count[digit of item i] += 1 }
 *       counts[g] = count }
 *     loop g in 6 : grid {
 *       start[d] = all of the row's items with lower digits, and those of parts before this one with digit d
 *       loop i in 500000 { to[start[digit of item i]++] = item i } }
 *     .. and so on for each digit, from to to from; the last one stores results
 *
 * A pass keeps the order of items whose digits are equal, so that in the end the order is that of all digits, and equal
 * keys stand as they stood. What moves is an i64 of 32 bits of key and 32 bits of position (order.c); where nobody asks
 * for positions and the element has 32 bits or is an integer of fewer, its own bits instead, so that the result need
 * not be looked up. Keys of 64 bits have their positions beside them. Kernels are scheduled as they are made. Digits
 * that are alike in all keys of a dtype are left out.
 *
 * Cost: two readings and one writing of 8 bytes an element and digit, to as many places at a time as a digit has values (256, in long
 * rows 2048); for each part as many sums a digit.
 */
#include "passes/lower/order.h"

enum { LANES = 16 };

typedef struct radix {
    sn_order *o;
    sn_lower *lw;
    sn_module *m;
    int64_t parts, part; /* of a row; elements of one */
    uint32_t low, high;  /* bits that differ */
    uint32_t width;      /* bits of a digit */
    bool is_signed;      /* the upper bit is a sign */
    bool bits;           /* items have bits of the elements, and no positions */
    sn_runs from, to;    /* no keys: x itself, the result */
    sn_buf counts;
    sn_ix g, place; /* part of all rows; the position of the item at hand in its row */
} radix;

static sn_val op(radix *r, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(r->m, r->lw->at, lop, a, b); }

static sn_val integer(radix *r, sn_dtype t, int64_t x) { return sn_put_const_int(r->m, r->lw->at, t, x); }

static sn_ix open(radix *r, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_open_loop(r->m, &r->lw->at, name, extent, kind);
}

static sn_ix in_row(radix *r, sn_ix e) { return sn_ix_add(r->m, sn_ix_scale(r->m, r->o->row, r->o->n), e); }

/* ---- items ---- */

typedef struct item {
    sn_val key, place; /* place: of wide keys */
} item;

static item item_of_x(radix *r) {
    sn_order *o = r->o;
    sn_val x = sn_order_element(o, r->place);
    item it = {.key = sn_order_item(o, x, r->place)};
    if (o->wide) it.place = sn_put_index(r->m, r->lw->at, o->place, r->place);
    if (!r->bits) return it;
    sn_val own = sn_is_float(o->type->dtype) ? sn_put_bitcast(r->m, r->lw->at, SN_I32, x) : x;
    own = op(r, SN_LOP_AND, sn_put_cast(r->m, r->lw->at, SN_I64, own), integer(r, SN_I64, UINT32_MAX));
    sn_val key = op(r, SN_LOP_AND, it.key, integer(r, SN_I64, -1 - (int64_t)UINT32_MAX));
    it.key = op(r, SN_LOP_OR, key, own);
    return it;
}

/* The item at r->place. */
static item item_at(radix *r, bool with_place) {
    if (!r->from.keys.i) return item_of_x(r);
    item it = {.key = sn_put_load(r->m, r->lw->at, r->from.keys, in_row(r, r->place))};
    if (r->o->wide && with_place) it.place = sn_put_load(r->m, r->lw->at, r->from.places, in_row(r, r->place));
    return it;
}

static uint32_t digits_of(const radix *r) { return (uint32_t)sn_ceil_div(r->high - r->low, r->width); }

static int64_t values_of(const radix *r) { return (int64_t)1 << r->width; }

static sn_ix digit_of(radix *r, sn_val key, uint32_t digit) {
    uint32_t from = r->low + digit * r->width, bits = r->high - from < r->width ? r->high - from : r->width;
    sn_val d = op(r, SN_LOP_SHR, key, integer(r, SN_I64, from + (r->o->wide ? 0 : 32)));
    d = op(r, SN_LOP_AND, d, integer(r, SN_I64, ((int64_t)1 << bits) - 1));
    if (from + bits == r->high && r->is_signed) d = op(r, SN_LOP_XOR, d, integer(r, SN_I64, (int64_t)1 << (bits - 1)));
    return sn_ix_modc(r->m, sn_ix_val(r->m, d), values_of(r));
}

/* The item's place in the result is `rank`. */
static void store_result(radix *r, item it, sn_val rank) {
    sn_order *o = r->o;
    sn_cursor at = r->lw->at;
    sn_val mask = {0}, place = it.place, x;
    if (o->keep < o->n) mask = op(r, SN_LOP_LT, rank, integer(r, o->place, o->keep));
    sn_val low = o->wide ? place : op(r, SN_LOP_AND, it.key, integer(r, SN_I64, UINT32_MAX));
    if (r->bits) {
        sn_dtype t = sn_compute_dtype(o->type->dtype);
        x = sn_put_cast(r->m, at, sn_is_float(t) ? SN_I32 : t, low);
        if (sn_is_float(t)) x = sn_put_bitcast(r->m, at, t, x);
    } else {
        place = sn_put_cast(r->m, at, o->place, low);
        x = sn_order_element(o, sn_order_bounded(o, place, o->n - 1));
    }
    sn_order_store_result(o, sn_order_bounded(o, rank, o->keep - 1), x, place, mask);
}

static void store_item(radix *r, item it, sn_val rank) {
    if (!r->to.keys.i) {
        store_result(r, it, rank);
        return;
    }
    sn_ix e = in_row(r, sn_order_bounded(r->o, rank, r->o->n - 1));
    sn_order_store(r->o, r->to.keys, e, it.key, (sn_val){0});
    if (r->o->wide) sn_order_store(r->o, r->to.places, e, it.place, (sn_val){0});
}

/* ---- kernels ---- */

static sn_buf new_local(radix *r, const char *name, int64_t elements) {
    const char *kernel = sn_kern_get(r->m, r->lw->kern)->name;
    return sn_local_new(r->m, sn_strf(&r->m->arena, "%s_%s", kernel, name), r->o->place, SN_BUF_SHARED, elements, 1);
}

static sn_ix open_digits(radix *r) {
    sn_ix w = open(r, "w", values_of(r) / LANES, SN_AXIS_SEQ), v = open(r, "v", LANES, SN_AXIS_VECTOR);
    return sn_ix_add(r->m, sn_ix_scale(r->m, w, LANES), v);
}

/* The items of the part, one after the other. */
static void open_items(radix *r) {
    sn_ix i = open(r, "i", r->part, SN_AXIS_SEQ), n = sn_ix_const(r->m, r->o->n);
    r->place = sn_ix_add(r->m, sn_ix_scale(r->m, sn_ix_modc(r->m, r->g, r->parts), r->part), i);
    if (r->parts * r->part == r->o->n) return;
    sn_stmt inside = sn_put_if(r->m, r->lw->at, r->place, n);
    r->lw->at = sn_at_end(r->lw->kern, inside);
}

/* What element e of the buffer has, which is one more from now on. */
static sn_val count_up(radix *r, sn_buf b, sn_ix e) {
    sn_val was = sn_put_load(r->m, r->lw->at, b, e);
    sn_put_store(r->m, r->lw->at, b, e, op(r, SN_LOP_ADD, was, integer(r, r->o->place, 1)));
    return was;
}

static void count_kernel(radix *r, uint32_t digit) {
    r->g = sn_order_open_grid(r->o, r->parts);
    sn_buf count = new_local(r, "count", values_of(r));
    sn_cursor body = r->lw->at;
    sn_ix d = open_digits(r);
    sn_put_store(r->m, r->lw->at, count, d, integer(r, r->o->place, 0));
    r->lw->at = body;
    open_items(r);
    count_up(r, count, digit_of(r, item_at(r, false).key, digit));
    r->lw->at = body;
    d = open_digits(r);
    sn_val v = sn_put_load(r->m, r->lw->at, count, d);
    sn_put_store(r->m, r->lw->at, r->counts, sn_ix_add(r->m, sn_ix_scale(r->m, r->g, values_of(r)), d), v);
    r->lw->at = body;
    sn_lower_end(r->lw, "sort digits");
}

typedef struct parts_of {
    radix *r;
    sn_ix digit;
    bool before; /* those in front of this one alone */
} parts_of;

static void emit_count(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const parts_of *p = user;
    radix *r = p->r;
    sn_module *m = r->m;
    sn_ix part = sn_ix_add(m, sn_ix_scale(m, r->o->row, r->parts), index[0]);
    sn_val v = sn_put_load(m, lw->at, r->counts, sn_ix_add(m, sn_ix_scale(m, part, values_of(r)), p->digit));
    yield[0] = v;
    if (!p->before) return;
    sn_val in = sn_put_in(m, lw->at, index[0], sn_ix_modc(m, r->g, r->parts));
    yield[0] = sn_put_op3(m, lw->at, SN_LOP_SELECT, in, v, integer(r, r->o->place, 0));
}

static sn_val sum_of(radix *r, sn_ix digit, bool before) {
    parts_of p = {r, digit, before};
    sn_ix parts = sn_ix_const(r->m, r->parts);
    sn_dtype t = r->o->place;
    sn_val sum;
    sn_lower_reduce_nest(r->lw, &sum, SN_COMB_SUM, 1, &t, &parts, 1, emit_count, &p);
    return sum;
}

/* Where the part's items of each digit begin. */
static void put_starts(radix *r, sn_buf start, sn_buf lower) {
    sn_cursor body = r->lw->at;
    sn_ix zero = sn_ix_const(r->m, 0), d;
    sn_put_store(r->m, body, lower, zero, integer(r, r->o->place, 0));
    d = open(r, "d", values_of(r), SN_AXIS_SEQ);
    sn_val before = sum_of(r, d, true), all = sum_of(r, d, false);
    sn_val sum = sn_put_load(r->m, r->lw->at, lower, zero);
    sn_put_store(r->m, r->lw->at, start, d, op(r, SN_LOP_ADD, sum, before));
    sn_put_store(r->m, r->lw->at, lower, zero, op(r, SN_LOP_ADD, sum, all));
    r->lw->at = body;
}

static void move_kernel(radix *r, uint32_t digit) {
    r->g = sn_order_open_grid(r->o, r->parts);
    sn_buf start = new_local(r, "start", values_of(r)), lower = new_local(r, "lower", 1);
    sn_cursor body = r->lw->at;
    put_starts(r, start, lower);
    open_items(r);
    item it = item_at(r, true);
    store_item(r, it, count_up(r, start, digit_of(r, it.key, digit)));
    r->lw->at = body;
    sn_lower_end(r->lw, "sort moves");
}

/* ---- all of it ---- */

static sn_runs new_items(radix *r) {
    sn_order *o = r->o;
    sn_runs items = {.count = o->n, .length = o->n};
    sn_type t = {.dtype = SN_I64, .rank = 2, .shape = {sn_ix_const(r->m, o->rows), sn_ix_const(r->m, o->n)}};
    items.keys = sn_lower_temp(r->lw, &t);
    t.dtype = o->place;
    if (o->wide) items.places = sn_lower_temp(r->lw, &t);
    return items;
}

/* Of keys (order.c) that halves become as floats of 32 bits the lower digits are alike, or say what the sign does; integers of few bits
 * have them all in the lower ones, and so have integers of which it is known (range.c). Long rows have fewer and longer digits. */
static void find_digits(radix *r) {
    sn_dtype t = r->o->type->dtype;
    uint32_t bits = 8 * sn_dtype_bytes(t);
    r->high = sn_is_float(t) && bits < 32 ? 32 : bits;
    r->low = t == SN_BF16 ? 16 : t == SN_F16 ? 8 : 0;
    r->is_signed = t != SN_U8 && t != SN_U16 && t != SN_BOOL;
    uint32_t known = sn_is_float(t) || bits < 32 ? bits : sn_lower_bits(r->o->lw, r->o->x);
    if (known < bits) r->high = known, r->is_signed = false;
    r->bits = !r->o->out[1].i && !r->o->wide && (t == SN_F32 || !sn_is_float(t));
    r->width =
        r->o->n >= SN_RADIX_LONG_ROW && r->high - r->low > 2 * SN_RADIX_DIGIT ? SN_RADIX_LONG_DIGIT : SN_RADIX_DIGIT;
}

bool sn_sort_takes_radix(sn_order *o, int64_t steps) {
    radix r = {.o = o};
    find_digits(&r);
    return o->n * steps > digits_of(&r) * (SN_RADIX_MOVED * o->n + SN_RADIX_COUNTED);
}

void sn_sort_radix(sn_order *o) {
    radix r = {.o = o, .lw = o->lw, .m = o->m};
    int64_t units = o->lw->cx->target->units;
    find_digits(&r);
    r.parts = o->rows >= units ? 1 : sn_ceil_div(units, o->rows);
    if (r.parts > o->n / SN_RADIX_PART) r.parts = o->n / SN_RADIX_PART ? o->n / SN_RADIX_PART : 1;
    r.part = sn_ceil_div(o->n, r.parts);
    sn_type t = {.dtype = o->place, .rank = 2};
    t.shape[0] = sn_ix_const(o->m, o->rows * r.parts);
    t.shape[1] = sn_ix_const(o->m, values_of(&r));
    r.counts = sn_lower_temp(o->lw, &t);
    for (uint32_t d = 0, n = digits_of(&r); d < n; d++) {
        r.to = d + 1 < n ? new_items(&r) : (sn_runs){0};
        count_kernel(&r, d);
        move_kernel(&r, d);
        r.from = r.to;
    }
}
