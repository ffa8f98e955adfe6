/* test_sweep.c: every public function, called with arguments that make no sense: NULL, 0, huge, of another graph or
 * context; one at a time, two, and many at once. Nothing may crash or, under the sanitizers, be reported, and what is
 * surely wrong must be refused with a message.
 *
 * sweep.def has a row for each function, with the kind of each argument. A KIND row below gives the values that an
 * argument of a kind may take: value 0 is valid, the verdict on the others is BAD where alone it must be refused,
 * NIL where moreover the message has to say that something is missing, OBJECT where nobody is left to ask for a
 * message, and ANY. Every call gets a fresh graph, since one that failed does nothing more. Memory is limited, so
 * that huge sizes fail.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "include/sinter/dlpack.h"

/* ---- the world that a call finds ---- */

typedef struct nodes {
    sn_node f, i, b, t, s, v, unit, image, filter; /* f32[2, 3], i32[2, 3], bool[2, 3], i64[2], i64[], f32[3], ... */
} nodes;

typedef struct world {
    sn_context *ctx, *other;
    sn_graph *g, *sibling, *foreign; /* of ctx, of ctx, of other; with the same nodes */
    nodes n, sibling_n, foreign_n;
    int64_t dim, sibling_dim, foreign_dim; /* sizes of the graphs */
    sn_program *p;                         /* y = x + x, f32[2, 3] */
    sn_run_state *state;                   /* of p */
    sn_tensor *t, *u, *foreign_t, *foreign_u;
    sn_weights *weights; /* w: f32[2, 3] */
    sn_program *loaded;  /* y = x + w, from an image */
    char dir[32], image_path[64], sn_path[64], onnx_path[512], weights_path[64], npy_path[64], new_path[64];
    char onnx[4096], zeros[4096];
    size_t onnx_size;
    DLManagedTensorVersioned *managed; /* that the call got, to be given back */
    DLManagedTensor *managed_old;
    /* what the call made */
    sn_context *made_context;
    sn_graph *made_graph;
    sn_program *made_program;
    sn_run_state *made_state;
    sn_tensor *made_tensor;
    sn_weights *made_weights;
    sn_tune_report *made_report;
    sn_profile *made_profile;
    char *made_text;
    DLManagedTensorVersioned *made_managed;
    DLManagedTensor *made_managed_old;
    union {
        char bytes[4096];
        max_align_t align;
    } out[2]; /* two that are not the same */
    unsigned outs;
    int64_t lists[512][2];
    unsigned n_lists;
    const char *function; /* that is called */
    /* what it said */
    bool refused, asks_state; /* the text is that of the run state */
    sn_node result;           /* of a builder function */
} world;

static void *limited(void *user, void *p, size_t size) {
    (void)user;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return size > (size_t)1 << 28 ? NULL : realloc(p, size);
}

static sn_context *new_context(void) {
    sn_context *ctx;
    sn_context_options o = {.struct_size = sizeof o, .realloc_fn = limited};
    cr_assert_eq(sn_context_create(&ctx, &o), SN_OK);
    return ctx;
}

static sn_graph *new_graph(nodes *n, int64_t *dim, sn_context *ctx) {
    sn_graph *g;
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    *dim = sn_dim(g, "N");
    *n = (nodes){
        .f = sn_input(g, "x", SN_F32, SN_LIST(2, 3)),
        .i = sn_input(g, "i", SN_I32, SN_LIST(2, 3)),
        .b = sn_input(g, "b", SN_BOOL, SN_LIST(2, 3)),
        .t = sn_input(g, "t", SN_I64, SN_LIST(2)),
        .s = sn_input(g, "s", SN_I64, 0, NULL),
        .v = sn_input(g, "v", SN_F32, SN_LIST(3)),
        .unit = sn_input(g, "unit", SN_F32, SN_LIST(1, 3)),
        .image = sn_input(g, "image", SN_F32, SN_LIST(2, 3, 4, 4)),
        .filter = sn_input(g, "filter", SN_F32, SN_LIST(3, 3, 2, 2)),
    };
    sn_weight(g, "w", SN_F32, NULL, SN_LIST(2, 3));
    sn_output(g, "y", sn_add(g, n->f, n->f));
    cr_assert_eq(sn_graph_status(g), SN_OK, "%s", sn_graph_error(g));
    return g;
}

static const char program_text[] = "graph @f(%x: f32[2, 3]) {\n  %y = add %x, %x\n  return y = %y\n}\n";
static const float elements[6] = {1, 2, 3, 4, 5, 6};
static const sn_compile_options on_cpu = {.struct_size = sizeof on_cpu, .device = "cpu", .threads = 1};

static sn_tensor *new_tensor(sn_context *ctx) {
    sn_tensor *t;
    cr_assert_eq(sn_tensor_create(&t, ctx, SN_CPU, SN_F32, SN_LIST(2, 3)), SN_OK);
    return t;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

/* y = x + x, alone in its graph. */
static sn_program *new_program(sn_context *ctx) {
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", program_text, strlen(program_text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &on_cpu), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    return p;
}

/* y = x + w, from a file. */
static sn_program *load_program(const world *w) {
    sn_graph *g;
    sn_program *p;
    sn_load_options o = {.struct_size = sizeof o, .threads = 1};
    cr_assert_eq(sn_graph_create(&g, w->ctx, "image"), SN_OK);
    sn_output(g, "y",
              sn_add(g, sn_input(g, "x", SN_F32, SN_LIST(2, 3)), sn_weight(g, "w", SN_F32, elements, SN_LIST(2, 3))));
    cr_assert_eq(sn_compile(&p, g, &on_cpu), SN_OK, "%s", sn_error(w->ctx));
    cr_assert_eq(sn_program_save(p, w->image_path), SN_OK, "%s", sn_error(w->ctx));
    sn_program_destroy(p);
    sn_graph_destroy(g);
    cr_assert_eq(sn_program_load(&p, w->ctx, w->image_path, &o), SN_OK, "%s", sn_error(w->ctx));
    return p;
}

static void set_up_files(world *w) {
    const sn_weight_info info = {"w", SN_F32, NULL, 2, {2, 3}, elements, sizeof elements};
    strcpy(w->dir, "/tmp/sinter-sweep-XXXXXX");
    cr_assert(mkdtemp(w->dir));
    snprintf(w->sn_path, sizeof w->sn_path, "%s/f.sn", w->dir);
    snprintf(w->image_path, sizeof w->image_path, "%s/f.snb", w->dir);
    w->loaded = load_program(w);
    snprintf(w->weights_path, sizeof w->weights_path, "%s/w.safetensors", w->dir);
    snprintf(w->npy_path, sizeof w->npy_path, "%s/x.npy", w->dir);
    snprintf(w->new_path, sizeof w->new_path, "%s/new", w->dir);
    snprintf(w->onnx_path, sizeof w->onnx_path, "%s/tests/fuzz/corpus-onnx/matmul", SN_SOURCE_DIR);
    write_text(w->sn_path, program_text);
    cr_assert_eq(sn_weights_save(w->ctx, w->weights_path, 1, &info), SN_OK, "%s", sn_error(w->ctx));
    cr_assert_eq(sn_tensor_save_npy(w->t, w->npy_path), SN_OK, "%s", sn_error(w->ctx));
    cr_assert_eq(sn_weights_open(&w->weights, w->ctx, w->weights_path), SN_OK, "%s", sn_error(w->ctx));
    FILE *file = fopen(w->onnx_path, "rb");
    cr_assert(file, "%s", w->onnx_path);
    w->onnx_size = fread(w->onnx, 1, sizeof w->onnx, file);
    fclose(file);
}

static world *set_up(void) {
    world *w = calloc(1, sizeof *w);
    w->ctx = new_context();
    w->other = new_context();
    w->sibling = new_graph(&w->sibling_n, &w->sibling_dim, w->ctx);
    w->foreign = new_graph(&w->foreign_n, &w->foreign_dim, w->other);
    w->t = new_tensor(w->ctx);
    w->u = new_tensor(w->ctx);
    w->foreign_t = new_tensor(w->other);
    w->foreign_u = new_tensor(w->other);
    w->p = new_program(w->ctx);
    cr_assert_eq(sn_run_state_create(&w->state, w->p), SN_OK);
    set_up_files(w);
    return w;
}

static void tear_down(world *w) {
    const char *paths[] = {w->sn_path, w->image_path, w->weights_path, w->npy_path, w->new_path};
    sn_weights_close(w->weights);
    for (size_t k = 0; k < SN_COUNT(paths); k++) unlink(paths[k]);
    char table[sizeof w->dir + 64];
    snprintf(table, sizeof table, "%s/metric_graph_stats.csv", w->dir);
    unlink(table);
    rmdir(w->dir);
    sn_run_state_destroy(w->state);
    sn_program_destroy(w->p);
    sn_program_destroy(w->loaded);
    sn_tensor *tensors[] = {w->t, w->u, w->foreign_t, w->foreign_u};
    for (size_t k = 0; k < SN_COUNT(tensors); k++) sn_tensor_destroy(tensors[k]);
    sn_graph_destroy(w->sibling);
    sn_graph_destroy(w->foreign);
    sn_context_destroy(w->ctx);
    sn_context_destroy(w->other);
    free(w);
}

/* ---- values ---- */

typedef union value {
    void *p;
    int64_t i;
    size_t n;
    unsigned u;
    int d;
    double f;
    bool b;
    sn_node x;
} value;

typedef enum verdict { GOOD, ANY, BAD, NIL, OBJECT } verdict;

typedef struct choice {
    verdict verdict;
    value v;
} choice;

/* Value k of a kind. The result is how many there are; k beyond that asks for this alone. */
typedef unsigned kind_fn(choice *out, unsigned k, world *w);

static unsigned pick(choice *out, unsigned k, const choice *from, unsigned n) {
    if (k < n) *out = from[k];
    return n;
}
#define PICK(...) return pick(out, k, (const choice[]){__VA_ARGS__}, SN_COUNT(((const choice[]){__VA_ARGS__})))
#define P(...) {.p = (void *)(uintptr_t)(__VA_ARGS__)}
#define LIST(a, b) {.p = keep(w, a, b)}

static int64_t *keep(world *w, int64_t a, int64_t b) {
    int64_t *at = w->lists[w->n_lists++ % SN_COUNT(w->lists)];
    at[0] = a;
    at[1] = b;
    return at;
}

/* KIND(name, member of value that is passed): the body says which values. */
#define KIND(name, member)                                                                                             \
    SN_UNUSED static TYPE_##member name##_(value v) { return v.member; }                                                  \
    static unsigned name##_values(choice *out, unsigned k, SN_UNUSED world *w)
#define TYPE_p void *
#define TYPE_i int64_t
#define TYPE_n size_t
#define TYPE_u unsigned
#define TYPE_d int
#define TYPE_f double
#define TYPE_b bool
#define TYPE_x sn_node

KIND(CTX, p) { PICK({GOOD, P(w->ctx)}, {OBJECT, P(NULL)}); }
KIND(GRAPH, p) { PICK({GOOD, P(w->g)}, {OBJECT, P(NULL)}); }
KIND(PROGRAM, p) { PICK({GOOD, P(w->p)}, {OBJECT, P(NULL)}); }
KIND(LOADED, p) { PICK({GOOD, P(w->loaded)}, {OBJECT, P(NULL)}, {BAD, P(w->p)}); }
KIND(N_PROGRAMS, u) { PICK({GOOD, {.u = 1}}, {BAD, {.u = 0}}, {BAD, {.u = UINT_MAX}}, {BAD, {.u = 65}}); }
KIND(PROGRAMS, p) {
    static sn_program *list[1];
    list[0] = w->p;
    PICK({GOOD, P(list)}, {NIL, P(NULL)});
}
KIND(RUN_STATE, p) { PICK({GOOD, P(w->state)}, {OBJECT, P(NULL)}); }
KIND(TENSOR, p) { PICK({GOOD, P(w->t)}, {OBJECT, P(NULL)}, {ANY, P(w->foreign_t)}); }
KIND(WEIGHTS, p) { PICK({GOOD, P(w->weights)}, {OBJECT, P(NULL)}); }

static const sn_profile_options one_profiled = {.struct_size = sizeof one_profiled, .runs = 1};

/* What the call destroys is made for it. */
KIND(NEW_CONTEXT, p) {
    *out = (choice){k ? ANY : GOOD, P(k ? NULL : new_context())};
    return 2;
}
KIND(NEW_GRAPH, p) {
    sn_graph *g = NULL;
    if (k == 0) sn_graph_create(&g, w->ctx, "new");
    *out = (choice){k ? ANY : GOOD, P(g)};
    return 2;
}
KIND(NEW_PROGRAM, p) {
    *out = (choice){k ? ANY : GOOD, P(k ? NULL : new_program(w->ctx))};
    return 2;
}
KIND(NEW_RUN_STATE, p) {
    sn_run_state *state = NULL;
    if (k == 0) sn_run_state_create(&state, w->p);
    *out = (choice){k ? ANY : GOOD, P(state)};
    return 2;
}
KIND(NEW_REPORT, p) {
    sn_tune_report *report = NULL;
    if (k == 0) sn_tune(&report, w->g, &on_cpu, NULL);
    *out = (choice){k ? ANY : GOOD, P(report)};
    return 2;
}
KIND(NEW_PROFILE, p) {
    sn_profile *profile = NULL;
    if (k == 0) sn_run_profiled(&profile, w->p, &w->t, &w->u, NULL, &one_profiled);
    *out = (choice){k ? ANY : GOOD, P(profile)};
    return 2;
}
KIND(NEW_TENSOR, p) {
    *out = (choice){k ? ANY : GOOD, P(k ? NULL : new_tensor(w->ctx))};
    return 2;
}
KIND(NEW_WEIGHTS, p) {
    sn_weights *opened = NULL;
    if (k == 0) sn_weights_open(&opened, w->ctx, w->weights_path);
    *out = (choice){k ? ANY : GOOD, P(opened)};
    return 2;
}
KIND(NEW_TEXT, p) {
    char *text = NULL;
    if (k == 0 || k == 2) sn_graph_text(&text, k ? w->foreign : w->sibling);
    *out = (choice){k ? ANY : GOOD, P(text)};
    return 3;
}

/* Where results go. */
KIND(OUT, p) { PICK({GOOD, P(w->out[w->outs++ % 2].bytes)}, {NIL, P(NULL)}); }
KIND(MAYBE_OUT, p) { PICK({GOOD, P(w->out[w->outs++ % 2].bytes)}, {ANY, P(NULL)}); }
KIND(MADE_CONTEXT, p) { PICK({GOOD, P(&w->made_context)}, {OBJECT, P(NULL)}); }
KIND(MADE_GRAPH, p) { PICK({GOOD, P(&w->made_graph)}, {NIL, P(NULL)}); }
KIND(MADE_PROGRAM, p) { PICK({GOOD, P(&w->made_program)}, {NIL, P(NULL)}); }
KIND(MADE_REPORT, p) { PICK({GOOD, P(&w->made_report)}, {NIL, P(NULL)}); }
KIND(MADE_PROFILE, p) { PICK({GOOD, P(&w->made_profile)}, {NIL, P(NULL)}); }
KIND(MADE_RUN_STATE, p) { PICK({GOOD, P(&w->made_state)}, {OBJECT, P(NULL)}); }
KIND(MADE_TENSOR, p) { PICK({GOOD, P(&w->made_tensor)}, {NIL, P(NULL)}); }
KIND(MADE_WEIGHTS, p) { PICK({GOOD, P(&w->made_weights)}, {NIL, P(NULL)}); }
KIND(MADE_TEXT, p) { PICK({GOOD, P(&w->made_text)}, {NIL, P(NULL)}); }
KIND(MADE_MANAGED, p) { PICK({GOOD, P(&w->made_managed)}, {NIL, P(NULL)}); }
KIND(MADE_MANAGED_OLD, p) { PICK({GOOD, P(&w->made_managed_old)}, {NIL, P(NULL)}); }

/* Nodes: none, of another graph, of another context, of no graph. */
static unsigned nodes_like(choice *out, unsigned k, sn_node good, sn_node sibling, sn_node foreign) {
    PICK({GOOD, {.x = good}}, {BAD, {.x = {0}}}, {BAD, {.x = sibling}}, {BAD, {.x = foreign}},
         {BAD, {.x = {UINT_MAX, good.graph}}}, {BAD, {.x = {good.id, 0}}}, {BAD, {.x = {UINT_MAX, UINT_MAX}}});
}
#define NODE_KIND(name, member)                                                                                        \
    KIND(name, x) { return nodes_like(out, k, w->n.member, w->sibling_n.member, w->foreign_n.member); }
NODE_KIND(F, f)
NODE_KIND(I, i)
NODE_KIND(B, b)
NODE_KIND(T, t)
NODE_KIND(S, s)
NODE_KIND(V, v)
NODE_KIND(UNIT, unit)
NODE_KIND(IMAGE, image)
NODE_KIND(FILTER, filter)
/* Bits are those of integers, the rest takes floats. */
KIND(ELEMENTS, x) {
    bool bits = strstr(" sn_not sn_and sn_or sn_xor sn_shl sn_shr ", w->function + 2) != NULL;
    return bits ? I_values(out, k, w) : F_values(out, k, w);
}
KIND(N_NODES, u) { PICK({GOOD, {.u = 2}}, {BAD, {.u = 0}}, {BAD, {.u = UINT_MAX}}, {BAD, {.u = INT_MAX}}); }
KIND(NODE_LIST, p) {
    static sn_node lists[4][2];
    const sn_node with[4] = {w->n.f, {0}, w->sibling_n.f, w->foreign_n.f};
    for (int j = 0; j < 4; j++) lists[j][0] = w->n.f, lists[j][1] = with[j];
    PICK({GOOD, P(lists[0])}, {NIL, P(NULL)}, {BAD, P(lists[1])}, {BAD, P(lists[2])}, {BAD, P(lists[3])});
}

/* Texts. */
KIND(NAME, p) { PICK({GOOD, P("name")}, {NIL, P(NULL)}, {ANY, P("")}, {ANY, P("x")}, {ANY, P("\x01 \xff \"")}); }
KIND(MAYBE_NAME, p) { PICK({GOOD, P("name")}, {ANY, P(NULL)}, {ANY, P("")}, {ANY, P("\x01 \xff \"")}); }
KIND(PORT_NAME, p) {
    PICK({GOOD, P(strstr(w->function, "output") ? "y" : "x")}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("z")});
}
KIND(NEEDED_MEMBER, p) { PICK({GOOD, P("w")}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("x")}); }
KIND(MEMBER_NAME, p) { PICK({GOOD, P("w")}, {ANY, P(NULL)}, {BAD, P("")}, {BAD, P("x")}); }
KIND(EXPRESSION, p) { PICK({GOOD, P("2*N + 1")}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("2*")}, {BAD, P("\x01")}); }
KIND(SN_TEXT, p) { PICK({GOOD, P(program_text)}, {NIL, P(NULL)}); }
KIND(SN_TEXT_SIZE, n) {
    PICK({GOOD, {.n = sizeof program_text - 1}}, {BAD, {.n = 0}}, {BAD, {.n = 20}}, {BAD, {.n = SIZE_MAX}});
}
KIND(STAGE, p) { PICK({GOOD, P("graph")}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("nothing")}, {BAD, P("ptx")}); }
KIND(FORMAT, p) { PICK({GOOD, P("csv")}, {ANY, P(NULL)}, {BAD, P("")}, {BAD, P("xml")}); }
KIND(COUNTER_NAME, p) { PICK({GOOD, P("kernels")}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("x")}); }
KIND(METRICS, p) { PICK({GOOD, P("graph_stats")}, {NIL, P(NULL)}, {ANY, P("")}, {BAD, P("x")}, {BAD, P("\x01")}); }
KIND(METRICS_DIR, p) { PICK({GOOD, P(w->dir)}, {NIL, P(NULL)}, {BAD, P("/dev/null/nowhere")}); }
#define PATH_KIND(name, path)                                                                                          \
    KIND(name, p) { PICK({GOOD, P(path)}, {NIL, P(NULL)}, {BAD, P("")}, {BAD, P("/nowhere/at/all")}, {BAD, P("/")}); }
PATH_KIND(SN_PATH, w->sn_path)
PATH_KIND(ONNX_PATH, w->onnx_path)
PATH_KIND(WEIGHTS_PATH, w->weights_path)
PATH_KIND(IMAGE_PATH, w->image_path)
PATH_KIND(NPY_PATH, w->npy_path)
PATH_KIND(NEW_PATH, w->new_path)

/* Numbers. */
KIND(ENUM, d) { PICK({GOOD, {.d = 3}}, {ANY, {.d = -1}}, {ANY, {.d = INT_MAX}}, {ANY, {.d = INT_MIN}}); }
KIND(ANY_DTYPE, d) { PICK({GOOD, {.d = SN_F16}}, {ANY, {.d = -1}}, {ANY, {.d = SN_N_DTYPES}}, {ANY, {.d = INT_MAX}}); }
KIND(DTYPE, d) {
    PICK({GOOD, {.d = SN_F32}}, {BAD, {.d = -1}}, {BAD, {.d = SN_N_DTYPES}}, {BAD, {.d = 200}}, {BAD, {.d = INT_MAX}},
         {BAD, {.d = INT_MIN}});
}
KIND(DEVICE, d) {
    PICK({GOOD, {.d = SN_CPU}}, {BAD, {.d = -2}}, {BAD, {.d = 4711}}, {BAD, {.d = INT_MAX}}, {BAD, {.d = INT_MIN}});
}
KIND(BOOL, b) { PICK({GOOD, {.b = false}}, {ANY, {.b = true}}); }
KIND(NUMBER, f) {
    PICK({GOOD, {.f = 0.5}}, {ANY, {.f = 0}}, {ANY, {.f = -1}}, {ANY, {.f = NAN}}, {ANY, {.f = INFINITY}},
         {ANY, {.f = -INFINITY}}, {ANY, {.f = 1e308}}, {ANY, {.f = -5e-324}});
}
KIND(AXIS, i) {
    PICK({GOOD, {.i = 0}}, {ANY, {.i = 1}}, {ANY, {.i = -1}}, {BAD, {.i = 9}}, {BAD, {.i = INT64_MAX}},
         {BAD, {.i = INT64_MIN}}, {BAD, {.i = w->dim}});
}
KIND(COUNT, i) {
    PICK({GOOD, {.i = 1}}, {ANY, {.i = 0}}, {ANY, {.i = -1}}, {ANY, {.i = INT64_MAX}}, {ANY, {.i = INT64_MIN}},
         {ANY, {.i = (int64_t)1 << 62}}, {BAD, {.i = w->dim}}, {BAD, {.i = w->foreign_dim}});
}
KIND(GRAPH_INDEX, u) { PICK({GOOD, {.u = 0}}, {BAD, {.u = 1000}}, {BAD, {.u = INT_MAX}}, {BAD, {.u = UINT_MAX}}); }
KIND(INDEX, u) { PICK({GOOD, {.u = 0}}, {BAD, {.u = 1}}, {BAD, {.u = INT_MAX}}, {BAD, {.u = UINT_MAX}}); }
/* That states have all numbers is seen when the graph is compiled. */
KIND(STATE_NUMBER, u) { PICK({GOOD, {.u = 0}}, {ANY, {.u = 1}}, {ANY, {.u = INT_MAX}}, {ANY, {.u = UINT_MAX}}); }
KIND(LOOP, u) {
    PICK({GOOD, {.u = sn_repeat_begin(w->g)}}, {BAD, {.u = 0}}, {BAD, {.u = INT_MAX}}, {BAD, {.u = UINT_MAX}});
}
KIND(CONDITION, x) {
    sn_node any = sn_any(w->g, sn_gt(w->g, w->n.f, w->n.f), 0, NULL, false);
    return nodes_like(out, k, any, w->sibling_n.b, w->foreign_n.b);
}
KIND(REPEAT, p) {
    static sn_node state;
    static sn_repeat good, closed, old;
    unsigned loop = sn_repeat_begin(w->g);
    state = sn_repeat_state(w->g, loop, 0, w->n.f);
    good = (sn_repeat){
        .struct_size = sizeof good, .loop = loop, .steps = 3, .n_states = 1, .states = &state, .after = &state};
    closed = old = good;
    closed.loop = UINT_MAX;
    old.struct_size = 1;
    PICK({GOOD, P(&good)}, {NIL, P(NULL)}, {BAD, P(&closed)}, {BAD, P(&old)});
}
KIND(RUNS, u) { PICK({GOOD, {.u = 2}}, {ANY, {.u = 0}}, {BAD, {.u = UINT_MAX}}, {BAD, {.u = INT_MAX}}); }
KIND(FLUSH, n) {
    PICK({GOOD, {.n = 100}}, {ANY, {.n = 0}}, {BAD, {.n = SIZE_MAX}}, {BAD, {.n = SIZE_MAX - 600}},
         {BAD, {.n = SIZE_MAX / 2}});
}
KIND(BYTES, n) { PICK({GOOD, {.n = 24}}, {BAD, {.n = 0}}, {BAD, {.n = 23}}, {BAD, {.n = SIZE_MAX}}); }
KIND(STREAM, p) { PICK({GOOD, P(NULL)}); }

/* Shapes. A size of the graph is one too; what arithmetic makes of it, and those of others, are none. */
#define RANK_KIND(name, n)                                                                                             \
    KIND(name, u) { PICK({GOOD, {.u = n}}, {ANY, {.u = 0}}, {BAD, {.u = 9}}, {BAD, {.u = INT_MAX}}, {BAD, {.u = UINT_MAX}}); }
RANK_KIND(RANK, 2)
RANK_KIND(N_AXES, 1)

enum { SHAPES = 16 };
static unsigned sizes(choice *out, unsigned k, world *w, verdict minus_one) {
    int64_t n = w->dim;
    int64_t squared = (int64_t)((uint64_t)n * (uint64_t)n), tenfold = (int64_t)((uint64_t)n * 10);
    PICK({GOOD, LIST(2, 3)}, {NIL, P(NULL)}, {ANY, LIST(0, 3)}, {ANY, LIST(n, 3)}, {minus_one, LIST(-1, 3)},
         {BAD, LIST(INT64_MIN, 3)}, {BAD, LIST(INT64_MAX, 3)}, {BAD, LIST(n + 1, 3)}, {BAD, LIST(n - 3, 3)},
         {BAD, LIST(2 * n, 3)}, {BAD, LIST(n / 2, 3)}, {BAD, LIST(-n, 3)}, {BAD, LIST(squared, 3)},
         {BAD, LIST(tenfold, 3)}, {BAD, LIST(w->sibling_dim, 3)}, {BAD, LIST(w->foreign_dim, 3)});
}
KIND(SHAPE, p) { return sizes(out, k, w, BAD); }
KIND(FREE_SHAPE, p) { return sizes(out, k, w, ANY); } /* -1: what follows from the others */
KIND(KNOWN_SHAPE, p) {
    PICK({GOOD, LIST(2, 3)}, {NIL, P(NULL)}, {ANY, LIST(0, 3)}, {BAD, LIST(-1, 3)}, {BAD, LIST(INT64_MIN, 3)},
         {BAD, LIST(INT64_MAX, 3)}, {BAD, LIST((int64_t)1 << 61, 1)}, {BAD, LIST(w->dim, 3)});
}
KIND(STRIDES, p) {
    PICK({GOOD, LIST(3, 1)}, {ANY, P(NULL)}, {ANY, LIST(0, 0)}, {ANY, LIST(w->dim, 1)}, {ANY, LIST(-1, 1)},
         {BAD, LIST(INT64_MIN, 1)}, {BAD, LIST(INT64_MAX, 1)}, {BAD, LIST(w->dim + 1, 1)});
}
KIND(OFFSET, i) {
    PICK({GOOD, {.i = 1}}, {ANY, {.i = 0}}, {ANY, {.i = -1}}, {ANY, {.i = w->dim}}, {BAD, {.i = INT64_MIN}},
         {BAD, {.i = INT64_MAX}}, {BAD, {.i = w->dim - 1}}, {BAD, {.i = w->foreign_dim}});
}
KIND(KNOWN_STRIDES, p) {
    PICK({GOOD, LIST(3, 1)}, {ANY, P(NULL)}, {ANY, LIST(0, 0)}, {BAD, LIST(INT64_MIN, 1)}, {BAD, LIST(INT64_MAX, 1)},
         {BAD, LIST(w->dim, 1)});
}
KIND(KNOWN_OFFSET, i) {
    PICK({GOOD, {.i = 0}}, {BAD, {.i = -1}}, {BAD, {.i = INT64_MIN}}, {BAD, {.i = INT64_MAX}},
         {BAD, {.i = INT64_MAX - 8}}, {BAD, {.i = w->dim}});
}
KIND(AXES, p) {
    PICK({GOOD, LIST(0, 0)}, {NIL, P(NULL)}, {BAD, LIST(9, 9)}, {BAD, LIST(INT64_MIN, 0)}, {BAD, LIST(INT64_MAX, 0)},
         {BAD, LIST(w->dim, 0)});
}
KIND(MAYBE_AXES, p) {
    PICK({GOOD, LIST(0, 0)}, {ANY, P(NULL)}, {BAD, LIST(9, 9)}, {BAD, LIST(INT64_MIN, 0)}, {BAD, LIST(w->dim, 0)});
}
KIND(POSITIONS, p) {
    PICK({GOOD, LIST(0, 1)}, {NIL, P(NULL)}, {ANY, LIST(INT64_MIN, 0)}, {ANY, LIST(INT64_MAX, 0)},
         {BAD, LIST(w->dim, 0)});
}
KIND(STEPS, p) {
    PICK({GOOD, LIST(1, 1)}, {ANY, P(NULL)}, {ANY, LIST(INT64_MIN, 0)}, {ANY, LIST(INT64_MAX, 0)}, {BAD, LIST(0, 0)},
         {BAD, LIST(w->dim, 0)});
}
KIND(PERM, p) { PICK({GOOD, LIST(1, 0)}, {NIL, P(NULL)}, {BAD, LIST(0, 0)}, {BAD, LIST(INT64_MIN, INT64_MAX)}); }
KIND(AMOUNTS, p) {
    PICK({GOOD, LIST(0, 1)}, {NIL, P(NULL)}, {BAD, LIST(INT64_MIN, 0)}, {BAD, LIST(INT64_MAX, 0)},
         {BAD, LIST(INT64_MIN, INT64_MIN)}, {BAD, LIST(w->dim, 0)});
}

/* Of the image axes of convolutions. */
KIND(IMAGE_SIZES, p) {
    PICK({GOOD, LIST(5, 5)}, {NIL, P(NULL)}, {ANY, LIST(w->dim, 5)}, {BAD, LIST(-1, 5)}, {BAD, LIST(INT64_MIN, 5)},
         {BAD, LIST(INT64_MAX, 5)}, {BAD, LIST(w->dim + 1, 5)});
}
KIND(KERNEL_SIZES, p) {
    PICK({GOOD, LIST(1, 1)}, {NIL, P(NULL)}, {BAD, LIST(0, 1)}, {BAD, LIST(INT64_MIN, 1)}, {BAD, LIST(INT64_MAX, 1)},
         {BAD, LIST(w->dim, 1)});
}
KIND(EXTRA, p) {
    PICK({GOOD, LIST(0, 0)}, {ANY, P(NULL)}, {BAD, LIST(0, 1)}, {BAD, LIST(-1, 0)}, {BAD, LIST(INT64_MIN, 0)},
         {BAD, LIST(INT64_MAX, 0)}, {BAD, LIST(w->dim, 0)});
}

/* Elements. */
KIND(DATA, p) { PICK({GOOD, P(memcpy(w->out[1].bytes + 2048, elements, sizeof elements))}, {NIL, P(NULL)}); }
static _Alignas(256) char workspace[1 << 16];
KIND(WORKSPACE, p) { PICK({GOOD, P(workspace)}, {ANY, P(NULL)}, {OBJECT, P(workspace + 16)}); }
KIND(WORKSPACE_SIZE, n) { PICK({GOOD, {.n = sizeof workspace}}, {ANY, {.n = 0}}); }
KIND(MAYBE_DATA, p) { PICK({GOOD, P(elements)}, {ANY, P(NULL)}); }
KIND(ONNX_DATA, p) { PICK({GOOD, P(w->onnx)}, {NIL, P(NULL)}, {BAD, P(w->zeros)}); }
KIND(ONNX_SIZE, n) { PICK({GOOD, {.n = w->onnx_size}}, {BAD, {.n = 0}}, {BAD, {.n = 40}}, {BAD, {.n = SIZE_MAX}}); }
KIND(TENSORS, p) {
    static sn_tensor *mine[2][1], *none[1], *foreign[1];
    mine[0][0] = w->t;
    mine[1][0] = w->u;
    foreign[0] = w->foreign_t;
    unsigned turn = w->outs++ % 2; /* inputs, outputs */
    PICK({GOOD, P(mine[turn])}, {NIL, P(NULL)}, {NIL, P(none)}, {BAD, P(foreign)});
}
/* The same where tensors may be of any context. */
KIND(ANY_TENSORS, p) {
    unsigned n = TENSORS_values(out, k, w);
    if (out->verdict == BAD) out->verdict = ANY;
    return n;
}
KIND(N_INFOS, u) { PICK({GOOD, {.u = 1}}, {ANY, {.u = 0}}, {BAD, {.u = UINT_MAX}}, {BAD, {.u = INT_MAX}}); }
KIND(INFOS, p) {
    static sn_weight_info infos[8];
    for (size_t j = 0; j < SN_COUNT(infos); j++)
        infos[j] = (sn_weight_info){"w", SN_F32, NULL, 2, {2, 3}, elements, sizeof elements};
    infos[1].name = NULL;
    infos[2].dtype = (sn_dtype)-1;
    infos[3].rank = UINT_MAX;
    infos[4].shape[0] = INT64_MAX;
    infos[5].shape[0] = INT64_MIN;
    infos[6].data = NULL;
    infos[7].size = SIZE_MAX;
    PICK({GOOD, P(&infos[0])}, {NIL, P(NULL)}, {BAD, P(&infos[1])}, {BAD, P(&infos[2])}, {BAD, P(&infos[3])},
         {BAD, P(&infos[4])}, {BAD, P(&infos[5])}, {BAD, P(&infos[6])}, {BAD, P(&infos[7])});
}

static void spoil(DLTensor *d, unsigned k) {
    static int64_t huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1, 3};
    if (k == 2) d->ndim = -1;
    if (k == 3) d->ndim = INT32_MAX;
    if (k == 4) d->shape = NULL;
    if (k == 5) d->shape = huge;
    if (k == 6) d->shape = negative;
    if (k == 7) d->device.device_type = (DLDeviceType)77;
    if (k == 8) d->dtype.bits = 7;
    if (k == 9) d->dtype.lanes = 0;
    if (k == 10) d->data = NULL;
    if (k == 11) d->byte_offset = 1;
    if (k == 12) d->strides = negative;
    if (k == 13) d->byte_offset = UINT64_MAX - 3;
}
enum { SPOILT = 14 };
KIND(MANAGED, p) {
    if (k == 1) return *out = (choice){NIL, {0}}, SPOILT + 1;
    if (k > SPOILT) return SPOILT + 1;
    sn_tensor_to_dlpack(&w->managed, w->t);
    spoil(&w->managed->dl_tensor, k);
    if (k == SPOILT) w->managed->version.major = 9;
    *out = (choice){k ? BAD : GOOD, P(w->managed)};
    return SPOILT + 1;
}
KIND(MANAGED_OLD, p) {
    if (k == 1) return *out = (choice){NIL, {0}}, SPOILT;
    if (k >= SPOILT) return SPOILT;
    sn_tensor_to_dlpack_old(&w->managed_old, w->t);
    spoil(&w->managed_old->dl_tensor, k);
    *out = (choice){k ? BAD : GOOD, P(w->managed_old)};
    return SPOILT;
}

/* Options: no struct, sizes that no version has (12 cuts a pointer in two), then members that are wrong. */
static const size_t wrong_sizes[] = {0, 1, 7, 12, 1 << 20, SIZE_MAX};
enum { SIZES = SN_COUNT(wrong_sizes) };
#define OPTIONS_KIND(name, type, good, ...)                                                                            \
    KIND(name, p) {                                                                                                    \
        static type o;                                                                                        \
        static const type wrong[] = {__VA_ARGS__};                                                                     \
        o = (type)good;                                                                                                \
        o.struct_size = sizeof o;                                                                                      \
        if (k == 1) return *out = (choice){ANY, {0}}, 2 + SIZES + SN_COUNT(wrong);                                 \
        if (k >= 2 && k < 2 + SIZES) o.struct_size = wrong_sizes[k - 2];                                               \
        if (k >= 2 + SIZES && k < 2 + SIZES + SN_COUNT(wrong)) o = wrong[k - 2 - SIZES], o.struct_size = sizeof o;     \
        *out = (choice){k ? BAD : GOOD, P(&o)};                                                                        \
        return 2 + SIZES + SN_COUNT(wrong);                                                                            \
    }
static const sn_dim_binding one_dim = {"N", 8}, nameless_dim = {NULL, 1}, negative_dim = {"N", INT64_MIN};
static const sn_weight_info any_value = {"w", SN_F32, NULL, 2, {2, 3}, elements, sizeof elements};
static const sn_text_tensor any_text = {"t", 0, {0}, NULL}, deep_text = {"t", UINT_MAX, {0}, NULL},
                            long_text = {"t", 1, {INT64_MAX}, NULL};
OPTIONS_KIND(MATMUL_OPTIONS, sn_matmul_options, {.precision = "tf32"}, {.precision = ""}, {.precision = "f32"})
OPTIONS_KIND(CONV_OPTIONS, sn_conv_options, {0}, {.stride = {-1, 1}}, {.stride = {INT64_MAX, INT64_MIN}},
             {.padding = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}}, {.padding = {INT64_MIN}},
             {.dilation = {INT64_MAX, 1}}, {.dilation = {INT64_MIN, 1}}, {.groups = -1}, {.groups = INT64_MAX},
             {.groups = INT64_MIN}, {.precision = ""}, {.input_dilation = {-1}},
             {.input_dilation = {INT64_MAX, INT64_MAX}}, {.input_dilation = {INT64_MIN}})
OPTIONS_KIND(COMPILE_OPTIONS, sn_compile_options, {.device = "cpu"}, {.device = ""}, {.device = "cpu", .n_dims = 1},
             {.device = "cpu", .dims = &one_dim, .n_dims = UINT_MAX}, {.device = "cpu", .target = ""},
             {.device = "cpu", .dims = &nameless_dim, .n_dims = 1},
             {.device = "cpu", .dims = &negative_dim, .n_dims = 1}, {.device = "cpu", .threads = UINT_MAX},
             {.device = "cuda", .ordinal = UINT_MAX}, {.device = "cpu", .pipeline = "none"},
             {.device = "cpu", .verify = ""}, {.device = "cpu", .wrapper = ""}, {.device = "cpu", .cpu_schedule = ""},
             {.device = "cpu", .precision = ""}, {.device = "cpu", .choices = "fastest"}, {.device = "cpu", .tune = ""})
OPTIONS_KIND(TUNE_OPTIONS, sn_tune_options, {0}, {.budget = -1}, {.budget = (double)NAN})
OPTIONS_KIND(SAVE_OPTIONS, sn_save_options, {0})
OPTIONS_KIND(LOAD_OPTIONS, sn_load_options, {0}, {.device = ""}, {.device = "cuda", .ordinal = UINT_MAX},
             {.n_constants = 1}, {.constants = &any_value, .n_constants = UINT_MAX})
OPTIONS_KIND(WATCH_OPTIONS, sn_watch_options, {.stop_at = "infinity"}, {.stop_at = ""}, {.kernels = "k0,"},
             {.stop_at = "nan", .kernels = "nothing"})
OPTIONS_KIND(PROFILE_OPTIONS, sn_profile_options, {.runs = 1}, {.runs = UINT_MAX})
OPTIONS_KIND(IMPORT_OPTIONS, sn_import_options, {0}, {.n_dims = 1}, {.n_values = 1}, {.n_texts = 1},
             {.dims = &one_dim, .n_dims = UINT_MAX}, {.values = &any_value, .n_values = UINT_MAX},
             {.texts = &any_text, .n_texts = UINT_MAX}, {.dims = &nameless_dim, .n_dims = 1},
             {.values = &any_value, .n_values = 1}, {.texts = &deep_text, .n_texts = 1},
             {.texts = &long_text, .n_texts = 1})
KIND(CONTEXT_OPTIONS, p) {
    static sn_context_options o;
    if (k == 1) return *out = (choice){ANY, {0}}, 2 + SIZES;
    o = (sn_context_options){.struct_size = k && k < 2 + SIZES ? wrong_sizes[k - 2] : sizeof o, .realloc_fn = limited};
    *out = (choice){k ? OBJECT : GOOD, P(&o)};
    return 2 + SIZES;
}

/* ---- rows: a function that calls, what it returns, kinds ---- */

/* Was the call refused? A builder's refusal stays with its graph. */
#define STATUS(call) w->refused = (call) != SN_OK
#define STATE_STATUS(call) w->asks_state = true, STATUS(call)
#define NODE(call) w->result = (call), w->refused = w->result.id == 0
#define SIZE(call) w->refused = (call) == 0
#define NODES(call)                                                                                                    \
    memset(w->out, 1, sizeof w->out), (call),                                                                          \
        w->refused = ((sn_node *)(void *)w->out)->id == 0 || sn_graph_status(w->g) != SN_OK
#define TEXT(call) cr_assert_not_null(call)
#define QUERY(call) (void)(call)
#define VOID(call) (call)

#define COUNT_ARGS(...) COUNT_ARGS_(__VA_ARGS__, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define COUNT_ARGS_(a, b, c, d, e, f, g, h, i, n, ...) n
#define GLUE(a, b) GLUE_(a, b)
#define GLUE_(a, b) a##b
#define EACH(m, ...) GLUE(EACH_, COUNT_ARGS(__VA_ARGS__))(m, 0, __VA_ARGS__)
#define EACH_1(m, k, a) m(k, a)
#define EACH_2(m, k, a, ...) m(k, a), EACH_1(m, k + 1, __VA_ARGS__)
#define EACH_3(m, k, a, ...) m(k, a), EACH_2(m, k + 1, __VA_ARGS__)
#define EACH_4(m, k, a, ...) m(k, a), EACH_3(m, k + 1, __VA_ARGS__)
#define EACH_5(m, k, a, ...) m(k, a), EACH_4(m, k + 1, __VA_ARGS__)
#define EACH_6(m, k, a, ...) m(k, a), EACH_5(m, k + 1, __VA_ARGS__)
#define EACH_7(m, k, a, ...) m(k, a), EACH_6(m, k + 1, __VA_ARGS__)
#define EACH_8(m, k, a, ...) m(k, a), EACH_7(m, k + 1, __VA_ARGS__)
#define EACH_9(m, k, a, ...) m(k, a), EACH_8(m, k + 1, __VA_ARGS__)
#define PASS(k, kind) kind##_(v[k])
#define VALUES(k, kind) kind##_values

#define ROW(result, fn, ...)                                                                                           \
    static void call_##fn(SN_UNUSED world *w, const value *v) { result(fn(EACH(PASS, __VA_ARGS__))); }
#include "tests/unit/sweep.def"
#undef ROW

enum { ARGS_MAX = 9 };
typedef struct row {
    const char *name;
    void (*call)(world *w, const value *v);
    unsigned n;
    kind_fn *kinds[ARGS_MAX];
} row;

static const row rows[] = {
#define ROW(result, fn, ...) {#fn, call_##fn, COUNT_ARGS(__VA_ARGS__), {EACH(VALUES, __VA_ARGS__)}},
#include "tests/unit/sweep.def"
#undef ROW
};

/* ---- calls ---- */

/* One call with choice picks[k] for argument k; the verdict on the worst of them. */
static verdict call(world *w, const row *r, const unsigned *picks) {
    value v[ARGS_MAX];
    verdict worst = GOOD;
    w->function = r->name;
    w->refused = w->asks_state = false;
    w->result = (sn_node){0};
    w->n_lists = w->outs = 0;
    w->g = new_graph(&w->n, &w->dim, w->ctx);
    for (unsigned k = 0; k < r->n; k++) {
        choice c = {0};
        r->kinds[k](&c, picks[k], w);
        v[k] = c.v;
        if (c.verdict > worst) worst = c.verdict;
    }
    sn_error_clear(w->ctx);
    r->call(w, v);
    cr_expect_neq(sn_error_status(w->ctx), SN_ERROR_INTERNAL, "%s: %s", r->name, sn_error(w->ctx));
    return worst;
}

/* What a builder takes, the passes take too, whatever they say to it. */
static void schedule(world *w, const row *r) {
    sn_dim_binding n = {"N", 8};
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1, .dims = &n, .n_dims = 1};
    char *text;
    if (!w->result.id) return;
    sn_output(w->g, "result", w->result);
    sn_graph_emit(&text, w->g, &o, "scheduled");
    cr_expect_neq(sn_error_status(w->ctx), SN_ERROR_INTERNAL, "%s: %s", r->name, sn_error(w->ctx));
    sn_free(w->ctx, text);
}

/* What the call made or did not take. */
static void clean(world *w) {
    if (w->managed && !w->made_tensor) w->managed->deleter(w->managed);
    if (w->managed_old && !w->made_tensor) w->managed_old->deleter(w->managed_old);
    if (w->made_managed) w->made_managed->deleter(w->made_managed);
    if (w->made_managed_old) w->made_managed_old->deleter(w->made_managed_old);
    sn_tensor_destroy(w->made_tensor);
    sn_run_state_destroy(w->made_state);
    sn_program_destroy(w->made_program);
    sn_weights_close(w->made_weights);
    sn_tune_report_destroy(w->made_report);
    sn_profile_destroy(w->made_profile);
    if (w->asks_state) sn_run_wait(w->state);
    sn_free(w->ctx, w->made_text);
    sn_graph_destroy(w->made_graph);
    sn_context_destroy(w->made_context);
    sn_graph_destroy(w->g);
    w->managed = w->made_managed = NULL;
    w->managed_old = w->made_managed_old = NULL;
    w->made_tensor = NULL;
    w->made_state = NULL;
    w->made_program = NULL;
    w->made_weights = NULL;
    w->made_report = NULL;
    w->made_profile = NULL;
    w->made_text = NULL;
    w->made_graph = w->g = NULL;
    w->made_context = NULL;
}

static unsigned choices(world *w, const row *r, unsigned k) {
    choice unused;
    return r->kinds[k](&unused, UINT_MAX, w);
}

static void judge(const world *w, const row *r, unsigned k, unsigned pick, verdict verdict) {
    const char *said = w->asks_state ? sn_run_state_error(w->state) : sn_error(w->ctx);
    const void *made[] = {w->made_graph,   w->made_program, w->made_tensor, w->made_text,
                          w->made_weights, w->made_state,   w->made_report, w->made_profile};
    if (verdict < BAD) return;
    cr_expect(w->refused, "%s: argument %u, value %u: not refused", r->name, k + 1, pick);
    for (size_t j = 0; j < SN_COUNT(made); j++)
        cr_expect_null(made[j], "%s: argument %u, value %u", r->name, k + 1, pick);
    if (verdict == OBJECT) return;
    cr_expect(said[0], "%s: argument %u, value %u: refused without a word", r->name, k + 1, pick);
    if (verdict == NIL)
        cr_expect(strstr(said, "NULL") || strstr(said, "no name") || strstr(said, "no tensor"),
                  "%s: argument %u is NULL: \"%s\"", r->name, k + 1, said);
}

/* Functions without a verdict: nothing can be refused. */
static bool has_verdict(const row *r) {
    static const char *const none[] = {"sn_error",
                                       "sn_error_status",
                                       "sn_error_clear",
                                       "sn_free",
                                       "sn_graph_error",
                                       "sn_graph_input_count",
                                       "sn_node_dtype",
                                       "sn_graph_output_count",
                                       "sn_node_rank",
                                       "sn_node_shape",
                                       "sn_program_get_info",
                                       "sn_program_input_count",
                                       "sn_weights_count",
                                       "sn_program_output_count",
                                       "sn_tensor_get_info",
                                       "sn_run_state_error",
                                       "sn_run_state_status",
                                       "sn_program_workspace_size",
                                       "sn_counters_reset",
                                       "sn_at"};
    for (size_t k = 0; k < SN_COUNT(none); k++)
        if (!strcmp(none[k], r->name)) return false;
    return true;
}

Test(sweep, one_argument_that_is_wrong) {
    world *w = set_up();
    for (size_t j = 0; j < SN_COUNT(rows); j++) {
        const row *r = &rows[j];
        unsigned picks[ARGS_MAX] = {0};
        call(w, r, picks);
        bool asks_cuda = !strcmp(r->name, "sn_device_count") || !strcmp(r->name, "sn_device_copy_rate");
        cr_expect(!w->refused || asks_cuda, "%s: \"%s\"", r->name, sn_error(w->ctx));
        clean(w);
        for (unsigned k = 0; k < r->n; k++) {
            for (unsigned n = choices(w, r, k), pick = 1; pick < n; pick++) {
                picks[k] = pick;
                verdict verdict = call(w, r, picks);
                if (has_verdict(r)) judge(w, r, k, pick, verdict);
                schedule(w, r);
                clean(w);
            }
            picks[k] = 0;
        }
    }
    tear_down(w);
}

Test(sweep, two_arguments_that_are_wrong) {
    world *w = set_up();
    for (size_t j = 0; j < SN_COUNT(rows); j++) {
        const row *r = &rows[j];
        unsigned picks[ARGS_MAX] = {0};
        for (unsigned a = 0; a < r->n; a++) {
            for (unsigned b = a + 1; b < r->n; b++) {
                unsigned n_a = choices(w, r, a), n_b = choices(w, r, b);
                for (unsigned pair = 0; pair < n_a * n_b; pair++) {
                    picks[a] = pair / n_b;
                    picks[b] = pair % n_b;
                    call(w, r, picks);
                    clean(w);
                }
                picks[b] = 0;
            }
            picks[a] = 0;
        }
    }
    tear_down(w);
}

Test(sweep, many_arguments_that_are_wrong) {
    enum { ROUNDS = 40 };
    world *w = set_up();
    uint64_t state = 1;
    for (size_t j = 0; j < SN_COUNT(rows); j++) {
        const row *r = &rows[j];
        unsigned picks[ARGS_MAX];
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (unsigned k = 0; k < r->n; k++) {
                unsigned n = choices(w, r, k);
                state = state * 6364136223846793005u + 1442695040888963407u;
                picks[k] =
                    round < 4 ? (round < n ? round : n - 1) : (unsigned)((state >> 33) % n); /* first: all NULL */
            }
            call(w, r, picks);
            clean(w);
        }
    }
    tear_down(w);
}
