/* ids.h: typed 32-bit ids. 0 is "none". Mixing kinds does not compile. */
#ifndef SN_IR_BASE_IDS_H
#define SN_IR_BASE_IDS_H

#include "include/sinter/dtype.h"
#include "ir/base/base.h"

#define SN_ID(type)                                                                          \
    typedef struct type { uint32_t i; } type;                                                \
    static inline bool type##_eq(type a, type b) { return a.i == b.i; }                      \
    typedef struct type##_list { type *at; uint32_t n, cap; } type##_list

SN_ID(sn_ix);   /* index expression (ix.h) */
SN_ID(sn_axis); /* loop axis */
SN_ID(sn_sym);  /* symbolic size */
SN_ID(sn_nd);   /* graph node (graph.h) */
SN_ID(sn_buf);  /* buffer (loop.h) */
SN_ID(sn_kern); /* kernel (loop.h) */
SN_ID(sn_stmt); /* loop statement (loop.h) */
SN_ID(sn_val);  /* SSA value of a kernel (loop.h) */
SN_ID(sn_wt);   /* weight (weights.h) */

typedef struct sn_module sn_module;

/* ---- element types ---- */

typedef enum sn_dclass { SN_CLASS_FLOAT, SN_CLASS_INT, SN_CLASS_UINT, SN_CLASS_BOOL } sn_dclass;

typedef struct sn_dtype_info {
    const char *name;
    uint32_t bytes;
    sn_dclass cls;
    uint32_t digits; /* of a float: bits of the significand */
    const char *npy;
    uint8_t dlpack;
} sn_dtype_info;

extern const sn_dtype_info sn_dtypes[SN_N_DTYPES]; /* ir/base/dtype.c */
static inline uint32_t sn_dtype_bytes(sn_dtype t) { return sn_dtypes[t].bytes; }
static inline bool sn_is_float(sn_dtype t) { return sn_dtypes[t].cls == SN_CLASS_FLOAT; }
/* A float that arithmetic computes in f32. */
static inline bool sn_is_narrow(sn_dtype t) { return sn_is_float(t) && sn_dtype_bytes(t) < 4; }
static inline sn_dtype sn_compute_dtype(sn_dtype t) { return sn_is_narrow(t) ? SN_F32 : t; }
/* The exponent of the smallest normal number of a float, and of its largest finite one. */
static inline int sn_float_lowest(sn_dtype t) { return 2 - (1 << (8 * sn_dtypes[t].bytes - sn_dtypes[t].digits - 1)); }
static inline int sn_float_highest(sn_dtype t) { return 1 - sn_float_lowest(t); }
/* Integers and bool. */
static inline bool sn_is_integral(sn_dtype t) { return sn_dtypes[t].cls != SN_CLASS_FLOAT; }
/* Integers that have no sign, and bool. */
static inline bool sn_is_unsigned(sn_dtype t) {
    return sn_dtypes[t].cls == SN_CLASS_UINT || sn_dtypes[t].cls == SN_CLASS_BOOL;
}
/* Has every value of `from` one in `to`? Then a cast loses nothing. */
bool sn_dtype_holds(sn_dtype to, sn_dtype from);
/* Is `to` a larger dtype of the same kind, that has every value of `from`? */
bool sn_dtype_widens(sn_dtype from, sn_dtype to);
/* Elements from one row of a matrix to the next one where copies of boxes and wide accesses are to have it easy, a row being
 * `length` long. */
int64_t sn_dtype_pitch(sn_dtype t, int64_t length);
/* false when the name is no dtype. */
bool sn_dtype_from_name(sn_dtype *out, const char *name);

/* One element <-> bits of its storage. Floats travel as double, all else as int64, u64 as the int64 of the same bits.
 * Rounding is to nearest even. */
double sn_load_float(sn_dtype t, const void *p);
void sn_store_float(sn_dtype t, void *p, double x);
int64_t sn_load_int(sn_dtype t, const void *p);
void sn_store_int(sn_dtype t, void *p, int64_t x);
/* x rounded to the precision of t (a float dtype). */
double sn_round_to(sn_dtype t, double x);
/* x wrapped to the width of t (an integral dtype; bool: x != 0). */
int64_t sn_wrap_to(sn_dtype t, int64_t x);
/* The number that the int64 of an integral dtype stands for, as a double. */
static inline double sn_int_to_double(sn_dtype t, int64_t x) { return t == SN_U64 ? (double)(uint64_t)x : (double)x; }

#endif
