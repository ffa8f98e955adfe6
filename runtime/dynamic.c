/* dynamic.c: see dynamic.h. */
#include "runtime/dynamic.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool resolve(const sn_dynamic *d, void *library, void *table) {
    for (size_t i = 0; i < d->n_rows; i++) {
        void *symbol = dlsym(library, d->rows[i].symbol);
        if (!symbol) return false;
        memcpy((char *)table + d->rows[i].offset, &symbol, sizeof symbol);
    }
    return true;
}

/* "a, b and c" */
static void list_files(char *out, size_t size, const sn_dynamic *d) {
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < d->n_files && n < size; i++) {
        const char *before = i == 0 ? "" : i + 1 < d->n_files ? ", " : " and ";
        n += (size_t)snprintf(out + n, size - n, "%s%s", before, d->files[i]);
    }
}

void *sn_dynamic_open(const sn_dynamic *d, void *table, char why[SN_LIBRARY_WHY]) {
    char files[SN_LIBRARY_WHY / 2];
    list_files(files, sizeof files, d);
    snprintf(why, SN_LIBRARY_WHY, "no %s: none of %s could be opened", d->name, files);
    for (size_t i = 0; i < d->n_files; i++) {
        void *library = dlopen(d->files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library && resolve(d, library, table)) return library;
        if (!library) continue;
        dlclose(library);
        snprintf(why, SN_LIBRARY_WHY, "no %s: %s is too old", d->name, d->files[i]);
    }
    return NULL;
}
