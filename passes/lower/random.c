/* random.c: an element of `random` as plain integer operations, for the pass `to-loops`.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten rounds of
 * two 32 x 32 -> 64 bit products make four words of a counter and a key. Element i takes word i mod 4 of the counter
 * `offset + i div 4`. A pure function of the position: it is inlined into its users like any elementwise operation, and
 * computing it again (in a backward kernel) gives the same bits. Words are i32 values; a product is an i64
 * multiplication of words without their signs. All four words are computed in each element; the lanes of a vector that
 * share a counter share the rounds, since equal operations on equal operands are one instruction after LLVM.
 */
#include "passes/lower/lower.h"

enum { ROUNDS = 10 };
static const uint32_t FACTOR[2] = {0xD2511F53, 0xCD9E8D57}, KEY_STEP[2] = {0x9E3779B9, 0xBB67AE85};

static sn_val op(sn_lower *lw, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(lw->m, lw->at, lop, a, b); }

static sn_val word(sn_lower *lw, uint32_t x) { return sn_put_const_int(lw->m, lw->at, SN_I32, (int32_t)x); }

static sn_val low_half(sn_lower *lw, sn_val x) { return sn_put_cast(lw->m, lw->at, SN_I32, x); }

static sn_val high_half(sn_lower *lw, sn_val x) {
    return low_half(lw, op(lw, SN_LOP_SHR, x, sn_put_const_int(lw->m, lw->at, SN_I64, 32)));
}

/* The word as a number 0 .. 2^32 - 1. */
static sn_val widen(sn_lower *lw, sn_val x) {
    sn_val mask = sn_put_const_int(lw->m, lw->at, SN_I64, 0xFFFFFFFF);
    return op(lw, SN_LOP_AND, sn_put_cast(lw->m, lw->at, SN_I64, x), mask);
}

static void philox(sn_lower *lw, sn_val c[4], sn_val key[2]) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sn_val product[2], next[2];
        for (uint32_t k = 0; k < 2; k++) {
            sn_val factor = sn_put_const_int(lw->m, lw->at, SN_I64, FACTOR[k]);
            product[k] = op(lw, SN_LOP_MUL, widen(lw, c[2 * k]), factor);
        }
        for (uint32_t k = 0; k < 2; k++) {
            sn_val mixed = op(lw, SN_LOP_XOR, high_half(lw, product[1 - k]), c[2 * k + 1]);
            next[k] = op(lw, SN_LOP_XOR, mixed, key[k]);
        }
        for (uint32_t k = 0; k < 2; k++) {
            c[2 * k] = next[k];
            c[2 * k + 1] = low_half(lw, product[1 - k]);
            key[k] = op(lw, SN_LOP_ADD, key[k], word(lw, KEY_STEP[k]));
        }
    }
}

/* The word's `bits` upper bits as a fraction of 1: they fit in the significand, so that nothing rounds up to 1. */
static sn_val fraction(sn_lower *lw, sn_val x, sn_dtype dtype, uint32_t bits) {
    sn_module *m = lw->m;
    sn_val shifted = x;
    if (bits < 32) {
        sn_val down = op(lw, SN_LOP_SHR, x, word(lw, 32 - bits));
        shifted = op(lw, SN_LOP_AND, down, word(lw, (1u << bits) - 1));
    } else {
        shifted = widen(lw, x);
    }
    sn_val scale = sn_put_const(m, lw->at, dtype, 1.0 / (double)((uint64_t)1 << bits));
    return op(lw, SN_LOP_MUL, sn_put_cast(m, lw->at, dtype, shifted), scale);
}

static sn_val from_word(sn_lower *lw, sn_val x, sn_dtype dtype) {
    if (sn_is_float(dtype))
        return fraction(lw, x, sn_compute_dtype(dtype), dtype == SN_F64 ? 32 : sn_dtypes[dtype].digits);
    return sn_put_cast(lw->m, lw->at, dtype, sn_dtype_bytes(dtype) == 8 ? widen(lw, x) : x);
}

sn_val sn_lower_random(sn_lower *lw, const sn_type *type, const sn_ix *index, sn_val seed, sn_val offset) {
    sn_module *m = lw->m;
    sn_ix flat = sn_ix_flatten(m, index, type->shape, type->rank);
    sn_val group = sn_put_index(m, lw->at, SN_I64, sn_ix_divc(m, flat, 4));
    sn_val counter = op(lw, SN_LOP_ADD, offset, group), zero = word(lw, 0);
    sn_val key[2] = {low_half(lw, seed), high_half(lw, seed)};
    sn_val c[4] = {low_half(lw, counter), high_half(lw, counter), zero, zero};
    philox(lw, c, key);
    sn_val which = sn_put_index(m, lw->at, SN_I32, sn_ix_modc(m, flat, 4)), chosen = c[3];
    for (uint32_t k = 3; k-- > 0;)
        chosen = sn_put_op3(m, lw->at, SN_LOP_SELECT, op(lw, SN_LOP_EQ, which, word(lw, k)), c[k], chosen);
    return from_word(lw, chosen, type->dtype);
}
