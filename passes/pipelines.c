/* pipelines.c: the order of the passes, once. The library, the tool and reproducers all read these strings.
 *
 * simplify runs again after decompose because decompositions bring literal operands; simplify-index after fuse and
 * collapse, which rewrite axes. split comes after fuse so that it blocks no epilogue. The CPU takes the GPU's kernels:
 * the schedule that `map` chooses reads the target.
 */
#include "passes/pass.h"

#define PIPELINE \
    "simplify,decompose,simplify,to-loops,simplify-index,drop-units,reorder,fuse,hoist,collapse,simplify-index,split,map,sync,plan"

const char sn_pipeline_gpu[] = PIPELINE;
const char sn_pipeline_host[] = PIPELINE;
