/* sort_block.c: a kernel in which every block sorts rows, or parts of rows, in its shared memory.
 *
 * The elements of a block are lines of 32 words. A thread owns a line at one time and a column of 32 lines at another,
 * 32 words in registers in both cases, and does there what steps of a bitonic network lie inside its line or its
 * column:
 *
 *     line 0   | w0  w1  ... w31 |   steps over 16, 8, 4, 2, 1 words: thread 0
 *     line 1   | w32 w33 ... w63 |                                    thread 1
 *       ...       |   |       |
 *     line 31  |  ...            |   steps over 1, 2, 4, 8, 16 lines: lane 0, lane 1, ... lane 31
 *
 * A run that goes up and one that goes down behind it become one by steps over half of both, a quarter, ... Runs that
 * have to go down are sorted upwards too, as the complements of their words. 4096 elements: a network in registers
 * sorts the lines, seven merges follow, each with one or two visits of columns and one of lines; they are a loop, for
 * the sake of the size of the code. Behind each line of words 16 bytes are empty, so that lanes with 16 bytes each of
 * their lines meet in no bank. Runs shorter than a block stand side by side and need no code.
 *
 * Words are i32: bits of the key over the position in the run, so that a step is a minimum and a maximum and the sort
 * stable. Keys that are longer are sorted digit by digit, the least one first:
 *
 *     f32, runs of 4096:   word = 20 low bits of the key | place        places[rank] = place of the word
 *                          word = 12 high bits of the key | rank        places[rank] = places[rank of the word]
 *
 * What is beyond the end of a run is the largest word. In the end ranks know their places, and with them the values in
 * `row`, a copy of the elements that is read from memory once.
 *
 * The kernel is scheduled as it is made: grid, block.x; the pass `sync` puts the barriers. Cost: for n elements
 * log2(n)^2 / 4 comparisons an element and digit, (log2(n) - 5) * 2 to 3 passages through shared memory.
 */
#include "passes/lower/order.h"

enum { LINE = 32, LINE_BITS = 5, WORD_BITS = 32, PITCH = LINE + 4, WIDE = 16 /* bytes */ };

typedef struct block {
    sn_order *o;
    sn_lower *lw;
    sn_module *m;
    const sn_runs *from, *to;
    int64_t count, parts; /* elements of a row; parts that it is cut into */
    int64_t length;       /* elements of a part, with what is beyond its end */
    int64_t keep;         /* of a part */
    int64_t all, side;    /* elements of the block; parts in it */
    int64_t threads;
    uint32_t bits;             /* of a place: length = 2^bits */
    uint32_t key_bits, drop;   /* bits of a key that differ, and bits below them */
    uint32_t digits, digit;    /* words that a key needs; bits of the key in each */
    bool across;               /* neighbours in memory are of different rows */
    sn_buf row, words, places; /* shared; places: of several digits */
    sn_buf held;               /* registers: a line or a column of words */
    sn_ix g;                   /* block */
    sn_ix d;                   /* digit */
} block;

/* ---- small pieces ---- */

static sn_val op(block *b, sn_lop lop, sn_val x, sn_val y) { return sn_put_op2(b->m, b->lw->at, lop, x, y); }
static sn_val integer(block *b, sn_dtype t, int64_t x) { return sn_put_const_int(b->m, b->lw->at, t, x); }
static sn_val number(block *b, sn_ix e) { return sn_put_index(b->m, b->lw->at, SN_I32, e); }
static sn_ix plus(block *b, sn_ix x, sn_ix y) { return sn_ix_add(b->m, x, y); }
static sn_ix times(block *b, sn_ix x, int64_t c) { return sn_ix_scale(b->m, x, c); }

/* A loop at lw->at, which moves inside; none when there is one iteration. Returns its axis. */
static sn_ix open_loop(block *b, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_open_loop(b->m, &b->lw->at, name, extent, kind);
}

static sn_ix open_threads(block *b) { return open_loop(b, "x", b->threads, SN_AXIS_BLOCK_X); }

/* Offset of word `at` of a line in shared memory. */
static sn_ix in_line(block *b, sn_ix line, sn_ix at) { return plus(b, times(b, line, PITCH), at); }

static sn_ix in_register(block *b, sn_ix x, sn_ix e) { return plus(b, times(b, x, LINE), e); }

/* Elements of 16 bytes. */
static int64_t wide(sn_dtype t) { return WIDE / sn_dtype_bytes(t); }

static int64_t pow2_divisor(int64_t x) { return x & -x; }

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* ---- which row, which part ---- */

/* Place e of part number `part` of the block: where it is in its row. Sets the index of the row and adds the tests that
 * it is in one to *mask. */
static sn_ix in_row(block *b, sn_ix part, sn_ix e, int64_t per_part, int64_t count, sn_val *mask) {
    sn_module *m = b->m;
    sn_order *o = b->o;
    sn_ix extents[SN_MAX_RANK], at[SN_MAX_RANK];
    uint32_t n = 0;
    part = plus(b, times(b, b->g, b->side), part);
    sn_lower_guard(b->lw, mask, part, sn_ix_const(m, o->rows * b->parts));
    sn_ix row = sn_ix_divc(m, part, b->parts), first = times(b, sn_ix_modc(m, part, b->parts), per_part);
    for (uint32_t k = 0; k < o->type->rank; k++)
        if (k != o->axis) extents[n++] = o->type->shape[k];
    sn_ix_unflatten(m, row, extents, n, at);
    for (uint32_t k = o->type->rank; k-- > 0;)
        if (k != o->axis) o->index[k] = at[--n];
    o->row = row;
    e = plus(b, first, e);
    sn_lower_guard(b->lw, mask, e, sn_ix_const(m, count));
    return e;
}

/* Element e of the block, or rank e of what is kept of `size` elements a part, as loops over the threads walk it: its
 * part, and the place in that. */
static sn_ix split(block *b, sn_ix *part, sn_ix e, int64_t size) {
    *part = b->across ? sn_ix_modc(b->m, e, b->side) : sn_ix_divc(b->m, e, size);
    return b->across ? sn_ix_divc(b->m, e, b->side) : sn_ix_modc(b->m, e, size);
}

/* ---- from memory, and back ---- */

/* As it lies in memory: halves were widened behind the load. */
static sn_val as_stored(block *b, sn_val x) {
    sn_dtype t = b->o->type->dtype;
    const sn_stmt_rec *r = sn_stmt_get(b->m, sn_val_get(b->m, x)->def);
    bool widened = r->op == SN_LOP_CAST && sn_val_get(b->m, r->in[0])->dtype == t;
    return widened ? r->in[0] : sn_put_cast(b->m, b->lw->at, t, x);
}

/* The place in the row of element e of the list that is sorted. */
static sn_ix place_in_row(block *b, sn_ix e, sn_val mask) {
    if (!b->from) return e;
    sn_ix at = plus(b, times(b, b->o->row, b->count), e);
    sn_val zero = integer(b, b->o->place, 0);
    sn_val p = mask.i ? sn_put_load_masked(b->m, b->lw->at, b->from->places, at, mask, zero)
                      : sn_put_load(b->m, b->lw->at, b->from->places, at);
    return sn_order_bounded(b->o, p, b->o->n - 1);
}

static void put_load(block *b) {
    sn_dtype t = b->o->type->dtype;
    int64_t v = b->from || b->across ? 1 : least(wide(t), pow2_divisor(b->count));
    sn_val mask = {0};
    sn_ix part, x = open_threads(b), u = open_loop(b, "u", LINE / v, SN_AXIS_UNROLL);
    sn_ix lane = open_loop(b, "v", v, SN_AXIS_VECTOR);
    sn_ix f = plus(b, times(b, plus(b, times(b, u, b->threads), x), v), lane), at = split(b, &part, f, b->length);
    sn_ix e = in_row(b, part, at, b->length, b->count, &mask);
    b->lw->mask = mask;
    sn_val value = as_stored(b, sn_order_element(b->o, place_in_row(b, e, mask)));
    b->lw->mask = (sn_val){0};
    sn_put_store(b->m, b->lw->at, b->row, plus(b, times(b, part, b->length), at), value);
}

/* Ranks know their places: what is kept of each part goes to memory. */
static void put_results(block *b) {
    sn_order *o = b->o;
    int64_t ranks = sn_pow2_ceil(b->keep), all = ranks * b->side, v = b->across ? 1 : least(4, pow2_divisor(b->keep));
    while (v > 1 && v * b->threads > all) v /= 2;
    int64_t steps = all / (b->threads * v);
    sn_val mask = {0};
    sn_ix part, x = open_threads(b), u = open_loop(b, "u", steps ? steps : 1, SN_AXIS_UNROLL);
    sn_lower_guard(b->lw, &mask, x, sn_ix_const(b->m, all));
    sn_ix lane = open_loop(b, "v", v, SN_AXIS_VECTOR);
    sn_ix f = plus(b, times(b, plus(b, times(b, u, b->threads), x), v), lane);
    if (!steps) f = sn_ix_modc(b->m, f, all);
    sn_ix rank = split(b, &part, f, ranks), base = times(b, part, b->length);
    if (b->to) sn_lower_guard(b->lw, &mask, rank, sn_ix_const(b->m, b->keep));
    sn_ix e = in_row(b, part, rank, b->keep, b->to ? b->to->count : b->keep, &mask);
    sn_ix at = plus(b, base, rank);
    sn_val found = b->digits > 1 ? sn_put_load(b->m, b->lw->at, b->places, at)
                                 : sn_put_load(b->m, b->lw->at, b->words,
                                               in_line(b, sn_ix_divc(b->m, at, LINE), sn_ix_modc(b->m, at, LINE)));
    sn_ix place = sn_ix_modc(b->m, sn_ix_val(b->m, found), b->length);
    sn_val value = sn_put_load(b->m, b->lw->at, b->row, plus(b, base, place));
    sn_ix first = times(b, sn_ix_modc(b->m, plus(b, times(b, b->g, b->side), part), b->parts), b->length);
    place = place_in_row(b, plus(b, first, place), mask);
    if (!b->to) {
        sn_order_store_result(o, rank, value, sn_put_index(b->m, b->lw->at, o->place, place), mask);
        return;
    }
    sn_ix to = plus(b, times(b, o->row, b->to->count), e);
    sn_val item = sn_put_cast(b->m, b->lw->at, sn_compute_dtype(o->type->dtype), value);
    if (b->to->keys.i) sn_order_store(o, b->to->keys, to, sn_order_item(o, item, place), mask);
    if (b->to->places.i) sn_order_store(o, b->to->places, to, sn_put_index(b->m, b->lw->at, o->place, place), mask);
}

/* ---- words ---- */

/* Move a line between shared memory and the registers of its thread. */
static void put_line(block *b, sn_ix x, sn_buf shared, bool load) {
    sn_cursor outside = b->lw->at;
    int64_t v = wide(sn_buf_get(b->m, shared)->dtype);
    sn_ix q = open_loop(b, "q", LINE / v, SN_AXIS_UNROLL), lane = open_loop(b, "v", v, SN_AXIS_VECTOR);
    sn_ix at = plus(b, times(b, q, v), lane), r = in_register(b, x, at), s = r;
    if (sn_buf_eq(shared, b->words)) s = in_line(b, x, at);
    sn_buf from = load ? shared : b->held, to = load ? b->held : shared;
    sn_val word = sn_put_load(b->m, b->lw->at, from, load ? s : r);
    sn_put_store(b->m, b->lw->at, to, load ? r : s, sn_put_cast(b->m, b->lw->at, sn_buf_get(b->m, to)->dtype, word));
    b->lw->at = outside;
}

/* Bits of the key over the place. The sign of a digit in the middle means nothing: it is turned, so that i32 compare
 * right. */
static sn_val word_of(block *b, sn_val key, sn_ix place) {
    sn_module *m = b->m;
    sn_dtype t = sn_val_get(m, key)->dtype;
    sn_val at = number(b, place), bits = integer(b, SN_I32, b->bits);
    if (b->digits == 1) {
        key = sn_put_cast(m, b->lw->at, SN_I32, op(b, SN_LOP_SHR, key, integer(b, t, b->drop)));
        return op(b, SN_LOP_OR, op(b, SN_LOP_SHL, key, bits), at);
    }
    int64_t sign = t == SN_I64 ? INT64_MIN : INT32_MIN;
    sn_val by = sn_put_index(m, b->lw->at, t, plus(b, times(b, b->d, b->digit), sn_ix_const(m, b->drop)));
    key = op(b, SN_LOP_SHR, op(b, SN_LOP_XOR, key, integer(b, t, sign)), by);
    key = op(b, SN_LOP_SHL, sn_put_cast(m, b->lw->at, SN_I32, key), bits);
    return op(b, SN_LOP_XOR, op(b, SN_LOP_OR, key, at), integer(b, SN_I32, INT32_MIN));
}

/* The words of the line of thread x, into its registers. */
static void put_words(block *b, sn_ix x) {
    sn_module *m = b->m;
    sn_cursor outside = b->lw->at;
    sn_dtype t = b->o->type->dtype;
    int64_t v = b->digits > 1 ? wide(SN_I32) : wide(t);
    sn_ix q = open_loop(b, "q", LINE / v, SN_AXIS_UNROLL), lane = open_loop(b, "v", v, SN_AXIS_VECTOR);
    sn_ix at = plus(b, times(b, q, v), lane), f = in_register(b, x, at);
    sn_ix part = sn_ix_divc(m, f, b->length), rank = sn_ix_modc(m, f, b->length), from = f;
    if (b->digits > 1) {
        sn_val place = sn_put_load(m, b->lw->at, b->places, f);
        from = plus(b, times(b, part, b->length), sn_ix_modc(m, sn_ix_val(m, place), b->length));
    }
    sn_val mask = {0}, value = sn_put_load(m, b->lw->at, b->row, from);
    value = sn_put_cast(m, b->lw->at, sn_compute_dtype(t), value);
    sn_val word = word_of(b, sn_order_key(b->o, value), rank);
    in_row(b, part, rank, b->length, b->count, &mask);
    if (mask.i) word = sn_put_op3(m, b->lw->at, SN_LOP_SELECT, mask, word, integer(b, SN_I32, INT32_MAX));
    sn_put_store(m, b->lw->at, b->held, f, word);
    b->lw->at = outside;
}

/* ---- the network ---- */

/* The smaller word to the first register, the larger one to the second. */
static void put_exchange(block *b, sn_ix x, sn_ix first, sn_ix second) {
    first = in_register(b, x, first), second = in_register(b, x, second);
    sn_val p = sn_put_load(b->m, b->lw->at, b->held, first), q = sn_put_load(b->m, b->lw->at, b->held, second);
    sn_put_store(b->m, b->lw->at, b->held, first, op(b, SN_LOP_MIN, p, q));
    sn_put_store(b->m, b->lw->at, b->held, second, op(b, SN_LOP_MAX, p, q));
}

/* Exchanges over `distance` registers. */
static void put_step(block *b, sn_ix x, int64_t distance) {
    sn_cursor outside = b->lw->at;
    sn_ix h = open_loop(b, "h", LINE / (2 * distance), SN_AXIS_UNROLL), i = open_loop(b, "i", distance, SN_AXIS_UNROLL);
    sn_ix first = plus(b, times(b, h, 2 * distance), i);
    put_exchange(b, x, first, sn_ix_addc(b->m, first, distance));
    b->lw->at = outside;
}

/* Steps over `distance` registers, half of that, ... 1. */
static void put_steps(block *b, sn_ix x, int64_t distance) {
    for (; distance; distance /= 2) put_step(b, x, distance);
}

/* Batcher's odd-even merge sort of runs of `length` registers: a fifth fewer exchanges than the bitonic network. Runs
 * of p are merged by exchanges over p, and then over k = p/2 ... 1 between the odd and the even groups of k that follow
 * them. */
static void put_line_sort(block *b, sn_ix x, int64_t length) {
    for (int64_t p = 1; p < length; p *= 2) {
        put_step(b, x, p);
        for (int64_t k = p / 2; k; k /= 2) {
            sn_cursor outside = b->lw->at;
            sn_ix h = open_loop(b, "h", LINE / (2 * p), SN_AXIS_UNROLL);
            sn_ix j = open_loop(b, "j", p / k - 1, SN_AXIS_UNROLL), i = open_loop(b, "i", k, SN_AXIS_UNROLL);
            sn_ix first = plus(b, plus(b, times(b, h, 2 * p), times(b, j, 2 * k)), sn_ix_addc(b->m, i, k));
            put_exchange(b, x, first, sn_ix_addc(b->m, first, k));
            b->lw->at = outside;
        }
    }
}

/* Words of the line become their complements where `bit` is 1, which turns their order round. A product, since minima
 * and maxima keep the pipe of logical operations busy. */
static void put_turn(block *b, sn_ix x, sn_val bit) {
    sn_cursor outside = b->lw->at;
    sn_val sign = op(b, SN_LOP_SUB, integer(b, SN_I32, 1), op(b, SN_LOP_ADD, bit, bit));
    sn_ix at = in_register(b, x, open_loop(b, "e", LINE, SN_AXIS_UNROLL));
    sn_val word = op(b, SN_LOP_MUL, sn_put_load(b->m, b->lw->at, b->held, at), sign);
    sn_put_store(b->m, b->lw->at, b->held, at, op(b, SN_LOP_SUB, word, bit));
    b->lw->at = outside;
}

/* Bit number e of the line of thread x, counted in its part. */
static sn_val bit_of_line(block *b, sn_ix x, sn_ix e) {
    sn_val line = number(b, sn_ix_modc(b->m, x, b->length / LINE));
    return op(b, SN_LOP_AND, op(b, SN_LOP_SHR, line, number(b, e)), integer(b, SN_I32, 1));
}

/* Are an odd number of them 1? So often the line is turned from now on, and in the end it must be as it was. */
static sn_val odd_bits_of_line(block *b, sn_ix x) {
    sn_val all = number(b, sn_ix_modc(b->m, x, b->length / LINE));
    for (int64_t half = WORD_BITS / 2; half; half /= 2)
        if (b->length / LINE > (int64_t)1 << half)
            all = op(b, SN_LOP_XOR, all, op(b, SN_LOP_SHR, all, integer(b, SN_I32, half)));
    return op(b, SN_LOP_AND, all, integer(b, SN_I32, 1));
}

/* Move a column between shared memory and the registers of its thread: 32 lines, `apart` lines from one to the next, in
 * a bank for each lane of a warp. */
static void put_column(block *b, sn_ix x, int64_t apart, bool load) {
    sn_module *m = b->m;
    sn_cursor outside = b->lw->at;
    sn_ix lane = sn_ix_modc(m, x, LINE), warp = sn_ix_divc(m, x, LINE), e = open_loop(b, "e", LINE, SN_AXIS_UNROLL);
    sn_ix first = plus(b, times(b, sn_ix_divc(m, warp, apart), LINE * apart), sn_ix_modc(m, warp, apart));
    sn_ix s = in_line(b, plus(b, first, times(b, e, apart)), lane), r = in_register(b, x, e);
    sn_val word = sn_put_load(m, b->lw->at, load ? b->words : b->held, load ? s : r);
    sn_put_store(m, b->lw->at, load ? b->held : b->words, load ? r : s, word);
    b->lw->at = outside;
}

/* The steps of merge `turn` that columns take, if this is the one. */
static void visit_columns(block *b, sn_ix x, sn_ix turn, int64_t which, int64_t apart, int64_t distance) {
    sn_cursor outside = b->lw->at;
    sn_ix other = sn_ix_addc(b->m, turn, -which), one = sn_ix_const(b->m, 1);
    if (!sn_ix_in(b->m, other, one)) b->lw->at = sn_at_end(b->lw->kern, sn_put_if(b->m, outside, other, one));
    put_column(b, x, apart, true);
    put_steps(b, x, distance);
    put_column(b, x, apart, false);
    b->lw->at = outside;
}

/* Lines are sorted; merge number t makes runs of 2^t lines twice as long. Columns of neighbouring lines do for five of
 * them, columns of lines further apart come first for the others. */
static void put_merges(block *b) {
    sn_cursor outside = b->lw->at;
    int64_t merges = b->bits - LINE_BITS;
    sn_ix t = open_loop(b, "t", merges, SN_AXIS_SEQ);
    sn_cursor turn = b->lw->at;
    if (merges > LINE_BITS) {
        sn_ix x = open_threads(b);
        for (int64_t k = LINE_BITS; k < merges; k++) visit_columns(b, x, t, k, 2 << (k - LINE_BITS), LINE / 2);
        b->lw->at = turn;
    }
    sn_ix x = open_threads(b);
    for (int64_t k = 0; k < least(merges, LINE_BITS); k++)
        visit_columns(b, x, sn_ix_modc(b->m, t, LINE_BITS), k, 1, 1 << k);
    b->lw->at = turn;
    x = open_threads(b);
    put_line(b, x, b->words, true);
    put_steps(b, x, LINE / 2);
    put_turn(b, x, bit_of_line(b, x, sn_ix_addc(b->m, t, 1)));
    put_line(b, x, b->words, false);
    b->lw->at = outside;
}

/* The words of the line of thread x are sorted in its registers; and all words in shared memory, if there are more
 * lines. */
static void put_sort(block *b, sn_ix x, sn_cursor outside) {
    bool merges = b->length > LINE;
    if (merges) put_turn(b, x, odd_bits_of_line(b, x));
    put_line_sort(b, x, least(b->length, LINE));
    if (merges) put_turn(b, x, bit_of_line(b, x, sn_ix_const(b->m, 0)));
    if (merges || b->digits == 1) put_line(b, x, b->words, false);
    b->lw->at = outside;
    if (merges) put_merges(b);
}

/* The words of a line know ranks that they had before this digit: they give way to the places of those. */
static void put_look_up(block *b, sn_ix x) {
    sn_ix at = in_register(b, x, open_loop(b, "e", LINE, SN_AXIS_UNROLL));
    sn_ix rank = sn_ix_modc(b->m, sn_ix_val(b->m, sn_put_load(b->m, b->lw->at, b->held, at)), b->length);
    sn_ix part = times(b, sn_ix_divc(b->m, at, b->length), b->length);
    sn_val place = sn_put_load(b->m, b->lw->at, b->places, plus(b, part, rank));
    sn_put_store(b->m, b->lw->at, b->held, at, sn_put_cast(b->m, b->lw->at, SN_I32, place));
}

/* One digit: words are made and sorted; where there are more digits, `places` has the places of the ranks then. */
static void put_digit(block *b) {
    sn_cursor outside = b->lw->at;
    sn_ix x = open_threads(b);
    sn_cursor threads = b->lw->at;
    put_words(b, x);
    put_sort(b, x, outside);
    if (b->digits == 1) return;
    b->lw->at = threads;
    if (b->length > LINE) {
        b->lw->at = outside;
        x = open_threads(b);
        put_line(b, x, b->words, true);
    }
    put_look_up(b, x);
    b->lw->at = outside;
    x = open_threads(b);
    put_line(b, x, b->places, false);
    b->lw->at = outside;
}

/* Before the first digit every element has its own place. */
static void put_places(block *b) {
    sn_cursor outside = b->lw->at;
    int64_t v = wide(SN_I16);
    sn_ix x = open_threads(b), q = open_loop(b, "q", LINE / v, SN_AXIS_UNROLL),
          lane = open_loop(b, "v", v, SN_AXIS_VECTOR);
    sn_ix at = in_register(b, x, plus(b, times(b, q, v), lane)), rank = sn_ix_modc(b->m, at, b->length);
    sn_put_store(b->m, b->lw->at, b->places, at, sn_put_index(b->m, b->lw->at, SN_I16, rank));
    b->lw->at = outside;
}

/* ---- the kernel ---- */

static void count_digits(block *b, sn_dtype t) {
    b->drop = sn_is_narrow(t) ? sn_dtypes[SN_F32].digits - sn_dtypes[t].digits : 0; /* of an f32 */
    b->key_bits = sn_dtype_bytes(sn_compute_dtype(t)) * 8 - b->drop;
    if (sn_is_unsigned(t) && sn_dtype_bytes(t) < 4) b->key_bits++; /* a sign */
    b->bits = (uint32_t)__builtin_ctzll((uint64_t)b->length);
    b->digit = WORD_BITS - b->bits;
    b->digits = (b->key_bits + b->digit - 1) / b->digit;
}

static int64_t shared_bytes(block *b, sn_dtype t) {
    int64_t places = b->digits > 1 ? sn_dtype_bytes(SN_I16) : 0;
    return b->length * (sn_dtype_bytes(t) + places) + b->length / LINE * PITCH * sn_dtype_bytes(SN_I32);
}

int64_t sn_sort_block_limit(sn_order *o) {
    const sn_target *target = o->lw->cx->target;
    int64_t room = target->is_gpu ? target->shared_bytes : SN_SORT_HOST_BYTES;
    for (block b = {.length = SN_SORT_BLOCK_MOST};; b.length /= 2) {
        count_digits(&b, o->type->dtype);
        if (shared_bytes(&b, o->type->dtype) <= room) return b.length;
    }
}

/* Elements of a block: few warps, so that several blocks share a multiprocessor and each waits for its own barriers,
 * but no fewer blocks than keep the machine busy. */
static int64_t elements_of_block(const block *b) {
    enum { FEWEST = LINE * LINE };
    int64_t all = b->length > FEWEST ? b->length : FEWEST, units = b->lw->cx->target->units;
    while (all < SN_SORT_BLOCK && b->o->rows * b->parts * b->length >= 2 * all * SN_SORT_BLOCKS * units) all *= 2;
    return all;
}

/* `elements` of a thread or a block. */
static sn_buf new_local(block *b, const char *name, sn_dtype t, sn_buf_scope scope, int64_t elements) {
    const char *full = sn_strf(&b->m->arena, "%s_%s", sn_kern_get(b->m, b->lw->kern)->name, name);
    return sn_local_new(b->m, full, t, scope, elements, scope == SN_BUF_REG ? b->threads : 1);
}

void sn_sort_blocks(sn_order *o, const sn_runs *from, int64_t length, const sn_runs *to) {
    block b = {.o = o, .lw = o->lw, .m = o->m, .from = from, .to = to, .length = length};
    sn_dtype t = o->type->dtype;
    b.count = from ? from->count : o->n;
    b.parts = sn_ceil_div(b.count, length);
    b.keep = to ? to->length : o->keep;
    count_digits(&b, t);
    b.all = elements_of_block(&b);
    b.side = b.all / length;
    b.threads = b.all / LINE;
    b.across = o->axis + 1 < o->type->rank && b.side > 1 && b.parts == 1;
    sn_lower_begin(o->lw);
    b.row = new_local(&b, "row", t, SN_BUF_SHARED, b.all);
    b.words = new_local(&b, "words", SN_I32, SN_BUF_SHARED, b.threads * PITCH);
    if (b.digits > 1) b.places = new_local(&b, "places", SN_I16, SN_BUF_SHARED, b.all);
    b.held = new_local(&b, "held", SN_I32, SN_BUF_REG, LINE);
    b.g = open_loop(&b, "g", sn_ceil_div(o->rows * b.parts, b.side), SN_AXIS_GRID);
    sn_cursor body = o->lw->at;
    put_load(&b);
    o->lw->at = body;
    if (b.digits > 1) {
        put_places(&b);
        b.d = open_loop(&b, "d", b.digits, SN_AXIS_SEQ);
    }
    put_digit(&b);
    o->lw->at = body;
    put_results(&b);
    sn_kern_get(o->m, o->lw->kern)->scheduled = true;
    sn_lower_end(o->lw, b.parts > 1 ? "sort parts" : "sort");
}
