/* import.h: what the files of the ONNX importer share.
 *
 * Every value of the model is an sn_onnx_value; nearly all are nodes of the graph that is built. A handler (ops.def has
 * a row for each operator and the handler that builds it) gets an sn_onnx_call: it asks for operands and attributes by
 * number and name, builds nodes, and sets results. Errors stick in the environment (ir/base): a handler can build on
 * after a failure, gets none nodes, and the importer looks once when it returns.
 *
 * Shapes of the model may name sizes. What has to be a number at import (the axes of a Squeeze) is asked for with
 * sn_onnx_ints, what may be an expression over names (the shape of a Reshape) with sn_onnx_sizes; both look through
 * whatever computes the operand, down to constants, shapes, and inputs whose values the caller gave for this purpose.
 */
#ifndef SN_FRONTEND_ONNX_IMPORT_H
#define SN_FRONTEND_ONNX_IMPORT_H

#include "frontend/frontend.h"
#include "frontend/onnx/tensor.h"
#include "ir/graph/build.h"

enum { SN_ONNX_STRING = 8 }; /* the element type of texts */
enum {
    SN_ONNX_NEWEST = 26,       /* opset of the default domain that the table follows */
    SN_ONNX_ITERATIONS = 4096, /* that are written out at most */
    /* Up to so many are written out. What is written out is compiled as often, and steps of a repeat share no kernel and begin
     * with a copy of each state: few steps take no longer to compile than a repeat, and may run faster. */
    SN_ONNX_WRITTEN = 4,
    SN_ONNX_PARTS = 1 << 16 /* parts of an axis at most */
};

typedef enum sn_onnx_kind {
    SN_ONNX_NONE,     /* absent: an operand left out, an empty optional */
    SN_ONNX_TENSOR,   /* node */
    SN_ONNX_SEQUENCE, /* items: known one by one at import */
    SN_ONNX_TEXT,     /* text: known at import */
    SN_ONNX_MISSING   /* what an unsupported node would have given */
} sn_onnx_kind;

/* A tensor of texts, NUL-terminated. */
typedef struct sn_onnx_text {
    uint32_t rank;
    int64_t shape[SN_MAX_RANK], n;
    const char **at;
} sn_onnx_text;

typedef struct sn_onnx_value {
    sn_onnx_kind kind;
    bool narrow; /* integers of 4 bits, in the node as integers of 8 */
    sn_nd node;
    const struct sn_onnx_value *items;
    uint32_t n;
    const sn_onnx_text *text;
} sn_onnx_value;

typedef struct sn_onnx sn_onnx;
typedef struct sn_onnx_op sn_onnx_op;

/* The names that nodes see: those of a graph or function, then those around it. */
typedef struct sn_onnx_scope {
    const struct sn_onnx_scope *outer; /* a body sees the names around its node; NULL for model and function */
    const sn_pb_opset *opsets;         /* the operator sets that the nodes are written for */
    uint32_t n_opsets;
    const sn_pb_attribute *const *bound; /* function: attributes of the call that nodes refer to */
    uint32_t n_bound;
    const sn_names *makers; /* model: which names its nodes make, now or later; NULL: nodes stand in order */
    sn_names names;         /* name -> place in values plus 1 */
    SN_VEC(sn_onnx_value) values;
} sn_onnx_scope;

/* A node that cannot be imported. */
typedef struct sn_onnx_problem {
    const char *domain, *op, *node, *reason;
    int64_t opset;
} sn_onnx_problem;

/* One import. */
struct sn_onnx {
    sn_env *env;
    sn_arena *arena; /* of the running call */
    sn_module *m;
    const sn_import_options *options;
    const sn_pb_model *model;
    bool *dims_used, *values_used; /* by place in options->dims, options->values */
    sn_onnx_files files;
    sn_names ops;       /* operator name -> first row plus 1 */
    sn_names functions; /* "domain:name" -> place in model->functions plus 1 */
    sn_names given;     /* input node -> place of its value in options->values plus 1 */
    sn_names stated;    /* value_info of the model: name -> place plus 1 */
    /* Names of inputs, outputs and sizes that .sn text takes as they are: nothing else gets them. */
    sn_names own_inputs, own_outputs, own_sizes;
    uint32_t texts; /* outputs that are text */
    uint32_t depth; /* of functions and bodies */
    uint64_t steps; /* nodes of functions and bodies, with operands and attributes, each as often as it was imported */
    sn_names tensors;  /* address of a TensorProto, or what a table holds -> node with its elements: a body is imported
                        * many times */
    sn_names suffixes; /* name -> number behind it that was taken last */
    sn_names sizes, taken_sizes; /* name of a size in the model, and in .sn text -> place in size_names plus 1 */
    SN_VEC(const char *) size_names;
    /* By node (known.c): its elements, or why they are not known; neither while nobody has asked. */
    SN_VEC(sn_array *) arrays;
    SN_VEC(const char *) unknown;
    int64_t work;           /* that has been spent on them */
    int64_t table_elements; /* sn_onnx_room */
    SN_VEC(sn_onnx_problem) problems;
};

/* One node being imported. */
typedef struct sn_onnx_call {
    sn_onnx *im;
    sn_module *m;
    sn_arena *arena; /* lives until the import ends */
    const sn_onnx_scope *scope;
    const sn_pb_node *node;
    const sn_onnx_op *op;
    int64_t opset; /* of the operator's domain */
    const sn_onnx_value *in;
    uint32_t n_in, n_out;
    sn_onnx_value *out; /* n_out, absent until set */
    uint64_t read;      /* bit k: attribute k of the node was asked for */
} sn_onnx_call;

typedef sn_status (*sn_onnx_handler)(sn_onnx_call *c);

struct sn_onnx_op {
    const char *domain, *name;
    int64_t since; /* first opset in which it means this */
    sn_onnx_handler build;
    int arg; /* what rows of one handler differ in: an sn_op, mostly */
};

/* Record a failure of the node: the reason alone; the importer adds operator and name. */
sn_status sn_onnx_fail(sn_onnx_call *c, const char *format, ...) SN_PRINTF(2, 3);

/* The opset of ONNX's own operators, where the call's operator is of another domain. */
int64_t sn_onnx_opset(const sn_onnx_call *c);
/* Result 0 of ONNX's operator `name` of that opset, of these operands, with the attributes of the call's node. */
sn_status sn_onnx_as(sn_onnx_value *out, sn_onnx_call *c, const char *name, int64_t opset, const sn_onnx_value *in,
                     uint32_t n_in);

/* ---- operands ---- */

/* Was operand k given? */
bool sn_onnx_has(const sn_onnx_call *c, uint32_t k);
/* The node of operand k, which must be a tensor; none with a failure where it is absent. */
sn_nd sn_onnx_in(sn_onnx_call *c, uint32_t k);
/* Result k. */
void sn_onnx_out(sn_onnx_call *c, uint32_t k, sn_nd x);
void sn_onnx_out_value(sn_onnx_call *c, uint32_t k, sn_onnx_value v);
/* sn_onnx_out for result 0 and the status so far: the last line of most handlers. */
sn_status sn_onnx_done(sn_onnx_call *c, sn_nd x);

/* ---- attributes: every one that a node has must be asked for, or the node is refused ---- */

bool sn_onnx_has_attr(sn_onnx_call *c, const char *name);
int64_t sn_onnx_attr_int(sn_onnx_call *c, const char *name, int64_t otherwise);
double sn_onnx_attr_float(sn_onnx_call *c, const char *name, double otherwise);
/* NUL-terminated. */
const char *sn_onnx_attr_text(sn_onnx_call *c, const char *name, const char *otherwise);
/* The list, or false where it is absent. */
bool sn_onnx_attr_ints(const int64_t **at, uint32_t *n, sn_onnx_call *c, const char *name);
bool sn_onnx_attr_floats(const float **at, uint32_t *n, sn_onnx_call *c, const char *name);
const sn_pb_tensor *sn_onnx_attr_tensor(sn_onnx_call *c, const char *name); /* NULL where absent */
const sn_pb_graph *sn_onnx_attr_graph(sn_onnx_call *c, const char *name);
/* The attribute itself, marked as read; NULL where absent. */
const sn_pb_attribute *sn_onnx_attr(sn_onnx_call *c, const char *name);
/* An attribute `name` that holds a number of ONNX's element types. */
sn_dtype sn_onnx_attr_dtype(sn_onnx_call *c, const char *name, sn_dtype otherwise);
/* One that changes nothing here. */
void sn_onnx_attr_ignore(sn_onnx_call *c, const char *name);

/* ---- what is known at import (known.c) ---- */

/* The elements of a node, computed from constants, shapes, and given inputs; in the import's arena. */
sn_status sn_onnx_array(const sn_array **out, sn_onnx_call *c, sn_nd x);
/* true and the elements, or false where x is not known: no failure. */
bool sn_onnx_try_array(const sn_array **out, sn_onnx_call *c, sn_nd x);
/* Integer elements of operand k. */
sn_status sn_onnx_ints(const int64_t **at, uint32_t *n, sn_onnx_call *c, uint32_t k);
sn_status sn_onnx_int(int64_t *out, sn_onnx_call *c, uint32_t k); /* one element */
/* The list of attribute `name`, as older opsets have it, or of operand k; false where neither is given, or with a
 * failure. */
bool sn_onnx_list(const int64_t **at, uint32_t *n, sn_onnx_call *c, const char *name, uint32_t k);
/* Integer elements of operand k as expressions over size names; at most SN_KNOWN_MAX. */
sn_status sn_onnx_sizes(sn_ix *at, uint32_t *n, sn_onnx_call *c, uint32_t k);
/* May the handler compute a table of so many elements, or do as much work? A few bytes of a model can ask for it, so
 * that what all nodes may have is bounded. */
sn_status sn_onnx_room(sn_onnx_call *c, int64_t elements);
/* All sizes of x as numbers. */
sn_status sn_onnx_shape(int64_t *shape, sn_onnx_call *c, sn_nd x);
/* An axis that may count from the end, of a tensor of that rank; fails where there is none. */
sn_status sn_onnx_axis(uint32_t *out, sn_onnx_call *c, int64_t axis, uint32_t rank);

/* ---- values ---- */

sn_onnx_value sn_onnx_tensor(sn_nd x);
/* A node with these elements: a `constant` of few, a `weight` of many, under a name like this one. */
sn_nd sn_onnx_constant_of(sn_onnx *im, const char *name, const sn_onnx_elements *e);
/* A TensorProto: a node with its elements. */
sn_onnx_value sn_onnx_constant(sn_onnx_call *c, const sn_pb_tensor *t);

/* ---- texts (ops_text.c) ---- */

/* Those of a TensorProto. */
sn_status sn_onnx_texts(sn_onnx_value *out, sn_env *env, sn_arena *arena, const sn_pb_tensor *t);
/* Result 0 is operand 0 as elements of an ONNX type, where one of both is text. */
sn_status sn_onnx_cast_text(sn_onnx_call *c, int64_t to);

/* ---- nodes in order (order.c) ---- */

enum { SN_ONNX_NESTING = 64 /* functions and bodies in each other */ };

/* Numbers of n nodes of the model, each behind those whose results it takes, as far as there is such an order. makers: by
 * result, 1 + the number of its node. */
const uint32_t *sn_onnx_order(sn_names *makers, sn_arena *arena, const sn_pb_node *nodes, uint32_t n);

/* ---- graphs inside of nodes (If, Loop, Scan) ---- */

/* Import the nodes of a body. It sees the names around the call. out: one value for each output of the body. */
sn_status sn_onnx_body(sn_onnx_value *out, sn_onnx_call *c, const sn_pb_graph *g, const sn_onnx_value *in,
                       uint32_t n_in);

/* ---- the whole model (import.c) ---- */

/* Build the graph of im->model in im->m. What is not supported is in im->problems afterwards, and no failure. */
sn_status sn_onnx_import_model(sn_onnx *im);

/* ---- handlers, one for each row ---- */
#define SN_ONNX_OP(domain, name, since, handler, arg) sn_status sn_onnx_##handler(sn_onnx_call *c);
#include "frontend/onnx/ops.def"
#undef SN_ONNX_OP

#endif
