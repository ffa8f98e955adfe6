/* contract_words.h: products of integers of a few bits on the CPU, several of which one instruction adds to a sum of i32. */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_WORDS_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_WORDS_H

#include "passes/schedule/products/contraction.h"

/* A word has so many steps of the sum, the first one in its low bits: 4 as bytes (dot4), 2 as halves (dot2), or 1: no words.
 * Those of one side have to be bytes without a sign for dot4: `low` is taken from each of their elements first, and what that
 * takes from a sum, low times the sum of the other factor, is added behind it. */
typedef struct sn_contract_words {
    int64_t steps;
    bool right_unsigned; /* dot4: whose bytes have no sign */
    int64_t low;         /* 0: nothing is taken */
} sn_contract_words;

/* The most steps that elements and the machine allow. Linear in the kernel. */
sn_contract_words sn_contract_words_find(sn_pass_ctx *cx, const sn_contraction *c);

#endif
