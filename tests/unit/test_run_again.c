/* test_run_again.c: runs whose tensors are those of the run before skip the checks (frontend/run_again.c); whatever is different about a
 * tensor is looked at again.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { N = 12 };
static const char text[] = "graph @f(%x: f32[3, 4], %n: f32[]) {\n  %y = add %x, 1.0\n  %c = add %n, 1.0\n"
                           "  return y = %y, n = %c writes %n\n}\n";

typedef struct fixture {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    float x[2 * N], y[2 * N], n;
    sn_tensor *count;
} fixture;

static void set_up(fixture *f) {
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    *f = (fixture){0};
    cr_assert_eq(sn_context_create(&f->ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&f->g, f->ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_compile(&f->p, f->g, &o), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_tensor_wrap(&f->count, f->ctx, SN_CPU, &f->n, SN_F32, 0, NULL, NULL, 0), SN_OK);
    for (int i = 0; i < 2 * N; i++) f->x[i] = (float)i;
}

static void tear_down(fixture *f) {
    sn_tensor_destroy(f->count);
    sn_program_destroy(f->p);
    sn_graph_destroy(f->g);
    sn_context_destroy(f->ctx);
}

/* With tensors that live as long as the run: their successors lie where they lay. */
static sn_status run(fixture *f, float *x, const int64_t *shape, const int64_t *strides, float *y, sn_tensor *n) {
    sn_tensor *in[] = {NULL, f->count}, *out[] = {NULL, n};
    cr_assert_eq(sn_tensor_wrap(&in[0], f->ctx, SN_CPU, x, SN_F32, 2, shape, strides, 0), SN_OK);
    cr_assert_eq(sn_tensor_wrap(&out[0], f->ctx, SN_CPU, y, SN_F32, SN_LIST(3, 4), NULL, 0), SN_OK);
    sn_status status = sn_run(f->p, in, out, NULL);
    static char said[512];
    strncpy(said, sn_error(f->ctx), sizeof said - 1);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(out[0]);
    cr_expect_eq(status == SN_OK, !said[0]);
    return status;
}

static const int64_t shape[] = {3, 4}, turned[] = {4, 3}, columns[] = {1, 3};

static void run_right(fixture *f, float *x, float *y) {
    float n = f->n;
    memset(y, 0, N * sizeof *y);
    cr_assert_eq(run(f, x, shape, NULL, y, NULL), SN_OK, "%s", sn_error(f->ctx));
    for (int i = 0; i < N; i++) cr_assert_eq(y[i], x[i] + 1);
    cr_assert_eq(f->n, n + 1);
}

Test(run_again, results_go_where_the_tensors_are) {
    fixture f;
    set_up(&f);
    for (int k = 0; k < 3; k++) run_right(&f, f.x, f.y);
    run_right(&f, f.x + N, f.y);
    run_right(&f, f.x + N, f.y + N);
    run_right(&f, f.x, f.y + N);
    tear_down(&f);
}

Test(run_again, what_is_different_is_looked_at) {
    fixture f;
    set_up(&f);
    sn_tensor *other;
    cr_assert_eq(sn_tensor_wrap(&other, f.ctx, SN_CPU, f.y, SN_F32, 0, NULL, NULL, 0), SN_OK);
    for (int k = 0; k < 6; k++) {
        run_right(&f, f.x, f.y);
        run_right(&f, f.x, f.y);
        sn_status status = k == 0   ? run(&f, f.x, turned, NULL, f.y, NULL)
                           : k == 1 ? run(&f, f.x, shape, columns, f.y, NULL)
                           : k == 2 ? run(&f, f.x, shape, NULL, f.x + 4, NULL)
                           : k == 3 ? run(&f, f.x, shape, NULL, &f.n, NULL)
                           : k == 4 ? run(&f, f.x, shape, NULL, f.y, other)
                                    : sn_run(f.p, NULL, NULL, NULL);
        cr_expect_eq(status, SN_ERROR_ARGUMENT, "case %d", k);
    }
    run_right(&f, f.x, f.y);
    cr_expect_eq(run(&f, f.x, shape, NULL, f.y, f.count), SN_OK, "the tensor of the input that is written");
    sn_tensor_destroy(other);
    tear_down(&f);
}
