/* report.c: `sinter report`: one page of HTML that stands alone, for people with a browser: the graph, what fused and what did not, each
 * kernel at every pass, schedules and what bounds them, PTX, times where a device is, memory over time, the tables.
 *
 *     page = report.html (a template that is embedded when the tool is built) with the data in place of @DATA@
 *     data = JSON, deflated, in base64: the page inflates it itself (DecompressionStream)
 *
 * A text that several passes, or several kernels, have in common is there once: "texts" has all of them, everything else their numbers. A
 * kernel's history has an entry for each pass that changed its text; differences are made by the page. What the rows of metrics say is
 * there as it is (look.c). Nothing in the page comes from elsewhere.
 */
#include "tools/look.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

extern const char tool_report_page[];

static const char help[] = "usage: sinter report [options] MODEL.onnx|FILE.sn|- -o FILE.html\n"
                           "  --target=NAME     sm_75 .. sm_121, sm_90a ..: for that GPU (sm_90a)\n"
                           "  --device=WHERE    cuda, cpu: run it there on random inputs, and time each kernel\n"
                           "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
                           "  --precision=WORD  exact, high, tf32, bf16: of products of f32 that say nothing\n"
                           "  --choices=A,B     what products and convolutions may become (see run)\n";

typedef struct report_args {
    const char *path, *out;
    bool show_help;
    tool_dims dims;
    sn_compile_options o;
} report_args;

static int parse(report_args *r, int argc, char **argv) {
    static const struct option options[] = {TOOL_TARGET,
                                            TOOL_DEVICE,
                                            TOOL_DIM,
                                            {"output", required_argument, NULL, 'o'},
                                            TOOL_CHOICES,
                                            TOOL_PRECISION,
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        switch (c) {
        case 'o': r->out = optarg; break;
        case 'h': r->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&r->o, &r->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("report: one FILE is wanted, %d given", argc - optind);
    if (!r->out) return tool_misuse("report: -o FILE.html is missing");
    if (r->o.target && r->o.device) return tool_misuse("report: --target and --device exclude each other");
    if (!r->o.device && !r->o.target) r->o.target = "sm_90a";
    r->path = argv[optind];
    return TOOL_OK;
}

/* ---- texts ---- */

/* What the page gets; jansson's objects are the tables of names. */
typedef struct report {
    look l;
    json_t *texts, *number_of; /* all texts; text -> its number */
    json_t *histories;         /* kernel -> [[pass, text], ..] */
    json_t *stages;            /* the graph and the wrapper: [[pass, text], ..] */
} report;

static json_int_t text_number(report *r, const char *text) {
    json_t *known = json_object_get(r->number_of, text);
    if (known) return json_integer_value(known);
    json_int_t n = (json_int_t)json_array_size(r->texts);
    json_array_append_new(r->texts, json_string_nocheck(text));
    json_object_set_new_nocheck(r->number_of, text, json_integer(n));
    return n;
}

/* An entry behind the last one, unless it would be the same text. */
static void add_entry(report *r, json_t *history, const char *pass, const char *text) {
    json_int_t n = text_number(r, text);
    size_t size = json_array_size(history);
    json_t *last = size ? json_array_get(json_array_get(history, size - 1), 1) : NULL;
    if (last && json_integer_value(last) == n) return;
    json_t *entry = json_array();
    json_array_append_new(entry, json_string_nocheck(pass));
    json_array_append_new(entry, json_integer(n));
    json_array_append_new(history, entry);
}

static void add_stage(report *r, sn_text *t, const char *pass, const sn_module *m) {
    sn_text_clear(t);
    if (m->wrap.steps.n) sn_wrap_print(t, m);
    else if (!m->kernels.n) sn_module_print(t, m);
    if (t->n) add_entry(r, r->stages, pass, t->s);
}

/* The module behind a pass. */
static void on_pass(void *user, const char *pass, const sn_module *m) {
    report *r = user;
    sn_text t;
    sn_text_init(&t, m->env);
    add_stage(r, &t, pass ? pass : "as given", m);
    for (uint32_t k = 0; k < m->kernels.n; k++) {
        const char *name = sn_kern_get(m, m->kernels.at[k])->name;
        json_t *history = json_object_get(r->histories, name);
        if (!history) {
            history = json_array();
            json_object_set_new_nocheck(r->histories, name, history);
        }
        sn_text_clear(&t);
        sn_kern_print(&t, m, m->kernels.at[k]);
        add_entry(r, history, pass ? pass : "as given", t.s);
    }
    sn_text_free(&t);
}

/* ---- the graph ---- */

static const char *origin_of(const sn_node_rec *n, char out[80]) {
    if (n->origin) return n->origin;
    if (!n->name) return "";
    snprintf(out, 80, "%%%.76s", n->name);
    return out;
}

/* Live nodes: [id, name, operation, type, origin, [operands]]. */
static json_t *graph_json(const look *l) {
    sn_module *m = l->p->source;
    uint32_t count = m->graph.nodes.count;
    json_t *nodes = json_array();
    uint8_t *live = calloc(count + 1, 1);
    if (!live) return nodes;
    sn_graph_live(m, live);
    for (uint32_t i = 1; i < count; i++) {
        const sn_node_rec *n = sn_node_get(m, (sn_nd){i});
        char origin[80];
        if (!live[i]) continue;
        json_t *in = json_array(), *node = json_array();
        for (uint32_t k = 0; k < n->n_in; k++) json_array_append_new(in, json_integer(n->in[k].i));
        json_array_append_new(node, json_integer(i));
        json_array_append_new(node, json_string_nocheck(n->name ? n->name : ""));
        json_array_append_new(node, json_string_nocheck(sn_ops[n->op].name));
        json_array_append_new(node, json_string_nocheck(sn_type_text(m, &n->type)));
        json_array_append_new(node, json_string_nocheck(origin_of(n, origin)));
        json_array_append_new(node, in);
        json_array_append_new(nodes, node);
    }
    free(live);
    return nodes;
}

/* ---- memory ---- */

static json_int_t number_of(const sn_module *m, sn_ix e) {
    int64_t n = 0;
    return e.i && sn_ix_is_const(m, e, &n) ? n : 0;
}

/* The steps of a run, and each intermediate: [name, offset, bytes, first step, last step]. */
static json_t *memory_json(const look *l) {
    const sn_module *m = l->p->m;
    json_t *memory = json_object(), *steps = json_array(), *blocks = json_array();
    json_int_t *block_of = calloc(m->bufs.count + 1, sizeof *block_of);
    for (uint32_t i = m->wrap.n_prepare; block_of && i < m->wrap.steps.n; i++) {
        const sn_step *s = &m->wrap.steps.at[i];
        json_int_t now = (json_int_t)json_array_size(steps);
        if (s->kind == SN_STEP_CALL) json_array_append_new(steps, json_string_nocheck(sn_kern_get(m, s->kern)->name));
        if (s->kind == SN_STEP_COPY) json_array_append_new(steps, json_string_nocheck("copy"));
        if (s->kind == SN_STEP_REUSE) block_of[s->buf.i] = block_of[s->from.i];
        if (s->kind == SN_STEP_ALLOC) {
            const sn_buf_rec *b = sn_buf_get(m, s->buf);
            json_t *block = json_array();
            json_array_append_new(block, json_string_nocheck(b->name));
            json_array_append_new(block, json_integer(number_of(m, s->offset)));
            json_array_append_new(block, json_integer(number_of(m, b->size) * sn_dtype_bytes(b->dtype)));
            json_array_append_new(block, json_integer(now));
            json_array_append_new(block, json_integer(-1));
            json_array_append_new(blocks, block);
            block_of[s->buf.i] = (json_int_t)json_array_size(blocks);
        }
        if (s->kind == SN_STEP_FREE && block_of[s->buf.i])
            json_array_set_new(json_array_get(blocks, (size_t)block_of[s->buf.i] - 1), 4, json_integer(now));
    }
    free(block_of);
    json_object_set_new(memory, "steps", steps);
    json_object_set_new(memory, "blocks", blocks);
    return memory;
}

/* ---- all of it ---- */

static json_t *kernel_json(report *r, const look_kernel *k) {
    const look *l = &r->l;
    json_t *o = look_row_json(SN_METRIC_KERNEL_METADATA, k->row), *history;
    json_object_set_new(o, "us", look_real(k->us));
    json_object_set_new(o, "estimate_us", look_real(k->estimate_us));
    json_object_set_new(o, "measured_us", look_real(k->measured_us));
    json_object_set_new(o, "least_us", look_real(k->least_us));
    json_object_set_new(o, "run_calls", json_integer(k->calls));
    json_object_set_new(o, "bound", k->estimate ? look_row_json(SN_METRIC_ESTIMATES, k->estimate) : json_null());
    json_object_set_new(o, "advice", json_string_nocheck(k->advice));
    history = json_object_get(r->histories, k->row->kernel);
    json_object_set(o, "history", history);
    for (uint32_t i = 0; l->p->codes && i < l->p->m->kernels.n; i++) {
        const sn_kern_rec *rec = sn_kern_get(l->p->m, l->p->m->kernels.at[i]);
        if (strcmp(rec->name, k->row->kernel) != 0 || !l->p->codes[i].ptx) continue;
        json_object_set_new(o, "ptx", json_integer(text_number(r, l->p->codes[i].ptx)));
    }
    return o;
}

static json_t *rows_json(const look *l, sn_metric table) {
    json_t *rows = json_array();
    for (uint32_t k = 0; k < l->log.rows[table].n; k++)
        json_array_append_new(rows, look_row_json(table, l->log.rows[table].at[k]));
    return rows;
}

static json_t *data_json(report *r) {
    const look *l = &r->l;
    json_t *all = json_object(), *kernels = json_array(), *tables = json_object();
    for (uint32_t k = 0; k < l->n_kernels; k++) json_array_append_new(kernels, kernel_json(r, &l->kernels[k]));
    for (int t = 0; t < SN_N_METRICS; t++)
        if (t != SN_METRIC_KERNEL_METADATA && t != SN_METRIC_ESTIMATES && l->log.rows[t].n)
            json_object_set_new(tables, sn_metric_tables[t].name, rows_json(l, (sn_metric)t));
    json_object_set_new(all, "title", json_string_nocheck(l->title));
    json_object_set_new(all, "version", json_string_nocheck(sn_version()));
    json_object_set_new(all, "total_us", look_real(l->total_us));
    json_object_set_new(all, "measured", json_boolean(l->profile != NULL));
    json_object_set_new(all, "rate", l->rate > 0 ? json_real(l->rate) : json_null());
    json_object_set_new(all, "rate_is", json_string_nocheck(l->rate_is));
    json_object_set_new(all, "nodes", graph_json(l));
    json_object_set_new(all, "kernels", kernels);
    json_object_set(all, "histories", r->histories);
    json_object_set(all, "stages", r->stages);
    json_object_set_new(all, "memory", memory_json(l));
    json_object_set_new(all, "tables", tables);
    json_object_set(all, "texts", r->texts);
    return all;
}

/* ---- the page ---- */

static size_t base64_size(size_t n) { return (n + 2) / 3 * 4; }

static void to_base64(char *out, const unsigned char *s, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned word = (unsigned)s[i] << 16 | (i + 1 < n ? (unsigned)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0);
        *out++ = digits[word >> 18];
        *out++ = digits[word >> 12 & 63];
        *out++ = i + 1 < n ? digits[word >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[word & 63] : '=';
    }
}

static int write_page(const char *path, const char *data) {
    static const char mark[] = "@DATA@";
    const char *at = strstr(tool_report_page, mark), *rest = at + strlen(mark);
    uLongf size = compressBound(strlen(data));
    unsigned char *packed = malloc(size);
    char *text = malloc(base64_size(size));
    int code = TOOL_FAILED;
    if (packed && text && compress2(packed, &size, (const unsigned char *)data, strlen(data), 9) == Z_OK) {
        to_base64(text, packed, size);
        sn_file_part parts[] = {
            {tool_report_page, (size_t)(at - tool_report_page)}, {text, base64_size(size)}, {rest, strlen(rest)}};
        code = tool_write(path, parts, SN_COUNT(parts));
    } else {
        fprintf(stderr, "sinter: error: out of memory\n");
    }
    free(packed);
    free(text);
    return code;
}

static int write_report(report *r, const char *path) {
    json_t *all = data_json(r);
    char *data = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6));
    int code = data ? write_page(path, data) : TOOL_FAILED;
    free(data);
    json_decref(all);
    return code;
}

int tool_report(sn_context *ctx, int argc, char **argv) {
    report_args a = {.o = {.struct_size = sizeof a.o}};
    report r = {.texts = json_array(), .number_of = json_object(), .histories = json_object(), .stages = json_array()};
    sn_graph *g = NULL;
    int code = parse(&a, argc, argv);
    if (code == TOOL_OK && a.show_help) fputs(help, stdout);
    if (code == TOOL_OK && !a.show_help) {
        a.o.dims = a.dims.at;
        a.o.n_dims = tool_is_onnx(a.path) ? 0 : a.dims.n;
        const char *slash = strrchr(a.path, '/');
        r.l.pass = on_pass;
        r.l.pass_user = &r;
        sn_status status = tool_load(&g, ctx, a.path, &a.dims, NULL);
        if (status == SN_OK) status = look_at(&r.l, ctx, g, &a.o, slash ? slash + 1 : a.path);
        code = status == SN_OK ? write_report(&r, a.out) : tool_fail(ctx);
    }
    look_close(&r.l);
    sn_graph_destroy(g);
    json_decref(r.texts);
    json_decref(r.number_of);
    json_decref(r.histories);
    json_decref(r.stages);
    return code;
}
