/* What image.test builds with the C source of affine.sn: y = 2 x + row. */
#include "affine.h"

#include <stdio.h>

int main(void) {
    static const float x[6] = {1, 2, 3, 4, 5, 6}, row[3] = {0, 0, 0};
    float y[6] = {0};
    const void *inputs[affine_n_in];
    void *outputs[affine_n_out];
    affine m;
    inputs[affine_in_x] = x;
    inputs[affine_in_row] = row;
    outputs[affine_out_y] = y;
    int failed = affine_init(&m, "cpu") || affine_run(&m, inputs, outputs, NULL);
    if (failed) puts(affine_error(&m));
    else printf("%g %g %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5]);
    affine_free(&m);
    return failed;
}
