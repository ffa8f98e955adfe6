/* softmax.c: the smallest whole program: a row softmax over 4 rows of 1000 numbers, on whatever device there is. The text
 * of README.md's first example.
 */
#include <stdio.h>

#include <sinter/sinter.h>

static float x_data[4][1000], y_data[4][1000];

int main(void) {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL) || sn_graph_create(&g, ctx, "softmax")) return 1;

    sn_node in = sn_input(g, "x", SN_F32, SN_LIST(4, 1000));
    sn_output(g, "y", sn_softmax(g, in, 1));
    if (sn_compile(&p, g, NULL)) return fprintf(stderr, "%s\n", sn_error(ctx)), 1;

    for (int k = 0; k < 4 * 1000; k++) x_data[k / 1000][k % 1000] = (float)(k % 7);
    if (sn_tensor_for_input(&x, p, 0) || sn_tensor_for_output(&y, p, 0)) return 1;
    if (sn_tensor_write(x, x_data, sizeof x_data) || sn_run(p, &x, &y, NULL) || sn_tensor_read(y_data, y, sizeof y_data))
        return fprintf(stderr, "%s\n", sn_error(ctx)), 1;

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
