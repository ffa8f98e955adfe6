/* ix_build.h: what the files of ix share and nobody else includes: interning of atoms and the sum under construction.
 *
 * ix.c owns the records, ix_simplify.c the rules of div, mod, min and max, ix_query.c questions, ix_rewrite.c
 * substitution, ix_text.c text.
 */
#ifndef SN_IR_INDEX_IX_BUILD_H
#define SN_IR_INDEX_IX_BUILD_H

#include "ir/index/ix.h"

enum { SN_IX_LOCAL_TERMS = 16, SN_IX_MAX_FACTORS = 16 };

/* A sum under construction. Terms may come in any order and repeat; sn_ix_sum_end makes it canonical. The first terms
 * live in the struct itself, so it must not be copied. */
typedef struct sn_ix_sum {
    sn_module *m;
    int64_t c0;
    bool overflow;
    SN_VEC(sn_ix_term) terms;
    sn_ix_term local[SN_IX_LOCAL_TERMS];
} sn_ix_sum;

void sn_ix_sum_begin(sn_ix_sum *s, sn_module *m);
/* s += c * e */
void sn_ix_sum_add(sn_ix_sum *s, int64_t c, sn_ix e);
void sn_ix_sum_addc(sn_ix_sum *s, int64_t c);
sn_ix sn_ix_sum_end(sn_ix_sum *s);

/* The record of an atom as it stands, without simplification. */
sn_ix sn_ix_atom(sn_module *m, sn_ix_kind kind, uint32_t id, sn_ix a, sn_ix b);
/* A record as it stands, all its ids being those of m and its parts canonical. */
sn_ix sn_ix_record(sn_module *m, sn_ix_rec r);
/* The overflow error; gives the constant 0. */
sn_ix sn_ix_overflow(sn_module *m);

/* Try a rewrite of sorted, merged terms that joins `k*div(e,k) + mod(e,k)`; true when the terms changed (and need
 * sorting again). */
bool sn_ix_recombine(sn_ix_sum *s);

/* A product of atoms: its factors sorted by id. n == 0 is the constant 1; false when there are too many. */
typedef struct sn_ix_mono {
    sn_ix f[SN_IX_MAX_FACTORS];
    uint32_t n;
} sn_ix_mono;
bool sn_ix_factors(sn_ix_mono *out, const sn_module *m, sn_ix atom);
sn_ix sn_ix_from_factors(sn_module *m, const sn_ix_mono *p);

/* Arithmetic that might overflow but whose failure only means "not provable" runs between these two. */
typedef struct sn_ix_trial {
    sn_status before;
} sn_ix_trial;
sn_ix_trial sn_ix_trial_begin(const sn_module *m);
/* Was it free of overflow? The error of an overflow is forgotten. */
bool sn_ix_trial_end(sn_ix_trial t, sn_module *m);

/* Is 0 <= e < k provable, given that k > 0? */
bool sn_ix_in_divisor(sn_module *m, sn_ix e, sn_ix k);

/* ---- range arithmetic: INT64_MIN and INT64_MAX stand for the infinities ---- */
sn_range sn_range_add(sn_range a, sn_range b);
sn_range sn_range_scale(sn_range a, int64_t c);
/* Range of c0 + the given terms. */
sn_range sn_ix_terms_range(sn_module *m, int64_t c0, const sn_ix_term *terms, uint32_t n);

static inline int64_t sn_floor_div(int64_t a, int64_t k) { return a / k - (a % k != 0 && (a % k < 0) != (k < 0)); }
static inline int64_t sn_floor_mod(int64_t a, int64_t k) { return a % k + (a % k < 0 ? k : 0); }
/* gcd(0, b) = |b|; INT64_MIN counts as 1, the only gcd that is always safe to claim. */
static inline int64_t sn_gcd(int64_t a, int64_t b) {
    if (a == INT64_MIN || b == INT64_MIN) return 1;
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

#endif
