/* list.c: `sinter list`: the tables of the library. Every row comes from the table that the library itself uses. */
#include "passes/graph/choices.h"
#include "runtime/threads.h"
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

static int list_ops(sn_context *ctx) {
    (void)ctx;
    static const char *const classes[] = {"source", "unary", "binary", "compare",  "test",      "element", "reduce",
                                          "scan",   "view",  "move",   "contract", "composite", "repeat"};
    _Static_assert(SN_COUNT(classes) == SN_OPS_REPEAT + 1, "every class of ops.def has its word");
    for (int op = 0; op < SN_N_OPS; op++)
        printf("%-17s %-10s %-28s %s\n", sn_ops[op].name, classes[sn_ops[op].cls], sn_ops[op].attrs, sn_ops[op].doc);
    return TOOL_OK;
}

static int list_passes(sn_context *ctx) {
    (void)ctx;
    static const char *const levels[] = {"graph", "lower", "loops", "schedule", "wrapper"};
    for (const sn_pass_info *p = sn_passes; p->name; p++) printf("%-16s %-9s %s\n", p->name, levels[p->level], p->doc);
    printf("\npipeline of GPUs:  %s\npipeline of host:  %s\n", sn_pipeline_gpu, sn_pipeline_host);
    return TOOL_OK;
}

static const char *value_of(const sn_sched_field_info *f) { return f->words ? "=WORD" : f->is_flag ? "" : "=N"; }

static int list_schedules(sn_context *ctx) {
    (void)ctx;
    for (int cls = SN_SCHED_NONE + 1; cls < SN_N_SCHED_CLASSES; cls++) {
        printf("%-11s %s\n%-11s", sn_sched_class_names[cls], sn_sched_classes[cls].doc, "");
        for (int f = 0; f < SN_N_SCHED_FIELDS; f++)
            if (sn_sched_classes[cls].fields >> f & 1)
                printf(" %s%s", sn_sched_fields[f].name, value_of(&sn_sched_fields[f]));
        printf("\n");
    }
    printf("\n");
    for (int f = 0; f < SN_N_SCHED_FIELDS; f++) printf("%-11s %s\n", sn_sched_fields[f].name, sn_sched_fields[f].doc);
    return TOOL_OK;
}

/* What runs matrix products and convolutions there, beside our own kernels. */
static void list_library(sn_context *ctx, int device) {
    const char *name;
    printf("        library %s\n", sn_device_library(&name, ctx, device) == SN_OK ? name : sn_error(ctx));
}

static int list_devices(sn_context *ctx) {
    sn_target host;
    sn_target_host(&host, sn_processors());
    printf("cpu     host   %u threads, vectors of %u bytes\n", host.units, host.vector_bytes);
    list_library(ctx, SN_CPU);
    unsigned n = 0;
    if (sn_device_count(&n, ctx) != SN_OK) {
        printf("cuda    none   %s\n", sn_error(ctx));
        return TOOL_OK;
    }
    for (unsigned k = 0; k < n; k++) {
        const char *name, *target;
        if (sn_device_info(&name, &target, ctx, (int)k) != SN_OK) return tool_fail(ctx);
        printf("cuda %u  %-6s %s\n", k, target, name);
        list_library(ctx, (int)k);
    }
    return TOOL_OK;
}

/* "matmul  library       extern    a library runs it: .." */
static int list_choices(sn_context *ctx) {
    (void)ctx;
    for (const sn_choice_row *row = sn_choice_rows; row->name; row++)
        printf("%-7s %-12s %-9s %s\n", sn_ops[row->op].name, row->name, sn_choice_kind_names[row->kind], row->doc);
    return TOOL_OK;
}

static int list_options(sn_context *ctx) {
    (void)ctx;
    static const struct {
        const char *name, *values, *environment, *doc;
    } options[] = {
#define SN_OPTION(name, values, environment, doc) {name, values, environment, doc},
#include "frontend/options.def"
#undef SN_OPTION
    };
    for (size_t k = 0; k < SN_COUNT(options); k++)
        printf("%-14s %-28s %s%s%s%s\n", options[k].name, options[k].values, options[k].doc,
               options[k].environment[0] ? " (default from " : "", options[k].environment,
               options[k].environment[0] ? ")" : "");
    return TOOL_OK;
}

static sn_status print_targets(sn_context *ctx, void *args) {
    (void)args;
    static const struct {
        const char *name, *note;
    } rows[] = {
#define SN_TARGET(name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb, note) {name, note},
#define SN_VARIANT(name, sm, ptx, note) {name, note},
#include "backend-nvptx/targets.def"
#undef SN_VARIANT
#undef SN_TARGET
    };
    for (size_t k = 0; k < SN_COUNT(rows); k++) {
        sn_target t;
        SN_TRY(sn_target_named(&t, &ctx->env, rows[k].name));
        printf("%-7s %3u units, %6u bytes of shared memory, %3llu MiB of L2   %s\n", rows[k].name, t.units,
               t.shared_bytes, (unsigned long long)t.cache_bytes >> 20, rows[k].note);
    }
    printf("host    this CPU\n");
    return SN_OK;
}

static int list_targets(sn_context *ctx) {
    return sn_guarded(ctx, print_targets, NULL) == SN_OK ? TOOL_OK : tool_fail(ctx);
}

static int list_metrics(sn_context *ctx) {
    (void)ctx;
    for (int t = 0; t < SN_N_METRICS; t++) {
        const sn_metric_table *table = &sn_metric_tables[t];
        printf("%s%-16s %s\n", t ? "\n" : "", table->name, table->doc);
        for (uint32_t k = 0; k < table->n; k++) printf("  %-14s %s\n", table->columns[k].name, table->columns[k].doc);
    }
    printf("\ncounters (sn_counter)\n");
    for (int c = 0; c < SN_N_COUNTERS; c++) printf("  %-16s %s\n", sn_counter_rows[c].name, sn_counter_rows[c].doc);
    return TOOL_OK;
}

int tool_list(sn_context *ctx, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*list)(sn_context *ctx);
    } tables[] = {{"ops", list_ops},         {"passes", list_passes},   {"schedules", list_schedules},
                  {"choices", list_choices}, {"devices", list_devices}, {"options", list_options},
                  {"targets", list_targets}, {"metrics", list_metrics}};
    if (argc == 2 && !strcmp(argv[1], "--help"))
        return fputs("usage: sinter list ops|passes|schedules|choices|devices|options|targets|metrics\n", stdout),
               TOOL_OK;
    for (size_t k = 0; argc == 2 && k < SN_COUNT(tables); k++)
        if (!strcmp(argv[1], tables[k].name)) return tables[k].list(ctx);
    return tool_misuse("list: one of ops, passes, schedules, choices, devices, options, targets, metrics is wanted");
}
