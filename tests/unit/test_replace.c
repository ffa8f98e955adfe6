/* test_replace.c: edited kernels through the option replace_kernels: what is taken, what is refused, and that nothing is left behind; one
 * kernel on arguments of its own. Texts and messages: tests/tool/replace.test.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/frontend.h"

static const char text[] = "graph @f(%x: f32[6, 40]) {\n"
                           "  %t = cumsum %x axis=1\n"
                           "  %s = sum %t axes=[0]\n"
                           "  %y = exp %s\n"
                           "  return t = %t, y = %y\n"
                           "}\n";

typedef struct bench {
    sn_context *ctx;
    sn_graph *g;
    char path[64];
    size_t bytes; /* that the context has allocated */
} bench;

/* The size stands in front of a block. */
static void *counting(void *user, void *p, size_t size) {
    bench *b = user;
    size_t *old = p ? (size_t *)p - 2 : NULL, had = old ? *old : 0;
    b->bytes += size - had;
    if (!size) return free(old), NULL;
    size_t *block = realloc(old, size + 2 * sizeof *block);
    *block = size;
    return block + 2;
}

static void start(bench *b) {
    sn_context_options o = {.struct_size = sizeof o, .realloc_fn = counting, .realloc_user = b};
    *b = (bench){.path = "/tmp/sinter-replace-XXXXXX"};
    int fd = mkstemp(b->path);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(sn_context_create(&b->ctx, &o), SN_OK);
    cr_assert_eq(sn_graph_from_text(&b->g, b->ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(b->ctx));
}

static void finish(bench *b) {
    sn_graph_destroy(b->g);
    sn_context_destroy(b->ctx);
    unlink(b->path);
    cr_expect_eq(b->bytes, 0);
}

static sn_status compile(sn_program **p, bench *b, bool replaces) {
    char replace[80];
    snprintf(replace, sizeof replace, "k0=%s", b->path);
    sn_compile_options o = {.struct_size = sizeof o,
                            .device = "cpu",
                            .threads = 1,
                            .tune = "off",
                            .replace_kernels = replaces ? replace : NULL};
    return sn_compile(p, b->g, &o);
}

typedef struct edit {
    const sn_program *p;
    const char *path, *from, *to;
} edit;

/* The first kernel of a program with one place changed (from NULL: none), in the file. */
static sn_status write_kernel(sn_context *ctx, void *user) {
    const edit *e = user;
    sn_text t, out;
    sn_text_init(&t, &ctx->env);
    sn_text_init(&out, &ctx->env);
    sn_kern_print(&t, e->p->m, e->p->m->kernels.at[0]);
    char *at = e->from ? strstr(t.s, e->from) : t.s;
    cr_assert_not_null(at, "%s", t.s);
    sn_text_putn(&out, t.s, (size_t)(at - t.s));
    if (e->from) sn_text_put(&out, e->to);
    sn_text_put(&out, at + (e->from ? strlen(e->from) : 0));
    sn_status status = sn_file_write(&ctx->env, e->path, out.s, out.n);
    sn_text_free(&t);
    sn_text_free(&out);
    return status;
}

static void edit_kernel(bench *b, const char *from, const char *to) {
    sn_program *p;
    cr_assert_eq(compile(&p, b, false), SN_OK, "%s", sn_error(b->ctx));
    edit e = {p, b->path, from, to};
    cr_assert_eq(sn_guarded(b->ctx, write_kernel, &e), SN_OK, "%s", sn_error(b->ctx));
    sn_program_destroy(p);
}

Test(replace, the_same_is_taken) {
    bench b;
    sn_program *p;
    start(&b);
    edit_kernel(&b, NULL, NULL);
    cr_assert_eq(compile(&p, &b, true), SN_OK, "%s", sn_error(b.ctx));
    sn_kernel_info info;
    cr_assert_eq(sn_program_kernel(&info, p, 0), SN_OK);
    cr_expect_str_eq(info.name, "k0");
    cr_expect_str_eq(info.note, "cumsum");
    sn_tensor *x, *out[2];
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    sn_check checks[2];
    cr_expect_eq(sn_program_check(checks, p, &x, out, false), SN_OK, "%s", sn_error(b.ctx));
    sn_tensor_destroy(x);
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
    finish(&b);
}

Test(replace, another_result_is_refused) {
    bench b;
    sn_program *p;
    start(&b);
    edit_kernel(&b, "accum sum", "accum max");
    cr_expect_eq(compile(&p, &b, true), SN_ERROR_MISMATCH);
    cr_expect_null(p);
    cr_expect(strstr(sn_error(b.ctx), " is not what kernel k0 is: t[0, "), "%s", sn_error(b.ctx));
    cr_expect_eq(compile(&p, &b, false), SN_OK, "%s", sn_error(b.ctx));
    sn_program_destroy(p);
    edit_kernel(&b, "kernel", "kernels");
    cr_expect_eq(compile(&p, &b, true), SN_ERROR_SYNTAX);
    finish(&b);
}

/* On arguments of its own: what it does not store stays. */
Test(replace, a_kernel_is_tried_alone) {
    bench b;
    sn_program *p;
    start(&b);
    cr_assert_eq(compile(&p, &b, false), SN_OK, "%s", sn_error(b.ctx));
    static float x[240], t[240];
    for (int i = 0; i < 240; i++) x[i] = 1, t[i] = -1;
    cr_assert_eq(sn_prog_try_kernel(p->prog, 0, (void *[]){x, t}), SN_OK);
    for (int i = 0; i < 240; i++) cr_expect(x[i] == 1 && t[i] == (float)(i % 40 + 1), "%d: %g", i, (double)t[i]);
    sn_program_destroy(p);
    finish(&b);
}
