/* metrics.h: what a compilation records of itself: rows of the tables in tables.def, and counters. Data first: whoever knows
 * something adds a row to the log of the compilation, where there is one; files (csv.c) and callbacks come afterwards.
 *
 *     sn_row_graph_stats *row = SN_ADD_ROW(log, GRAPH_STATS, graph_stats);    all unknown; NULL: nobody asked for it
 *     if (row) row->kernels = 7;
 *
 * A log belongs to one thread. A NULL log is that of a compilation that nobody asks about: nothing is recorded then.
 */
#ifndef SN_METRICS_METRICS_H
#define SN_METRICS_METRICS_H

#include "include/sinter/metric.h"
#include "ir/base/text.h"

/* ---- tables ---- */

#define SN_UNKNOWN INT64_MIN

#define SN_METRIC_C_TEXT const char *
#define SN_METRIC_C_INT int64_t
#define SN_METRIC_C_REAL double
#define SN_TABLE(ID, name, doc) typedef struct sn_row_##name {
#define SN_COLUMN(table, name, KIND, doc) SN_METRIC_C_##KIND name;
#define SN_TABLE_END(ID, name) } sn_row_##name;
#include "metrics/tables.def"

typedef enum sn_metric {
#define SN_TABLE(ID, name, doc) SN_METRIC_##ID,
#include "metrics/tables.def"
    SN_N_METRICS
} sn_metric;

typedef struct sn_metric_column {
    const char *name, *doc;
    sn_metric_kind kind;
    size_t offset; /* in the row */
} sn_metric_column;

typedef struct sn_metric_table {
    const char *name, *doc;
    const sn_metric_column *columns;
    uint32_t n;
    size_t row_size;
} sn_metric_table;
extern const sn_metric_table sn_metric_tables[SN_N_METRICS];

/* The tables of a list "kernel_metadata,graph_stats", a bit each; "all"; "" and "off": none. A name that there is none of
 * fails with all that there are. */
sn_status sn_metric_list(uint32_t *out, sn_env *env, const char *list);

/* ---- counters ---- */

typedef enum sn_counter {
#define SN_COUNTER(ID, name, in_hits, doc) SN_COUNTER_##ID,
#include "metrics/counters.def"
#undef SN_COUNTER
    SN_N_COUNTERS
} sn_counter_id;

typedef struct sn_counter_row {
    const char *name, *doc;
    bool in_hits;
} sn_counter_row;
extern const sn_counter_row sn_counter_rows[SN_N_COUNTERS];

/* ---- the log of a compilation ---- */

typedef struct sn_metric_log {
    sn_arena *arena;
    uint32_t wanted; /* a bit for each table */
    SN_VEC(void *) rows[SN_N_METRICS];
    uint64_t counters[SN_N_COUNTERS];
} sn_metric_log;

static inline bool sn_metric_wanted(const sn_metric_log *log, sn_metric table) {
    return log && log->wanted >> table & 1;
}
/* A row of unknown values, last of its table; NULL: nobody wants it. */
void *sn_metric_add(sn_metric_log *log, sn_metric table);
#define SN_ADD_ROW(log, ID, name) ((sn_row_##name *)sn_metric_add((log), SN_METRIC_##ID))
/* A text that lives as long as the log; NULL stays NULL. */
const char *sn_metric_text(const sn_metric_log *log, const char *text);
/* A pass made kernel b a part of a: rows of estimates about b are about a from now on. */
void sn_metric_join(const sn_metric_log *log, const char *a, const char *b);
static inline void sn_metric_count(sn_metric_log *log, sn_counter_id which, uint64_t n) {
    if (log) log->counters[which] += n;
}
/* Row k of a table. */
#define SN_ROW(log, ID, name, k) ((const sn_row_##name *)(log)->rows[SN_METRIC_##ID].at[k])

/* A cell as the public interface has it, and as text: "" where it is not known, without quotes. */
sn_metric_value sn_metric_get(const sn_metric_column *column, const void *row);
void sn_metric_cell(sn_text *out, const sn_metric_column *column, const void *row);

/* ---- files (csv.c) ---- */

/* Append the rows of a log to FOLDER/metric_NAME.csv, for each table that has some. *warning: the first thing that went
 * wrong, one line in the log's arena; NULL: nothing has. It fails nobody. */
void sn_metric_write(const char **warning, const sn_metric_log *log, const char *folder, const char *model);
/* Empty the files of these tables: what is left of each is its header. */
sn_status sn_metric_empty(sn_env *env, sn_arena *arena, const char *folder, uint32_t tables);

#endif
