/* ops.c: the tables of Loop IR, expanded from lops.def and combs.def, and look-up by name. Knows no meaning. */
#include "ir/ops/ops.h"

#include <string.h>

/* A row says NA where the operation does not exist; both compilers fold the comparison. */
#define EXISTS(text) (__builtin_strcmp(text, "NA") != 0)
#define IS_SAME false
#define IS_BOOL true

const sn_lop_info sn_lops[SN_N_ALL_LOPS] = {
#define SN_LOP(ID, name, n_in, result, f, i) [SN_LOP_##ID] = {name, n_in, IS_##result, EXISTS(#f), EXISTS(#i)},
#include "ir/ops/lops.def"
#undef SN_LOP
    [SN_LOP_CONST] = {"const", 0, false, true, true},     [SN_LOP_CAST] = {"cast", 1, false, true, true},
    [SN_LOP_BITCAST] = {"bitcast", 1, false, true, true}, [SN_LOP_INDEX] = {"index", 0, false, false, true},
    [SN_LOP_IN] = {"in", 0, true, false, true},           [SN_LOP_LOAD] = {"load", 0, false, true, true},
    [SN_LOP_ACCUM] = {"accum", 1, false, true, true},     [SN_LOP_STORE] = {"store", 1, false, true, true},
    [SN_LOP_LOOP] = {"loop", 0, false, true, true},       [SN_LOP_REDUCE] = {"reduce", 0, false, true, true},
    [SN_LOP_IF] = {"if", 0, false, true, true},           [SN_LOP_YIELD] = {"yield", 0, false, true, true},
    [SN_LOP_BARRIER] = {"barrier", 0, false, true, true},
};

const sn_comb_info sn_combs[SN_N_COMBS] = {
#define SN_COMB(ID, name, second, fi, ii, doc)                                                                         \
    [SN_COMB_##ID] = {name, SN_SECOND_##second, SN_SECOND_##second == SN_SECOND_NONE ? 1 : 2, doc},
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
