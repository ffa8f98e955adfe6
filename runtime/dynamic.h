/* dynamic.h: libraries that are opened at run time, by a table of their functions. Private to runtime/. */
#ifndef SN_RUNTIME_DYNAMIC_H
#define SN_RUNTIME_DYNAMIC_H

#include "runtime/runtime.h"

/* A function of the library, and where the pointer to it stands in the caller's struct. */
typedef struct sn_dynamic_row {
    const char *symbol;
    size_t offset;
} sn_dynamic_row;

typedef struct sn_dynamic {
    const char *name;         /* for people: "cuDNN" */
    const char *const *files; /* newest first */
    size_t n_files;
    const sn_dynamic_row *rows;
    size_t n_rows;
} sn_dynamic;

/* Open the first file that has all functions, and set their pointers in *table. NULL: there is none, and why. The
 * caller closes it with dlclose. */
void *sn_dynamic_open(const sn_dynamic *d, void *table, char why[SN_LIBRARY_WHY]);

#endif
