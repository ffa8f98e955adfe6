/* onnx.c: a model that somebody else made: import, compile, run. README.md shows it; what stands below this comment is the
 * same there (tests/check/readme.py).
 */
#include <sinter/sinter.h>
#include <stdio.h>

static int failed(sn_context *ctx) { return fprintf(stderr, "%s\n", sn_error(ctx)), 1; }

int main(int argc, char **argv) {
    static const float x_data[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    float y_data[4];
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL)) return 1;

    /* The model leaves its batch size open; here it is 4. */
    sn_dim_binding batch = {.name = "N", .size = 4};
    sn_import_options options = {.struct_size = sizeof options, .dims = &batch, .n_dims = 1};
    if (sn_import_onnx(&g, ctx, argc > 1 ? argv[1] : "examples/xor.onnx", &options)) return failed(ctx);
    if (sn_compile(&p, g, NULL)) return failed(ctx);
    sn_graph_destroy(g); /* a program keeps what it needs of the weights */

    if (sn_tensor_for_input(&x, p, 0) || sn_tensor_for_output(&y, p, 0)) return failed(ctx);
    if (sn_tensor_write(x, x_data, sizeof x_data) || sn_run(p, &x, &y, NULL) ||
        sn_tensor_read(y_data, y, sizeof y_data))
        return failed(ctx);
    printf("xor:");
    for (int k = 0; k < 4; k++) printf(" %g, %g -> %g;", x_data[k][0], x_data[k][1], y_data[k]);
    printf("\n");

    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
    return 0;
}
