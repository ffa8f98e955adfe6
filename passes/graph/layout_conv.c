/* layout_conv.c: how convolutions want their operands to lie. Part of the pass `layout`.
 *
 *     last     x' = copy(permute(x)) : [N, H, W, C]   w' = copy(permute(w)) : [O, KH, KW, C]
 *              conv(permute(x'), permute(w'))                            K = taps x channels, channels contiguous
 *     joined   x' = copy(pad(permute(x))) : [N, Hp, Wp, Cp]
 *              windows of KW*Cp neighbours of its rows, stride*Cp apart  : [N, Hp, OW, KW*Cp]
 *              conv(permute(windows), w packed alike : [O, KW*Cp, KH, 1])
 *     first    x' = copy(x) : [N, C, H, W], where x lies channels-last: for threads that read windows
 *     patches  x' = copy of windows that tile the image : [N, OH, OW, C*KH*KW]
 *              a product of single pixels, with w as it is : [O, C*KH*KW, 1, 1]
 *
 * Tensor copies bring runs of channels, which begin at multiples of 16 bytes. Where there are so few that most of an
 * instruction's step would be zeros, the taps of a row of the window, which are neighbours in memory, are summed
 * together: Cp is the least number of channels with which windows begin at multiples of 16 bytes, and spatial
 * padding is in the copy. Where windows lie R rows apart and lines of so few channels are short, R rows that begin
 * windows together are joined as well, pixel by pixel: [N, Hp/R, Wp, R*Cp], whose windows lie one row apart.
 *
 * Which way: tensor copies have to exist for the dtype, and by the model of products (padded.c) take less time than
 * threads, the conversion of the image included unless it can be had so. Groups of few channels are joined first
 * (layout_groups.c). A convolution of single pixels is a product already where its rows of pixels can be brought: these
 * go along with their neighbours. More taps than pixels: a weight gradient, whose sum runs over pixels; both operands
 * have what is not summed innermost, few channels joined with the taps of a row, others with zeros behind them, those
 * of groups together; of small groups they stay as they lie where class taps takes less time. One that is left to a
 * library has channels innermost in image and weights where the image can be had so, and else stays as it is; so does
 * one whose schedule is of class window or taps. Legality: always; padded channels and taps are products of zeros (an
 * infinity in a pixel that a joined window reaches without a tap makes nan).
 */
#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "passes/graph/layout.h"
#include "passes/graph/place.h"
#include "passes/base/constants.h"

#include <math.h>
#include <string.h>

/* ---- orders ---- */

void sn_layout_last(int64_t *perm, uint32_t rank) {
    perm[0] = 0;
    for (uint32_t k = 1; k < rank; k++) perm[k] = k + 1 < rank ? k + 1 : 1;
}

void sn_layout_back(int64_t *perm, uint32_t rank) {
    perm[0] = 0;
    for (uint32_t k = 1; k < rank; k++) perm[k] = k > 1 ? k - 1 : rank - 1;
}

bool sn_layout_is(const int64_t *perm, const int64_t *other, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++)
        if (perm[k] != other[k]) return false;
    return true;
}

sn_nd sn_layout_permuted(sn_module *m, sn_nd x, const int64_t *perm) {
    if (!x.i) return x;
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t rank = n->type.rank;
    int64_t composed[SN_MAX_RANK], own[SN_MAX_RANK];
    const sn_attr *by = sn_node_attr(m, x, SN_ATTR_PERM);
    for (uint32_t k = 0; k < rank; k++) composed[k] = by ? by->ints.at[perm[k]] : perm[k], own[k] = k;
    sn_nd in = by ? n->in[0] : x;
    return sn_layout_is(composed, own, rank) ? in : sn_graph_permute(m, in, composed, rank);
}

/* Is x in memory that tensor copies bring as rows of its last axis? What is computed is there only once it is
 * copied. */
static bool can_be_brought(const sn_module *m, sn_nd x) {
    sn_nd base = x;
    while (sn_ops[sn_node_get(m, base)->op].cls == SN_OPS_VIEW) base = sn_node_get(m, base)->in[0];
    sn_op op = sn_node_get(m, base)->op;
    sn_place p;
    if (op == SN_OP_COPY) return sn_nd_eq(base, x);
    if (op != SN_OP_INPUT && op != SN_OP_WEIGHT && op != SN_OP_CONSTANT) return false;
    return sn_place_of(&p, m, x) && sn_place_is_aligned(&p, (int)p.rank - 1, sn_place_unit(p.dtype));
}

bool sn_layout_widens(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    return n->op == SN_OP_CAST && sn_dtype_widens(sn_type_of(m, n->in[0])->dtype, n->type.dtype);
}

/* The operand of a cast that widens, with the permute of the cast. */
static sn_nd below_cast(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (sn_layout_widens(m, x)) return n->in[0];
    if (n->op != SN_OP_PERMUTE || !sn_layout_widens(m, n->in[0])) return x;
    return sn_layout_permuted(m, sn_node_get(m, n->in[0])->in[0], sn_node_attr(m, x, SN_ATTR_PERM)->ints.at);
}

sn_nd sn_layout_laid_out(sn_module *m, sn_nd x) {
    sn_nd below = below_cast(m, x);
    if (!below.i) return below;
    if (!sn_nd_eq(below, x)) {
        sn_nd y = sn_layout_laid_out(m, below);
        return y.i ? sn_graph_cast(m, y, sn_type_of(m, x)->dtype) : y;
    }
    int64_t last[SN_MAX_RANK], back[SN_MAX_RANK];
    uint32_t rank = sn_type_of(m, x)->rank;
    sn_layout_last(last, rank), sn_layout_back(back, rank);
    sn_nd twin = sn_layout_permuted(m, x, last);
    if (!twin.i || can_be_brought(m, twin)) return x;
    return sn_layout_permuted(m, sn_graph_copied(m, twin), back);
}

/* ---- which way ---- */

/* Numbers of a convolution. */
typedef struct shape {
    sn_conv_geometry g;
    sn_dtype dtype; /* of the image in memory */
    uint32_t rank;
    int64_t image[SN_MAX_RANK], weights[SN_MAX_RANK], result[SN_MAX_RANK];
    int64_t pixels, taps; /* of a result's image, of a window */
    bool joins;           /* taps of a row and channels, where boxes bring them */
    bool is_offered;      /* the image, channels-last */
    bool is_apart;        /* results of neighbouring pixels, a sector or more: windows would be stored piece by piece */
} shape;

/* The dtype of what is in memory. */
static sn_dtype memory_dtype(const sn_module *m, sn_nd x) {
    for (; sn_layout_widens(m, x); x = sn_node_get(m, x)->in[0]) continue;
    return sn_type_of(m, x)->dtype;
}

static bool sizes_of(int64_t *out, const sn_module *m, sn_nd x) {
    const sn_type *t = sn_type_of(m, x);
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(m, t->shape[k], &out[k])) return false;
    return true;
}

static bool shape_of(shape *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    *out = (shape){
        .g = sn_node_conv(m, x), .dtype = memory_dtype(m, n->in[0]), .rank = n->type.rank, .pixels = 1, .taps = 1};
    if (!sizes_of(out->image, m, n->in[0]) || !sizes_of(out->weights, m, n->in[1]) || !sizes_of(out->result, m, x))
        return false;
    for (uint32_t k = 2; k < out->rank; k++) out->pixels *= out->result[k], out->taps *= out->weights[k];
    return true;
}

static int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Every pixel is multiplied by one matrix. */
static bool is_product(const shape *s) {
    for (uint32_t k = 0; k < s->g.n; k++)
        if (s->weights[2 + k] != 1 || s->g.stride[k] != 1 || s->g.low[k] || s->g.high[k]) return false;
    return true;
}

/* What is joined: rows of a pixel, and channels of a row. */
typedef struct joined {
    int64_t rows, channels;
} joined;

/* Taps down the rows that are left. */
static int64_t joined_taps(const shape *s, const joined *j) {
    return s->g.n > 1 ? whole(s->weights[s->rank - 2], j->rows) : 1;
}

/* Channels with which windows along the last axis begin where tensor copies can. */
static joined with_rows(const shape *s, int64_t rows) {
    int64_t unit = sn_place_unit(s->dtype), stride = s->g.stride[s->g.n - 1];
    joined j = {rows, s->image[1]};
    while (stride * rows * j.channels % unit) j.channels++;
    return j;
}

/* Lines that a window is brought in, each of at most 128 bytes: a tensor copy takes as long for a short one. */
static int64_t lines_of(const shape *s, const joined *j) {
    int64_t bytes = s->weights[s->rank - 1] * j->rows * j->channels * sn_dtype_bytes(s->dtype);
    return joined_taps(s, j) * whole(bytes, SN_CHOICE_LINE);
}

static joined joined_of(const shape *s) {
    joined plain = with_rows(s, 1), all = plain;
    uint32_t row = s->g.n < 2 ? 0 : s->g.n - 2;
    bool near = s->g.dilation[row] == 1 || s->weights[2 + row] == 1;
    if (s->g.n > 1 && near && s->rank < SN_MAX_RANK) all = with_rows(s, s->g.stride[row]);
    return lines_of(s, &all) < lines_of(s, &plain) ? all : plain;
}

/* Steps of an instruction of k elements for a sum: one tap after the other, or one row of taps after the other. */
static bool gains_by_joining(const shape *s, int64_t k) {
    uint32_t last = s->g.n - 1;
    int64_t width = s->weights[s->rank - 1];
    for (uint32_t i = 0; i < s->g.n; i++)
        if (s->g.low[i] < 0 || s->g.high[i] < 0) return false;
    if (s->g.dilation[last] != 1 && width > 1) return false;
    return whole(width * with_rows(s, 1).channels, k) < width * whole(s->image[1], k);
}

/* Windows side by side, of a multiple of 16 bytes. */
static bool is_patches(const shape *s) {
    for (uint32_t k = 0; k < s->g.n; k++) {
        bool tiles = s->weights[2 + k] == s->g.stride[k] && s->image[2 + k] == s->result[2 + k] * s->g.stride[k];
        if (!tiles || s->g.low[k] || s->g.high[k] || (s->g.dilation[k] != 1 && s->weights[2 + k] > 1)) return false;
    }
    return s->taps > 1 && 2 + 2 * s->g.n <= SN_MAX_RANK && s->image[1] * s->taps % sn_place_unit(s->dtype) == 0;
}

/* Elements of the sum of a result as boxes bring them: lines of 32, 64 or 128 bytes, of the channels of each tap or of a row of taps. Halves of a
 * line that stay empty are left out, but not where f32 is taken apart, which takes whole lines. */
static int64_t brought(const shape *s, int64_t together) {
    enum { SHORTEST = 2 * SN_CHOICE_VECTOR };
    int64_t each = s->weights[1] * together, lines = s->taps, unit = SN_CHOICE_LINE;
    if (s->joins) {
        joined j = joined_of(s);
        each = s->weights[s->rank - 1] * j.rows * j.channels;
        lines = joined_taps(s, &j) * (s->g.n > 2 ? s->weights[2] : 1);
    }
    int64_t bytes = each * sn_dtype_bytes(s->dtype);
    while (unit / 2 >= bytes && unit > SHORTEST) unit /= 2;
    int64_t least = lines * whole(bytes, unit) * unit;
    for (unit /= 2; unit >= SHORTEST; unit /= 2) {
        int64_t all = lines * whole(bytes, unit) * unit;
        if (s->dtype != SN_F32 || all % SN_CHOICE_LINE == 0) least = smaller(least, all);
    }
    return least / sn_dtype_bytes(s->dtype);
}

/* In which memory gives an image and takes its result. Windows that are smaller than their steps leave pixels out. */
static double memory_cycles(const sn_target *t, const shape *s) {
    double in = sn_dtype_bytes(s->dtype), out = in;
    for (uint32_t k = 0; k < s->rank; k++) {
        int64_t pixels = s->image[k];
        if (k > 1 && s->weights[k] < s->g.stride[k - 2]) pixels = smaller(pixels, s->result[k] * s->weights[k]);
        in *= (double)pixels, out *= (double)s->result[k];
    }
    return (in + out) / ((double)t->cycle_bytes * t->units);
}

/* Of a copy of an operand of that size. */
static double conversion_cycles(const sn_target *t, const shape *s, const int64_t *size) {
    double bytes = sn_dtype_bytes(s->dtype);
    for (uint32_t k = 0; k < s->rank; k++) bytes *= (double)size[k];
    return 2 * bytes / ((double)t->cycle_bytes * t->units) + SN_LAUNCH;
}

static double more(double a, double b) { return a > b ? a : b; }
static double less(double a, double b) { return a < b ? a : b; }

static bool moves_by_one(const shape *s) {
    for (uint32_t k = 0; k < s->g.n; k++)
        if (s->g.stride[k] != 1) return false;
    return true;
}

/* Of the threads that do windows of groups without matrix instructions. */
static double windows_cycles(const sn_target *t, const shape *s) {
    enum { HUNDRED = 100 };
    double results = (double)s->result[0] * (double)s->pixels * (double)s->result[1];
    return results * (double)(s->weights[1] * s->taps) / (SN_ISSUES * t->units) * SN_CHOICE_WINDOWS / HUNDRED;
}

/* ... at so many hundredths of the time of their products: where results are few, a thread has the sum of one, which waits for each product. */
static double threads_cycles(const sn_target *t, const shape *s, double percent) {
    enum { HUNDRED = 100 };
    double alone = (double)(s->weights[1] * s->taps) * SN_CHOICE_ALONE * percent / HUNDRED;
    return more(windows_cycles(t, s) / SN_CHOICE_WINDOWS * percent, alone);
}

/* ... where windows move by one and the pixels of a channel lie together: a thread loads elements for the products of a row of taps; those of three
 * axes share less of them. */
static double lines_cycles(const sn_target *t, const shape *s) {
    enum { IMAGE = 2, HUNDRED = 100 };
    double percent = SN_CHOICE_ROW_PRODUCTS + SN_CHOICE_ROW_LOADS / (double)s->weights[s->rank - 1];
    if (s->g.n != IMAGE) percent *= (double)SN_CHOICE_ROW_APART / HUNDRED;
    return moves_by_one(s) ? threads_cycles(t, s, percent) : INFINITY;
}

/* ... without groups: of f32 so, unless channels lie together; bands do those of halves. Where windows move by more each product has a load, of
 * which tiles do many results with one, and boxes those of three axes where channels fill half a line. */
static double dense_windows_cycles(const sn_target *t, const shape *s) {
    enum { IMAGE = 2 };
    bool steps = moves_by_one(s), few = s->result[1] < SN_CHOICE_SKINNY;
    bool fills = s->g.n > IMAGE && 2 * s->weights[1] * sn_dtype_bytes(s->dtype) >= SN_CHOICE_LINE;
    bool may = steps ? s->dtype == SN_F32 : few && !fills;
    if (s->g.groups > 1 || s->is_apart || s->is_offered || !may) return INFINITY;
    return steps ? lines_cycles(t, s) : threads_cycles(t, s, SN_CHOICE_TAPS);
}

/* What matrix instructions do windows of halves with, as bands of taps (passes/schedule/windows/window_bands.h). */
typedef struct banded {
    double pixels, image; /* results of a channel, with those at the ends of lines; elements */
    double steps;         /* of an instruction, for a result */
    double piece, again;  /* elements that are copied together; how often */
} banded;

enum { BAND = 8, BAND_STEP = 16 };

static bool is_banded(banded *out, const shape *s) {
    uint32_t last = s->rank - 1;
    int64_t width = s->weights[last], reach = (width - 1) * s->g.dilation[s->g.n - 1] + 1, line = s->result[last];
    int64_t steps = whole(BAND - 1 + reach, BAND_STEP), piece = BAND;
    if ((s->dtype != SN_BF16 && s->dtype != SN_F16) || steps * BAND_STEP > SN_CHOICE_BANDS_WIDEST || !moves_by_one(s))
        return false;
    while (s->image[last] % piece) piece /= 2;
    *out = (banded){.pixels = (double)(s->result[0] * s->pixels), .image = (double)s->image[0], .piece = (double)piece};
    out->pixels *= (double)(whole(line + reach - 1, BAND) * BAND) / (double)line;
    for (uint32_t k = 1; k < s->rank; k++) out->image *= (double)s->image[k];
    out->steps = (double)(s->weights[1] * (s->taps / width) * steps);
    out->again = more((double)(s->result[1] / s->g.groups) / SN_CHOICE_BANDS_SIDE, 1);
    return true;
}

/* Of such instructions, and of the threads around them; 0: they do it not. */
static double bands_cycles(const sn_target *t, const shape *s) {
    enum { ROWS = 128, PRODUCT = 2 };
    banded b;
    if (!is_banded(&b, s)) return 0;
    double results = b.pixels * (double)s->result[1], units = less(t->units, 1 + b.pixels / SN_CHOICE_BANDS_BLOCK);
    double products = results / ROWS * b.steps * PRODUCT;
    double issued = (b.image * b.again / b.piece + results / 2) * SN_CHOICE_BANDS_PIECE;
    issued += results / SN_CHOICE_BANDS_BLOCK * b.steps * BAND_STEP * BAND * SN_CHOICE_BANDS_TAP;
    double memory = (b.image + results) * sn_dtype_bytes(s->dtype) / t->cycle_bytes;
    double longest = more(more(products, memory), issued / SN_ISSUES), all = products + memory + issued / SN_ISSUES;
    double turns = (double)whole(s->weights[1], SN_CHOICE_BANDS_SIDE) * SN_CHOICE_BANDS_TURN;
    return (longest + (all - longest) / SN_CHOICE_BANDS_SIDE) / units + SN_CHOICE_BEGIN + turns;
}

/* Images in which windows move by one: those of even and odd places, where they move by two; 0: they move by more. */
static int64_t phases_of(const shape *s) {
    int64_t phases = 1;
    for (uint32_t k = 0; k < s->g.n; k++) {
        int64_t stride = s->g.stride[k];
        if (stride > 2 || (stride > 1 && (k + 2 < s->g.n || s->g.dilation[k] > 1))) return 0;
        phases *= stride;
    }
    return phases;
}

/* Of matrix instructions that do windows of a few eights of channels as rows of pixels (passes/schedule/windows/window_pixels.h), with what turns
 * pixels and results in shared memory; 0: they do it not. */
static double pixels_cycles(sn_pass_ctx *cx, sn_nd x, const shape *s) {
    enum { ROWS = 128, PRODUCT = 2, HUNDRED = 100 };
    const sn_target *t = cx->target;
    sn_product product = {.node = x, .dtype = s->dtype};
    sn_choice_question q = {.target = t, .m = cx->m, .product = &product};
    double each = sn_choice_products(&q, s->dtype), terms = each > 3 ? 3 : each > 1 ? 2 : 1; /* 6, 3, 1 */
    int64_t width = s->weights[s->rank - 1], line = s->result[s->rank - 1], channels = s->weights[1];
    int64_t reach = (width - 1) * s->g.dilation[s->g.n - 1] + 1, out = s->result[1] / s->g.groups;
    double image = (double)s->image[0], pixels = (double)(s->result[0] * s->pixels / line);
    if (channels < BAND && BAND % channels == 0) out *= BAND / channels, channels = BAND;
    int64_t phases = phases_of(s), across = s->g.stride[s->g.n - 1], span = whole(reach, across);
    if (!phases || channels % BAND || channels > SN_CHOICE_PIXELS_CHANNELS || out % BAND || span > BAND) return 0;
    for (uint32_t k = 1; k < s->rank; k++) image *= (double)s->image[k];
    pixels *= (double)(whole(line + span - 1, BAND) * BAND);
    int64_t down = phases / across, rows = whole(s->taps / width, down) * down;
    double steps = (double)(rows * across * whole(span * BAND, BAND_STEP));
    /* Sums of all terms that are longer than tensor cores may add up are refused there. */
    if (each > 3 && steps * (double)(channels / BAND) > SN_PRODUCT_CHAIN) return 0;
    double results = pixels * (double)s->result[1];
    double products = results / ROWS * steps * (double)(channels / BAND) * PRODUCT * each;
    double moved = results / ROWS * SN_CHOICE_PIXELS_TURNED +
                   pixels / BAND * steps * (double)s->image[1] / BAND_STEP * SN_CHOICE_PIXELS_LOADS * terms;
    double issued = image * (SN_CHOICE_BANDS_PIECE / BAND + terms * SN_CHOICE_PIXELS_TERM) + results * (PRODUCT + each);
    double memory = (image + results) * sn_dtype_bytes(s->dtype) / t->cycle_bytes;
    double parts[] = {products, moved, issued / SN_ISSUES, memory}, longest = 0, all = 0;
    for (uint32_t k = 0; k < SN_COUNT(parts); k++) longest = more(longest, parts[k]), all += parts[k];
    double percent = terms > 1 ? SN_CHOICE_PIXELS_TERMS : SN_CHOICE_PIXELS;
    if (phases > 1) percent = percent * SN_CHOICE_PIXELS_PHASES / HUNDRED;
    return (longest + (all - longest) / SN_CHOICE_BANDS_SIDE) / t->units * percent / HUNDRED + SN_CHOICE_BEGIN;
}

/* Cycles of products: by boxes, so many groups together, and by threads. */
typedef struct ways {
    double boxes, threads;
} ways;

/* A gradient of weights, whose sum goes over pixels: more taps than results. */
static bool is_weight_gradient(const shape *s) { return s->taps > s->result[0] * s->pixels; }

/* Blocks that share the sums of a tile, where tiles are few and sums long, as of gradients of weights. */
static int64_t parts_of(const sn_target *t, const sn_product *p) {
    double tiles = (double)p->batch * (double)whole(p->m, SN_CHOICE_TILES) * (double)whole(p->n, SN_CHOICE_TILES);
    int64_t parts = tiles > 0 ? (int64_t)(t->units / tiles) : 1, most = p->k / SN_CHOICE_SHARED_STEPS;
    if (parts > most) parts = most;
    return parts > 1 ? parts : 1;
}

static ways ways_of(sn_pass_ctx *cx, sn_nd x, const shape *s, sn_mma mma, int64_t together) {
    sn_product p = {.node = x,
                    .dtype = s->dtype,
                    .batch = s->g.groups / together,
                    .m = s->result[0] * s->pixels,
                    .n = s->result[1] / s->g.groups * together,
                    .k = s->weights[1] * together * s->taps};
    sn_choice_question q = {.target = cx->target, .m = cx->m, .product = &p};
    enum { HUNDRED = 100 };
    double fmas = (double)p.batch * (double)p.m * (double)p.n *
                  (double)(whole(p.k, SN_CHOICE_WINDOW_STEPS) * SN_CHOICE_WINDOW_STEPS);
    double plain =
        fmas / (SN_ISSUES * cx->target->units) * (SN_CONTRACT_PLAIN + SN_CONTRACT_PLAIN_FEW / (double)p.n) / HUNDRED;
    plain = more(plain, sn_choice_cycles_by_threads(&q, s->dtype, 1));
    int64_t parts = parts_of(cx->target, &p); /* not of plain multiplications */
    p.batch *= parts, p.k = whole(p.k, parts);
    double threads = s->dtype == SN_F32 ? plain : sn_choice_cycles_by_threads(&q, s->dtype, 1);
    if (is_weight_gradient(s)) return (ways){sn_choice_cycles_by_boxes(&q, s->dtype, mma), threads};
    p.k = whole(brought(s, together), parts);
    threads = s->g.groups > 1 ? windows_cycles(cx->target, s) : less(threads, dense_windows_cycles(cx->target, s));
    if (s->is_apart && moves_by_one(s)) threads *= 2; /* windows have the kernel, whose stores are pieces */
    double memory = memory_cycles(cx->target, s), boxes = sn_choice_cycles_by_boxes(&q, s->dtype, mma);
    return (ways){more(boxes, memory + SN_CHOICE_BEGIN), more(threads, memory)};
}

/* Is it done sooner by boxes, so many groups together, after copies that take so many cycles, than by threads after others? */
static bool pays(sn_pass_ctx *cx, sn_nd x, const shape *s, sn_mma mma, int64_t together, double copies, double others) {
    ways w = ways_of(cx, x, s, mma, together);
    return w.boxes + copies < w.threads + others;
}

/* Are bands sooner than both? Few results are no tile of boxes: threads have them, and where the image is offered channels-last do their
 * windows as it lies (64 channels of 16 x 256 x 256 to 3 in bf16: 440 us, counted as 405), or it has to be brought back. */
static bool bands_pay(sn_pass_ctx *cx, sn_nd x, const shape *s, sn_mma mma, bool image_offered, double copies) {
    enum { HUNDRED = 100 };
    double bands = bands_cycles(cx->target, s) * SN_CHOICE_BANDS / HUNDRED;
    ways w = ways_of(cx, x, s, mma, 1);
    if (image_offered) {
        bands += bands > 0 ? conversion_cycles(cx->target, s, s->image) : 0;
        w.threads = less(w.threads, SN_CHOICE_OFFERED * windows_cycles(cx->target, s));
    }
    return bands > 0 && bands < w.boxes + copies && bands < w.threads;
}

/* No zeros between elements. */
static bool is_dense(const shape *s) {
    for (uint32_t k = 0; k < s->g.n; k++)
        if (s->g.input_dilation[k] != 1) return false;
    return true;
}

/* Are windows of single channels that are offered innermost done sooner where the pixels of a channel lie together, the way there and back
 * included? Threads have weights of their own for each lane otherwise. */
static bool turns_lanes(const sn_target *t, const shape *s) {
    enum { HUNDRED = 100 };
    double bands = bands_cycles(t, s) * SN_CHOICE_BANDS / HUNDRED,
           lines = more(lines_cycles(t, s), memory_cycles(t, s));
    double there = conversion_cycles(t, s, s->image) + conversion_cycles(t, s, s->result);
    double lanes = windows_cycles(t, s) / SN_CHOICE_WINDOWS * SN_CHOICE_LANES;
    return there + (bands > 0 ? less(bands, lines) : lines) < lanes;
}

/* Threads do groups of one channel in either order, and so do matrix instructions whose rows are pixels; of halves that are offered channels-last
 * boxes are faster (3 x 3 of bf16[64, 56, 56, 128] in 16 groups 60 us for 72 on an H100). Groups of several threads do where the
 * pixels of a channel lie together: an image that is offered channels-last is taken there and back. */
static sn_layout_way way_of_groups(sn_pass_ctx *cx, sn_nd x, const shape *s, sn_mma mma, bool image_offered,
                                   double copies) {
    enum { HUNDRED = 100 };
    int64_t together = sn_layout_together(cx->m, x, s->dtype);
    bool either = s->weights[1] == 1;
    double others = 0;
    if (either && image_offered && turns_lanes(cx->target, s)) return SN_LAYOUT_FIRST;
    if (image_offered && !either)
        others = conversion_cycles(cx->target, s, s->image) + conversion_cycles(cx->target, s, s->result);
    double pixels = image_offered && s->dtype != SN_F32 ? 0 : pixels_cycles(cx, x, s), boxes = copies;
    double threads = (windows_cycles(cx->target, s) + others) * SN_CHOICE_PIXELS_GAIN / HUNDRED;
    if (together) boxes += ways_of(cx, x, s, mma, together).boxes;
    if (pixels > 0 && pixels < threads && (!together || pixels < boxes)) return SN_LAYOUT_ANY;
    if (together && pays(cx, x, s, mma, together, copies, others)) return SN_LAYOUT_LAST;
    return either ? SN_LAYOUT_ANY : SN_LAYOUT_FIRST;
}

/* Does the graph name that class for it? */
static bool is_scheduled(const sn_module *m, sn_nd x, const char *cls) {
    const sn_attr *schedule = sn_node_attr(m, x, SN_ATTR_SCHEDULE);
    return schedule && !strncmp(schedule->text, cls, strlen(cls));
}

static bool is_left_to_library(const sn_module *m, sn_nd x) { return is_scheduled(m, x, "library"); }

/* Gradients keep their weights, which cuDNN has the other way round. */
static sn_layout_way way_for_library(const sn_module *m, sn_nd x, const shape *s, bool image_offered) {
    bool backwards = s->taps > s->result[0] * s->pixels;
    for (uint32_t k = 0; k < s->g.n; k++) backwards |= s->g.input_dilation[k] != 1;
    for (sn_nd w = sn_node_get(m, x)->in[1]; sn_ops[sn_node_get(m, w)->op].cls == SN_OPS_VIEW && !backwards;
         w = sn_node_get(m, w)->in[0])
        backwards = sn_node_get(m, w)->op == SN_OP_FLIP;
    return image_offered && !backwards ? SN_LAYOUT_LAST : SN_LAYOUT_NONE;
}

/* Elements of a line of columns, which are of one tap: where f32 is taken apart all 128 bytes, and where there is but one line. */
static int64_t line_unit(const shape *s, bool alone) {
    bool whole_lines = s->dtype == SN_F32 || alone;
    return (whole_lines ? SN_CHOICE_LINE : 2 * SN_CHOICE_VECTOR) / sn_dtype_bytes(s->dtype);
}

/* Do channels of a group fill half of a line of columns, and begin results where tensor copies can? */
static bool fills_lines(const shape *s) {
    int64_t results = s->result[1] / s->g.groups;
    return 2 * s->image[0] >= line_unit(s, false) && results % sn_place_unit(s->dtype) == 0 && s->rank < SN_MAX_RANK;
}

/* Do neighbours along the last axis lie side by side, as of images whose channels come first? */
static bool has_pixels_together(sn_module *m, sn_nd x) {
    sn_place p;
    x = sn_layout_below_casts(m, x);
    while (x.i && !sn_place_of(&p, m, x)) {
        const sn_node_rec *n = sn_node_get(m, x);
        if (n->op != SN_OP_RESHAPE) return false;
        const sn_type *t = sn_type_of(m, n->in[0]);
        if (!sn_ix_eq(t->shape[t->rank - 1], n->type.shape[n->type.rank - 1])) return false;
        x = n->in[0];
    }
    return x.i && p.stride[p.rank - 1] == 1;
}

/* Is the gradient of small groups sooner by threads that have the sums of several taps (class taps), with its operands as they lie? Boxes of
 * half lines take longer than is counted for them. */
static bool taps_pay(sn_pass_ctx *cx, sn_nd x, const shape *s, sn_mma mma, double copies) {
    enum { HUNDRED = 100 };
    const sn_node_rec *n = sn_node_get(cx->m, x);
    if (s->g.groups == 1 || s->image[0] > SN_CHOICE_TAP_CHANNELS) return false;
    if (!has_pixels_together(cx->m, n->in[0]) || !has_pixels_together(cx->m, n->in[1])) return false;
    double products =
        (double)s->result[0] * (double)s->pixels * (double)s->result[1] * (double)s->weights[1] * (double)s->taps;
    double taps = products * SN_CHOICE_TAP_SUMS / HUNDRED / (SN_ISSUES * cx->target->units);
    return taps * HUNDRED < (ways_of(cx, x, s, mma, 1).boxes + copies) * SN_CHOICE_HALF_LINES;
}

sn_layout_way sn_layout_way_of(sn_pass_ctx *cx, sn_nd x, bool image_offered, bool taken_last) {
    shape s;
    if (!shape_of(&s, cx->m, x)) return SN_LAYOUT_NONE;
    if (is_left_to_library(cx->m, x)) return way_for_library(cx->m, x, &s, image_offered);
    if (is_scheduled(cx->m, x, "window")) return SN_LAYOUT_ANY;
    if (is_scheduled(cx->m, x, "taps")) return SN_LAYOUT_NONE;
    const sn_node_rec *n = sn_node_get(cx->m, x);
    sn_mma mma = sn_choice_instruction(cx->target, s.dtype, sn_compute_dtype(n->type.dtype));
    if (!mma || memory_dtype(cx->m, n->in[1]) != s.dtype) return SN_LAYOUT_NONE;
    double copies = image_offered ? 0 : conversion_cycles(cx->target, &s, s.image);
    if (is_weight_gradient(&s)) {
        copies = conversion_cycles(cx->target, &s, s.image) + conversion_cycles(cx->target, &s, s.weights);
        bool fills = s.g.groups == 1 || (fills_lines(&s) && !taps_pay(cx, x, &s, mma, copies));
        return is_dense(&s) && fills && pays(cx, x, &s, mma, 1, copies, 0) ? SN_LAYOUT_GRADIENT : SN_LAYOUT_NONE;
    }
    if (!is_dense(&s)) return SN_LAYOUT_ANY;
    if (s.g.groups > 1) {
        sn_layout_way way = way_of_groups(cx, x, &s, mma, image_offered, copies);
        return way == SN_LAYOUT_FIRST && is_scheduled(cx->m, x, "contract") ? SN_LAYOUT_ANY : way;
    }
    if (is_product(&s) && s.pixels % sn_place_unit(s.dtype) == 0) return SN_LAYOUT_PRODUCT;
    s.is_offered = image_offered;
    s.joins = !image_offered && gains_by_joining(&s, sn_mmas[mma].k);
    s.is_apart = taken_last && s.result[1] * sn_dtype_bytes(s.dtype) >= 2 * SN_CHOICE_VECTOR;
    if (!s.is_apart && bands_pay(cx, x, &s, mma, image_offered, copies))
        return image_offered ? SN_LAYOUT_FIRST : SN_LAYOUT_ANY;
    if (!pays(cx, x, &s, mma, 1, copies, 0)) return SN_LAYOUT_ANY;
    if (!image_offered && is_patches(&s)) return SN_LAYOUT_PATCHES;
    return s.joins ? SN_LAYOUT_JOINED : SN_LAYOUT_LAST;
}

/* ---- operands ---- */

sn_nd sn_layout_conv_last(sn_module *m, sn_nd x) {
    sn_dtype dtype = memory_dtype(m, sn_node_get(m, x)->in[0]);
    if (!is_left_to_library(m, x)) x = sn_layout_join_groups(m, x, dtype);
    if (!x.i) return x;
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd in[] = {sn_layout_laid_out(m, n->in[0]), sn_layout_laid_out(m, n->in[1])};
    return in[0].i && in[1].i ? sn_graph_node(m, n->op, in, 2, n->attrs, n->n_attrs) : (sn_nd){0};
}

/* Weights that lie where tensor copies do not find them, as one tap of several, are copied; those that are computed stay so. */
sn_nd sn_layout_conv_product(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_place p;
    sn_nd w = sn_layout_below_casts(m, n->in[1]), base = w;
    while (sn_ops[sn_node_get(m, base)->op].cls == SN_OPS_VIEW) base = sn_node_get(m, base)->in[0];
    sn_op op = sn_node_get(m, base)->op;
    bool there = op == SN_OP_INPUT || op == SN_OP_WEIGHT || op == SN_OP_CONSTANT;
    if (!there || (sn_place_of(&p, m, w) && sn_place_is_aligned(&p, 1, sn_place_unit(p.dtype)))) return x;
    sn_nd in[] = {n->in[0], sn_layout_laid_out(m, n->in[1])};
    return in[1].i ? sn_graph_node(m, n->op, in, 2, n->attrs, n->n_attrs) : (sn_nd){0};
}

sn_nd sn_layout_conv_first(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_attr *order = sn_node_attr(m, n->in[0], SN_ATTR_PERM);
    sn_nd in[] = {n->in[0], n->in[1]};
    sn_place p;
    bool twin = order && order->ints.at[1] == (int64_t)n->type.rank - 1;
    bool given = sn_place_of(&p, m, in[0]) && p.stride[1] == 1 && p.size[1] > 1; /* by the caller */
    if (twin || given) in[0] = sn_graph_copied(m, in[0]);
    return in[0].i ? sn_graph_node(m, n->op, in, 2, n->attrs, n->n_attrs) : in[0];
}

static sn_nd last_of(sn_module *m, sn_nd x) {
    int64_t last[SN_MAX_RANK];
    sn_layout_last(last, sn_type_of(m, x)->rank);
    return sn_layout_permuted(m, x, last);
}

static sn_nd reshaped(sn_module *m, sn_nd x, const int64_t *size, uint32_t rank) {
    return x.i ? sn_graph_reshape_to(m, x, size, rank) : x;
}

static bool is_zero(const int64_t *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        if (at[k]) return false;
    return true;
}

static sn_nd padded(sn_module *m, sn_nd x, const int64_t *low, const int64_t *high) {
    uint32_t rank = sn_type_of(m, x)->rank;
    return !x.i || (is_zero(low, rank) && is_zero(high, rank)) ? x : sn_graph_pad(m, x, low, high, 0);
}

sn_nd sn_layout_below_casts(sn_module *m, sn_nd x) {
    for (sn_nd below = below_cast(m, x); below.i && !sn_nd_eq(below, x); below = below_cast(m, x)) x = below;
    return x;
}

/* [.., R*rows, W, C] -> [.., R, W, rows, C], R at axis `row`. */
static sn_nd rows_inside(sn_module *m, sn_nd x, const int64_t *from, uint32_t rank, uint32_t row, int64_t rows) {
    int64_t size[SN_MAX_RANK];
    if (rows == 1) return x;
    for (uint32_t k = 0; k < rank; k++) size[k < row ? k : k + 1] = from[k];
    size[row] = from[row] / rows, size[row + 1] = rows;
    return sn_graph_move_axis(m, reshaped(m, x, size, rank + 1), row + 1, row + 2);
}

/* [N, C, S1..Sn] -> [N, S1..S(n-1)/rows, OSn, width*rows*channels] -> channels to place 1. Rows begin where tensor
 * copies can. */
static sn_nd joined_image(sn_module *m, sn_nd x, const shape *s, const joined *j) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0}, size[SN_MAX_RANK], unit = sn_place_unit(s->dtype);
    uint32_t n = s->g.n, row = n; /* the axis of the last spatial sizes */
    int64_t pixel = j->rows * j->channels, down = s->result[s->rank - 2] - 1 + joined_taps(s, j);
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    x = sn_layout_below_casts(m, x);
    size[0] = s->image[0];
    for (uint32_t k = 0; k < n; k++) {
        low[1 + k] = s->g.low[k], high[1 + k] = s->g.high[k];
        size[1 + k] = low[1 + k] + s->image[2 + k] + high[1 + k];
    }
    size[n + 1] = j->channels, high[n + 1] = j->channels - s->image[1];
    while (size[row] * pixel % unit) size[row]++, high[row]++;
    for (; j->rows > 1 && (size[row - 1] % j->rows || size[row - 1] < down * j->rows); high[row - 1]++) size[row - 1]++;
    sn_nd y = rows_inside(m, padded(m, last_of(m, x), low, high), size, n + 2, row - 1, j->rows);
    if (j->rows > 1) size[row - 1] /= j->rows;
    size[row] *= pixel;
    y = reshaped(m, sn_graph_copied(m, y), size, n + 1);
    int64_t stride = s->g.stride[n - 1] * pixel, width = s->weights[s->rank - 1] * pixel;
    y = sn_graph_unfold(m, y, row, width, stride, 1);
    int64_t windows = (size[row] - width) / stride + 1, wanted = s->result[s->rank - 1];
    if (windows > wanted) y = sn_graph_slice(m, y, row, 0, wanted, 1);
    if (j->rows > 1 && size[row - 1] > down) y = sn_graph_slice(m, y, row - 1, 0, down, 1);
    y = sn_graph_move_axis(m, y, n + 1, 1);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

/* [O, C, K1..Kn] -> [O, width*rows*channels, K1..K(n-1)/rows, 1] */
static sn_nd joined_weights(sn_module *m, sn_nd w, const shape *s, const joined *j) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0}, size[SN_MAX_RANK], back[SN_MAX_RANK];
    uint32_t n = s->g.n;
    sn_dtype dtype = sn_type_of(m, w)->dtype;
    w = sn_layout_below_casts(m, w);
    size[0] = s->weights[0], size[n + 1] = j->channels;
    for (uint32_t k = 0; k < n; k++) size[1 + k] = s->weights[2 + k];
    high[n + 1] = j->channels - s->image[1];
    if (j->rows > 1) size[n - 1] = joined_taps(s, j) * j->rows, high[n - 1] = size[n - 1] - s->weights[s->rank - 2];
    sn_nd y = rows_inside(m, padded(m, last_of(m, w), low, high), size, n + 2, n - 1, j->rows);
    if (j->rows > 1) size[n - 1] /= j->rows;
    size[n + 1] = size[n] * j->rows * j->channels, size[n] = 1;
    sn_layout_back(back, s->rank);
    y = sn_layout_permuted(m, sn_graph_copied(m, reshaped(m, y, size, s->rank)), back);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

sn_nd sn_layout_conv_like(sn_module *m, sn_nd x, sn_nd image, sn_nd weights, const sn_conv_geometry *g) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_attr more[SN_N_ATTRS];
    sn_conv_more rest = {more, 0};
    for (uint32_t k = 0; k < n->n_attrs; k++)
        if (n->attrs[k].id == SN_ATTR_PRECISION || n->attrs[k].id == SN_ATTR_SCHEDULE) more[rest.n++] = n->attrs[k];
    return sn_graph_conv(m, image, weights, g, rest);
}

sn_nd sn_layout_conv_joined(sn_module *m, sn_nd x) {
    shape s;
    shape_of(&s, m, x);
    joined j = joined_of(&s);
    const sn_node_rec *n = sn_node_get(m, x);
    sn_conv_geometry g = s.g;
    for (uint32_t k = 0; k < g.n; k++) g.low[k] = g.high[k] = 0;
    g.stride[g.n - 1] = g.dilation[g.n - 1] = 1;
    if (j.rows > 1) g.stride[g.n - 2] = g.dilation[g.n - 2] = 1;
    sn_nd image = joined_image(m, n->in[0], &s, &j);
    return sn_layout_conv_like(m, x, image, joined_weights(m, n->in[1], &s, &j), &g);
}

/* ---- patches ---- */

/* [N, C, R1*K1..Rn*Kn] -> [N, C, R1, K1..Rn, Kn] -> [N, R1..Rn, C, K1..Kn] -> [N, R1..Rn, C*K1*..*Kn] -> channels to
 * place 1 */
static sn_nd patches_image(sn_module *m, sn_nd x, const shape *s) {
    int64_t size[SN_MAX_RANK] = {s->image[0], s->image[1]}, perm[SN_MAX_RANK] = {0}, back[SN_MAX_RANK];
    uint32_t n = s->g.n;
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    perm[n + 1] = 1;
    for (uint32_t k = 0; k < n; k++) {
        size[2 + 2 * k] = s->result[2 + k], size[3 + 2 * k] = s->weights[2 + k];
        perm[1 + k] = 2 + 2 * k, perm[n + 2 + k] = 3 + 2 * k;
    }
    sn_nd y = sn_layout_permuted(m, reshaped(m, sn_layout_below_casts(m, x), size, 2 + 2 * n), perm);
    for (uint32_t k = 0; k < n; k++) size[1 + k] = s->result[2 + k];
    size[n + 1] = s->image[1] * s->taps;
    sn_layout_back(back, s->rank);
    y = sn_layout_permuted(m, reshaped(m, sn_graph_copied(m, y), size, s->rank), back);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

sn_nd sn_layout_conv_patches(sn_module *m, sn_nd x) {
    shape s;
    shape_of(&s, m, x);
    const sn_node_rec *n = sn_node_get(m, x);
    sn_conv_geometry g = sn_conv_plain(s.g.n);
    int64_t size[SN_MAX_RANK] = {s.weights[0], s.image[1] * s.taps, 1, 1, 1};
    sn_nd image = patches_image(m, n->in[0], &s), w = sn_layout_below_casts(m, n->in[1]);
    w = reshaped(m, w, size, s.rank);
    if (w.i) w = sn_graph_cast(m, sn_layout_laid_out(m, w), sn_type_of(m, n->in[1])->dtype);
    return sn_layout_conv_like(m, x, image, w, &g);
}

/* ---- gradients of weights ---- */

/* [A, B, S1..Sn] in memory as [B, S1..Sn, A]: B and S are summed. */
static sn_nd first_innermost(sn_module *m, sn_nd x) {
    int64_t perm[SN_MAX_RANK], back[SN_MAX_RANK];
    uint32_t rank = sn_type_of(m, x)->rank;
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    for (uint32_t k = 0; k < rank; k++) perm[k] = (k + 1) % rank, back[k] = (k + rank - 1) % rank;
    sn_nd twin = sn_layout_permuted(m, sn_layout_below_casts(m, x), perm);
    if (!twin.i || can_be_brought(m, twin)) return twin.i ? x : twin;
    sn_nd y = sn_layout_permuted(m, sn_graph_copied(m, twin), back);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

/* Are channels so few that they are less than a line, and the taps of a row neighbours in memory? */
static bool joins_gradient(const shape *s) {
    uint32_t last = s->g.n - 1;
    bool near = s->g.stride[last] == 1 || s->result[s->rank - 1] == 1;
    return near && s->image[0] <= sn_place_unit(s->dtype) && s->g.low[last] >= 0 && s->result[s->rank - 1] > 1;
}

/* What a window has along the last axis: `width` elements, from one to the next `step`, of pixels of so many channels. */
typedef struct taps {
    int64_t channels, width, step;
} taps;

static taps taps_of(const shape *s) {
    taps t = {.channels = s->image[0]};
    int64_t dilation = s->g.dilation[s->g.n - 1];
    while (dilation * t.channels % sn_place_unit(s->dtype)) t.channels++;
    t.step = dilation * t.channels;
    int64_t own = s->result[s->rank - 1], unit = line_unit(s, own == s->pixels);
    t.width = whole(own * t.channels, unit) * unit;
    return t;
}

/* [C, N, S1..Sn] -> [N, S1..Sn, C], with zeros beside rows and channels -> [N, S1..S(n-1), windows, width] -> width first */
static sn_nd joined_windows(sn_module *m, sn_nd x, const shape *s, const taps *t) {
    int64_t perm[SN_MAX_RANK], size[SN_MAX_RANK], low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    uint32_t rank = s->rank, row = rank - 2;
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    int64_t windows = s->weights[rank - 1], pixels = whole((windows - 1) * t->step + t->width, t->channels);
    for (uint32_t k = 0; k < rank; k++) perm[k] = (k + 1) % rank, size[k] = s->image[perm[k]];
    low[row] = s->g.low[s->g.n - 1];
    if (pixels < low[row] + size[row]) pixels = low[row] + size[row];
    while (pixels * t->channels % sn_place_unit(s->dtype)) pixels++;
    high[row] = pixels - low[row] - size[row], high[rank - 1] = t->channels - size[rank - 1];
    sn_nd y = padded(m, sn_layout_permuted(m, sn_layout_below_casts(m, x), perm), low, high);
    size[row] = pixels * t->channels;
    y = sn_graph_unfold(m, reshaped(m, sn_graph_copied(m, y), size, rank - 1), row, t->width, t->step, 1);
    if ((size[row] - t->width) / t->step + 1 > windows) y = sn_graph_slice(m, y, row, 0, windows, 1);
    y = sn_graph_move_axis(m, y, rank - 1, 0);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

/* Windows of a row join the channels of the gradient, so that its columns come in lines. */
static sn_nd gradient_joined(sn_module *m, sn_nd x, const shape *s) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_conv_geometry g = s->g;
    taps t = taps_of(s);
    int64_t size[SN_MAX_RANK], perm[SN_MAX_RANK], own = s->result[s->rank - 1];
    g.dilation[g.n - 1] = g.stride[g.n - 1] = 1, g.low[g.n - 1] = g.high[g.n - 1] = 0;
    sn_nd image = joined_windows(m, n->in[0], s, &t);
    sn_nd y = sn_layout_conv_like(m, x, image, first_innermost(m, n->in[1]), &g);
    if (t.width > own * t.channels) y = sn_graph_slice(m, y, 0, 0, own * t.channels, 1);
    size[0] = own, size[1] = t.channels;
    for (uint32_t k = 1; k + 1 < s->rank; k++) size[k + 1] = s->result[k];
    for (uint32_t k = 0; k < s->rank; k++) perm[k] = (k + 1) % s->rank;
    y = reshaped(m, y, size, s->rank);
    if (t.channels > s->image[0]) y = sn_graph_slice(m, y, 1, 0, s->image[0], 1);
    return sn_layout_permuted(m, y, perm);
}

/* [C, G*N, S1..Sn], which has the batch of each group, in memory as [N, S1..Sn, G, C]: of a pixel all channels together. */
static sn_nd groups_innermost(sn_module *m, sn_nd x, const shape *s) {
    uint32_t rank = s->rank + 1;
    int64_t size[SN_MAX_RANK] = {0}, perm[SN_MAX_RANK], back[SN_MAX_RANK], was[SN_MAX_RANK];
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    x = sn_layout_below_casts(m, x);
    sizes_of(was, m, x);
    size[0] = was[0], size[1] = s->g.groups, size[2] = was[1] / s->g.groups;
    for (uint32_t k = 3; k < rank; k++) size[k] = was[k - 1];
    for (uint32_t k = 0; k < rank; k++) perm[k] = k + 2 < rank ? k + 2 : k + 2 == rank ? 1 : 0;
    for (uint32_t k = 0; k < rank; k++) back[perm[k]] = k;
    sn_nd twin = sn_layout_permuted(m, reshaped(m, x, size, rank), perm);
    if (twin.i && !can_be_brought(m, twin)) twin = sn_graph_copied(m, twin);
    sn_nd y = reshaped(m, sn_layout_permuted(m, twin, back), was, s->rank);
    return y.i ? sn_graph_cast(m, y, dtype) : y;
}

sn_nd sn_layout_conv_gradient(sn_module *m, sn_nd x) {
    shape s;
    shape_of(&s, m, x);
    if (s.g.groups == 1 && joins_gradient(&s)) return gradient_joined(m, x, &s);
    const sn_node_rec *n = sn_node_get(m, x);
    int64_t unit = line_unit(&s, false), low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    high[0] = whole(s.image[0], unit) * unit - s.image[0];
    sn_nd image = n->in[0];
    if (high[0] && s.pixels > 1) {
        sn_dtype dtype = sn_type_of(m, image)->dtype;
        image = padded(m, sn_layout_below_casts(m, image), low, high);
        if (image.i) image = sn_graph_cast(m, image, dtype);
    }
    if (image.i) image = s.g.groups > 1 ? groups_innermost(m, image, &s) : first_innermost(m, image);
    sn_nd in[] = {image, first_innermost(m, n->in[1])};
    sn_nd y = in[0].i && in[1].i ? sn_graph_node(m, n->op, in, 2, n->attrs, n->n_attrs) : (sn_nd){0};
    return y.i && high[0] && s.pixels > 1 ? sn_graph_slice(m, y, 0, 0, s.image[0], 1) : y;
}
