/* text.c: printing graphs: as .sn text that parse.c reads back, and as a table for people. Only live nodes
 * are printed (all, when there is no output yet). Names are the hints of the nodes made unique; nodes without a hint
 * are numbered in print order, so that printing what was parsed gives the same text.
 */
#include "ir/base/text.h"
#include "ir/graph/internal.h"

#include <string.h>

/* ---- types ---- */

static const char *symbol_name(void *user, sn_ix_kind kind, uint32_t id) {
    const sn_module *m = user;
    return kind == SN_IX_SYM ? sn_sym_get(m, (sn_sym){id})->name : "?";
}

static void put_ix(sn_text *t, const sn_module *m, sn_ix e) { sn_ix_print(t, m, e, symbol_name, (void *)(uintptr_t)m); }

void sn_shape_put(sn_text *t, const sn_module *m, const sn_ix *shape, uint32_t rank) {
    sn_text_put(t, "[");
    for (uint32_t k = 0; k < rank; k++) {
        if (k) sn_text_put(t, ", ");
        if (shape[k].i) put_ix(t, m, shape[k]);
        else sn_text_put(t, "?");
    }
    sn_text_put(t, "]");
}

void sn_type_put(sn_text *t, const sn_module *m, const sn_type *type) {
    sn_text_put(t, sn_dtypes[type->dtype].name);
    sn_shape_put(t, m, type->shape, type->rank);
}

/* Move a finished text to the arena. */
static char *keep(sn_text *t, sn_module *m) {
    char *s = sn_strndup(&m->arena, t->s, t->n);
    sn_text_free(t);
    return s;
}

char *sn_type_text(sn_module *m, const sn_type *type) {
    sn_text t;
    sn_text_init(&t, m->env);
    sn_type_put(&t, m, type);
    return keep(&t, m);
}

char *sn_shape_text(sn_module *m, const sn_type *type) {
    sn_text t;
    sn_text_init(&t, m->env);
    sn_shape_put(&t, m, type->shape, type->rank);
    return keep(&t, m);
}

char *sn_ix_text(sn_module *m, sn_ix e) {
    sn_text t;
    sn_text_init(&t, m->env);
    put_ix(&t, m, e);
    return keep(&t, m);
}

/* ---- attributes ---- */

static void put_numbers(sn_text *t, sn_dtype dtype, const double *f, const int64_t *at, uint64_t n, uint64_t limit) {
    sn_text_put(t, "[");
    for (uint64_t i = 0; i < n && i < limit; i++) {
        if (i) sn_text_put(t, ", ");
        if (f) sn_text_double(t, f[i]);
        else if (dtype == SN_U64) sn_text_printf(t, "%llu", (unsigned long long)at[i]);
        else sn_text_printf(t, "%lld", (long long)at[i]);
    }
    sn_text_put(t, n > limit ? ", ...]" : "]");
}

static void put_ints(sn_text *t, const sn_attr *a) {
    sn_text_put(t, "[");
    for (uint32_t i = 0; i < a->ints.n; i++) sn_text_printf(t, "%s%lld", i ? ", " : "", (long long)a->ints.at[i]);
    sn_text_put(t, "]");
}

/* Attribute k of node n. limit: how many literal elements to show. */
static void put_attr(sn_text *t, const sn_module *m, const sn_node_rec *n, uint32_t k, uint64_t limit) {
    const sn_attr *a = &n->attrs[k];
    sn_text_printf(t, "%s=", sn_attrs[a->id].name);
    switch (sn_attrs[a->id].kind) {
    case SN_KIND_INT: sn_text_printf(t, "%lld", (long long)a->i); break;
    case SN_KIND_FLOAT: sn_text_double(t, a->f); break;
    case SN_KIND_BOOL: sn_text_put(t, a->i ? "true" : "false"); break;
    case SN_KIND_DTYPE: sn_text_put(t, sn_dtypes[a->i].name); break;
    case SN_KIND_INTS: put_ints(t, a); break;
    case SN_KIND_SHAPE: sn_shape_put(t, m, a->shape.at, a->shape.n); break;
    case SN_KIND_NUMBERS: put_numbers(t, n->type.dtype, a->numbers.f, a->numbers.i, a->numbers.n, limit); break;
    case SN_KIND_STRING: sn_text_quoted(t, a->text); break;
    case SN_KIND_WORD: sn_text_put(t, sn_attrs[a->id].words[a->i]); break;
    }
}

/* ---- names ---- */

typedef struct printer {
    sn_text *t;
    const sn_module *m;
    sn_arena arena;     /* of the labels */
    uint8_t *shown;     /* by node id */
    const char **label; /* by node id, without the % */
} printer;

/* The hint, with the first free number behind it when it is taken. A name's entry counts how often it was wanted. */
static const char *unique_label(printer *p, sn_names *used, const char *hint) {
    const char *label = hint;
    uint32_t n = sn_names_get(used, hint);
    while (sn_names_get(used, label)) label = sn_strf(&p->arena, "%s_%u", hint, n++);
    sn_names_put(used, hint, n ? n : 1);
    if (label != hint) sn_names_put(used, label, 1);
    return label;
}

static void printer_begin(printer *p, sn_text *t, const sn_module *m) {
    const sn_graph_ir *g = &m->graph;
    sn_names used;
    uint32_t number = 0;
    *p = (printer){.t = t, .m = m};
    sn_arena_init(&p->arena, m->env);
    p->shown = SN_NEWN(&p->arena, uint8_t, g->nodes.count);
    p->label = SN_NEWN(&p->arena, const char *, g->nodes.count);
    if (g->outputs.n) sn_graph_live(m, p->shown);
    else memset(p->shown, 1, g->nodes.count);
    sn_names_init(&used, &p->arena);
    for (uint32_t i = 0; i < g->inputs.n; i++)
        p->label[g->inputs.at[i].node.i] = unique_label(p, &used, g->inputs.at[i].name);
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(m, (sn_nd){i});
        if (n->op == SN_OP_INPUT || !p->shown[i]) continue;
        p->label[i] = n->name ? unique_label(p, &used, n->name) : sn_strf(&p->arena, "%u", number++);
    }
}

static void printer_end(printer *p) { sn_arena_free(&p->arena); }

/* ---- .sn text ---- */

static void put_input(printer *p, const sn_graph_input *in) {
    const sn_type *type = &sn_node_get(p->m, in->node)->type;
    const sn_graph_default *d = &in->otherwise;
    int64_t offset;
    sn_text_printf(p->t, "%%%s: ", in->name);
    sn_type_put(p->t, p->m, type);
    if (d->n) sn_text_put(p->t, " = ");
    if (d->n) put_numbers(p->t, type->dtype, d->f, d->i, d->n, UINT64_MAX);
    if (in->contiguous) return;
    sn_text_put(p->t, " strides ");
    sn_shape_put(p->t, p->m, in->stride, type->rank);
    if (sn_ix_is_const(p->m, in->offset, &offset) && offset == 0) return;
    sn_text_put(p->t, " offset ");
    put_ix(p->t, p->m, in->offset);
}

static void put_operands(printer *p, const sn_node_rec *n) {
    for (uint32_t k = 0; k < n->n_in; k++) sn_text_printf(p->t, "%s%%%s", k ? ", " : "", p->label[n->in[k].i]);
}

static void put_node(printer *p, uint32_t i) {
    const sn_node_rec *n = sn_node_get(p->m, (sn_nd){i});
    sn_text_printf(p->t, "  %%%s = %s", p->label[i], sn_ops[n->op].name);
    if (n->n_in) sn_text_put(p->t, " ");
    put_operands(p, n);
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        sn_text_put(p->t, " ");
        put_attr(p->t, p->m, n, k, UINT64_MAX);
    }
    sn_text_put(p->t, " : ");
    sn_type_put(p->t, p->m, &n->type);
    if (n->n_results > 1) sn_text_printf(p->t, " tuple %u", n->n_results);
    if (n->origin && n->origin[0] != '%') {
        sn_text_put(p->t, " at ");
        sn_text_quoted(p->t, n->origin);
    }
    sn_text_put(p->t, "\n");
}

static void put_return(printer *p) {
    const sn_graph_ir *g = &p->m->graph;
    if (g->outputs.n == 0) return;
    sn_text_put(p->t, "  return ");
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const sn_graph_output *out = &g->outputs.at[i];
        sn_text_printf(p->t, "%s%s = %%%s", i ? ", " : "", out->name, p->label[out->node.i]);
        if (out->writes >= 0) sn_text_printf(p->t, " writes %%%s", g->inputs.at[out->writes].name);
    }
    sn_text_put(p->t, "\n");
}

void sn_graph_print(sn_text *t, const sn_module *m) {
    const sn_graph_ir *g = &m->graph;
    printer p;
    if (!g->name) return;
    printer_begin(&p, t, m);
    sn_text_printf(t, "graph @%s(", g->name);
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (i) sn_text_put(t, ", ");
        put_input(&p, &g->inputs.at[i]);
    }
    sn_text_put(t, ") {\n");
    for (uint32_t i = 1; i < g->nodes.count; i++)
        if (p.shown[i] && sn_node_get(m, (sn_nd){i})->op != SN_OP_INPUT) put_node(&p, i);
    put_return(&p);
    sn_text_put(t, "}\n");
    printer_end(&p);
}

/* ---- table ---- */

enum { N_COLUMNS = 5, TABLE_NUMBERS = 8 };

typedef struct row {
    const char *cell[N_COLUMNS];
} row;

/* Take what was written to the scratch text as a cell. */
static const char *cell(printer *p) {
    const char *s = sn_strndup(&p->arena, p->t->s, p->t->n);
    p->t->n = 0;
    p->t->s[0] = 0;
    return s;
}

static row node_row(printer *p, uint32_t i) {
    const sn_node_rec *n = sn_node_get(p->m, (sn_nd){i});
    row r;
    sn_text_printf(p->t, "%%%s", p->label[i]);
    r.cell[0] = cell(p);
    r.cell[1] = sn_ops[n->op].name;
    put_operands(p, n);
    r.cell[2] = cell(p);
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        if (k) sn_text_put(p->t, " ");
        put_attr(p->t, p->m, n, k, TABLE_NUMBERS);
    }
    r.cell[3] = cell(p);
    sn_type_put(p->t, p->m, &n->type);
    if (n->n_results > 1) sn_text_printf(p->t, " tuple %u", n->n_results);
    r.cell[4] = cell(p);
    return r;
}

static row output_row(printer *p, const sn_graph_output *out) {
    row r = {.cell = {out->name, "output"}};
    sn_text_printf(p->t, "%%%s", p->label[out->node.i]);
    r.cell[2] = cell(p);
    if (out->writes >= 0) sn_text_printf(p->t, "writes=%%%s", p->m->graph.inputs.at[out->writes].name);
    r.cell[3] = cell(p);
    sn_type_put(p->t, p->m, &sn_node_get(p->m, out->node)->type);
    r.cell[4] = cell(p);
    return r;
}

static void put_rows(sn_text *t, const row *rows, uint32_t n) {
    int width[N_COLUMNS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (int c = 0; c < N_COLUMNS; c++) {
            int w = (int)strlen(rows[i].cell[c]);
            if (w > width[c]) width[c] = w;
        }
    for (uint32_t i = 0; i < n; i++) {
        for (int c = 0; c + 1 < N_COLUMNS; c++) sn_text_printf(t, "%-*s  ", width[c], rows[i].cell[c]);
        sn_text_printf(t, "%s\n", rows[i].cell[N_COLUMNS - 1]);
    }
}

void sn_graph_print_table(sn_text *t, const sn_module *m) {
    const sn_graph_ir *g = &m->graph;
    sn_text scratch;
    printer p;
    SN_VEC(row) rows = {0};
    if (!g->name) return;
    sn_text_init(&scratch, m->env);
    printer_begin(&p, &scratch, m);
    row head = {{"id", "op", "operands", "attributes", "type"}};
    SN_PUSH(&p.arena, &rows, head);
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        if (!p.label[i]) continue;
        row r = node_row(&p, i);
        SN_PUSH(&p.arena, &rows, r);
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        row r = output_row(&p, &g->outputs.at[i]);
        SN_PUSH(&p.arena, &rows, r);
    }
    put_rows(t, rows.at, rows.n);
    printer_end(&p);
    sn_text_free(&scratch);
}
