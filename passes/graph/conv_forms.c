/* conv_forms.c: choices that leave a convolution one: as it is, with a schedule, left to a library.
 *
 *     schedule     %y = conv %x, %w                     ->  %y = conv %x, %w schedule="contract tile_m=64"
 *     library      %y = conv %x, %w                     ->  %y = conv %x, %w schedule="library algo=1"
 *
 * A convolution that is left to a library stays what it is on its way there: `decompose` takes none apart that has a
 * schedule, so that cuDNN sees the gradient of a convolution with strides, and `layout` gives it channels innermost where
 * its image lies so. Legality: always; where no library takes what the kernel has become, it is a kernel of ours. What the
 * class proposes as schedules is for the convolution that `layout` makes, and so is not for one that is taken apart before.
 */
#include "passes/graph/choices.h"
#include "passes/graph/rewrite.h"

/* ---- plain ---- */

bool sn_conv_choice_plain_applies(const char **why_not, const sn_choice_question *q) {
    return (void)q, sn_choice_always(why_not);
}

void sn_conv_choice_plain_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "plain");
}

sn_nd sn_conv_choice_plain_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    return (void)cx, (void)parameters, q->conv->node;
}

/* ---- schedule ---- */

bool sn_conv_choice_schedule_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "no schedule is proposed";
    return q->n_headers > 0 && sn_convolution_is_dense(q->conv);
}

void sn_conv_choice_schedule_candidates(sn_choice_list *out, const sn_choice_question *q) {
    for (uint32_t k = 0; k < q->n_headers; k++) sn_choice_add(out, "schedule %s", q->headers[k]);
}

sn_nd sn_conv_choice_schedule_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    return sn_choice_with_header(cx, q->conv->node, parameters);
}

/* ---- library ---- */

/* Steps of a contiguous tensor. */
static void steps(int64_t *out, const int64_t *size, uint32_t rank) {
    int64_t step = 1;
    for (uint32_t k = rank; k-- > 0; step *= size[k]) out[k] = step;
}

/* Which tensors a convolution is a gradient of is in how they lie: the weights of a data gradient are walked backwards, and
 * have their channels the other way round; operands and result of a weight gradient have batch and channels so. */
typedef enum form { FORWARD, OF_DATA, OF_WEIGHTS, N_FORMS } form;

static void swap(int64_t *a, int64_t *b) {
    int64_t x = *a;
    *a = *b;
    *b = x;
}

/* The steps of a tensor [g * a, b, ..] that lies as [g * b, a, ..]. */
static void steps_swapped(int64_t *out, const int64_t *size, uint32_t rank, int64_t groups) {
    int64_t own[SN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) own[k] = size[k];
    own[0] /= groups;
    swap(&own[0], &own[1]);
    steps(out, own, rank);
    swap(&out[0], &out[1]);
}

static sn_library_conv conv_of(const sn_convolution *c, form f) {
    int64_t x[SN_MAX_RANK], w[SN_MAX_RANK], y[SN_MAX_RANK], groups = c->g.groups, out = c->weights[0] / groups;
    if (f == OF_WEIGHTS) steps_swapped(x, c->image, c->rank, 1), steps_swapped(y, c->result, c->rank, 1);
    else steps(x, c->image, c->rank), steps(y, c->result, c->rank);
    if (f == FORWARD) steps(w, c->weights, c->rank);
    else steps_swapped(w, c->weights, c->rank, f == OF_DATA ? groups : 1);
    int64_t in = c->weights[1], group_w = f == OF_DATA ? in * w[1] : out * w[0];
    sn_library_conv v = {.batch = {c->result[0], x[0], 0, y[0]},
                         .groups = {groups, in * x[1], group_w, out * y[1]},
                         .out = {out, 0, w[0], y[1]},
                         .in = {in, x[1], w[1], 0},
                         .n = c->g.n};
    for (uint32_t k = 0; k < c->g.n; k++) {
        v.at[k] = (sn_library_window){.size = c->image[2 + k],
                                      .results = c->result[2 + k],
                                      .taps = c->weights[2 + k],
                                      .a = x[2 + k],
                                      .b = f == OF_DATA ? -w[2 + k] : w[2 + k],
                                      .c = y[2 + k],
                                      .stride = c->g.stride[k],
                                      .dilation = c->g.dilation[k],
                                      .apart = c->g.input_dilation[k],
                                      .low = c->g.low[k]};
        sn_library_crop(&v.at[k]);
    }
    return v;
}

/* Has the library an algorithm of that number for such a convolution of contiguous tensors, or for the gradient that it may
 * be? What it is asked in the end is up to the kernel. */
static bool library_has(const sn_choice_question *q, uint32_t algo) {
    enum { ALIGN = 1 << 12 };
    const sn_convolution *c = q->conv;
    char why[SN_LIBRARY_WHY];
    const sn_library_matrix at = {.align = ALIGN, .dtype = c->dtype};
    form f = !sn_convolution_is_dense(c) ? OF_DATA : c->taps > c->pixels ? OF_WEIGHTS : FORWARD;
    const sn_library_call call = {.is_conv = true,
                                  .conv = conv_of(c, f),
                                  .sum = sn_compute_dtype(c->dtype),
                                  .precision = sn_node_precision(q->m, c->node),
                                  .a = at,
                                  .b = at,
                                  .c = at,
                                  .algo = algo};
    return q->library->takes(q->library->user, &call, why);
}

static bool has_elements(const sn_convolution *c) {
    for (uint32_t k = 0; k < c->rank; k++)
        if (!c->image[k] || !c->weights[k] || !c->result[k]) return false;
    return true;
}

bool sn_conv_choice_library_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "there is no library that has such a convolution";
    return q->library && has_elements(q->conv) && library_has(q, 0);
}

void sn_conv_choice_library_candidates(sn_choice_list *out, const sn_choice_question *q) {
    sn_choice_add(out, "library");
    for (uint32_t algo = 1; algo < SN_CHOICE_ALGOS && library_has(q, algo); algo++)
        sn_choice_add(out, "library algo=%u", algo);
}

/* The choice is the header. */
sn_nd sn_conv_choice_library_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const char *header = sn_strf(&cx->m->arena, "library%s%s", *parameters ? " " : "", parameters);
    return sn_choice_with_header(cx, q->conv->node, header);
}
