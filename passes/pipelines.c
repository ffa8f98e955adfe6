/* pipelines.c: the order of the passes, once. The library, the tool and reproducers all read these strings.
 *
 * Why some stand where they do:
 *
 *   simplify              again after decompose, which brings literal operands
 *   join-parts            wants views that are simple, and composites whole
 *   fold-scale            sees norms as what they are made of; join-products what is left behind a product
 *   layout                moves views away from what it makes
 *   choose                sees what stands behind a product as it will be fused; gates has what choose leaves alone
 *   distribute            makes rows that fuse can merge, split-quotients loops, small-matrices and write-parts
 *                         straight-line code
 *   simplify-index        after fuse and collapse, which rewrite axes
 *   hoist-factor          looks at kernels that are fused, and so does mixed-order-reduction, which goes before collapse,
 *                         which would hide where rows end, and leaves something to licm
 *   reorder-reductions    puts side by side what collapse merges, and leaves alone what fuse has to match
 *   interchange           wants steps that are fused and written out, and fuses once more; its loops are no nests that
 *                         collapse, or a class for rows, would take
 *   split-groups          when axes are as long as they get; split-digits too
 *   online-softmax        needs the nests of a row in one kernel: before store-across and split-reduction, which cut them
 *   keep-private          needs the threads of schedule; so does all that follows, which wants axes that are bound
 *   order-kernels         wants the kernels that are launched, as reverse-grid (in that order) and start-early do
 *   async-copy            looks at the barriers of sync
 */
#include "passes/runner.h"

#define PIPELINE                                                                                               \
    "simplify,join-parts,quantised,choose-conv,decompose,simplify,select-late,windows,fold-scale,join-products,layout,attention,choose,gates,to-loops,"      \
    "simplify-index,drop-units,reorder,distribute,split-quotients,small-matrices,write-parts,simplify-index,fuse,licm,hoist-factor,mixed-order-reduction,licm,"         \
    "reorder-reductions,short-rows,interchange,collapse,split-groups,split-digits,simplify-index,keep-terms,online-softmax,store-across,finish-results,split-reduction,"       \
    "split-scan,join-axes,unroll-and-jam,schedule,keep-private,horizontal-fuse,last-block-reduce,order-kernels,reverse-grid,start-early,sync,async-copy,plan"

const char sn_pipeline_gpu[] = PIPELINE;
const char sn_pipeline_host[] = PIPELINE;
