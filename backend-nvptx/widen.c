/* widen.c: pairs of bfloat that lie in one word become floats by one instruction each.
 *
 * A bfloat is the upper half of a float. ptxas takes two instructions for the upper half of a word and one for the
 * lower; a shift and a mask of the word are one each. Runs after the optimiser, which must see the conversions: it
 * narrows arithmetic on them. Conversions of what does not lie in words are left alone.
 */
#include "backend-nvptx/nvptx.h"

enum { MOST_LANES = 64 };

static bool is_word_pairs(LLVMValueRef x) {
    LLVMTypeRef t = LLVMTypeOf(x);
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind || LLVMGetTypeKind(LLVMGetElementType(t)) != LLVMBFloatTypeKind)
        return false;
    unsigned n = LLVMGetVectorSize(t);
    return n % 2 == 0 && n <= MOST_LANES && (LLVMIsALoadInst(x) || LLVMIsAFPTruncInst(x));
}

/* Lanes of <n/2 x i32>: the lower bfloat shifted up, the upper one where it is; then in turn. */
static LLVMValueRef widened(const sn_cg *cg, LLVMValueRef x, LLVMTypeRef type) {
    unsigned n = LLVMGetVectorSize(type);
    LLVMTypeRef i32 = cg->i32;
    LLVMBuilderRef b = cg->builder;
    LLVMValueRef shift[MOST_LANES / 2], mask[MOST_LANES / 2], turn[MOST_LANES];
    for (unsigned i = 0; i < n / 2; i++) {
        shift[i] = LLVMConstInt(i32, 16, 0), mask[i] = LLVMConstInt(i32, 0xffff0000, 0);
        turn[2 * i] = LLVMConstInt(i32, i, 0), turn[2 * i + 1] = LLVMConstInt(i32, n / 2 + i, 0);
    }
    LLVMValueRef words = LLVMBuildBitCast(b, x, LLVMVectorType(i32, n / 2), "");
    LLVMValueRef lower = LLVMBuildShl(b, words, LLVMConstVector(shift, n / 2), "");
    LLVMValueRef upper = LLVMBuildAnd(b, words, LLVMConstVector(mask, n / 2), "");
    return LLVMBuildBitCast(b, LLVMBuildShuffleVector(b, lower, upper, LLVMConstVector(turn, n), ""), type, "");
}

void sn_nvptx_widen(const sn_cg *cg, LLVMModuleRef mod) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(mod); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef bb = LLVMGetFirstBasicBlock(fn); bb; bb = LLVMGetNextBasicBlock(bb))
            for (LLVMValueRef i = LLVMGetFirstInstruction(bb), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (!LLVMIsAFPExtInst(i) || !is_word_pairs(LLVMGetOperand(i, 0))) continue;
                if (LLVMGetTypeKind(LLVMGetElementType(LLVMTypeOf(i))) != LLVMFloatTypeKind) continue;
                LLVMPositionBuilderBefore(cg->builder, i);
                LLVMReplaceAllUsesWith(i, widened(cg, LLVMGetOperand(i, 0), LLVMTypeOf(i)));
                LLVMInstructionEraseFromParent(i);
            }
}
