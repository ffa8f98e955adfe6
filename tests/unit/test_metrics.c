/* test_metrics.c: rows of metric tables through the callback, counters, and cubins that are none. Files are tested by
 * tests/tool/metrics.test, figures against NVIDIA's tools by tests/ptxas/figures.py.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/sinter/sinter.h"
#include "runtime/cubin.h"

static const char text[] = "graph @f(%x: f32[64, 1000], %w: f32[1000]) {\n"
                           "  %s = softmax %x axis=1\n  %y = mul %s, %w\n  %z = sum %y axes=[0]\n"
                           "  return y = %y, z = %z\n}\n";

typedef struct seen {
    unsigned kernels, failures, stats, refused; /* rows, and a call from inside */
    int64_t loads, flops, nests_after, unknown;
    char reason[128], model[32], log[512];
    sn_context *ctx;
} seen;

static const sn_metric_value *value(const sn_metric_row *row, const char *column) {
    for (unsigned k = 0; k < row->n; k++)
        if (!strcmp(row->values[k].column, column)) return &row->values[k];
    cr_assert_fail("%s has no %s", row->table, column);
    return NULL;
}

static void on_row(void *user, const sn_metric_row *row) {
    seen *s = user;
    uint64_t n;
    snprintf(s->model, sizeof s->model, "%s", row->model);
    s->refused += sn_counter(&n, s->ctx, "kernels") == SN_ERROR_ARGUMENT;
    if (!strcmp(row->table, "kernel_metadata")) {
        s->kernels++;
        s->loads += value(row, "loads")->integer;
        s->flops += (int64_t)value(row, "flops")->real;
        s->unknown += !value(row, "registers")->known && value(row, "registers")->integer == 0;
    } else if (!strcmp(row->table, "fusion_failures")) {
        s->failures++;
        snprintf(s->reason, sizeof s->reason, "%s", value(row, "reason")->text);
    } else {
        s->stats++;
        s->nests_after = value(row, "nests_after")->integer;
    }
}

static void on_log(void *user, const char *line) {
    seen *s = user;
    strncat(s->log, line, sizeof s->log - strlen(s->log) - 1);
}

static sn_status compile(sn_context *ctx, sn_compile_options o) {
    sn_graph *g;
    sn_program *p;
    o.struct_size = sizeof o;
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f.sn", text, strlen(text)), SN_OK);
    sn_status status = sn_compile(&p, g, &o);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return status;
}

static sn_context *begin(seen *s) {
    sn_context *ctx;
    sn_context_options o = {.struct_size = sizeof o, .log = on_log, .log_user = s};
    *s = (seen){0};
    cr_assert_eq(sn_context_create(&ctx, &o), SN_OK);
    s->ctx = ctx;
    return ctx;
}

Test(metrics, rows_come_to_the_callback) {
    seen s;
    sn_context *ctx = begin(&s);
    sn_compile_options o = {.target = "sm_90a",
                            .metrics = "kernel_metadata, fusion_failures,graph_stats",
                            .metrics_row = on_row,
                            .metrics_user = &s};
    cr_assert_eq(compile(ctx, o), SN_OK, "%s", sn_error(ctx));
    cr_expect(s.kernels == 2 && s.failures == 1 && s.stats == 1);
    cr_expect(s.loads == 3 && s.flops == 573440 + 64000 && s.nests_after == 2 && s.unknown == 2);
    cr_expect_str_eq(s.reason, "a reduction would end up inside a loop of a row");
    cr_expect_str_eq(s.model, "f");
    cr_expect_eq(s.refused, 4, "a callback has used the context");
    cr_expect_str_eq(s.log, "");
    cr_expect_neq(access("metric_graph_stats.csv", F_OK), 0, "no files where there is a callback alone");
    o.metrics_model = "net";
    cr_assert_eq(compile(ctx, o), SN_OK);
    cr_expect_str_eq(s.model, "net");
    o.metrics = "nothing";
    cr_expect_eq(compile(ctx, o), SN_ERROR_ARGUMENT);
    cr_expect_not_null(strstr(sn_error(ctx), "metrics: 'nothing' is none of kernel_metadata, "));
    sn_context_destroy(ctx);
}

static uint64_t counter(sn_context *ctx, const char *name) {
    uint64_t n;
    cr_assert_eq(sn_counter(&n, ctx, name), SN_OK, "%s", sn_error(ctx));
    return n;
}

/* Compiled without a cache, to an empty one, and from it: what code stands for counts alike. */
Test(metrics, a_hit_counts_what_it_stands_for) {
    char folder[] = "/tmp/sinter-metrics-XXXXXX", command[64];
    seen s;
    sn_context *ctx = begin(&s);
    cr_assert(mkdtemp(folder));
    uint64_t first[3][64];
    for (int k = 0; k < 3; k++) {
        sn_counters_reset(ctx);
        cr_assert_eq(compile(ctx, (sn_compile_options){.target = "sm_90a", .cache = k ? folder : "off"}), SN_OK);
        for (unsigned c = 0; c < sn_counter_count(); c++) first[k][c] = counter(ctx, sn_counter_name(c));
        cr_expect(counter(ctx, "cache_hits") == (k == 2 ? 2 : 0) && counter(ctx, "cache_misses") == (k == 1 ? 2 : 0));
    }
    for (unsigned c = 0; c < sn_counter_count(); c++)
        if (strncmp(sn_counter_name(c), "cache_", 6) != 0)
            cr_expect(first[0][c] == first[1][c] && first[1][c] == first[2][c], "%s", sn_counter_name(c));
    cr_expect(counter(ctx, "kernels") == 2 && counter(ctx, "generated") == 2 && counter(ctx, "generated_bytes") > 0);
    cr_expect(counter(ctx, "compilations") == 1 && counter(ctx, "nests_before") == 4 && counter(ctx, "refused") == 1);
    cr_assert_eq(compile(ctx, (sn_compile_options){.target = "sm_90a"}), SN_OK);
    cr_expect_eq(counter(ctx, "kernels"), 4);
    cr_assert_neq(compile(ctx, (sn_compile_options){.target = "sm_1"}), SN_OK);
    cr_expect_eq(counter(ctx, "compilations"), 2, "one that fails counts nothing");
    uint64_t n = 7;
    cr_expect(sn_counter(&n, ctx, "things") == SN_ERROR_ARGUMENT && n == 0);
    cr_expect_not_null(strstr(sn_error(ctx), "counter: 'things' is none of compilations, "));
    cr_expect_null(sn_counter_name(sn_counter_count()));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
    sn_context_destroy(ctx);
}

/* ---- cubins ---- */

enum { SECTIONS = 5, NAMES_SIZE = 64 };
typedef struct cubin {
    Elf64_Ehdr head;
    Elf64_Shdr section[SECTIONS];
    char names[NAMES_SIZE];
    Elf64_Sym symbols[2];
    uint32_t attributes[6];
} cubin;

static cubin make_cubin(void) {
    static const char names[NAMES_SIZE] = "\0.symtab\0.nv.info\0.nv.shared.k7\0k7";
    cubin c = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                        .e_machine = 190,
                        .e_shoff = sizeof c.head,
                        .e_shentsize = sizeof(Elf64_Shdr),
                        .e_shnum = SECTIONS,
                        .e_shstrndx = 1}};
    memcpy(c.names, names, sizeof names);
    c.section[1] = (Elf64_Shdr){.sh_offset = offsetof(cubin, names), .sh_size = sizeof names};
    c.section[2] =
        (Elf64_Shdr){.sh_name = 1, .sh_link = 1, .sh_offset = offsetof(cubin, symbols), .sh_size = sizeof c.symbols};
    c.section[3] = (Elf64_Shdr){.sh_name = 9, .sh_offset = offsetof(cubin, attributes), .sh_size = sizeof c.attributes};
    c.section[4] = (Elf64_Shdr){.sh_name = 18, .sh_size = 1056};
    c.symbols[1] = (Elf64_Sym){.st_name = 32, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)};
    memcpy(c.attributes, (uint32_t[]){0x00082f04, 1, 40, 0x00081104, 1, 16}, sizeof c.attributes);
    return c;
}

Test(metrics, a_cubin_is_read_and_a_broken_one_is_not) {
    cubin c = make_cubin();
    sn_cubin_figures f;
    cr_assert(sn_cubin_read(&f, &c, sizeof c, "k7"));
    cr_expect(f.registers == 40 && f.stack == 16 && f.shared == 1056);
    cr_expect(sn_cubin_read(&f, &c, sizeof c, NULL) && !sn_cubin_read(&f, &c, sizeof c, "k8"));
    for (size_t n = 0; n < sizeof c; n++) { /* cut anywhere, in memory of its own */
        char *cut = malloc(n + 1);
        memcpy(cut, &c, n);
        sn_cubin_read(&f, cut, n, "k7");
        free(cut);
    }
    uint64_t state = 7;
    for (int round = 0; round < 20000; round++) { /* and with bytes that are others */
        cubin broken = c;
        for (int k = 0; k < 3; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            ((unsigned char *)&broken)[(state >> 33) % sizeof broken] = (unsigned char)(state >> 25);
        }
        sn_cubin_read(&f, &broken, sizeof broken, round & 1 ? "k7" : NULL);
    }
}
