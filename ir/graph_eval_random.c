/* graph_eval_random.c: reference evaluation of random, random_normal and dropout. Philox4x32-10 is written here as the paper
 * has it (Salmon, Moraes, Dror and Shaw, SC 2011, section 3.3); lowering has it a second time as Loop IR.
 */
#include "ir/graph_eval_internal.h"

#include <math.h>

typedef struct block {
    uint32_t word[4];
} block;

static block philox(uint64_t seed, uint64_t counter) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    block c = {{(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}};
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53 * c.word[0], right = (uint64_t)0xCD9E8D57 * c.word[2];
        c = (block){{(uint32_t)(right >> 32) ^ c.word[1] ^ key[0], (uint32_t)right,
                     (uint32_t)(left >> 32) ^ c.word[3] ^ key[1], (uint32_t)left}};
        key[0] += 0x9E3779B9; /* the golden ratio */
        key[1] += 0xBB67AE85; /* sqrt(3) - 1 */
    }
    return c;
}

/* The word of element i, from the seed and offset that are the last two operands. */
static uint32_t word_of(const sn_eval *e, int64_t i) {
    uint64_t seed = (uint64_t)e->in[e->n->n_in - 2]->i[0], offset = (uint64_t)e->in[e->n->n_in - 1]->i[0];
    return philox(seed, offset + (uint64_t)i / 4).word[i % 4];
}

/* In [0, 1): as many upper bits as the significand holds (f64: all that there are). */
static double uniform(sn_dtype dtype, uint32_t word) {
    int bits = dtype == SN_F64 ? 32 : dtype == SN_F32 ? 24 : dtype == SN_F16 ? 11 : 8;
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
