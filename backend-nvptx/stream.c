/* stream.c: which lines the L2 keeps, in kernels that move more than it holds.
 *
 * What such a kernel loads comes once; what it stores is written back when the cache needs room. Loaded lines that are
 * evicted last make room at the cost of stored ones, so that memory is written in a steady stream beside the reads and
 * not in bursts: 2 to 5 % of the time of kernels that read and write on an H200, nothing for those that only read.
 * Smaller kernels leave the choice to the cache, which may keep their results for the next one.
 *
 *     ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];
 *  -> createpolicy.fractional.L2::evict_last.b64 %stream, 1.0;                 once
 *     ld.global.nc.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16], %stream;
 *
 * The text is rewritten because LLVM 22 has no name for the policy of a load. It writes one instruction a line.
 */
#include "backend-nvptx/nvptx.h"
#include "ir/base/text.h"

#include <string.h>

static uint64_t bytes_of(const sn_module *m, sn_buf b) {
    int64_t size;
    const sn_buf_rec *r = sn_buf_get(m, b);
    return sn_ix_is_const(m, r->size, &size) ? (uint64_t)size * sn_dtype_bytes(r->dtype) : 0;
}

bool sn_nvptx_streams(const sn_target *t, const sn_module *m, sn_kern k) {
    enum { HOPPER = 90, SHARE = 8 }; /* measured there; one part in so many of the bytes is stored, at least */
    const sn_kern_rec *r = sn_kern_get(m, k);
    uint64_t all = 0, stored = 0;
    for (uint32_t i = 0; i < r->params.n; i++) {
        uint64_t bytes = bytes_of(m, r->params.at[i]);
        all += bytes;
        if (sn_kern_stores(m, k, r->params.at[i])) stored += bytes;
    }
    return t->sm == HOPPER && all >= t->cache_bytes && stored * SHARE >= all;
}

static const char *const LOADS[] = {"ld.global.nc", "cp.async.cg.shared.global", "cp.async.ca.shared.global"};

/* The name of a load at the start of an instruction; NULL: it is none. */
static const char *load_name(const char *line, const char *end) {
    while (line < end && (*line == ' ' || *line == '\t')) line++;
    for (uint32_t i = 0; i < SN_COUNT(LOADS); i++) {
        size_t n = strlen(LOADS[i]);
        if ((size_t)(end - line) > n && memcmp(line, LOADS[i], n) == 0) return LOADS[i];
    }
    return NULL;
}

static void put_load(sn_text *t, const char *line, const char *end, const char *name) {
    const char *rest = strstr(line, name) + strlen(name), *semicolon = end;
    while (semicolon > rest && *semicolon != ';') semicolon--;
    sn_text_putn(t, line, (size_t)(rest - line));
    sn_text_put(t, ".L2::cache_hint");
    sn_text_putn(t, rest, (size_t)(semicolon - rest));
    sn_text_put(t, ", %stream;\n");
}

void sn_nvptx_stream(sn_text *t, const char *ptx, size_t size) {
    const char *end;
    for (const char *line = ptx, *stop = ptx + size; line < stop; line = end + 1) {
        end = memchr(line, '\n', (size_t)(stop - line));
        if (!end) end = stop - 1;
        const char *name = load_name(line, end);
        if (name) put_load(t, line, end, name);
        else sn_text_putn(t, line, (size_t)(end - line) + 1);
        if (*line == '{') /* the kernel's body */
            sn_text_put(t, "\t.reg .b64 \t%stream;\n"
                           "\tcreatepolicy.fractional.L2::evict_last.b64 %stream, 1.0;\n");
    }
}
