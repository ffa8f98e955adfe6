/* ops.h: the operations and combiners of Loop IR as tables, made of lops.def and combs.def. What they mean on scalars:
 * ir/ops/scalar.h.
 */
#ifndef SN_IR_OPS_OPS_H
#define SN_IR_OPS_OPS_H

#include "ir/base/ids.h"

typedef enum sn_lop {
#define SN_LOP(ID, name, n_in, result, f, i) SN_LOP_##ID,
#define SN_STMT(ID, name, n_in, result, effects, format, doc) SN_LOP_##ID,
#include "ir/ops/lops.def"
    SN_N_ALL_LOPS,
    SN_N_LOPS = 0 /* scalar operations, which stand in front: */
#define SN_LOP(ID, name, n_in, result, f, i) +1
#include "ir/ops/lops.def"
} sn_lop;

typedef enum sn_comb {
#define SN_COMB(ID, name, second, fi, ii, doc) SN_COMB_##ID,
#include "ir/ops/combs.def"
#undef SN_COMB
    SN_N_COMBS
} sn_comb;

/* The columns of lops.def, which explains them. */
typedef enum sn_lop_result {
    SN_RESULT_SAME,
    SN_RESULT_CHOSEN,
    SN_RESULT_BOOL,
    SN_RESULT_STATED,
    SN_RESULT_ELEMENT,
    SN_RESULT_STATES,
    SN_RESULT_NONE
} sn_lop_result;

enum { SN_ANY_OPERANDS = INT32_MAX };

typedef struct sn_lop_info {
    const char *name;
    uint32_t n_in;   /* SN_ANY_OPERANDS: one or more */
    uint32_t n_mask; /* operands of a mask, if there is one */
    sn_lop_result result;
    bool pure, reads, writes, syncs, ordered;                                                   /* effects */
    bool has_type, has_literal, has_ix, has_bound, has_buffer, has_axis, has_combs, has_region; /* fields */
    bool on_float, on_int;
    const char *format, *doc;
} sn_lop_info;
extern const sn_lop_info sn_lops[SN_N_ALL_LOPS];

/* What a combiner carries beside its value. */
typedef enum sn_comb_second {
    SN_SECOND_NONE,
    SN_SECOND_POSITION, /* i64 */
    SN_SECOND_WEIGHT,   /* of the dtype of the value, a float */
    SN_SECOND_SPREAD    /* two of them: squares about a mean, and of how many values */
} sn_comb_second;
typedef struct sn_comb_info {
    const char *name;
    sn_comb_second second;
    uint32_t states; /* 1, or 2 with a second one, or 3 with a spread */
    const char *doc;
} sn_comb_info;
enum { SN_MOST_STATES = 8 }; /* of all combiners of a reduction */
extern const sn_comb_info sn_combs[SN_N_COMBS];
extern const sn_lop sn_comb_lops[SN_N_COMBS]; /* of a combiner with one state: combine(a, b) as a scalar operation */

bool sn_lop_from_name(sn_lop *out, const char *name);
bool sn_comb_from_name(sn_comb *out, const char *name);
static inline bool sn_lop_has_region(sn_lop op) { return sn_lops[op].has_region; }
/* The operand that gives the operation its dtype. */
static inline uint32_t sn_lop_lead(sn_lop op) { return sn_lops[op].result == SN_RESULT_CHOSEN; }

#endif
