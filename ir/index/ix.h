/* ix.h: index expressions, the algebra under every size, stride, access and grid.
 *
 * An ix is a canonical integer expression: a sum  c0 + sum(ck * atom_k), terms sorted by atom id, no zero ck. Atoms:
 *   axis         a loop axis, range 0 .. extent-1
 *   sym          a symbolic size (>= 0)
 *   div(e, k)    floor(e / k),  k > 0
 *   mod(e, k)    e - k*floor(e / k),  0 <= mod < k
 *   min, max     of two expressions
 *   prod(a, b)   product of two atoms or products (symbolic strides): factors sorted
 *   val          an SSA value of integer type (gathers), range unknown unless declared
 * All are built by the constructors below, which simplify and hash-cons: equal expression = equal id, so legality
 * questions of the passes are comparisons of ids. Arithmetic that leaves int64 saturates the module's error
 * (SN_ERROR_UNSUPPORTED "index arithmetic overflows") and returns 0; check with sn_ix_ok at the end of a pass.
 *
 * Everything here is pure with respect to the module apart from adding records.
 */
#ifndef SN_IR_INDEX_IX_H
#define SN_IR_INDEX_IX_H

#include "ir/base/store.h"

typedef enum sn_ix_kind {
    SN_IX_SUM, /* c0 + sum of terms; a constant is a SUM without terms */
    SN_IX_AXIS,
    SN_IX_SYM,
    SN_IX_DIV,
    SN_IX_MOD,
    SN_IX_MIN,
    SN_IX_MAX,
    SN_IX_PROD,
    SN_IX_VAL
} sn_ix_kind;

typedef struct sn_ix_term {
    int64_t c;
    sn_ix atom;
} sn_ix_term;

typedef struct sn_ix_rec {
    sn_ix_kind kind;
    uint32_t n_terms;        /* SUM */
    int64_t c0;              /* SUM */
    const sn_ix_term *terms; /* SUM */
    uint32_t id;             /* AXIS, SYM, VAL: the sn_axis, sn_sym or sn_val */
    sn_ix a, b;              /* DIV, MOD (a by b), MIN, MAX, PROD */
    sn_ix quotient;          /* MOD: a div b as it was when it was first asked for (ix_simplify.c); none: nobody did */
    uint64_t hash;
} sn_ix_rec;

const sn_ix_rec *sn_ix_get(const sn_module *m, sn_ix e);
/* Has nothing failed so far (no overflow, no division by a constant that is not positive)? */
bool sn_ix_ok(const sn_module *m);

/* ---- constructors ---- */
sn_ix sn_ix_const(sn_module *m, int64_t c);
sn_ix sn_ix_axis(sn_module *m, sn_axis ax);
sn_ix sn_ix_sym(sn_module *m, sn_sym s);
sn_ix sn_ix_val(sn_module *m, sn_val v);
sn_ix sn_ix_add(sn_module *m, sn_ix a, sn_ix b);
sn_ix sn_ix_sub(sn_module *m, sn_ix a, sn_ix b);
sn_ix sn_ix_mul(sn_module *m, sn_ix a, sn_ix b);
sn_ix sn_ix_scale(sn_module *m, sn_ix a, int64_t c);
sn_ix sn_ix_addc(sn_module *m, sn_ix a, int64_t c);
sn_ix sn_ix_fma(sn_module *m, int64_t c, sn_ix a, sn_ix e); /* c*a + e */
sn_ix sn_ix_div(sn_module *m, sn_ix a, sn_ix k);            /* floor; k > 0 */
sn_ix sn_ix_mod(sn_module *m, sn_ix a, sn_ix k);            /* result in 0 .. k-1; k > 0 */
sn_ix sn_ix_divc(sn_module *m, sn_ix a, int64_t k);
sn_ix sn_ix_modc(sn_module *m, sn_ix a, int64_t k);
sn_ix sn_ix_ceildiv(sn_module *m, sn_ix a, sn_ix k);
sn_ix sn_ix_min(sn_module *m, sn_ix a, sn_ix b);
sn_ix sn_ix_max(sn_module *m, sn_ix a, sn_ix b);

/* ---- questions ---- */
/* Is it a constant? Its value in *out. */
bool sn_ix_is_const(const sn_module *m, sn_ix e, int64_t *out);
/* The constant value; asserts that it is one. */
int64_t sn_ix_value(const sn_module *m, sn_ix e);
/* Any ix as a sum: number of terms, terms, constant. An atom is one term with coefficient 1 (stored in *one). */
uint32_t sn_ix_terms(const sn_module *m, sn_ix e, const sn_ix_term **terms, int64_t *c0, sn_ix_term *one);
/* The constant that a term of e divides `of` by, the last such term's; 0: none does. */
int64_t sn_ix_divisor(const sn_module *m, sn_ix e, sn_ix of);
/* Split e = coefficient * axis + rest. false when the axis also occurs inside another atom (div, mod, prod, ...). An
 * axis that does not occur gives coefficient 0. For symbolic strides the coefficient is an ix. */
bool sn_ix_split(sn_module *m, sn_ix e, sn_axis ax, sn_ix *coefficient, sn_ix *rest);
/* Same for constant coefficients; false when not affine in the axis with a constant coefficient. */
bool sn_ix_coef(sn_module *m, sn_ix e, sn_axis ax, int64_t *out);
/* The same between two ends of a run: while no (a div k) or (a mod k) inside e, where a moves with step 1 and k is a
 * constant, comes to another multiple of k. end(user, a, k) is called for each of them, if there is one. false: e has
 * other parts that move. */
bool sn_ix_run(sn_module *m, sn_ix e, sn_axis ax, int64_t *step, void (*end)(void *user, sn_ix a, int64_t k),
               void *user);
/* Inclusive bounds. Unknown bounds are INT64_MIN / INT64_MAX. */
typedef struct sn_range {
    int64_t lo, hi;
} sn_range;
sn_range sn_ix_range(sn_module *m, sn_ix e);
/* Is e provably a multiple of k for all values of its atoms? */
bool sn_ix_is_multiple(sn_module *m, sn_ix e, int64_t k);
/* Does the axis / any SSA value occur anywhere in it? Does nothing but symbols? */
bool sn_ix_uses_axis(const sn_module *m, sn_ix e, sn_axis ax);
bool sn_ix_uses_vals(const sn_module *m, sn_ix e);
bool sn_ix_only_symbols(const sn_module *m, sn_ix e);
/* Call f for every distinct AXIS, SYM or VAL atom inside e. */
void sn_ix_walk(const sn_module *m, sn_ix e, void (*f)(void *user, sn_ix atom), void *user);
/* Is 0 <= e < n provable? */
bool sn_ix_in(sn_module *m, sn_ix e, sn_ix n);

/* ---- rewriting ---- */
/* Replace axes[i] by with[i] simultaneously, re-simplifying. */
sn_ix sn_ix_subst(sn_module *m, sn_ix e, const sn_axis *axes, const sn_ix *with, uint32_t n);
sn_ix sn_ix_subst_sym(sn_module *m, sn_ix e, sn_sym s, sn_ix with);
sn_ix sn_ix_subst_val(sn_module *m, sn_ix e, sn_val v, sn_ix with);
/* Row-major: flat index of subscripts within a shape, and back (n = rank). */
sn_ix sn_ix_flatten(sn_module *m, const sn_ix *index, const sn_ix *shape, uint32_t n);
void sn_ix_unflatten(sn_module *m, sn_ix flat, const sn_ix *shape, uint32_t n, sn_ix *out);
sn_ix sn_ix_product(sn_module *m, const sn_ix *factors, uint32_t n);

/* ---- evaluation ---- */
/* Values of atoms for sn_ix_eval; user-defined lookup. */
typedef int64_t (*sn_ix_lookup)(void *user, sn_ix_kind kind, uint32_t id);
int64_t sn_ix_eval(const sn_module *m, sn_ix e, sn_ix_lookup lookup, void *user);

/* ---- text ---- */
/* `1024*i + r`, `(i div 4)`, `((3*i + j) mod 6)`, `min(a, b)`; axes and symbols by name, values as %name. */
struct sn_text;
struct sn_lex;
/* Names of AXIS, SYM and VAL atoms; a value's name comes without the %. NULL: the hints of the module. The order of
 * what is printed depends on names and coefficients alone, never on the order of construction. */
typedef const char *(*sn_ix_namer)(void *user, sn_ix_kind kind, uint32_t id);
void sn_ix_print(struct sn_text *t, const sn_module *m, sn_ix e, sn_ix_namer namer, void *user);
/* Grammar:  e = term {(+|-) term};  term = factor {(*|div|mod) factor};  factor = int | name | %value | -factor |
 * (e) | min(e, e) | max(e, e).  Names are looked up through `find`, which returns none for an unknown one. */
typedef sn_ix (*sn_ix_find)(void *user, bool is_value, const char *name);
sn_status sn_ix_parse(sn_ix *out, struct sn_lex *lx, sn_module *m, sn_ix_find find, void *user);

/* ---- axes and symbols ---- */

typedef struct sn_axis_rec {
    sn_ix extent;
    const char *name; /* hint; the printer makes names unique */
    uint32_t mark;    /* scratch of one call of ir/loop; means nothing between calls */
} sn_axis_rec;

typedef struct sn_sym_rec {
    const char *name;
} sn_sym_rec;

sn_axis sn_axis_new(sn_module *m, const char *name, sn_ix extent);
sn_axis_rec *sn_axis_get(const sn_module *m, sn_axis ax);
/* The symbol of that name, made when new. */
sn_sym sn_sym_named(sn_module *m, const char *name);
sn_sym_rec *sn_sym_get(const sn_module *m, sn_sym s);

#endif
