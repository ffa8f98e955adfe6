/* attention.h: what attention.c, which marks products, and attention_try.c, which asks whether a schedule binds them,
 * know of each other.
 */
#ifndef SN_PASSES_GRAPH_ATTENTION_H
#define SN_PASSES_GRAPH_ATTENTION_H

#include "passes/base/attention.h"

/* What is said of a product: it is one of an attention; operands are copied in front of it, so that they lie row-major
 * in memory of their own: q or the weights, v, or k, whose rows are the columns of the operand; numbers that q and k are multiplied by
 * go behind it; it becomes one of f32 in a precision. */
enum {
    SN_MARK_ONLINE = 1,
    SN_MARK_COPY_LEFT = 2,
    SN_MARK_COPY_RIGHT = 4,
    SN_MARK_COPY_TURNED = 8,
    SN_MARK_SCALE_BEHIND = 16,
    SN_MARK_WIDEN = 32,
    SN_MARK_PRECISION = 6 /* bit from which on it stands */
};
_Static_assert(SN_N_PRECISIONS <= 4, "two bits of a mark");

/* Of the products of a graph, in the order of their ids: sn_marks_put walks them twice. */
typedef struct sn_marks {
    const uint8_t *of;
    uint32_t n, at;
} sn_marks;

/* The rule by which products get their marks: cx->notes are the sn_marks. */
sn_nd sn_marks_put(sn_pass_ctx *cx, sn_nd x);

/* With copies of these operands, as SN_ATTENTION_*. */
static inline uint8_t sn_mark_of_first(uint32_t copies, const sn_attention *at) {
    uint32_t widen = at->widens ? SN_MARK_WIDEN | (uint32_t)at->precision << SN_MARK_PRECISION : 0;
    return (uint8_t)(SN_MARK_ONLINE | SN_MARK_SCALE_BEHIND | widen | (copies & SN_ATTENTION_Q ? SN_MARK_COPY_LEFT : 0) |
                     (copies & SN_ATTENTION_K ? SN_MARK_COPY_TURNED : 0));
}

static inline uint8_t sn_mark_of_product(uint32_t copies) {
    return (uint8_t)(SN_MARK_ONLINE | (copies & SN_ATTENTION_V ? SN_MARK_COPY_RIGHT : 0));
}

/* What was found out, by the text of the attention as a graph of its own: layers of a network are alike. */
typedef struct sn_attention_answer {
    const char *text;
    bool bound;
    uint32_t copies;
} sn_attention_answer;
typedef SN_VEC(sn_attention_answer) sn_attention_answers;

/* Does a schedule take it as one nest, and which operands have to be copied for that? As few as can be, and none where
 * that would take longer than it saves. */
sn_status sn_attention_try(sn_attention_answer *out, sn_attention_answers *known, sn_pass_ctx *cx,
                           const sn_attention *at);

/* The rule by which other ways to write an attention become the one that is found (attention_forms.c). */
sn_nd sn_attention_form(sn_pass_ctx *cx, sn_nd x);
/* x with its last two axes exchanged; two of them are none. */
sn_nd sn_attention_turned(sn_module *m, sn_nd x);

#endif
