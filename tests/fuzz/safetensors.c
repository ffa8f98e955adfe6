/* safetensors.c: any bytes after the length of a header as a .safetensors file. Opening it fails with one line, or all elements
 * can be read. The length itself is made to fit in three of four cases, which mutation alone would hardly keep right.
 */
#include "tests/fuzz/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = malloc(size + 1);
    if (!file) abort();
    if (size) memcpy(file, data, size);
    uint64_t length = 0;
    if (size > 8) {
        for (size_t k = 8; k < size && data[k] >= ' ' && data[k] < 127; k++) length++;
        if (data[0] % 4) memcpy(file, &length, sizeof length);
    }
    fuzz_weights(file, size);
    free(file);
    return 0;
}
