/* graph.h: Graph IR. Pure, append-only, one result per node, interned at construction: building the same operation on
 * the same operands twice gives the same node. Operands have smaller ids, so id order is topological.
 *
 * Operations with several results (batch_norm_train, var_mean) make a tuple node; `project` nodes read it. Mutation is
 * functional: a graph output may name an input that the wrapper writes it back to.
 */
#ifndef SN_IR_GRAPH_GRAPH_H
#define SN_IR_GRAPH_GRAPH_H

#include "ir/base/text.h"
#include "ir/base/precision.h"
#include "ir/base/store.h"

struct sn_text;

typedef enum sn_op {
#define SN_OP(ID, name, cls, n_in, attrs, lop, doc) SN_OP_##ID,
#include "include/sinter/ops.def"
#undef SN_OP
    SN_N_OPS
} sn_op;

typedef enum sn_opclass {
    SN_OPS_SOURCE,
    SN_OPS_UNARY,
    SN_OPS_BINARY,
    SN_OPS_COMPARE,
    SN_OPS_TEST,
    SN_OPS_ELEMENT,
    SN_OPS_REDUCE,
    SN_OPS_SCAN,
    SN_OPS_VIEW,
    SN_OPS_MOVE,
    SN_OPS_CONTRACT,
    SN_OPS_COMPOSITE,
    SN_OPS_REPEAT
} sn_opclass;

typedef enum sn_attr_id {
#define SN_ATTR(ID, name, kind, doc) SN_ATTR_##ID,
#include "include/sinter/attrs.def"
#undef SN_ATTR
    SN_N_ATTRS
} sn_attr_id;

typedef enum sn_attr_kind {
    SN_KIND_INT,
    SN_KIND_FLOAT,
    SN_KIND_BOOL,
    SN_KIND_DTYPE,
    SN_KIND_INTS,
    SN_KIND_SHAPE,
    SN_KIND_NUMBERS,
    SN_KIND_STRING,
    SN_KIND_WORD
} sn_attr_kind;

typedef struct sn_attr_info {
    const char *name, *doc;
    sn_attr_kind kind;
    const char *const *words; /* WORD: NULL at the end */
} sn_attr_info;
extern const sn_attr_info sn_attrs[SN_N_ATTRS];

typedef struct sn_attr {
    sn_attr_id id;
    union {
        int64_t i; /* INT, BOOL, DTYPE; WORD: its place in the list */
        double f;  /* FLOAT */
        struct {
            const int64_t *at;
            uint32_t n;
        } ints; /* INTS */
        struct {
            const sn_ix *at;
            uint32_t n;
        } shape; /* SHAPE */
        struct {
            const double *f;
            const int64_t *i;
            uint64_t n;
        } numbers;        /* NUMBERS: f for float dtypes, else i */
        const char *text; /* STRING */
    };
} sn_attr;

typedef struct sn_op_info {
    const char *name;
    sn_opclass cls;
    int n_in;          /* -1: one or more */
    const char *attrs; /* as in ops.def */
    int lop;           /* sn_lop (elementwise) or sn_comb (REDUCE, SCAN), -1 for NONE */
    const char *doc;
} sn_op_info;
extern const sn_op_info sn_ops[SN_N_OPS];

/* Element type and shape of a result. */
typedef struct sn_type {
    sn_dtype dtype;
    uint32_t rank;
    sn_ix shape[SN_MAX_RANK];
} sn_type;

typedef struct sn_node_rec {
    sn_op op;
    uint32_t n_in, n_attrs;
    const sn_nd *in;
    const sn_attr *attrs; /* sorted by id */
    sn_type type;         /* of the result; of result 0 for a tuple */
    uint32_t n_results;   /* 1; more for a tuple */
    const char *name;     /* hint for the printer; inputs: the user's name */
    /* Where it comes from, for people: a place of the caller's ("model.c:12"), which is in the text, or the value of the text
     * that was read ("%s"). What a pass makes of a node has that of the node. NULL: nobody says. */
    const char *origin;
    uint64_t hash;
    uint32_t input; /* INPUT: number of the input */
} sn_node_rec;

/* Elements from the start of the storage of input number `input` up to the last one that it has. */
sn_ix sn_graph_input_size(sn_module *m, uint32_t input);

/* ---- building (ir/graph/graph.c): a failure gives none and is recorded in the module's environment ---- */

void sn_graph_init(sn_module *m, const char *name);
/* strides NULL: contiguous. offset: none = 0. */
sn_nd sn_graph_input_new(sn_module *m, const char *name, const sn_type *type, const sn_ix *strides, sn_ix offset);
/* What an input is in runs that leave it out: one element for all, or as many as it has, of floats at f, else at i; copied. */
sn_status sn_graph_input_default(sn_module *m, uint32_t input, const double *f, const int64_t *i, uint64_t n);
/* The general constructor: checks operands and attributes against ops.def, infers the type, interns. */
sn_nd sn_graph_node(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, const sn_attr *attrs, uint32_t n_attrs);
sn_status sn_graph_output_new(sn_module *m, const char *name, sn_nd node, int writes_input);
/* A printer hint for a node that has no name yet. */
void sn_graph_name(sn_module *m, sn_nd node, const char *name);

/* The weight of that name, whose type has constant sizes. data is borrowed (ir/graph/weights.h); NULL: attached later. */
sn_nd sn_graph_weight(sn_module *m, const char *name, const sn_type *type, const void *data);

/* The i64 tensor of rank 1 with these elements (at most SN_MAX_RANK): a `constant` when all of them are. */
sn_nd sn_graph_sizes(sn_module *m, const sn_ix *at, uint32_t n);

/* Shorthands over sn_graph_node for passes. */
sn_nd sn_graph_unary(sn_module *m, sn_op op, sn_nd x);
sn_nd sn_graph_binary(sn_module *m, sn_op op, sn_nd x, sn_nd y);
sn_nd sn_graph_full(sn_module *m, sn_dtype dtype, double value, const sn_ix *shape, uint32_t rank);
sn_nd sn_graph_scalar(sn_module *m, sn_dtype dtype, double value); /* rank 0 */
sn_nd sn_graph_cast(sn_module *m, sn_nd x, sn_dtype dtype);        /* x itself when nothing changes */
sn_nd sn_graph_reduce(sn_module *m, sn_op op, sn_nd x, const int64_t *axes, uint32_t n, bool keepdim);
sn_nd sn_graph_reshape(sn_module *m, sn_nd x, const sn_ix *shape, uint32_t rank);
sn_nd sn_graph_expand(sn_module *m, sn_nd x, const sn_ix *shape, uint32_t rank);
sn_nd sn_graph_permute(sn_module *m, sn_nd x, const int64_t *perm, uint32_t rank);
sn_nd sn_graph_unsqueeze(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n);
sn_nd sn_graph_project(sn_module *m, sn_nd tuple, int64_t index);

/* ---- reading ---- */

sn_node_rec *sn_node_get(const sn_module *m, sn_nd x);
const sn_attr *sn_node_attr(const sn_module *m, sn_nd x, sn_attr_id id); /* NULL when absent */
int64_t sn_node_int(const sn_module *m, sn_nd x, sn_attr_id id, int64_t otherwise);
uint64_t sn_node_hash_what(const sn_node_rec *n); /* of its operation and attributes, not of its operands */
double sn_node_float(const sn_module *m, sn_nd x, sn_attr_id id, double otherwise);
bool sn_op_from_name(sn_op *out, const char *name);
/* Number of elements. */
sn_ix sn_type_numel(sn_module *m, const sn_type *t);
bool sn_type_eq(const sn_type *a, const sn_type *b);
/* "f32[8192, 1024]" in an arena. */
char *sn_type_text(sn_module *m, const sn_type *t);
/* Is an element of it made of one element of each operand? */
bool sn_node_is_elementwise(const sn_node_rec *n);
/* Normalised reduction axes as a bit mask. */
uint32_t sn_node_axes_mask(const sn_module *m, sn_nd x);
/* Type of result k of an operation (ir/graph/rules.c): the one place that knows shape and dtype rules. */
sn_status sn_graph_infer(sn_type *out, uint32_t *n_results, sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in,
                         const sn_attr *attrs, uint32_t n_attrs, uint32_t result);
/* Result type of arithmetic on two dtypes (PyTorch's table for tensors). */
sn_dtype sn_promote(sn_dtype a, sn_dtype b);
/* The dtype that operands are cast to, by torch.result_type: those of rank 0 are weak. They count when no other is there,
 * or when their category (bool, integer, float) is higher. Zeroed, then add each operand. */
typedef struct sn_common_dtype {
    bool has_strong, has_weak;
    sn_dtype strong, weak;
} sn_common_dtype;
void sn_common_dtype_add(sn_common_dtype *c, const sn_type *t);
sn_dtype sn_common_dtype_get(const sn_common_dtype *c);
/* Broadcast two shapes; `what` names the operation in the message. */
sn_status sn_broadcast(sn_type *out, sn_module *m, const char *what, const sn_type *a, const sn_type *b);
/* A copy of the graph of `from` in the empty module `to`, with symbols of the names replaced by sizes. */
sn_status sn_graph_copy(sn_module *to, const sn_module *from, const char *const *symbols, const int64_t *sizes,
                        uint32_t n);
/* The same, and products of f32 that say nothing about their precision get this one. */
sn_status sn_graph_copy_in(sn_module *to, const sn_module *from, const char *const *symbols, const int64_t *sizes,
                           uint32_t n, sn_precision precision);
/* The precision of a product. Of other element types than f32 it is exact, whatever was said. */
sn_precision sn_node_precision(const sn_module *m, sn_nd x);
/* Replace the graph by its live part after a rewrite: `map[old id]` gives the replacement of outputs (passes). */
void sn_graph_set_output(sn_module *m, uint32_t output, sn_nd node);
/* live[i] is set for every node that an output needs (array of nodes.count bytes). */
void sn_graph_live(const sn_module *m, uint8_t *live);
/* How many elements of the result each element of operand k of a matmul is multiplied for; -1: a size is no number. */
int64_t sn_graph_matmul_uses(const sn_module *m, sn_nd x, uint32_t k);

/* ---- text (ir/graph/text.c), invariants (ir/graph/verify.c) ---- */

void sn_graph_print(struct sn_text *t, const sn_module *m);
/* Aligned columns: id, op, operands, attributes, type. For people. */
void sn_graph_print_table(struct sn_text *t, const sn_module *m);
struct sn_lex;
sn_status sn_graph_parse(sn_module *m, struct sn_lex *lx); /* current token: `graph` */
sn_status sn_graph_verify(sn_module *m, const char *where);

/* ---- evaluation (ir/graph/eval.c): the naive reference ----
 * Floats are computed in double without intermediate rounding (a cast node rounds), integers in int64 wrapped to their
 * width. Nothing here knows about lowering. All sizes must be constants. */
typedef struct sn_array {
    sn_dtype dtype;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK];
    int64_t numel;
    double *f;  /* float dtypes: numel values */
    int64_t *i; /* integral dtypes */
} sn_array;

/* inputs[k] belongs to graph input k (already in logical, contiguous order). outputs[k] is allocated in the arena. */
/* The elements of an input that has a default, all of them, in the arena. */
sn_status sn_graph_default_array(sn_array *out, sn_module *m, uint32_t input, sn_arena *arena);
sn_status sn_graph_eval(sn_array *outputs, sn_module *m, const sn_array *inputs, sn_arena *arena);
/* One node: its results go to all[x], those of its operands are there already. */
sn_status sn_eval_node(sn_array **all, sn_module *m, sn_nd x, sn_arena *arena);
/* The elements of an integer tensor of at most SN_KNOWN_MAX as expressions, where they follow from sizes and literals
 * (ir/graph/known.c). Otherwise a failure says which node they depend on. numbers, by node: elements that are known
 * already, else NULL; n of them. */
enum { SN_KNOWN_MAX = 64 };
sn_status sn_graph_known_sizes(sn_ix *out, sn_module *m, sn_nd x, sn_array *const *numbers, uint32_t n);
/* How far rounding may take each element of each output of a graph without composites (ir/graph/eval_errors.c).
 * out[k][i]: element i of output k, 0 for integers. */
sn_status sn_graph_eval_errors(double **out, sn_module *m, const sn_array *inputs, sn_arena *arena);

#endif
