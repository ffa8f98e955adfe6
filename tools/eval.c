/* eval.c: `sinter eval`: the references. A module with kernels is run one statement after the other, with each
 * operation rounded to its type as generated code would; a module with only a graph is computed in float64.
 *
 * In a module with kernels an input is called like the graph's input, or like its buffer where there is no graph.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: sinter eval [options] FILE|-\n"
    "  --input NAME=VALUE   FILE.npy, FILE.npz:MEMBER, FILE.safetensors:MEMBER (MEMBER: NAME if not given),\n"
    "                       random:SEED, normal, uniform, wide, extremes, zeros, ones, special, spiked,\n"
    "                       equal, growing or alternating (repeat)\n"
    "  --random SEED        random values for all inputs that have none\n"
    "  --dim N=8            the size that a name in shapes of a graph stands for (repeat)\n"
    "  --graph              evaluate the graph although there are kernels\n"
    "  --check-kernels      also find races, divergent barriers and broken bounds of scheduled kernels\n"
    "  --output-dir DIR     write every output to DIR/NAME.npy\n"
    "  --print-all          print every element\n";

typedef struct eval_args {
    const char *path, *output_dir;
    tool_inputs in;
    tool_dims dims;
    bool graph, check_kernels, print_all, show_help;
} eval_args;

static int parse(eval_args *e, int argc, char **argv) {
    static const struct option options[] = {{"input", required_argument, NULL, 'i'},
                                            {"random", required_argument, NULL, 'r'},
                                            {"dim", required_argument, NULL, 'n'},
                                            {"graph", no_argument, NULL, 'g'},
                                            {"check-kernels", no_argument, NULL, 'c'},
                                            {"output-dir", required_argument, NULL, 'o'},
                                            {"print-all", no_argument, NULL, 'a'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'i':
            if (!tool_add_input(&e->in, optarg)) return tool_misuse("--input %s: NAME=VALUE is wanted", optarg);
            break;
        case 'r':
            e->in.random_rest = true;
            if (!tool_u64(&e->in.how.seed, optarg)) return tool_misuse("--random %s: a number is wanted", optarg);
            break;
        case 'n':
            if (!tool_add_dim(&e->dims, optarg)) return tool_misuse("--dim %s: NAME=NUMBER is wanted", optarg);
            break;
        case 'g': e->graph = true; break;
        case 'c': e->check_kernels = e->in.random_rest = true; break;
        case 'o':
            if (!*optarg) return tool_misuse("--output-dir: a folder is wanted");
            e->output_dir = optarg;
            break;
        case 'a': e->print_all = true; break;
        case 'h': e->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("eval: one FILE is wanted, %d given", argc - optind);
    if (e->graph && e->check_kernels) return tool_misuse("eval: --graph and --check-kernels exclude each other");
    e->path = argv[optind];
    return TOOL_OK;
}

/* ---- state of one evaluation: what has to be freed in any case ---- */

typedef struct evaluation {
    sn_context *ctx;
    const eval_args *args;
    sn_module *m;                  /* with bound sizes */
    sn_weights *weights;           /* holds the elements of its weights; NULL: it has none */
    sn_tensor **inputs, **outputs; /* by number */
    unsigned n_inputs, n_outputs;
} evaluation;

/* Shape of an input or output as numbers. */
static void sizes_of(int64_t *out, const sn_module *m, const sn_ix *sizes, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) out[k] = sn_ix_value(m, sizes[k]);
}

static bool has_default(const evaluation *e, unsigned input) {
    return input < e->m->graph.inputs.n && e->m->graph.inputs.at[input].otherwise.n;
}

typedef struct default_args {
    evaluation *e;
    unsigned input; /* of the graph */
    sn_tensor *to;
} default_args;

static sn_status fill_default(sn_context *ctx, void *args) {
    const default_args *d = args;
    void *elements;
    SN_TRY(sn_default_elements(&elements, d->e->m, d->input, &ctx->scratch));
    return sn_tensor_put(d->to, elements, (size_t)d->to->info.numel * sn_dtype_bytes(d->to->info.dtype));
}

static sn_status fill_one(evaluation *e, unsigned k, const char *name, unsigned number, bool has_graph) {
    if (has_graph && has_default(e, number) && !tool_input_value(&e->args->in, name))
        return sn_guarded(e->ctx, fill_default, &(default_args){e, number, e->inputs[k]});
    return tool_fill(e->inputs[k], &e->args->in, name, has_graph ? e->m : NULL, number);
}

static sn_status fill_all(evaluation *e, const char *const *names, const unsigned *numbers, bool has_graph) {
    bool *optional = calloc(e->n_inputs + 1, sizeof *optional);
    if (!optional) return SN_ERROR_MEMORY;
    for (unsigned k = 0; has_graph && k < e->n_inputs; k++) optional[k] = has_default(e, numbers[k]);
    sn_status status = tool_check_inputs(&e->args->in, e->ctx, names, optional, e->n_inputs);
    free(optional);
    for (unsigned k = 0; k < e->n_inputs && status == SN_OK; k++)
        status = fill_one(e, k, names[k], numbers[k], has_graph);
    return status;
}

static sn_status report(const evaluation *e, const char *const *names) {
    for (unsigned k = 0; k < e->n_outputs; k++) {
        SN_TRY(tool_print_tensor(names[k], e->outputs[k], e->args->print_all));
        if (e->args->output_dir) SN_TRY(tool_save(e->args->output_dir, names[k], e->outputs[k]));
    }
    return SN_OK;
}

/* ---- graphs ---- */

static sn_status eval_graph_body(sn_context *ctx, void *args) {
    evaluation *e = args;
    sn_arena *a = &ctx->scratch;
    sn_array *in = SN_NEWN(a, sn_array, e->n_inputs + 1), *out = SN_NEWN(a, sn_array, e->n_outputs + 1);
    for (unsigned k = 0; k < e->n_inputs; k++) {
        const sn_tensor_info *t = &e->inputs[k]->info;
        size_t bytes = (size_t)t->numel * sn_dtype_bytes(t->dtype);
        void *data = sn_alloc(a, bytes);
        SN_TRY(sn_tensor_fetch(data, e->inputs[k], bytes));
        in[k] = sn_array_from(a, t->dtype, t->rank, t->shape, data);
    }
    SN_TRY(sn_graph_eval(out, e->m, in, a));
    sn_tensor **made = SN_NEWN(a, sn_tensor *, e->n_outputs + 1); /* the guard takes them back when one of them fails */
    for (unsigned k = 0; k < e->n_outputs; k++) {
        SN_TRY(sn_tensor_new(&made[k], ctx, SN_CPU, out[k].dtype, out[k].rank, out[k].shape, NULL, 0));
        sn_array_store(made[k]->info.data, &out[k]);
    }
    memcpy(e->outputs, made, e->n_outputs * sizeof *made);
    return SN_OK;
}

static sn_status eval_graph(evaluation *e, const char **names, unsigned *numbers) {
    const sn_graph_ir *g = &e->m->graph;
    for (unsigned k = 0; k < e->n_inputs; k++) {
        const sn_type *t = &sn_node_get(e->m, g->inputs.at[k].node)->type;
        int64_t shape[SN_MAX_RANK];
        sizes_of(shape, e->m, t->shape, t->rank);
        SN_TRY(sn_tensor_create(&e->inputs[k], e->ctx, SN_CPU, t->dtype, t->rank, shape));
        names[k] = g->inputs.at[k].name;
        numbers[k] = k;
    }
    SN_TRY(fill_all(e, names, numbers, true));
    SN_TRY(sn_guarded(e->ctx, eval_graph_body, e));
    for (unsigned k = 0; k < e->n_outputs; k++) names[k] = g->outputs.at[k].name;
    return report(e, names);
}

/* ---- kernels ---- */

static sn_status numbers_only(const evaluation *e, const sn_buf_rec *b) {
    bool known = sn_ix_is_const(e->m, b->size, NULL);
    for (uint32_t k = 0; k < b->rank; k++) known &= sn_ix_is_const(e->m, b->shape[k], NULL);
    if (known) return SN_OK;
    return sn_fail(&e->ctx->env, SN_ERROR_UNSUPPORTED, "evaluation needs constant sizes: %s is symbolic", b->name);
}

/* A tensor on the storage of a buffer. With a graph an input has its strides; otherwise the buffer's shape says how to
 * read the storage, or, where the storage is larger than that, it is one row of elements. */
static sn_status buffer_tensor(sn_tensor **out, evaluation *e, const sn_buf_rec *b) {
    const sn_graph_ir *g = &e->m->graph;
    int64_t shape[SN_MAX_RANK], strides[SN_MAX_RANK], numel = 1, size = sn_ix_value(e->m, b->size);
    sizes_of(shape, e->m, b->shape, b->rank);
    for (uint32_t k = 0; k < b->rank; k++) numel *= shape[k];
    if (b->scope == SN_BUF_INPUT && b->io < g->inputs.n) {
        const sn_graph_input *in = &g->inputs.at[b->io];
        sizes_of(strides, e->m, in->stride, b->rank);
        return sn_tensor_create_strided(out, e->ctx, SN_CPU, b->dtype, b->rank, shape, strides,
                                        sn_ix_value(e->m, in->offset));
    }
    if (numel == size) return sn_tensor_create(out, e->ctx, SN_CPU, b->dtype, b->rank, shape);
    return sn_tensor_create(out, e->ctx, SN_CPU, b->dtype, 1, &size);
}

typedef struct loop_args {
    evaluation *e;
    const unsigned *in_bufs, *out_bufs;
} loop_args;

static sn_status eval_loops_body(sn_context *ctx, void *args) {
    loop_args *l = args;
    void **memory = SN_NEWN(&ctx->scratch, void *, l->e->m->bufs.count);
    for (unsigned k = 0; k < l->e->n_inputs; k++) memory[l->in_bufs[k]] = l->e->inputs[k]->info.data;
    for (unsigned k = 0; k < l->e->n_outputs; k++) memory[l->out_bufs[k]] = l->e->outputs[k]->info.data;
    if (l->e->args->check_kernels) return sn_loop_check(l->e->m, memory, &ctx->scratch);
    return sn_loop_eval(l->e->m, memory, &ctx->scratch);
}

static sn_status eval_loops(evaluation *e, const char **names, unsigned *numbers) {
    unsigned *in_bufs = calloc(2 * (size_t)e->m->bufs.count, sizeof *in_bufs), *out_bufs = in_bufs + e->m->bufs.count;
    if (!in_bufs) return SN_ERROR_MEMORY;
    const sn_graph_ir *g = &e->m->graph;
    sn_status status = SN_OK;
    e->n_inputs = e->n_outputs = 0;
    for (uint32_t i = 1; i < e->m->bufs.count && status == SN_OK; i++) {
        const sn_buf_rec *b = sn_buf_get(e->m, (sn_buf){i});
        if (b->scope == SN_BUF_INPUT || b->scope == SN_BUF_OUTPUT) status = numbers_only(e, b);
        if (status != SN_OK) break;
        if (b->scope == SN_BUF_INPUT) {
            names[e->n_inputs] = b->io < g->inputs.n ? g->inputs.at[b->io].name : b->name;
            numbers[e->n_inputs] = b->io;
            in_bufs[e->n_inputs] = i;
            status = buffer_tensor(&e->inputs[e->n_inputs++], e, b);
        } else if (b->scope == SN_BUF_OUTPUT) {
            out_bufs[e->n_outputs] = i;
            status = buffer_tensor(&e->outputs[e->n_outputs++], e, b);
        }
    }
    if (status == SN_OK) status = fill_all(e, names, numbers, g->inputs.n > 0);
    loop_args args = {e, in_bufs, out_bufs};
    if (status == SN_OK) status = sn_guarded(e->ctx, eval_loops_body, &args);
    for (unsigned k = 0; k < e->n_outputs; k++) names[k] = sn_buf_get(e->m, (sn_buf){out_bufs[k]})->name;
    if (status == SN_OK) status = report(e, names);
    free(in_bufs);
    return status;
}

/* ---- both ---- */

static sn_status read_module(sn_context *ctx, void *args) {
    evaluation *e = args;
    char *text;
    size_t size;
    SN_TRY(sn_file_read(&text, &size, &ctx->env, &ctx->scratch, e->args->path));
    sn_module *m = sn_module_new(&ctx->env), *bound = m;
    const char *name = strcmp(e->args->path, "-") ? e->args->path : "<stdin>";
    SN_TRY(sn_module_parse(m, name, text, size));
    SN_TRY(sn_module_verify(m, name));
    if (!m->kernels.n && e->args->check_kernels)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: no kernels in it to check", e->args->path);
    if (!m->kernels.n || e->args->graph) {
        if (!m->graph.outputs.n)
            return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: no graph and no kernels in it", e->args->path);
        SN_TRY(sn_graph_bind(&bound, ctx, m, e->args->dims.at, e->args->dims.n, SN_PRECISION_EXACT));
        sn_module_free(m);
    }
    e->m = bound;
    return SN_OK;
}

static sn_status load_weights(sn_context *ctx, void *args) {
    evaluation *e = args;
    return sn_module_load_weights(&e->weights, ctx, e->m,
                                  sn_path_beside(&ctx->scratch, e->args->path, e->m->weights.file));
}

static sn_status evaluate(evaluation *e) {
    SN_TRY(sn_guarded(e->ctx, read_module, e));
    if (e->m->weights.file) SN_TRY(sn_guarded(e->ctx, load_weights, e));
    bool kernels = e->m->kernels.n > 0; /* a bound copy holds the graph alone */
    e->n_inputs = kernels ? e->m->bufs.count : e->m->graph.inputs.n;
    e->n_outputs = kernels ? e->m->bufs.count : e->m->graph.outputs.n;
    size_t most = e->n_inputs + e->n_outputs + 1;
    e->inputs = calloc(most, sizeof *e->inputs);
    e->outputs = calloc(most, sizeof *e->outputs);
    const char **names = calloc(most, sizeof *names);
    unsigned *numbers = calloc(most, sizeof *numbers);
    sn_status status = SN_ERROR_MEMORY;
    if (e->inputs && e->outputs && names && numbers)
        status = kernels ? eval_loops(e, names, numbers) : eval_graph(e, names, numbers);
    free(names);
    free(numbers);
    return status;
}

int tool_eval(sn_context *ctx, int argc, char **argv) {
    eval_args a = {0};
    int code = parse(&a, argc, argv);
    if (code != TOOL_OK) return code;
    if (a.show_help) return fputs(help, stdout), TOOL_OK;
    evaluation e = {.ctx = ctx, .args = &a};
    if (evaluate(&e) != SN_OK) code = tool_fail(ctx);
    tool_free_tensors(e.inputs, e.n_inputs);
    tool_free_tensors(e.outputs, e.n_outputs);
    sn_weights_close(e.weights);
    if (e.m) sn_module_free(e.m);
    return code;
}
