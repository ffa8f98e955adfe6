/* tune.h: choices for the matrix products and convolutions of a program: what the files of frontend/ that decide them share. */
#ifndef SN_FRONTEND_TUNE_H
#define SN_FRONTEND_TUNE_H

#include "frontend/frontend.h"
#include "tune/tune.h"

/* Programs to be timed for one product (tune_machine.c). Lives in the running call of the context. */
typedef struct sn_tune_bench sn_tune_bench;
sn_tune_bench *sn_tune_bench_new(sn_context *ctx, const sn_settings *s, const char *product);
sn_trial_machine sn_tune_bench_machine(sn_tune_bench *b);
void sn_tune_bench_free(sn_tune_bench *b);

#endif
