/* eval_conv.c: reference evaluation of conv, straight from its definition (ir/graph/conv.h).
 *
 * Along each axis a tap joins positions of the result with positions of x: those are listed once, and what meets
 * zeros is not in the list. Fewer than three spatial axes are three, the first ones of size 1. Integer products wrap
 * at the end, which is the same as wrapping each step.
 */
#include "ir/graph/conv.h"

#include "ir/graph/eval_internal.h"

/* Result position y[i] reads position x[i]. */
typedef struct meetings {
    int64_t n, *y, *x;
} meetings;

typedef struct conv {
    sn_conv_geometry g;
    int64_t x[SN_CONV_AXES], w[SN_CONV_AXES], y[SN_CONV_AXES]; /* spatial sizes */
    meetings *taps[SN_CONV_AXES];
} conv;

static int64_t product(const int64_t size[SN_CONV_AXES]) { return size[0] * size[1] * size[2]; }

/* Of tap t along axis a, which is axis k of the geometry. */
static meetings meet(const sn_eval *e, const conv *c, uint32_t a, uint32_t k, int64_t t) {
    meetings at = {0, SN_NEWN(e->arena, int64_t, c->y[a] + 1), SN_NEWN(e->arena, int64_t, c->y[a] + 1)};
    for (int64_t y = 0; y < c->y[a]; y++) {
        int64_t p = y * c->g.stride[k] + t * c->g.dilation[k] - c->g.low[k];
        if (p < 0 || p % c->g.input_dilation[k] || p / c->g.input_dilation[k] >= c->x[a]) continue;
        at.y[at.n] = y;
        at.x[at.n++] = p / c->g.input_dilation[k];
    }
    return at;
}

static conv conv_of(const sn_eval *e) {
    conv c = {.g = sn_node_conv(e->m, e->x)};
    uint32_t missing = SN_CONV_AXES - c.g.n;
    for (uint32_t a = 0; a < SN_CONV_AXES; a++) {
        uint32_t k = a - missing;
        c.x[a] = c.w[a] = c.y[a] = 1;
        if (a >= missing)
            c.x[a] = e->in[0]->shape[2 + k], c.w[a] = e->in[1]->shape[2 + k], c.y[a] = e->out->shape[2 + k];
        c.taps[a] = SN_NEWN(e->arena, meetings, c.w[a] + 1);
        for (int64_t t = 0; t < c.w[a]; t++)
            c.taps[a][t] = a < missing ? (meetings){1, SN_NEW(e->arena, int64_t), SN_NEW(e->arena, int64_t)}
                                       : meet(e, &c, a, k, t);
    }
    return c;
}

static void add_row(const sn_eval *e, const meetings *t, int64_t y, int64_t x, int64_t w) {
    const sn_array *image = e->in[0], *weights = e->in[1];
    if (sn_is_float(image->dtype)) {
        double by = weights->f[w], *out = e->out->f + y;
        for (int64_t i = 0; i < t->n; i++) out[t->y[i]] += by * image->f[x + t->x[i]];
    } else {
        uint64_t by = (uint64_t)weights->i[w];
        int64_t *out = e->out->i + y;
        for (int64_t i = 0; i < t->n; i++)
            out[t->y[i]] = (int64_t)((uint64_t)out[t->y[i]] + by * (uint64_t)image->i[x + t->x[i]]);
    }
}

/* A plane of weights over a plane of x, into a plane of the result; by the numbers of their first elements. */
static void add_plane(const sn_eval *e, const conv *c, int64_t y, int64_t x, int64_t w) {
    for (int64_t t0 = 0; t0 < c->w[0]; t0++)
        for (int64_t t1 = 0; t1 < c->w[1]; t1++)
            for (int64_t t2 = 0; t2 < c->w[2]; t2++, w++) {
                const meetings *m0 = &c->taps[0][t0], *m1 = &c->taps[1][t1], *m2 = &c->taps[2][t2];
                for (int64_t i = 0; i < m0->n; i++)
                    for (int64_t j = 0; j < m1->n; j++)
                        add_row(e, m2, y + (m0->y[i] * c->y[1] + m1->y[j]) * c->y[2],
                                x + (m0->x[i] * c->x[1] + m1->x[j]) * c->x[2], w);
            }
}

sn_status sn_eval_conv(sn_eval *e) {
    const int64_t *x = e->in[0]->shape, *w = e->in[1]->shape;
    if (e->out->numel == 0) return SN_OK;
    conv c = conv_of(e);
    int64_t of_group = w[0] / c.g.groups, planes_x = product(c.x), planes_w = product(c.w), planes_y = product(c.y);
    for (int64_t n = 0; n < x[0]; n++)
        for (int64_t o = 0; o < w[0]; o++)
            for (int64_t k = 0; k < w[1]; k++) {
                int64_t channel = o / of_group * w[1] + k;
                add_plane(e, &c, (n * w[0] + o) * planes_y, (n * x[1] + channel) * planes_x, (o * w[1] + k) * planes_w);
            }
    if (!sn_is_float(e->out->dtype)) sn_array_wrap(e->out);
    return SN_OK;
}
