/* match.c: can two kernels run as one? Finds which loops correspond and checks every dependence.
 *
 * Loops correspond when they move accesses to the same buffer by the same stride and have the same extent. The outer
 * loops (parallel chains) that correspond become common outer loops; what is left stays inside, in an order in which
 * the insides of both kernels can later be merged too. Legality is one question: does each load of b from a buffer that
 * a stores read, under the renamed axes, the very ix that a stored in the same iteration of the common loops? When the
 * element is stored inside a's inner nest, the load must sit in an inner nest of the same extents and the same ix, so
 * that one thread owns the element whatever the schedule.
 */
#include "passes/fuse/fuse.h"

#include "passes/schedule/base/moments.h"
#include "passes/schedule/base/teams.h"
#include "passes/schedule/rows/outer_keep.h"

/* ---- which axes correspond ---- */

typedef struct axis_map {
    sn_axis a[SN_MAX_CHAIN * 2], b[SN_MAX_CHAIN * 2];
    uint32_t n;
} axis_map;

static sn_axis mapped_to_b(const axis_map *am, sn_axis a) {
    for (uint32_t k = 0; k < am->n; k++)
        if (sn_axis_eq(am->a[k], a)) return am->b[k];
    return (sn_axis){0};
}

static sn_axis mapped_to_a(const axis_map *am, sn_axis b) {
    for (uint32_t k = 0; k < am->n; k++)
        if (sn_axis_eq(am->b[k], b)) return am->a[k];
    return (sn_axis){0};
}

static void map_pair(axis_map *am, sn_module *m, const sn_access *x, const sn_access *y) {
    sn_chain ca, cb;
    sn_chain_around(&ca, m, x->s);
    sn_chain_around(&cb, m, y->s);
    for (uint32_t i = 0; i < ca.n; i++) {
        sn_axis a = sn_stmt_axis(m, ca.at[i]);
        int64_t stride_a, stride_b;
        if (mapped_to_b(am, a).i || !sn_ix_coef(m, x->ix, a, &stride_a) || stride_a == 0) continue;
        for (uint32_t j = 0; j < cb.n; j++) {
            sn_axis b = sn_stmt_axis(m, cb.at[j]);
            if (mapped_to_a(am, b).i || !sn_ix_coef(m, y->ix, b, &stride_b) || stride_a != stride_b) continue;
            if (!sn_ix_eq(sn_stmt_extent(m, ca.at[i]), sn_stmt_extent(m, cb.at[j]))) continue;
            if (am->n < SN_COUNT(am->a)) am->a[am->n] = a, am->b[am->n++] = b;
            break;
        }
    }
}

static void map_axes(axis_map *am, sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    am->n = 0;
    for (uint32_t pass = 0; pass < 2; pass++) /* what flows from a to b first, then what both read */
        for (uint32_t i = 0; i < in_a->n; i++)
            for (uint32_t j = 0; j < in_b->n; j++) {
                const sn_access *x = &in_a->at[i], *y = &in_b->at[j];
                if (y->store || !sn_buf_eq(x->buf, y->buf) || x->store != (pass == 0)) continue;
                map_pair(am, m, x, y);
            }
}

/* ---- orders ---- */

static int chain_position(const sn_module *m, const sn_chain *c, sn_axis ax) {
    for (uint32_t k = 0; k < c->n; k++)
        if (sn_axis_eq(sn_stmt_axis(m, c->at[k]), ax)) return (int)k;
    return -1;
}

/* How deep in its kernel the loop of an axis stands; the larger, the deeper. */
static uint32_t axis_depth(sn_module *m, const sn_access_list *in, sn_axis ax) {
    for (uint32_t i = 0; i < in->n; i++) {
        sn_chain c;
        sn_chain_around(&c, m, in->at[i].s);
        int at = chain_position(m, &c, ax);
        if (at >= 0) return (uint32_t)at;
    }
    return SN_MAX_CHAIN;
}

/* Sort positions order[from..n) by depth of the partner axis (unmapped ones last, stable). */
static void sort_rest(uint32_t *order, uint32_t from, uint32_t n, const uint32_t *depth) {
    for (uint32_t i = from + 1; i < n; i++)
        for (uint32_t j = i; j > from && depth[order[j]] < depth[order[j - 1]]; j--) {
            uint32_t t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
}

static bool choose_orders(sn_fuse_match *mt, sn_module *m, const axis_map *am, const sn_access_list *in_a,
                          const sn_access_list *in_b) {
    uint32_t depth_a[SN_MAX_CHAIN], depth_b[SN_MAX_CHAIN], n_a = 0, n_b = 0;
    bool in_shared[SN_MAX_CHAIN] = {false};
    for (uint32_t k = 0; k < mt->a.n; k++) {
        sn_axis b = mapped_to_b(am, sn_stmt_axis(m, mt->a.at[k]));
        int at = b.i ? chain_position(m, &mt->b, b) : -1;
        depth_a[k] = b.i ? axis_depth(m, in_b, b) : SN_MAX_CHAIN;
        if (at < 0) continue;
        mt->a_order[n_a++] = k;
        mt->b_order[n_b++] = (uint32_t)at;
        in_shared[at] = true;
    }
    mt->shared = n_a;
    for (uint32_t k = 0; k < mt->a.n; k++) {
        sn_axis b = mapped_to_b(am, sn_stmt_axis(m, mt->a.at[k]));
        if (b.i && chain_position(m, &mt->b, b) >= 0) continue;
        if (!b.i) {
            mt->why_not = "a loop of the first has no counterpart in the second";
            return false;
        }
        mt->a_order[n_a++] = k;
    }
    for (uint32_t k = 0; k < mt->b.n; k++) {
        sn_axis a = mapped_to_a(am, sn_stmt_axis(m, mt->b.at[k]));
        depth_b[k] = a.i ? axis_depth(m, in_a, a) : SN_MAX_CHAIN;
        if (in_shared[k]) continue;
        if (!a.i && !mt->vertical) {
            mt->why_not = "a loop of the second has no counterpart in the first";
            return false;
        }
        mt->b_order[n_b++] = k;
    }
    sort_rest(mt->a_order, mt->shared, mt->a.n, depth_a);
    sort_rest(mt->b_order, mt->shared, mt->b.n, depth_b);
    return true;
}

/* ---- legality ---- */

/* The common loops, and those around an access that are not common (if `inside`), in their order after the merge. */
static void merged_loops(sn_chain *out, sn_module *m, const sn_access *x, const sn_chain *c, const uint32_t *order,
                         uint32_t shared, bool inside) {
    sn_chain around;
    sn_chain_around(&around, m, x->s);
    out->n = 0;
    for (uint32_t k = 0; k < (inside ? c->n : shared); k++) out->at[out->n++] = c->at[order[k]];
    for (uint32_t k = c->n; inside && k < around.n; k++) out->at[out->n++] = around.at[k];
}

/* What is stored in the common loops alone is there for all of the load's own loops. */
static bool dependence_holds(const sn_fuse_match *mt, sn_module *m, const sn_access *store, const sn_access *load) {
    sn_chain of_store, of_load;
    merged_loops(&of_store, m, store, &mt->a, mt->a_order, mt->shared, true);
    merged_loops(&of_load, m, load, &mt->b, mt->b_order, mt->shared, of_store.n > mt->shared);
    return sn_same_element(m, store->s, &of_store, load->s, &of_load);
}

/* Is what is stored another element than the one that is loaded, in each iteration of the common loops? */
static bool is_beside(const sn_fuse_match *mt, sn_module *m, const sn_access *store, const sn_access *load) {
    sn_chain of_store, of_load;
    int64_t by;
    merged_loops(&of_store, m, store, &mt->a, mt->a_order, mt->shared, false);
    merged_loops(&of_load, m, load, &mt->b, mt->b_order, mt->shared, false);
    sn_ix e = sn_ix_over(m, store->ix, of_store.at, of_load.at, mt->shared);
    return sn_ix_is_const(m, sn_ix_sub(m, e, load->ix), &by) && by != 0;
}

/* Rows that are written out are several stores: a load of the element that one of them has stored is no other's concern, since no two
 * iterations store one element. */
static bool load_holds(const sn_fuse_match *mt, sn_module *m, const sn_access_list *in_a, const sn_access *y) {
    bool holds = false, beside = false;
    for (uint32_t i = 0; i < in_a->n; i++) {
        const sn_access *x = &in_a->at[i];
        if (!x->store || !sn_buf_eq(x->buf, y->buf)) continue;
        bool masked = sn_stmt_get(m, x->s)->has_mask; /* what is loaded may be older */
        if (y->store) return false;
        if (!masked && dependence_holds(mt, m, x, y)) holds = true;
        else if (is_beside(mt, m, x, y)) beside = true;
        else return false;
    }
    return holds || !beside;
}

static bool dependences_hold(sn_fuse_match *mt, sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    for (uint32_t j = 0; j < in_b->n; j++) {
        if (load_holds(mt, m, in_a, &in_b->at[j])) continue;
        mt->why_not = "an element would be read before or elsewhere than it is stored";
        return false;
    }
    return true;
}

/* ---- worth ---- */

static int64_t count_positions(sn_module *m, const sn_chain *c, const uint32_t *order, uint32_t from, uint32_t to) {
    int64_t product = 1, extent;
    for (uint32_t k = from; k < to; k++) {
        if (!sn_ix_is_const(m, sn_stmt_extent(m, c->at[order[k]]), &extent)) return -1;
        if (sn_mul_overflow(product, extent, &product)) product = INT64_MAX;
    }
    return product;
}

/* Does a left-over loop of either kernel walk some buffer contiguously? */
static bool inside_is_contiguous(const sn_fuse_match *mt, sn_module *m, const sn_access_list *in, const sn_chain *c,
                                 const uint32_t *order) {
    for (uint32_t i = 0; i < in->n; i++)
        for (uint32_t k = mt->shared; k < c->n; k++) {
            int64_t stride;
            if (sn_ix_coef(m, in->at[i].ix, sn_stmt_axis(m, c->at[order[k]]), &stride) && (stride == 1 || stride == -1))
                return true;
        }
    return false;
}

static bool walks_along(const sn_fuse_match *mt, sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    return inside_is_contiguous(mt, m, in_a, &mt->a, mt->a_order) ||
           inside_is_contiguous(mt, m, in_b, &mt->b, mt->b_order);
}

/* Elements of the longest reduction that stands in the outer loops; 0: there is none. */
static int64_t longest_reduction(const sn_module *m, sn_kern k, const sn_chain *outer) {
    int64_t longest = 0;
    sn_stmt body = outer->n ? outer->at[outer->n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        sn_chain chain;
        if (sn_stmt_get(m, s)->op != SN_LOP_REDUCE || !sn_nest_perfect(&chain, m, s)) continue;
        int64_t n = sn_chain_count(m, &chain);
        if (n > longest) longest = n;
    }
    return longest;
}

/* Steps of the longest scan that stands in the outer loops; 0: there is none. */
static int64_t longest_scan(const sn_module *m, sn_kern k, const sn_chain *outer) {
    int64_t longest = 0, n;
    sn_stmt body = outer->n ? outer->at[outer->n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s))
        if (sn_is_scan(m, s) && sn_ix_is_const(m, sn_stmt_extent(m, s), &n) && n > longest) longest = n;
    return longest;
}

/* Is v made of a result of a reduction that is no maximum? Those `online-softmax` finds beside the sums that wait for
 * them. What takes more than *looks to say is. */
static bool is_of_sum(const sn_module *m, sn_val v, uint32_t *looks) {
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    if (!*looks) return true;
    --*looks;
    if (r->op == SN_LOP_REDUCE) {
        uint32_t c = 0;
        for (uint32_t first = 0; c < r->n_combs; c++) {
            first += sn_combs[r->combs[c]].states;
            if (v.i < r->result.i + first) break;
        }
        return c == r->n_combs || r->combs[c] != SN_COMB_MAX;
    }
    for (uint32_t i = 0; i < r->n_in; i++)
        if (is_of_sum(m, r->in[i], looks)) return true;
    return false;
}

static bool passes_sum(const sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    for (uint32_t i = 0; i < in_a->n; i++)
        for (uint32_t j = 0; in_a->at[i].store && j < in_b->n; j++) {
            uint32_t looks = 64;
            if (in_b->at[j].store || !sn_buf_eq(in_a->at[i].buf, in_b->at[j].buf)) continue;
            if (is_of_sum(m, sn_stmt_get(m, in_a->at[i].s)->in[0], &looks)) return true;
        }
    return false;
}

/* Bytes of all rows in buffers that both kernels touch and the second one reads. */
static int64_t bytes_of_both(sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    int64_t bytes = 0;
    for (uint32_t j = 0; j < in_b->n; j++) {
        bool counts = false;
        for (uint32_t i = 0; i < in_a->n && !in_b->at[j].store; i++)
            counts |= sn_buf_eq(in_a->at[i].buf, in_b->at[j].buf);
        for (uint32_t k = 0; k < j; k++) counts &= !sn_buf_eq(in_b->at[k].buf, in_b->at[j].buf);
        if (counts) bytes += sn_buf_bytes(m, in_b->at[j].buf);
    }
    return bytes;
}

/* Does the access walk a large buffer along one of these loops of b, for a sector or more? */
static bool goes_along_loop(const sn_fuse_match *mt, sn_module *m, const sn_access *x, uint32_t from, uint32_t to) {
    int64_t stride, extent, bytes = sn_dtype_bytes(sn_buf_get(m, x->buf)->dtype);
    for (uint32_t k = from; k < to && sn_buf_bytes(m, x->buf) >= SN_TEAM_BYTES; k++) {
        sn_stmt loop = mt->b.at[mt->b_order[k]];
        if (!sn_ix_coef(m, x->ix, sn_stmt_axis(m, loop), &stride) || (stride != 1 && stride != -1)) continue;
        if (sn_ix_is_const(m, sn_stmt_extent(m, loop), &extent) && extent * bytes >= SN_SECTOR) return true;
    }
    return false;
}

/* Does b alone turn what it reads? Tiles do that with whole lines; in rows of both either what is read or what is written would
 * be element by element, unless blocks have rows that are short enough to lie side by side, three blocks on a multiprocessor (class flat). */
static bool turns_rows(const sn_fuse_match *mt, const sn_pass_ctx *cx, const sn_access_list *in_b, int64_t row) {
    bool along = false, across = false;
    uint32_t bytes = 0;
    if (!cx->target->is_gpu || mt->shared == mt->b.n) return false;
    for (uint32_t j = 0; j < in_b->n; j++) {
        bool inside = goes_along_loop(mt, cx->m, &in_b->at[j], mt->shared, mt->b.n);
        along |= inside;
        across |= !inside && goes_along_loop(mt, cx->m, &in_b->at[j], 0, mt->shared);
        if (inside) sn_schedule_smaller(&bytes, sn_dtype_bytes(sn_buf_get(cx->m, in_b->at[j].buf)->dtype));
    }
    return along && across && row * bytes > cx->target->shared_bytes / SN_FLAT_TURNED / (2 * SN_FLAT_SIDE);
}

/* Does the sum wait for a maximum alone? Then both are made in one reading (online-softmax). */
static bool goes_along(const sn_module *m, sn_stmt nest, bool behind_max) {
    sn_chain chain;
    if (!behind_max || sn_stmt_get(m, nest)->op != SN_LOP_REDUCE || !sn_nest_perfect(&chain, m, nest)) return false;
    const sn_stmt_rec *yield = sn_stmt_get(m, sn_stmt_get(m, chain.at[chain.n - 1])->last);
    for (uint32_t i = 0; i < yield->n_in; i++) {
        uint32_t looks = 64;
        if (is_of_sum(m, yield->in[i], &looks)) return false;
    }
    return true;
}

/* How often a row is read where it does not stay. */
static uint32_t readings(const sn_module *m, sn_kern k, const sn_chain *outer) {
    uint32_t n = 0;
    bool behind_max = false;
    sn_stmt body = outer->n ? outer->at[outer->n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        n += !goes_along(m, s, behind_max);
        behind_max |= r->op == SN_LOP_REDUCE && r->combs[0] == SN_COMB_MAX;
    }
    return n ? n : 1;
}

/* Does b alone load what is as long as a row? */
static bool has_weights(const sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b, int64_t row) {
    for (uint32_t j = 0; j < in_b->n; j++) {
        bool of_a = in_b->at[j].store;
        for (uint32_t i = 0; i < in_a->n && !of_a; i++) of_a = sn_buf_eq(in_a->at[i].buf, in_b->at[j].buf);
        if (!of_a && sn_buf_bytes(m, in_b->at[j].buf) * SN_FUSE_WEIGHTS >= row) return true;
    }
    return false;
}

/* Columns that lie side by side: what a step of b's left-over loops takes. */
static int64_t columns_beside(const sn_fuse_match *mt, sn_module *m, const sn_access_list *in_b) {
    int64_t least = 0, stride;
    for (uint32_t i = 0; i < in_b->n; i++)
        for (uint32_t k = mt->shared; k < mt->b.n; k++)
            if (sn_ix_coef(m, in_b->at[i].ix, sn_stmt_axis(m, mt->b.at[mt->b_order[k]]), &stride) && stride > 0 &&
                (!least || stride < least))
                least = stride;
    return least;
}

/* Are a maximum and a sum behind it what the kernel reduces, as of a softmax? They become one reduction. */
static bool is_of_softmax(const sn_module *m, sn_kern k, const sn_chain *outer) {
    sn_stmt body = outer->n ? outer->at[outer->n - 1] : (sn_stmt){0};
    bool maximum = false;
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_REDUCE) continue;
        if (maximum) return r->combs[0] == SN_COMB_SUM;
        maximum = r->combs[0] == SN_COMB_MAX;
    }
    return false;
}

/* How many tiles, one of which a team of blocks has at a time, `rows` columns are (passes/schedule/rows/outer_team.c); 0: columns are not
 * for teams. */
static int64_t tiles_of_columns(const sn_fuse_match *mt, const sn_pass_ctx *cx, const sn_access_list *in_b,
                                int64_t rows) {
    sn_module *m = cx->m;
    uint32_t bytes = 0;
    int64_t along = columns_beside(mt, m, in_b);
    for (uint32_t j = 0; j < in_b->n; j++)
        if (!in_b->at[j].store) sn_schedule_smaller(&bytes, sn_dtype_bytes(sn_buf_get(m, in_b->at[j].buf)->dtype));
    if (!mt->vertical || !mt->shared || along <= 0 || rows % along) return 0;
    return sn_columns_for_team(cx->target, along, bytes) ? rows / along : 0;
}

/* Are the two sums of a made in one reading of what does not stay, for which blocks meet once (passes/schedule/rows/meet_once.c)? With weights
 * that is worth it where all rows have them at the same time, by whole vectors. Not of f64, of which a turn takes three times as long as of floats (H200: f64[30, 700001]
 * 148 us for 118). */
static bool is_read_once(sn_pass_ctx *cx, sn_kern a, bool weights) {
    sn_moments mo;
    return sn_moments_find(&mo, cx, a) && sn_moments_once(&mo, cx->m, weights ? cx->target->vector_bytes : 1);
}

/* Is a row of both, or a tile of columns, better kept by a team of blocks (passes/schedule/base/teams.c) than read again? */
static bool team_keeps(const sn_fuse_match *mt, sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_access_list *in_a,
                       const sn_access_list *in_b, int64_t rows) {
    enum { MOST_READINGS = 3 };
    if (rows <= 0 || !cx->target->is_gpu) return false;
    bool columns = !walks_along(mt, cx->m, in_a, in_b);
    if (columns) rows = tiles_of_columns(mt, cx, in_b, rows);
    if (rows <= 0) return false;
    bool both = longest_reduction(cx->m, a, &mt->a) && longest_reduction(cx->m, b, &mt->b);
    int64_t row = sn_ceil_div(bytes_of_both(cx->m, in_a, in_b), rows);
    uint32_t times = readings(cx->m, a, &mt->a) + readings(cx->m, b, &mt->b);
    if (columns && (both || times > 2 || !is_of_softmax(cx->m, a, &mt->a))) return false;
    uint32_t again = !both && times <= MOST_READINGS ? times - 1 : 0; /* row_part.c cuts nothing else */
    uint32_t exchanges = both || times < 2 ? times : times - 1;
    bool weights = again && has_weights(cx->m, in_a, in_b, row);
    if (again > 1 && is_read_once(cx, a, weights) &&
        sn_team_pays(cx->target, &(sn_team_need){rows, row, 1, 1, .together = weights}))
        return true;
    /* For which there are no registers beside what stays in part; of three nests they take about as long as another wait. */
    if (again > 1 && weights) again = 0, exchanges++;
    return sn_team_pays(cx->target, &(sn_team_need){rows, row, exchanges, again, .together = false});
}

/* Do whole columns of both stay on the chip (passes/schedule/rows/outer_keep.c), few as they are, or would it be dear to keep them, many as they are? */
typedef bool (*of_columns)(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes);
static bool columns_are(of_columns what, const sn_fuse_match *mt, const sn_pass_ctx *cx, const sn_access_list *in_a,
                        const sn_access_list *in_b, int64_t columns, int64_t elements) {
    if (columns <= 0 || !mt->vertical || !mt->shared) return false;
    int64_t along = columns_beside(mt, cx->m, in_b);
    int64_t bytes = sn_ceil_div(bytes_of_both(cx->m, in_a, in_b), columns);
    return what(cx->target, columns, along, elements, bytes);
}

/* Rows so few and long that they are cut into parts. */
static bool are_cut(const sn_pass_ctx *cx, int64_t rows, int64_t row) {
    int64_t blocks = cx->target->cluster;
    return row > SN_FUSE_ROW && rows < SN_FUSE_ROWS && (rows * blocks < SN_FUSE_ROWS || row > SN_FUSE_ROW * blocks);
}

/* Does a scan of the kernel step over what lies between its elements? */
static bool scans_columns(sn_module *m, sn_kern k, const sn_access_list *accesses) {
    int64_t step;
    for (uint32_t i = 0; i < accesses->n; i++) {
        sn_stmt nest = sn_stmt_get(m, accesses->at[i].s)->parent;
        if (!nest.i || !sn_is_scan(m, nest) || sn_stmt_get(m, nest)->kern.i != k.i) continue;
        if (!sn_ix_coef(m, accesses->at[i].ix, sn_stmt_axis(m, nest), &step) || step == 1 || step == -1) return false;
    }
    return true;
}

/* Columns so few that threads which walk one each leave memory idle, and long. */
static bool are_starving(const sn_pass_ctx *cx, int64_t columns, int64_t steps) {
    return columns < (int64_t)cx->target->units * SN_CUT_RESIDENT && steps > SN_SPLIT_COLUMN_PART;
}

/* A scan beside a reduction, or beside a scan of what it gives, cannot be cut into parts, each alone can (split-scan, split-reduction): a
 * loss where rows are few, and where columns are, of which one thread does the scan and the reduction. */
static bool waits_for_scan(const sn_fuse_match *mt, const sn_pass_ctx *cx, sn_kern a, sn_kern b,
                           const sn_access_list *in_a, const sn_access_list *in_b) {
    int64_t scan_a = longest_scan(cx->m, a, &mt->a), scan_b = longest_scan(cx->m, b, &mt->b);
    bool reduces = (scan_a && longest_reduction(cx->m, b, &mt->b)) || (scan_b && longest_reduction(cx->m, a, &mt->a));
    bool follows = mt->vertical && scan_a && scan_b;
    int64_t rows = count_positions(cx->m, &mt->b, mt->b_order, 0, mt->shared), row = scan_a > scan_b ? scan_a : scan_b;
    if (!cx->target->is_gpu || rows < 0 || !(reduces || follows)) return false;
    return are_cut(cx, rows, row) ||
           (reduces && are_starving(cx, rows, row) && scans_columns(cx->m, scan_a ? a : b, scan_a ? in_a : in_b));
}

/* Two reductions of which the second waits for the first cannot be cut into parts, each alone can (split-reduction): a loss
 * where rows are few: on the CPU, than threads. */
static bool waits_for_rows(const sn_fuse_match *mt, sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_access_list *in_a,
                           const sn_access_list *in_b) {
    if (!mt->vertical) return false;
    int64_t of_a = longest_reduction(cx->m, a, &mt->a), of_b = longest_reduction(cx->m, b, &mt->b);
    int64_t rows = count_positions(cx->m, &mt->b, mt->b_order, 0, mt->shared);
    int64_t row = of_a > of_b ? of_a : of_b;
    if (!of_a || !of_b || rows < 0 || row <= SN_FUSE_ROW) return false;
    if (!cx->target->is_gpu) return rows < cx->target->units;
    if (!passes_sum(cx->m, in_a, in_b)) return false;
    return !team_keeps(mt, cx, a, b, in_a, in_b, rows) && are_cut(cx, rows, row);
}

/* Has each thread of the CPU as many rows as the others, or nearly? Then none waits, and a row is in its cache for the second kernel. */
static bool threads_share(const sn_pass_ctx *cx, int64_t rows) {
    int64_t threads = cx->target->units;
    return !cx->target->is_gpu && rows >= threads && (rows % threads == 0 || rows >= SN_FUSE_SHARED_ROWS * threads);
}

static bool has_steps(const sn_module *m, const sn_chain *outer) {
    sn_stmt body = outer->n ? outer->at[outer->n - 1] : (sn_stmt){0};
    if (!body.i) return false;
    for (sn_stmt s = sn_stmt_get(m, body)->first; s.i; s = sn_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s)) && sn_is_steps(m, s)) return true;
    return false;
}

/* Does a kernel in front of the steps of a repeat read along a loop that would be inside, and not along one of both? What turns an operand
 * for them does that by tiles, by itself. */
static bool turns_for_steps(const sn_fuse_match *mt, const sn_pass_ctx *cx, const sn_access_list *in_a) {
    sn_module *m = cx->m;
    int64_t stride;
    if (!cx->target->is_gpu || !mt->shared || mt->shared == mt->a.n || !has_steps(m, &mt->b)) return false;
    for (uint32_t i = 0; i < in_a->n; i++)
        for (uint32_t k = mt->shared; k < mt->a.n && !in_a->at[i].store; k++) {
            sn_stmt loop = mt->a.at[mt->a_order[k]];
            if (sn_ix_coef(m, in_a->at[i].ix, sn_stmt_axis(m, loop), &stride) && (stride == 1 || stride == -1))
                return true;
        }
    return false;
}

/* Merging at the level of rows leaves one block for a row, a cluster or a team: enough rows, or a row that it does quickly. It leaves
 * columns to a block or a cluster that keeps them. */
static bool keeps_parallelism(sn_fuse_match *mt, sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_access_list *in_a,
                              const sn_access_list *in_b) {
    sn_module *m = cx->m;
    if (mt->shared == mt->a.n && mt->shared == mt->b.n) return true;
    int64_t rows = count_positions(m, &mt->a, mt->a_order, 0, mt->shared);
    int64_t row_a = count_positions(m, &mt->a, mt->a_order, mt->shared, mt->a.n);
    int64_t row_b = count_positions(m, &mt->b, mt->b_order, mt->shared, mt->b.n);
    if (rows < 0 || row_a < 0 || row_b < 0) return true;
    int64_t row = row_a > row_b ? row_a : row_b;
    bool inner = walks_along(mt, m, in_a, in_b), team = team_keeps(mt, cx, a, b, in_a, in_b, rows);
    int64_t blocks = cx->target->is_gpu ? cx->target->cluster : 1;
    bool many = rows >= SN_FUSE_ROWS || (rows * blocks >= SN_FUSE_ROWS && row <= SN_FUSE_ROW * blocks);
    bool ok = inner ? many || row <= SN_FUSE_ROW : rows >= SN_FUSE_COLUMNS || row <= SN_FUSE_SMALL / (rows ? rows : 1);
    if (!inner) ok |= columns_are(sn_columns_stay, mt, cx, in_a, in_b, rows, row);
    if (!inner && is_of_softmax(m, a, &mt->a)) ok &= !columns_are(sn_columns_dear, mt, cx, in_a, in_b, rows, row);
    ok |= team || (inner && threads_share(cx, rows));
    if (!ok) mt->why_not = "too few common iterations to fill the device";
    if (ok && (turns_rows(mt, cx, in_b, row_b) || turns_for_steps(mt, cx, in_a)))
        mt->why_not = "one of them turns what it reads", ok = false;
    return ok;
}

/* Bytes that are no longer read (and, for a's results, were written). */
static int64_t bytes_saved(sn_fuse_match *mt, sn_module *m, const sn_access_list *in_a, const sn_access_list *in_b) {
    int64_t bytes = 0;
    for (uint32_t j = 0; j < in_b->n; j++) {
        if (in_b->at[j].store) continue;
        bool again = false;
        for (uint32_t k = 0; k < j && !again; k++)
            again = !in_b->at[k].store && sn_buf_eq(in_b->at[k].buf, in_b->at[j].buf);
        for (uint32_t i = 0; i < in_a->n && !again; i++) {
            if (!sn_buf_eq(in_a->at[i].buf, in_b->at[j].buf)) continue;
            bytes += sn_buf_bytes(m, in_b->at[j].buf) * (in_a->at[i].store ? 2 : 1);
            mt->vertical |= in_a->at[i].store;
            if (in_a->at[i].store) mt->passed += 2 * sn_buf_bytes(m, in_b->at[j].buf);
            again = true;
        }
    }
    return bytes;
}

/* Bytes of what the accesses touch. On a CPU a buffer is moved once however many of its elements an iteration reads, since neighbours are in
 * a cache; a GPU's figure counts each access. */
static int64_t bytes_moved(const sn_pass_ctx *cx, const sn_access_list *in) {
    int64_t total = 0;
    for (uint32_t i = 0; i < in->n; i++) {
        bool again = false;
        for (uint32_t k = 0; k < i && !cx->target->is_gpu; k++) again |= sn_buf_eq(in->at[k].buf, in->at[i].buf);
        if (!again) total += sn_buf_bytes(cx->m, in->at[i].buf);
    }
    return total;
}

/* Kernels that only share a small operand stay apart when they are large: merging them saves nothing that counts. */
static bool worth_it(sn_fuse_match *mt, const sn_pass_ctx *cx, const sn_access_list *in_a, const sn_access_list *in_b) {
    if (mt->vertical) return true;
    if (mt->bytes < SN_FUSE_NOTHING) {
        mt->why_not = "they share no data";
        return false;
    }
    int64_t total = bytes_moved(cx, in_a) + bytes_moved(cx, in_b);
    bool ok = total < SN_FUSE_LITTLE || mt->bytes * SN_FUSE_SHARE >= total;
    if (!ok) mt->why_not = "what they share is small against what they move";
    return ok;
}

/* A loop that is left inside must not hold a nest: it would run alone on the threads of one row. */
static bool inside_is_simple(sn_fuse_match *mt, const sn_module *m, const sn_chain *c) {
    if (c->n == mt->shared) return true;
    for (sn_stmt s = sn_stmt_get(m, c->at[c->n - 1])->first; s.i; s = sn_next(m, s))
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) {
            mt->why_not = "a reduction would end up inside a loop of a row";
            return false;
        }
    return true;
}

static bool same_precision(sn_fuse_match *mt, const sn_module *m, sn_kern a, sn_kern b) {
    bool ok = sn_precision_of_both(&mt->precision, m, a, b);
    if (!ok) mt->why_not = "their products have different precisions";
    return ok;
}

bool sn_fuse_find(sn_fuse_match *mt, sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_access_list *in_a,
                  const sn_access_list *in_b) {
    sn_module *m = cx->m;
    *mt = (sn_fuse_match){0};
    sn_chain_outer(&mt->a, m, a);
    sn_chain_outer(&mt->b, m, b);
    mt->bytes = bytes_saved(mt, m, in_a, in_b);
    axis_map am;
    map_axes(&am, m, in_a, in_b);
    bool ok = worth_it(mt, cx, in_a, in_b) && same_precision(mt, m, a, b) && choose_orders(mt, m, &am, in_a, in_b) &&
              inside_is_simple(mt, m, &mt->a) && inside_is_simple(mt, m, &mt->b) &&
              dependences_hold(mt, m, in_a, in_b) && keeps_parallelism(mt, cx, a, b, in_a, in_b);
    mt->waits = ok && (waits_for_scan(mt, cx, a, b, in_a, in_b) || waits_for_rows(mt, cx, a, b, in_a, in_b));
    return ok;
}
