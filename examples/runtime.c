/* runtime.c: running a compiled model with libsinter-rt alone: no compiler in the process. README.md shows it; what stands below
 * this comment is the same there (tests/check/readme.py).
 */
#include <sinter/rt.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static const float x[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    float y[4];
    const void *inputs[] = {x};
    void *outputs[] = {y};
    sn_rt *rt;
    sn_rt_program *p;
    sn_rt_state *state;
    sn_rt_options on_cpu = {.struct_size = sizeof on_cpu, .device = "cpu"};
    if (sn_rt_create(&rt)) return 1;
    if (sn_rt_load(&p, rt, argc > 1 ? argv[1] : "xor.snb", &on_cpu)) return fprintf(stderr, "%s\n", sn_rt_error(rt)), 1;
    if (sn_rt_state_create(&state, p)) return 1;
    if (sn_rt_run(state, inputs, outputs, NULL)) return fprintf(stderr, "%s\n", sn_rt_state_error(state)), 1;
    printf("xor on %s:", sn_rt_target(p));
    for (int k = 0; k < 4; k++) printf(" %g, %g -> %g;", x[k][0], x[k][1], y[k]);
    printf("\n");
    sn_rt_state_destroy(state);
    sn_rt_program_destroy(p);
    sn_rt_destroy(rt);
    return 0;
}
