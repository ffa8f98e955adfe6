/* sample.h: a small graph that computes some elements of the outputs of a large one, for the float64 evaluator (sample.c). */
#ifndef SN_TOOLS_SAMPLE_H
#define SN_TOOLS_SAMPLE_H

#include "tools/tool.h"

/* Positions along an axis, in order. at NULL: every one of the axis. */
typedef struct sample_axis {
    int64_t n;
    const int64_t *at;
} sample_axis;

/* Elements of a tensor: all combinations of the positions of its axes. */
typedef struct sample_set {
    uint32_t rank;
    sample_axis axis[SN_MAX_RANK];
} sample_set;

/* An input of the small graph: these elements of an input of the large one. */
typedef struct sample_input {
    uint32_t number; /* in the large graph */
    sample_set set;
    struct sample_input *next;
} sample_input;

typedef struct sample {
    sn_module *graph;
    sample_input *inputs; /* in the order of the graph's */
    sample_set *outputs;  /* by number */
} sample;

/* For a call under the guard. The graph's sizes are numbers. Everything but out->graph, which the caller frees also after
 * a failure, lives in the context's scratch. */
sn_status tool_sample(sample *out, sn_context *ctx, const sn_module *graph, uint64_t seed);
/* Elements of a set, from those of the tensor in row-major order, of the given shape and in storage format. As f64 where they are floats. */
sn_array tool_sample_elements(sn_arena *arena, const sample_set *set, sn_dtype dtype, const int64_t *shape,
                              const void *data);

#endif
