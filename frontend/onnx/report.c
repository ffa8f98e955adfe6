/* report.c: the capability report: problems of an import, grouped by operator, opset and reason, most frequent first.
 *
 *     resnet.onnx: 2 of 124 nodes are not supported
 *       3 x Foo (com.acme, opset 1): the operator is not supported: /layer1/foo, /layer2/foo, ...
 */
#include "frontend/onnx/report.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_NAMES = 4 };

typedef struct group {
    const sn_onnx_problem *first;
    SN_VEC(const char *) nodes;
} group;

typedef struct groups {
    group *at;
    uint32_t n;
} groups;

static int most_frequent(const void *a, const void *b) {
    const group *x = a, *y = b;
    if (x->nodes.n != y->nodes.n) return x->nodes.n < y->nodes.n ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static groups group_problems(const sn_onnx *im) {
    groups gs = {SN_NEWN(im->arena, group, im->problems.n + 1), 0};
    sn_names keys;
    sn_names_init(&keys, im->arena);
    for (uint32_t k = 0; k < im->problems.n; k++) {
        const sn_onnx_problem *p = &im->problems.at[k];
        const char *key = sn_strf(im->arena, "%s\n%s\n%lld\n%s", p->domain, p->op, (long long)p->opset, p->reason);
        uint32_t at = sn_names_get(&keys, key);
        if (!at) {
            gs.at[gs.n++].first = p;
            sn_names_put(&keys, key, at = gs.n);
        }
        SN_PUSH(im->arena, &gs.at[at - 1].nodes, p->node);
    }
    qsort(gs.at, gs.n, sizeof *gs.at, most_frequent);
    return gs;
}

static void put_group(sn_text *t, const group *g) {
    const sn_onnx_problem *p = g->first;
    sn_text_printf(t, "%u x %s (", g->nodes.n, p->op);
    if (p->domain[0]) sn_text_printf(t, "%s, ", p->domain);
    if (p->opset) sn_text_printf(t, "opset %lld", (long long)p->opset);
    else sn_text_put(t, "of the model");
    sn_text_printf(t, "): %s: ", p->reason);
    for (uint32_t k = 0; k < g->nodes.n && k < SHOWN_NAMES; k++)
        sn_text_printf(t, "%s%s", k ? ", " : "", g->nodes.at[k]);
    if (g->nodes.n > SHOWN_NAMES) sn_text_put(t, ", ...");
}

sn_status sn_onnx_problems_fail(sn_onnx *im, const char *what) {
    groups gs = group_problems(im);
    sn_text t;
    sn_text_init(&t, im->env);
    uint32_t shown = 0;
    for (; shown < gs.n && t.n < SN_MESSAGE_MAX / 2; shown++) {
        if (shown) sn_text_put(&t, "; ");
        put_group(&t, &gs.at[shown]);
    }
    if (shown < gs.n) sn_text_printf(&t, "; and %u more kinds", gs.n - shown);
    sn_status status = sn_fail(im->env, SN_ERROR_UNSUPPORTED, "%s: not supported: %s", what, t.s);
    sn_text_free(&t);
    return status;
}

/* ---- the report ---- */

static uint32_t count_nodes(const sn_onnx *im) { return im->model->graph ? im->model->graph->nodes.n : 0; }

/* A CSV field (RFC 4180). */
static void put_field(sn_text *t, const char *s) {
    if (!strpbrk(s, ",\"\n\r")) {
        sn_text_put(t, s);
        return;
    }
    sn_text_put(t, "\"");
    for (; *s; s++) sn_text_printf(t, *s == '"' ? "\"\"" : "%c", *s);
    sn_text_put(t, "\"");
}

static void put_csv(sn_text *t, const groups *gs) {
    sn_text_put(t, "domain,op,opset,count,reason,node\n");
    for (uint32_t i = 0; i < gs->n; i++) {
        const group *g = &gs->at[i];
        for (uint32_t k = 0; k < g->nodes.n; k++) {
            put_field(t, g->first->domain);
            sn_text_put(t, ",");
            put_field(t, g->first->op);
            sn_text_printf(t, ",%lld,%u,", (long long)g->first->opset, g->nodes.n);
            put_field(t, g->first->reason);
            sn_text_put(t, ",");
            put_field(t, g->nodes.at[k]);
            sn_text_put(t, "\n");
        }
    }
}

void sn_onnx_report_put(sn_text *t, const sn_onnx *im, const char *what, bool csv) {
    groups gs = group_problems(im);
    if (csv) {
        put_csv(t, &gs);
        return;
    }
    if (!gs.n) {
        sn_text_printf(t, "%s: all %u nodes are supported\n", what, count_nodes(im));
        return;
    }
    uint32_t n = count_nodes(im);
    sn_text_printf(t, "%s: %u problem%s with its %u node%s\n", what, im->problems.n, im->problems.n == 1 ? "" : "s", n,
                   n == 1 ? "" : "s");
    for (uint32_t k = 0; k < gs.n; k++) {
        sn_text_put(t, "  ");
        put_group(t, &gs.at[k]);
        sn_text_put(t, "\n");
    }
}
