/* consumer.c: the smallest program that builds, compiles and runs a graph with an installed Sinter. Prints "ok". */
#include <sinter/sinter.h>

#include <stdio.h>
#include <string.h>

static int failed(sn_context *ctx) {
    fprintf(stderr, "%s\n", sn_error(ctx));
    return 1;
}

int main(void) {
    if (strcmp(sn_version(), SINTER_VERSION) != 0) {
        fprintf(stderr, "header %s, library %s\n", SINTER_VERSION, sn_version());
        return 1;
    }
    sn_context *ctx = NULL;
    sn_graph *g = NULL;
    sn_program *p = NULL;
    sn_tensor *x = NULL, *y = NULL;
    if (sn_context_create(&ctx, NULL)) return 1;
    if (sn_graph_create(&g, ctx, "double")) return failed(ctx);
    sn_node in = sn_input(g, "x", SN_F32, SN_LIST(2, 3));
    sn_output(g, "y", sn_add(g, in, in));
    sn_compile_options options = {.struct_size = sizeof options, .device = "cpu"};
    if (sn_compile(&p, g, &options)) return failed(ctx);

    float values[6] = {0, 1, 2, 3, 4, 5};
    if (sn_tensor_for_input(&x, p, 0) || sn_tensor_for_output(&y, p, 0)) return failed(ctx);
    if (sn_tensor_write(x, values, sizeof values)) return failed(ctx);
    if (sn_run(p, &x, &y, NULL)) return failed(ctx);
    if (sn_tensor_read(values, y, sizeof values)) return failed(ctx);
    for (int i = 0; i < 6; i++) {
        if (values[i] != 2.0f * (float)i) {
            fprintf(stderr, "y[%d] is %g, not %d\n", i, values[i], 2 * i);
            return 1;
        }
    }
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    puts("ok");
    return 0;
}
