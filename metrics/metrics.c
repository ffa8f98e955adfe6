/* metrics.c: the tables of tables.def and counters.def as data, and the log that rows are added to.
 *
 * Rows are structs that are made from the same lines of tables.def as the descriptions of their columns, so that generic
 * code (files, callbacks, lists) reads them by offset. Knows nothing of what is recorded, and writes nothing (csv.c).
 */
#include "metrics/metrics.h"

#include <math.h>
#include <string.h>

#define SN_TABLE(ID, name, doc) static const sn_metric_column columns_of_##name[] = {
#define SN_COLUMN(table, name, KIND, doc) {#name, doc, SN_METRIC_##KIND, offsetof(sn_row_##table, name)},
#define SN_TABLE_END(ID, name) };
#include "metrics/tables.def"

const sn_metric_table sn_metric_tables[SN_N_METRICS] = {
#define SN_TABLE(ID, name, doc) {#name, doc, columns_of_##name, SN_COUNT(columns_of_##name), sizeof(sn_row_##name)},
#include "metrics/tables.def"
};
_Static_assert(SN_N_METRICS <= 32, "a table is a bit of a word");

const sn_counter_row sn_counter_rows[SN_N_COUNTERS] = {
#define SN_COUNTER(ID, name, in_hits, doc) {#name, doc, in_hits},
#include "metrics/counters.def"
#undef SN_COUNTER
};

/* ---- names ---- */

static sn_status no_such_table(sn_env *env, const char *name, size_t n) {
    sn_text known;
    sn_text_init(&known, env);
    for (int t = 0; t < SN_N_METRICS; t++) sn_text_printf(&known, "%s, ", sn_metric_tables[t].name);
    sn_fail(env, SN_ERROR_ARGUMENT, "metrics: '%.*s' is none of %sall, off", (int)n, name, known.s);
    sn_text_free(&known);
    return env->status;
}

static bool is_word(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

static bool find_table(uint32_t *bits, const char *name, size_t n) {
    if (is_word(name, n, "all")) return *bits |= (uint32_t)((UINT64_C(1) << SN_N_METRICS) - 1), true;
    if (is_word(name, n, "off")) return true;
    for (int t = 0; t < SN_N_METRICS; t++)
        if (is_word(name, n, sn_metric_tables[t].name)) return *bits |= UINT32_C(1) << t, true;
    return false;
}

sn_status sn_metric_list(uint32_t *out, sn_env *env, const char *list) {
    *out = 0;
    for (const char *at = list; at && *(at += strspn(at, ", "));) {
        size_t n = strcspn(at, ", ");
        if (!find_table(out, at, n)) return no_such_table(env, at, n);
        at += n;
    }
    return SN_OK;
}

/* ---- rows ---- */

void *sn_metric_add(sn_metric_log *log, sn_metric table) {
    if (!sn_metric_wanted(log, table)) return NULL;
    const sn_metric_table *t = &sn_metric_tables[table];
    char *row = sn_zalloc(log->arena, t->row_size);
    for (uint32_t k = 0; k < t->n; k++) {
        void *cell = row + t->columns[k].offset;
        if (t->columns[k].kind == SN_METRIC_INT) *(int64_t *)cell = SN_UNKNOWN;
        if (t->columns[k].kind == SN_METRIC_REAL) *(double *)cell = NAN;
    }
    SN_PUSH(log->arena, &log->rows[table], (void *)row);
    return row;
}

const char *sn_metric_text(const sn_metric_log *log, const char *text) {
    return log && text ? sn_strdup(log->arena, text) : NULL;
}

sn_metric_value sn_metric_get(const sn_metric_column *column, const void *row) {
    const void *cell = (const char *)row + column->offset;
    sn_metric_value v = {.column = column->name, .kind = column->kind};
    switch (column->kind) {
    case SN_METRIC_TEXT:
        v.text = *(const char *const *)cell;
        v.known = v.text != NULL;
        break;
    case SN_METRIC_INT:
        v.known = *(const int64_t *)cell != SN_UNKNOWN;
        if (v.known) v.integer = *(const int64_t *)cell;
        break;
    case SN_METRIC_REAL:
        v.known = !isnan(*(const double *)cell);
        if (v.known) v.real = *(const double *)cell;
        break;
    }
    return v;
}

void sn_metric_cell(sn_text *out, const sn_metric_column *column, const void *row) {
    sn_metric_value v = sn_metric_get(column, row);
    if (!v.known) return;
    switch (v.kind) {
    case SN_METRIC_TEXT: sn_text_put(out, v.text); break;
    case SN_METRIC_INT: sn_text_printf(out, "%lld", (long long)v.integer); break;
    case SN_METRIC_REAL: sn_text_printf(out, "%.6g", v.real); break;
    }
}

void sn_metric_join(const sn_metric_log *log, const char *a, const char *b) {
    for (uint32_t k = 0; log && k < log->rows[SN_METRIC_ESTIMATES].n; k++) {
        sn_row_estimates *row = log->rows[SN_METRIC_ESTIMATES].at[k];
        if (!strcmp(row->kernel, b)) row->kernel = sn_metric_text(log, a);
    }
}
