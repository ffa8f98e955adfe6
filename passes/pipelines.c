/* pipelines.c: the order of the passes, once. The library, the tool and reproducers all read these strings.
 *
 * simplify runs again after decompose because decompositions bring literal operands; join-parts wants views that are simple, and composites whole; simplify-index after fuse and
 * collapse, which rewrite axes. fold-scale sees norms as what they are made of, and join-products what is left behind a product; layout moves views away from what it
 * makes, and choose sees what stands behind a product as it will be fused; gates has what choose leaves alone. distribute makes rows that fuse can merge, and
 * split-quotients loops; small-matrices and write-parts straight-line code.
 * hoist-factor and mixed-order-reduction look at kernels that are fused; mixed-order-reduction goes before collapse,
 * which would hide where rows end, and leaves something to licm. reorder-reductions has collapse merge what it put side by
 * side, and leaves alone what fuse has to match. interchange wants steps that are fused and written out, and fuses once more; its loops are
 * no nests that collapse, or a class for rows, would take. keep-private needs the threads of schedule. split-groups and split-digits come when axes are as long as they get.
 * online-softmax needs the nests of a row in one kernel, and comes before store-across and split-reduction, which cut them apart. What
 * comes after schedule needs axes that are bound; order-kernels, reverse-grid and start-early want the kernels that are launched, and reverse-grid their order; async-copy looks at
 * the barriers of sync.
 */
#include "passes/runner.h"

#define PIPELINE                                                                                               \
    "simplify,join-parts,choose-conv,decompose,simplify,select-late,windows,fold-scale,join-products,layout,attention,choose,gates,to-loops,"      \
    "simplify-index,drop-units,reorder,distribute,split-quotients,small-matrices,write-parts,simplify-index,fuse,licm,hoist-factor,mixed-order-reduction,licm,"         \
    "reorder-reductions,short-rows,interchange,collapse,split-groups,split-digits,simplify-index,keep-terms,online-softmax,store-across,finish-results,split-reduction,"       \
    "split-scan,join-axes,unroll-and-jam,schedule,keep-private,horizontal-fuse,last-block-reduce,order-kernels,reverse-grid,start-early,sync,async-copy,plan"

const char sn_pipeline_gpu[] = PIPELINE;
const char sn_pipeline_host[] = PIPELINE;
