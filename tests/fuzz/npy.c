/* npy.c: any bytes as an .npy file. Reading them into a tensor fails with one line or fills the tensor.
 *
 * The reader takes paths, so the bytes go through a file in memory.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "include/sinter/sinter.h"

static const struct {
    sn_dtype dtype;
    unsigned rank;
    int64_t shape[3];
} wanted[] = {{SN_F32, 2, {2, 3}}, {SN_I64, 0, {0}}, {SN_BF16, 1, {4}}, {SN_BOOL, 3, {2, 1, 2}}, {SN_F32, 2, {0, 3}}};

static void refused(const sn_context *ctx) {
    const char *message = sn_error(ctx);
    if (message[0] && !strchr(message, '\n')) return;
    fprintf(stderr, "not one line: \"%s\"\n", message);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int file = memfd_create("fuzz.npy", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    sn_context *ctx;
    if (sn_context_create(&ctx, NULL) != SN_OK) abort();
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        sn_tensor *t;
        if (sn_tensor_create(&t, ctx, SN_CPU, wanted[k].dtype, wanted[k].rank, wanted[k].shape) != SN_OK) abort();
        if (sn_tensor_load_npy(t, "x", path) != SN_OK) refused(ctx);
        sn_tensor_destroy(t);
    }
    sn_context_destroy(ctx);
    close(file);
    return 0;
}
