/* ops.h: the operations and combiners of Loop IR as tables, made of lops.def and combs.def. What they mean on scalars:
 * ir/ops/scalar.h.
 */
#ifndef SN_IR_OPS_OPS_H
#define SN_IR_OPS_OPS_H

#include "ir/base/ids.h"

typedef enum sn_lop {
#define SN_LOP(ID, name, n_in, result, f, i) SN_LOP_##ID,
#include "ir/ops/lops.def"
#undef SN_LOP
    SN_N_LOPS,
    /* Values that are not plain scalar functions of their operands: */
    SN_LOP_CONST = SN_N_LOPS, /* literal of its dtype */
    SN_LOP_CAST,              /* convert operand 0 to dtype */
    SN_LOP_BITCAST,           /* same bits, other dtype of the same size */
    SN_LOP_INDEX,             /* the value of an ix as an integer dtype */
    SN_LOP_IN,                /* bool: 0 <= ix < bound */
    SN_LOP_LOAD,              /* buffer[ix]; with a mask: only where operand 0 holds, else operand 1 */
    SN_LOP_ACCUM,             /* prefix of operand 0 over the iterations that ix counts; starts anew where ix is 0 */
    /* Statements without a value: */
    SN_LOP_STORE,   /* buffer[ix] = operand 0; with a mask: only where operand 1 holds */
    SN_LOP_LOOP,    /* axis, region */
    SN_LOP_REDUCE,  /* axis, combiners, region that ends in yield; one result per state */
    SN_LOP_IF,      /* region runs when 0 <= ix < bound */
    SN_LOP_YIELD,   /* operands: one per state of the enclosing reduce */
    SN_LOP_BARRIER, /* every thread of the block (of the cluster, if there is one) has come here before any goes on */
    SN_N_ALL_LOPS
} sn_lop;

typedef enum sn_comb {
#define SN_COMB(ID, name, second, fi, ii, doc) SN_COMB_##ID,
#include "ir/ops/combs.def"
#undef SN_COMB
    SN_N_COMBS
} sn_comb;

typedef struct sn_lop_info {
    const char *name;
    uint32_t n_in;
    bool is_bool;
    bool on_float, on_int;
} sn_lop_info;
extern const sn_lop_info sn_lops[SN_N_ALL_LOPS];
/* What a combiner carries beside its value. */
typedef enum sn_comb_second {
    SN_SECOND_NONE,
    SN_SECOND_POSITION, /* i64 */
    SN_SECOND_WEIGHT    /* of the dtype of the value, a float */
} sn_comb_second;
typedef struct sn_comb_info {
    const char *name;
    sn_comb_second second;
    uint32_t states; /* 1, or 2 with a second one */
    const char *doc;
} sn_comb_info;
extern const sn_comb_info sn_combs[SN_N_COMBS];
extern const sn_lop sn_comb_lops[SN_N_COMBS]; /* of a combiner with one state: combine(a, b) as a scalar operation */

bool sn_lop_from_name(sn_lop *out, const char *name);
bool sn_comb_from_name(sn_comb *out, const char *name);
static inline bool sn_lop_has_region(sn_lop op) { return op == SN_LOP_LOOP || op == SN_LOP_REDUCE || op == SN_LOP_IF; }

#endif
