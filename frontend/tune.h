/* tune.h: choices for the matrix products, convolutions and kernels of a program: what the files of frontend/ that decide them share. */
#ifndef SN_FRONTEND_TUNE_H
#define SN_FRONTEND_TUNE_H

#include "frontend/frontend.h"
#include "tune/tune.h"

/* Programs to be timed for one product or kernel (tune_machine.c). Lives in the running call of the context. passes: that a
 * kernel still has before it; NULL: the text is that of a product, which goes through all. */
typedef struct sn_tune_bench sn_tune_bench;
sn_tune_bench *sn_tune_bench_new(sn_context *ctx, const sn_settings *s, const char *text, const char *passes);
sn_trial_machine sn_tune_bench_machine(sn_tune_bench *b);
void sn_tune_bench_free(sn_tune_bench *b);

/* What is made for the caller of sn_tune (tune_report.c). */
typedef SN_VEC(sn_tuned_product) sn_tuned_list;
typedef struct sn_report {
    sn_tune_report public; /* first */
    sn_context *ctx;
    sn_arena arena;
    sn_tuned_list products, kernels;
} sn_report;

/* One call that decides. */
typedef struct sn_tuner {
    sn_program *p;
    const sn_settings *s;
    sn_context *ctx;
    const char *pipeline;
    sn_record_place place;
    SN_VEC(sn_decision) decisions;
    sn_report *report;      /* NULL: nobody wants one */
    sn_metric_log *metrics; /* NULL: nobody records */
    sn_tune_options how;
    double end;        /* of the time for all that are asked about now */
    uint32_t left;     /* of those */
    double copy_rate;  /* bytes a second; 0: not known */
    const char *title; /* of the one in progress */
} sn_tuner;

/* What is asked about: a product, a convolution or a kernel. */
typedef struct sn_subject {
    const char *key, *title;
    double bytes;          /* that a run moves at least */
    const char *passes;    /* of a kernel: those from `schedule` on; NULL: it is a product */
    sn_trial_list *trials; /* of a kernel; those of a product are listed when it is tuned */
} sn_subject;

/* From records, or by timing where that is wanted (tune.c). */
sn_status sn_tuner_decide(sn_tuner *t, const sn_subject *x);
bool sn_tuner_has_time(const sn_tuner *t);
bool sn_tuner_is_decided(const sn_tuner *t, const char *key);
/* Does its graph have such a node? */
bool sn_tuner_has(const sn_program *p, sn_op op);
/* Versions that a choice hangs on; op: of a product or convolution, SN_OP_INPUT: of a kernel. */
const char *sn_tuner_versions(const sn_program *p, sn_op op);
/* Where records of kernels are and for whom. */
sn_record_place sn_tuner_place(const sn_program *p, const sn_settings *s);
/* tune_kernels.c: the kernels of the program, once the others are decided. */
sn_status sn_tuner_kernels(sn_tuner *t);
/* tune_kernels.c: have the pass `schedule` ask what is on record for the kernels of a program. */
void sn_program_ask_records(sn_program *p, const sn_record_place *place);

/* tune_report.c: trials NULL: it was on record, or (choice "") there was no time for it. */
void sn_report_subject(sn_report *r, const sn_subject *x, const char *choice, double us, const sn_trial_list *trials,
                       const sn_search *found);
sn_report *sn_report_new(sn_context *ctx);
void sn_report_free(void *report);
const char *sn_report_text(sn_report *r, const char *text);

#endif
