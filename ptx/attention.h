/* attention.h: a compiled graph as a library, made by Sinter 0.1.0. Needs libsinter-rt (-lsinter-rt).
 *
 *     attention m;
 *     if (attention_init(&m, NULL) || attention_run(&m, inputs, outputs, NULL)) puts(attention_error(&m));
 *     attention_free(&m);
 */
#ifndef attention_model_h
#define attention_model_h

#include <sinter/rt.h>

/* Inputs: what is passed at which number, and bytes of its storage. */
enum {
    attention_in_q = 0, /* bf16[16, 16, 1024, 64], 33554432 bytes, address a multiple of 16 */
    attention_in_k = 1, /* bf16[16, 16, 1024, 64], 33554432 bytes, address a multiple of 16 */
    attention_in_v = 2, /* bf16[16, 16, 1024, 64], 33554432 bytes, address a multiple of 16 */
    attention_n_in = 3
};

/* Outputs: what is passed at which number, and bytes of its storage. */
enum {
    attention_out_y = 0, /* bf16[16, 16, 1024, 64], 33554432 bytes, address a multiple of 16 */
    attention_n_out = 1
};

typedef struct attention {
    sn_rt *rt;
    sn_rt_program *program;
    sn_rt_state *state;
} attention;

/* Everything is ready to run, or an error and its text. device: "cpu", "cuda"; NULL: what is there. Freed in
 * either case. One thread uses an object at a time. */
sn_status attention_init(attention *m, const char *device);
/* sn_rt_run: addresses of the host, or of the device where the program is on it. */
sn_status attention_run(attention *m, const void *const *inputs, void *const *outputs, void *stream);
const char *attention_error(const attention *m);
void attention_free(attention *m);

#endif
