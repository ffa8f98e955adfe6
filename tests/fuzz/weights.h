/* weights.h: what the fuzzers of files of tensors share: any bytes are opened as such a file and all elements are read.
 *
 * The reader takes paths, so the bytes go through a file in memory.
 */
#ifndef SN_TESTS_FUZZ_WEIGHTS_H
#define SN_TESTS_FUZZ_WEIGHTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "include/sinter/sinter.h"

static inline void one_line(const sn_context *ctx) {
    const char *message = sn_error(ctx);
    if (message[0] && !strchr(message, '\n')) return;
    fprintf(stderr, "not one line: \"%s\"\n", message);
    abort();
}

/* Every byte is one that may be read, and there are as many as the type says. */
static inline void read_all(const sn_weight_info *info) {
    for (size_t k = 0; k < info->size; k++) (void)((const volatile unsigned char *)info->data)[k];
    size_t size = sn_dtype_size(info->dtype);
    for (unsigned k = 0; k < info->rank; k++) size *= (size_t)info->shape[k];
    if (info->dtype != SN_N_DTYPES && size != info->size) abort();
}

/* also: what else reads the bytes, NULL: nothing; of those that are no such file it gets no weights. */
static inline void fuzz_weights(const uint8_t *data, size_t size,
                                void (*also)(sn_weights *w, const uint8_t *data, size_t size)) {
    char path[64];
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    sn_context *ctx;
    sn_weights *w;
    sn_weight_info info;
    if (sn_context_create(&ctx, NULL) != SN_OK) abort();
    if (sn_weights_open(&w, ctx, path) != SN_OK) one_line(ctx);
    for (unsigned k = 0; w && k < sn_weights_count(w); k++) {
        if (sn_weights_get(&info, w, k) != SN_OK) {
            one_line(ctx);
            continue;
        }
        read_all(&info);
        if (sn_weights_find(&info, w, info.name) != SN_OK) one_line(ctx);
    }
    if (w && sn_weights_find(&info, w, "x") != SN_OK) one_line(ctx);
    if (also) also(w, data, size);
    sn_weights_close(w);
    sn_context_destroy(ctx);
    close(file);
}

#endif
