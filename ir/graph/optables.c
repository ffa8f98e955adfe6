/* optables.c: the tables of graph operations and attributes, made from ops.def and attrs.def. Relies on the order of
 * the .def files being the order of the enums of graph.h. Knows no rules: those are in rules*.c.
 */
#include "ir/graph/graph.h"
#include "ir/ops/ops.h"

#include <string.h>

/* The lop column names a combiner for reductions and a loop operation for everything else; NONE is -1 in both. */
enum { SN_LOP_NONE = -1, SN_COMB_NONE = -1 };
#define LOP_SOURCE(l)    SN_LOP_##l
#define LOP_UNARY(l)     SN_LOP_##l
#define LOP_BINARY(l)    SN_LOP_##l
#define LOP_COMPARE(l)   SN_LOP_##l
#define LOP_TEST(l)      SN_LOP_##l
#define LOP_ELEMENT(l)   SN_LOP_##l
#define LOP_REDUCE(l)    SN_COMB_##l
#define LOP_SCAN(l)      SN_COMB_##l
#define LOP_VIEW(l)      SN_LOP_##l
#define LOP_MOVE(l)      SN_LOP_##l
#define LOP_CONTRACT(l)  SN_LOP_##l
#define LOP_COMPOSITE(l) SN_LOP_##l
#define LOP_REPEAT(l)    SN_LOP_##l

const sn_op_info sn_ops[SN_N_OPS] = {
#define SN_OP(ID, name, cls, n_in, attrs, lop, doc) {#name, SN_OPS_##cls, n_in, attrs, LOP_##cls(lop), doc},
#include "include/sinter/ops.def"
#undef SN_OP
};

/* WORD(list) is a kind and its words. */
#define SN_KIND_WORD(list) SN_KIND_WORD, .words = sn_##list##_words
const sn_attr_info sn_attrs[SN_N_ATTRS] = {
#define SN_ATTR(ID, name, takes, doc) {name, doc, .kind = SN_KIND_##takes},
#include "include/sinter/attrs.def"
#undef SN_ATTR
};
#undef SN_KIND_WORD

bool sn_op_from_name(sn_op *out, const char *name) {
    for (int op = 0; op < SN_N_OPS; op++)
        if (strcmp(sn_ops[op].name, name) == 0) {
            *out = (sn_op)op;
            return true;
        }
    return false;
}
