/* conform.h: the cases of the conformance suite, made from conform.def (conform_cases.c), for the command that runs
 * them (conform.c).
 */
#ifndef SN_TOOLS_CONFORM_H
#define SN_TOOLS_CONFORM_H

#include "tools/tool.h"

typedef enum conform_level { CONFORM_ALWAYS, CONFORM_SAMPLED, CONFORM_LARGE, CONFORM_HUGE } conform_level;

typedef enum conform_result { CONFORM_NOT_RUN, CONFORM_PASSED, CONFORM_FAILED } conform_result;

/* One computation, whose result is an output; or one that must be refused. */
typedef struct conform_case {
    /* "add_f32_57", "matmul_f32_tf32_470": operation, dtypes, precision if it is not exact, row of conform.def; also ends
     * the names of its values */
    char name[40];
    unsigned row; /* of conform.def */
    sn_op op;
    sn_dtype dtype, dtype2; /* T and U */
    sn_precision precision; /* that it is compiled for */
    conform_level level;
    bool first;                      /* row of the operation on the dtype */
    const char *inputs, *expression; /* as in conform.def */
    const char *refusal;             /* part of the message; NULL: it must compile and run */
    conform_result result;
    sn_check check;
    char *message; /* why it failed, malloc */
} conform_case;

typedef struct conform_suite {
    conform_case *at;
    unsigned n, cap;
} conform_suite;

/* All cases, in the order of operations and dtypes. False: out of memory. */
bool conform_make(conform_suite *out);
void conform_free(conform_suite *suite);
/* Does the operation have a case on a dtype that it takes? */
bool conform_covers(const conform_suite *suite, sn_op op);
/* Belongs to the part that --quick runs: every operation on every dtype, and a fixed choice of the rest. */
bool conform_is_quick(const conform_case *c);
/* Outputs of a case: its result, and what it has besides. */
unsigned conform_outputs(const conform_case *c);
/* A graph of n cases as .sn text, their outputs in order, the result of each named as the case; malloc. NULL: out of
 * memory. */
char *conform_text(const conform_case *const *cases, unsigned n);
/* The inputs and expression of a case in one line, dtypes filled in, names as in conform.def; malloc. */
char *conform_line(const conform_case *c);
/* An input that does not get random values: its name in the text (malloc), and what --input takes for them. */
typedef struct conform_value {
    char *name;
    const char *value;
} conform_value;
/* Those of a case. Returns how many. */
unsigned conform_values(conform_value *out, unsigned cap, const conform_case *c);

#endif
