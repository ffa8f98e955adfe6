/* pipelines.c: the order of the passes, once. The library, the tool and reproducers all read these strings.
 *
 * simplify runs again after decompose because decompositions bring literal operands; simplify-index after fuse and
 * collapse, which rewrite axes. peel makes rows that fuse can merge. factor and mix look at kernels that are fused; mix
 * goes before collapse, which would hide where rows end, and leaves something to hoist. online needs the nests of a row
 * in
 *    "hoist,collapse,simplify-index,online,split,split-scan,map,batch,finish,sync,plan"
 */
#include "passes/pass.h"

#define PIPELINE                                                                                       \
    "simplify,decompose,simplify,to-loops,simplify-index,drop-units,reorder,peel,fuse,hoist,factor,mix," \
    "hoist,collapse,simplify-index,online,split,split-scan,map,batch,finish,sync,plan"

const char sn_pipeline_gpu[] = PIPELINE;
const char sn_pipeline_host[] = PIPELINE;
