/* attend_order.c: which block has which tile of rows of attention, and when.
 *
 * Tiles are numbered: batches whose keys and values stay in the cache together are a group, of `down` tiles of rows each; in a
 * group come first those with most keys, of all its batches, so that short ones are left at the end. Blocks that do one
 * tile are given out by the device in this order. Of persistent ones block g has, of `units`, in turn w
 *
 *     in order   number units*w + g
 *     in pairs   turns 2*p and 2*p + 1: number s of a group and number n - 1 - s, the pair being number units*p + g
 *
 * Where a mask cuts keys off, the first tile of a group is as much longer than the mean as the last one is shorter, so that pairs are
 * all of one length, and blocks end together. In order, a group is dealt out anew for each turn, and some block gets the longest tile
 * of each.
 *
 * Pairs that are left for the last turns, r of them, may be too few for half of the blocks. Then twice as many blocks have one tile
 * each, number n/2 - r and those behind it of the last group: the middle ones, which are about half as long as a pair.
 */
#include "passes/schedule/attention/attend.h"

int64_t sn_attend_tiles_at(const sn_attend *a, const sn_sched *sc, int64_t row) {
    sn_attend of = *a;
    sn_ix first, number, zero = sn_ix_const(a->m, 0);
    sn_attend_tiles(&first, &number, &of, sc, zero, sn_ix_const(a->m, row));
    return sn_ix_range(a->m, number).hi;
}

/* Products of a batch whose keys and values stay in the cache together. */
static int64_t at_once(const sn_attend *a, const sn_sched *sc) {
    const sn_contraction *c = &a->c;
    int64_t bytes = c->k * (a->depth + c->n) * sn_dtype_bytes(sn_stmt_get(a->m, a->key)->dtype);
    int64_t n = (int64_t)a->cx->target->cache_bytes / (sc->persistent ? 8 : 2) / (bytes ? bytes : 1);
    if (n > c->batch) n = c->batch;
    while (n > 1 && c->batch % n) n--;
    return n > 1 ? n : 1;
}

/* Pairs that are left for the last turns, where each of their tiles gets a block of its own; 0: they are done as pairs. */
static int64_t left_of(const sn_attend_order *o) {
    int64_t n = o->group * o->down, left = o->all / 2 % o->blocks;
    return o->pairs && 2 * left <= o->blocks && 2 * left <= n ? left : 0;
}

static int64_t turns_of(const sn_attend_order *o, int64_t g) {
    int64_t each = o->pairs ? 2 : 1;
    if (o->left) return o->all / 2 / o->blocks * 2 + (g < 2 * o->left ? 1 : 0);
    return ((o->all / each - 1 - g) / o->blocks + 1) * each;
}

/* Number in its group of the tile that block g has in that turn. */
static int64_t number_of(const sn_attend_order *o, int64_t turn, int64_t g) {
    int64_t n = o->group * o->down, pair = o->blocks * (turn / 2) + g;
    if (!o->pairs) return (o->blocks * turn + g) % n;
    int64_t s = pair < o->all / 2 ? pair % (n / 2) : pair - (o->all - n) / 2;
    return turn % 2 ? n - 1 - s : s;
}

/* Tiles of keys of the block that has most of them; a tile of rows is `begin` more. keys: by tile, in the order of a group. */
static double longest(const sn_attend_order *o, const int64_t *keys, double begin) {
    double most = 0;
    for (int64_t g = 0; g < o->blocks; g++) {
        double sum = 0;
        for (int64_t turn = 0; turn < turns_of(o, g); turn++)
            sum += (double)keys[number_of(o, turn, g) / o->group] + begin;
        if (sum > most) most = sum;
    }
    return most;
}

/* Pairs, or in order: whatever ends earlier. */
static void choose(sn_attend_order *o, const sn_attend *a, const sn_sched *sc) {
    const double BEGIN = 2;    /* tiles of keys, in which it begins and stores */
    const double DRIFT = 1.05; /* in order, blocks come apart, and keys go from the cache */
    sn_attend_order pairs = *o;
    bool can = o->group * o->down % 2 == 0;
    int64_t *keys = SN_NEWN(a->cx->scratch, int64_t, o->down);
    double all = 0;
    for (int64_t i = 0; i < o->down; i++) {
        keys[i] = sn_attend_tiles_at(a, sc, (o->down - 1 - i) * sc->tile_m);
        all += (double)keys[i] + BEGIN;
    }
    pairs.pairs = true;
    pairs.left = left_of(&pairs);
    bool all_keys = 2 * keys[0] > sn_ceil_div(a->c.k, sc->tile_n); /* of earlier rows, too */
    double plain = (all_keys ? DRIFT : 1) * longest(o, keys, BEGIN),
           paired = can ? longest(&pairs, keys, BEGIN) : plain;
    double mean = all * (double)a->c.batch / (double)o->blocks;
    if (paired < plain) *o = pairs;
    o->excess = (o->pairs ? paired : plain) / mean;
}

void sn_attend_order_find(sn_attend_order *out, const sn_attend *a, const sn_sched *sc) {
    enum { MOST = 1 << 13 /* tiles: with more of them the longest block has little more than the mean */ };
    int64_t units = (int64_t)a->cx->target->units * (sc->min_blocks ? sc->min_blocks : 1);
    sn_attend_order o = {.group = 1, .down = sn_ceil_div(a->c.m, sc->tile_m), .excess = 1};
    o.all = o.blocks = a->c.batch * o.down;
    if (sc->persistent && o.all > units) o.blocks = units;
    if (a->n_masks) o.grows = sn_attend_tiles_at(a, sc, (o.down - 1) * sc->tile_m) > sn_attend_tiles_at(a, sc, 0);
    if (o.grows) o.group = at_once(a, sc);
    if (o.grows && o.blocks < o.all && o.all <= MOST) choose(&o, a, sc);
    else o.pairs = o.grows && o.blocks < o.all && o.group * o.down % 2 == 0;
    *out = o;
}

double sn_attend_excess(const sn_attend *a, const sn_sched *sc) {
    sn_attend_order o;
    sn_attend_order_find(&o, a, sc);
    return o.excess;
}

sn_ix sn_attend_order_turns(const sn_attend_order *o, sn_module *m, sn_ix g) {
    int64_t each = o->pairs ? 2 : 1;
    if (o->blocks == o->all) return sn_ix_const(m, 1);
    if (o->left) {
        sn_ix one = sn_ix_divc(m, sn_ix_addc(m, sn_ix_scale(m, g, -1), 2 * o->left - 1), o->blocks);
        return sn_ix_addc(m, one, turns_of(o, 0));
    }
    sn_ix last = sn_ix_const(m, o->all / each - 1);
    return sn_ix_scale(m, sn_ix_addc(m, sn_ix_divc(m, sn_ix_sub(m, last, g), o->blocks), 1), each);
}

/* n - 1 - s in the second turn of a pair: of z = s + n*(w mod 2) the lesser of z and 2*n - 1 - z. */
static sn_ix turned(sn_module *m, int64_t n, sn_ix w, sn_ix s) {
    sn_ix z = sn_ix_fma(m, n, sn_ix_modc(m, w, 2), s);
    return sn_ix_min(m, z, sn_ix_addc(m, sn_ix_scale(m, z, -1), 2 * n - 1));
}

void sn_attend_order_place(sn_ix *batch, sn_ix *tile, const sn_attend_order *o, sn_module *m, sn_ix w, sn_ix g) {
    int64_t each = o->pairs ? 2 : 1, n = o->group * o->down;
    sn_ix number = g;
    if (o->blocks < o->all) {
        sn_ix turn = o->pairs ? sn_ix_divc(m, w, 2) : w;
        number = sn_ix_fma(m, o->blocks, turn, g); /* below the end, as ranges do not see */
        number = sn_ix_min(m, number, sn_ix_const(m, o->all / each - 1 + o->left));
    }
    sn_ix group = sn_ix_divc(m, number, n / each);
    if (o->left) group = sn_ix_min(m, group, sn_ix_const(m, o->all / n - 1));
    sn_ix inside = sn_ix_sub(m, number, sn_ix_scale(m, group, n / each));
    if (o->left) inside = sn_ix_max(m, sn_ix_min(m, inside, sn_ix_const(m, n / 2 - 1 + o->left)), sn_ix_const(m, 0));
    else inside = sn_ix_modc(m, number, n / each);
    if (o->pairs) inside = sn_ix_min(m, turned(m, n, w, inside), sn_ix_const(m, n - 1)); /* the same */
    *tile = sn_ix_divc(m, inside, o->group);
    if (o->grows) *tile = sn_ix_addc(m, sn_ix_scale(m, *tile, -1), o->down - 1);
    *batch = sn_ix_fma(m, o->group, group, sn_ix_modc(m, inside, o->group));
}
