/* dtype.h: the element types, from dtypes.def. Included by sinter.h and by the library's own headers. */
#ifndef SINTER_DTYPE_H
#define SINTER_DTYPE_H

/* One for each row: SN_F64, SN_F32, SN_F16, SN_BF16, SN_I64, ..., SN_BOOL (one byte, 0 or 1), ... */
typedef enum sn_dtype {
#define SN_DTYPE(ID, name, bytes, cls, digits, npy, dlpack) SN_##ID,
#include "dtypes.def"
#undef SN_DTYPE
    SN_N_DTYPES
} sn_dtype;

#endif
