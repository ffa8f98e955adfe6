/* softmax.c: the smallest whole program: a row softmax on whatever device there is. README.md shows it; what stands below
 * this comment is the same there (tests/check/readme.py).
 */
#include <sinter/sinter.h>
#include <stdio.h>

static float x_data[4][1000], y_data[4][1000];

static int failed(sn_context *ctx) { return fprintf(stderr, "%s\n", sn_error(ctx)), 1; }

int main(void) {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL)) return 1;

    /* Describe the computation. A failure stays with the graph; sn_compile reports it. */
    if (sn_graph_create(&g, ctx, "softmax")) return failed(ctx);
    sn_node in = sn_input(g, "x", SN_F32, SN_LIST(4, 1000));
    sn_output(g, "y", sn_softmax(g, in, 1));

    /* Compile it: for the GPU where there is one, else for the CPU. */
    if (sn_compile(&p, g, NULL)) return failed(ctx);

    /* Run it on tensors of the program's device. */
    for (int k = 0; k < 4 * 1000; k++) x_data[k / 1000][k % 1000] = (float)(k % 7);
    if (sn_tensor_for_input(&x, p, 0) || sn_tensor_for_output(&y, p, 0)) return failed(ctx);
    if (sn_tensor_write(x, x_data, sizeof x_data) || sn_run(p, &x, &y, NULL) ||
        sn_tensor_read(y_data, y, sizeof y_data))
        return failed(ctx);

    double sum = 0;
    for (int k = 0; k < 1000; k++) sum += y_data[0][k];
    printf("first row sums to %.6f\n", sum);

    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    return 0;
}
