/* figures.h: a kernel in figures, counted in its statements: for tables and reports. Nothing is decided by them. */
#ifndef SN_IR_LOOP_FIGURES_H
#define SN_IR_LOOP_FIGURES_H

#include "ir/loop/loop.h"

typedef struct sn_kern_figures {
    uint32_t loads, stores;     /* statements that touch memory of the program */
    uint32_t loops, reductions; /* statements */
    int64_t reduced;            /* most elements that nested reductions combine; 1: there is none */
    int64_t size;               /* elements of the largest result */
    int64_t bytes; /* of its buffers, once where it loads (not what it has stored) and once where it stores them */
    double flops;  /* operations on floats times their iterations; each combination of a reduction is one */
    /* Bytes that loads inside reductions walk one by one along their axes, and otherwise: which are more? */
    int64_t along, across;
} sn_kern_figures;

/* Sizes that are no numbers count as 1. Linear in the statements, times the depth. */
void sn_kern_count(sn_kern_figures *out, sn_module *m, sn_kern k);

#endif
