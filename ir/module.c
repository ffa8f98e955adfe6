/* module.c: the module container: birth and death, axes, symbols, whole-module text and verification.
 *
 * Each part prints, parses and verifies itself (graph.h, loop.h, wrap.h); this file only puts the items in order. It
 * knows nothing about what an item means.
 */
#include "ir/module.h"

#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/repeats.h"

sn_module *sn_module_new(sn_env *env) {
    sn_module *m = sn_heap_alloc(env, sizeof *m);
    *m = (sn_module){.env = env};
    sn_arena_init(&m->arena, env);
    sn_table_init(&m->ixs, &m->arena, sizeof(sn_ix_rec));
    sn_table_init(&m->axes, &m->arena, sizeof(sn_axis_rec));
    sn_table_init(&m->syms, &m->arena, sizeof(sn_sym_rec));
    sn_wt_init(m);
    sn_table_init(&m->graph.nodes, &m->arena, sizeof(sn_node_rec));
    sn_table_init(&m->bufs, &m->arena, sizeof(sn_buf_rec));
    sn_table_init(&m->kerns, &m->arena, sizeof(sn_kern_rec));
    sn_table_init(&m->stmts, &m->arena, sizeof(sn_stmt_rec));
    sn_table_init(&m->vals, &m->arena, sizeof(sn_val_rec));
    return m;
}

void sn_module_free(sn_module *m) {
    if (!m) return;
    sn_env *env = m->env;
    sn_arena_free(&m->arena);
    sn_heap_free(env, m, sizeof *m);
}

/* ---- text ---- */

/* Number of nodes without the none record; a table without memory belongs to a module whose graph was never begun. */
static bool has_graph(const sn_module *m) { return m->graph.nodes.count > 1 || m->graph.name; }

static void blank_line(sn_text *t, bool *first) {
    if (!*first) sn_text_put(t, "\n");
    *first = false;
}

void sn_module_print(sn_text *t, const sn_module *m) {
    bool first = true;
    if (m->weights.file) {
        blank_line(t, &first);
        sn_text_put(t, "weights ");
        sn_text_quoted(t, m->weights.file);
        sn_text_put(t, "\n");
    }
    if (has_graph(m)) {
        blank_line(t, &first);
        sn_graph_print(t, m);
    }
    bool first_buf = true;
    for (sn_buf b = {1}; b.i < m->bufs.count; b.i++) {
        if (!sn_buf_is_global(sn_buf_get(m, b))) continue; /* printed by its kernel */
        if (first_buf) blank_line(t, &first);
        first_buf = false;
        sn_buf_print(t, m, b);
    }
    for (uint32_t i = 0; i < m->repeats.n; i++) {
        blank_line(t, &first);
        sn_repeat_print(t, m, &m->repeats.at[i]);
    }
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        blank_line(t, &first);
        sn_kern_print(t, m, m->kernels.at[i]);
    }
    if (m->wrap.steps.n || m->wrap.name) {
        blank_line(t, &first);
        sn_wrap_print(t, m);
    }
}

typedef struct item_parser {
    const char *word;
    sn_status (*parse)(sn_module *m, sn_lex *lx);
} item_parser;

static const item_parser ITEMS[] = {
    {"weights", sn_wt_parse}, {"graph", sn_graph_parse}, {"buffer", sn_buf_parse},   {"repeat", sn_repeat_parse},
    {"cond", sn_cond_parse},  {"kernel", sn_kern_parse}, {"wrapper", sn_wrap_parse},
};

static sn_status parse_item(sn_module *m, sn_lex *lx) {
    for (size_t i = 0; i < SN_COUNT(ITEMS); i++)
        if (sn_lex_is_name(lx, ITEMS[i].word)) return ITEMS[i].parse(m, lx);
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    return sn_lex_fail(lx, "expected weights, graph, buffer, repeat, cond, kernel or wrapper, found '%.*s'", n,
                       lx->tok_start);
}

sn_status sn_module_parse(sn_module *m, const char *name, const char *text, size_t size) {
    sn_lex lx;
    SN_TRY(sn_lex_init(&lx, m->env, name, text, size));
    while (lx.tok != SN_TOK_END) {
        int line = lx.tok_line, col = lx.tok_col;
        (void)parse_item(m, &lx); /* index arithmetic reports through the environment, not through its results */
        SN_TRY(sn_lex_place(&lx, line, col));
    }
    return m->env->status;
}

/* ---- invariants ---- */

sn_status sn_module_verify(sn_module *m, const char *where) {
    if (has_graph(m)) SN_TRY(sn_graph_verify(m, where));
    SN_TRY(sn_loop_verify(m, where));
    SN_TRY(sn_repeats_verify(m, where));
    if (m->wrap.steps.n || m->wrap.name) SN_TRY(sn_wrap_verify(m, where));
    return SN_OK;
}
