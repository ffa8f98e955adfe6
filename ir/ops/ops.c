/* ops.c: the tables of Loop IR, expanded from lops.def and combs.def, and look-up by name. Knows no meaning. */
#include "ir/ops/ops.h"

#include <string.h>

/* A row says NA where the operation does not exist; compilers fold the comparison, and the search for a field. */
#define EXISTS(text) (__builtin_strcmp(text, "NA") != 0)
#define HAS(format, field) (__builtin_strchr(format, field) != NULL)

enum { ANY = SN_ANY_OPERANDS };
enum { NONE = 0, PURE = 1, READS = 2, WRITES = 4, SYNCS = 8, ORDERED = 16 };

const sn_lop_info sn_lops[SN_N_ALL_LOPS] = {
#define SN_LOP(ID, text, operands, type, f, i)                                                                         \
    [SN_LOP_##ID] = {.name = text,                                                                                     \
                     .n_in = operands,                                                                                 \
                     .result = SN_RESULT_##type,                                                                       \
                     .pure = true,                                                                                     \
                     .on_float = EXISTS(#f),                                                                           \
                     .on_int = EXISTS(#i),                                                                             \
                     .format = "V"},
#define SN_STMT(ID, text, operands, type, effects, fields, about)                                                      \
    [SN_LOP_##ID] = {.name = text,                                                                                     \
                     .n_in = operands,                                                                                 \
                     .result = SN_RESULT_##type,                                                                       \
                     .pure = ((effects) & PURE) != 0,                                                                  \
                     .reads = ((effects) & READS) != 0,                                                                \
                     .writes = ((effects) & WRITES) != 0,                                                              \
                     .syncs = ((effects) & SYNCS) != 0,                                                                \
                     .ordered = ((effects) & ORDERED) != 0,                                                            \
                     .n_mask = HAS(fields, 'M') ? 1 : HAS(fields, 'E') ? 2 : 0,                                        \
                     .has_type = HAS(fields, 'T'),                                                                     \
                     .has_literal = HAS(fields, 'L'),                                                                  \
                     .has_ix = HAS(fields, 'I'),                                                                       \
                     .has_bound = HAS(fields, 'N'),                                                                    \
                     .has_buffer = HAS(fields, 'B'),                                                                   \
                     .has_axis = HAS(fields, 'A'),                                                                     \
                     .has_combs = HAS(fields, 'C'),                                                                    \
                     .has_region = HAS(fields, 'R'),                                                                   \
                     .format = fields,                                                                                 \
                     .doc = about},
#include "ir/ops/lops.def"
};

const sn_comb_info sn_combs[SN_N_COMBS] = {
#define SN_COMB(ID, name, second, fi, ii, doc)                                                                         \
    [SN_COMB_##ID] = {name, SN_SECOND_##second,                                                                        \
                      SN_SECOND_##second == SN_SECOND_NONE     ? 1                                                     \
                      : SN_SECOND_##second == SN_SECOND_SPREAD ? 3                                                     \
                                                               : 2,                                                    \
                      doc},
#include "ir/ops/combs.def"
#undef SN_COMB
};

const sn_lop sn_comb_lops[SN_N_COMBS] = {
    [SN_COMB_SUM] = SN_LOP_ADD, [SN_COMB_PROD] = SN_LOP_MUL, [SN_COMB_MAX] = SN_LOP_MAX,
    [SN_COMB_MIN] = SN_LOP_MIN, [SN_COMB_ANY] = SN_LOP_OR,   [SN_COMB_ALL] = SN_LOP_AND,
};

bool sn_lop_from_name(sn_lop *out, const char *name) {
    for (int op = 0; op < SN_N_ALL_LOPS; op++)
        if (strcmp(sn_lops[op].name, name) == 0) {
            *out = (sn_lop)op;
            return true;
        }
    return false;
}

bool sn_comb_from_name(sn_comb *out, const char *name) {
    for (int comb = 0; comb < SN_N_COMBS; comb++)
        if (strcmp(sn_combs[comb].name, name) == 0) {
            *out = (sn_comb)comb;
            return true;
        }
    return false;
}
