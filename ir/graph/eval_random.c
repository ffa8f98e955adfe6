/* eval_random.c: reference evaluation of random, random_normal and dropout. Philox4x32-10 is written here as the
 * paper has it (Salmon, Moraes, Dror and Shaw, SC 2011, section 3.3); lowering has it a second time as Loop IR.
 */
#include "ir/graph/eval_internal.h"

#include <math.h>

void sn_philox(uint32_t word[4], const uint32_t key[2]) {
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53 * word[0], right = (uint64_t)0xCD9E8D57 * word[2];
        word[0] = (uint32_t)(right >> 32) ^ word[1] ^ k[0];
        word[1] = (uint32_t)right;
        word[2] = (uint32_t)(left >> 32) ^ word[3] ^ k[1];
        word[3] = (uint32_t)left;
        k[0] += 0x9E3779B9; /* the golden ratio */
        k[1] += 0xBB67AE85; /* sqrt(3) - 1 */
    }
}

/* The word of element i, from the seed and offset that are the last two operands. */
static uint32_t word_of(const sn_eval *e, int64_t i) {
    uint64_t seed = (uint64_t)e->in[e->n->n_in - 2]->i[0], offset = (uint64_t)e->in[e->n->n_in - 1]->i[0];
    uint64_t counter = offset + (uint64_t)i / 4;
    uint32_t word[4] = {(uint32_t)counter, (uint32_t)(counter >> 32)},
             key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    sn_philox(word, key);
    return word[i % 4];
}

/* In [0, 1): as many upper bits as the significand holds (f64: all that there are). */
static double uniform(sn_dtype dtype, uint32_t word) {
    int bits = dtype == SN_F64 ? 32 : (int)sn_dtypes[dtype].digits;
    return ldexp(word >> (32 - bits), -bits);
}

sn_status sn_eval_random(sn_eval *e) {
    sn_dtype t = e->out->dtype;
    for (int64_t i = 0; i < e->out->numel; i++) {
        uint32_t word = word_of(e, i);
        if (sn_is_float(t)) e->out->f[i] = uniform(t, word);
        else e->out->i[i] = sn_wrap_to(t, word);
    }
    return SN_OK;
}

sn_status sn_eval_random_normal(sn_eval *e) {
    sn_dtype t = e->out->dtype == SN_F64 ? SN_F64 : SN_F32;
    for (int64_t i = 0; i < e->out->numel; i++) {
        double u = uniform(t, word_of(e, 2 * i)), v = uniform(t, word_of(e, 2 * i + 1));
        e->out->f[i] = sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
    }
    return SN_OK;
}

sn_status sn_eval_dropout(sn_eval *e) {
    double p = sn_node_float(e->m, e->x, SN_ATTR_P, 0);
    for (int64_t i = 0; i < e->out->numel; i++)
        e->out->f[i] = uniform(SN_F32, word_of(e, i)) >= p ? e->in[0]->f[i] / (1 - p) : 0;
    return SN_OK;
}
