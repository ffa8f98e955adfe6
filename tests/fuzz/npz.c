/* npz.c: any bytes as an .npz file. Opening it fails with one line, or each member can be read or fails with one line. The
 * checksums of members are compared, so most damage ends there; headers are read before that.
 */
#include "tests/fuzz/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_weights(data, size, NULL);
    return 0;
}
