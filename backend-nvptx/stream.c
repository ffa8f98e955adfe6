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
 * Where loops of the kernel say that what they load comes `once`, that and what is copied to shared memory leaves the L2 first, and so
 * does what is stored: what the other loops load is read again, and should be there. Code generation makes such loads plain ones, for
 * which nothing else is known (codegen-llvm/load.c), since a load of the text does not say in which loop it was.
 *
 *     ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];   st.global.v4.b32 [%rd2+16], {%r1, %r2, %r3, %r4};
 *  -> createpolicy.fractional.L2::evict_first.b64 %once, 1.0;                   once
 *     ld.global.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16], %once;   ..
 *
 * An asynchronous copy gets more than the policy. Where its address in shared memory is a uniform register plus a
 * thread's, ptxas (12.8 to 13.5) keeps the two apart and takes the policy from the odd uniform register behind the first:
 * LDGSTS [R3+UR0], desc[UR1][R4.64], an illegal instruction. So the address becomes the result of an operation that is
 * no sum, and that ptxas cannot undo: %ctaid.z is 0, since our grids have one dimension, but only the launch says so.
 *
 *     cp.async.cg.shared.global [%rd9+3584], [%rd11+28672], 16;
 *  -> mov.b32 %none, %ctaid.z;   cvt.u64.u32 %zero, %none;                      once
 *     xor.b64 %to, %rd9, %zero;
 *     cp.async.cg.shared.global.L2::cache_hint [%to+3584], [%rd11+28672], 16, %stream;
 *
 * A copy whose address is no register stays without a policy.
 *
 * Blocks that copy what others have asked for, and wait for each other, do it the other way round: what is asked for stays, what has been
 * copied goes first.
 *
 * The text is rewritten because LLVM 22 has no name for the policy of a load. It writes one instruction a line.
 */
#include "backend-nvptx/nvptx.h"
#include "ir/base/text.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bytes_of(const sn_module *m, sn_buf b) {
    int64_t size;
    const sn_buf_rec *r = sn_buf_get(m, b);
    return sn_ix_is_const(m, r->size, &size) ? (uint64_t)size * sn_dtype_bytes(r->dtype) : 0;
}

static uint64_t bytes_of_all(const sn_module *m, const sn_buf_list *bufs) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < bufs->n; i++) bytes += bytes_of(m, bufs->at[i]);
    return bytes;
}

static int by_id(const void *a, const void *b) {
    uint32_t x = ((const sn_buf *)a)->i, y = ((const sn_buf *)b)->i;
    return x < y ? -1 : x > y;
}

/* Of all buffers that the kernel stores to, each once. */
static uint64_t bytes_stored(const sn_module *m, sn_kern k, sn_arena *scratch) {
    SN_VEC(sn_buf) stored = {0};
    uint64_t bytes = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && !sn_buf_is_local(sn_buf_get(m, r->buf))) SN_PUSH(scratch, &stored, r->buf);
    }
    if (stored.n) qsort(stored.at, stored.n, sizeof *stored.at, by_id);
    for (uint32_t i = 0; i < stored.n; i++)
        if (!i || !sn_buf_eq(stored.at[i], stored.at[i - 1])) bytes += bytes_of(m, stored.at[i]);
    return bytes;
}

bool sn_nvptx_streams(const sn_target *t, const sn_module *m, sn_kern k, sn_arena *scratch) {
    enum { HOPPER = 90, SHARE = 8 }; /* measured there; one part in so many of the bytes is stored, at least */
    uint64_t all = bytes_of_all(m, &sn_kern_get(m, k)->params);
    return t->sm == HOPPER && all >= t->cache_bytes && bytes_stored(m, k, scratch) * SHARE >= all;
}

static const char STREAM[] = "%stream", ONCE[] = "%once", LATER[] = "%later";
static const char LOAD[] = "ld.global.nc.", LOAD_ONCE[] = "ld.global.", STORE[] = "st.global.", COPY[] = "cp.async.",
                  TO[] = ".shared.global [%rd", PREFETCH[] = "cp.async.bulk.prefetch.L2.global";

bool sn_nvptx_has_once(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->once) return true;
    return false;
}

/* Where an instruction's name begins. */
static const char *first_word(const char *line, const char *end) {
    while (line < end && (*line == ' ' || *line == '\t')) line++;
    return line;
}

static bool starts(const char *s, const char *end, const char *with) {
    size_t n = strlen(with);
    return (size_t)(end - s) > n && memcmp(s, with, n) == 0;
}

/* From `at` on as it is, with the policy as its last operand. */
static void put_rest(sn_text *t, const char *at, const char *end, const char *policy) {
    const char *semicolon = end;
    while (semicolon > at && *semicolon != ';') semicolon--;
    sn_text_putn(t, at, (size_t)(semicolon - at));
    sn_text_printf(t, ", %s;\n", policy);
}

/* what: the instruction's name, up to the point where the hint stands. */
static bool put_access(sn_text *t, const char *line, const char *end, const char *what, const char *policy) {
    const char *name = first_word(line, end);
    if (!starts(name, end, what)) return false;
    const char *rest = name + strlen(what) - 1;
    sn_text_putn(t, line, (size_t)(rest - line));
    sn_text_put(t, ".L2::cache_hint");
    put_rest(t, rest, end, policy);
    return true;
}

static bool put_copy(sn_text *t, const char *line, const char *end, const char *policy) {
    const char *name = first_word(line, end);
    if (!starts(name, end, COPY)) return false;
    const char *to = strchr(name, '.') + strlen(".async.cg");
    if (to > end || !starts(to, end, TO)) return false;
    const char *address = strchr(to, '%'), *rest = address;
    while (*rest != ']' && *rest != '+' && *rest != '-') rest++;
    sn_text_printf(t, "\txor.b64 \t%%to, %.*s, %%zero;\n", (int)(rest - address), address);
    sn_text_printf(t, "%.*s.L2::cache_hint [%%to", (int)(address - 2 - line), line);
    put_rest(t, rest, end, policy);
    return true;
}

static bool put_prefetch(sn_text *t, const char *line, const char *end) {
    const char *name = first_word(line, end);
    if (*name == '@') name = first_word(name + strcspn(name, " \t"), end);
    if (!starts(name, end, PREFETCH)) return false;
    const char *rest = name + strlen(PREFETCH);
    sn_text_putn(t, line, (size_t)(rest - line));
    sn_text_put(t, ".L2::cache_hint");
    put_rest(t, rest, end, LATER);
    return true;
}

static void put_registers(sn_text *t, bool copies, bool ahead, bool once) {
    sn_text_printf(t,
                   "\t.reg .b64 \t%%stream;\n"
                   "\tcreatepolicy.fractional.L2::evict_%s.b64 %%stream, 1.0;\n",
                   ahead ? "first" : "last");
    if (ahead)
        sn_text_put(t, "\t.reg .b64 \t%later;\n"
                       "\tcreatepolicy.fractional.L2::evict_last.b64 %later, 1.0;\n");
    if (once)
        sn_text_put(t, "\t.reg .b64 \t%once;\n"
                       "\tcreatepolicy.fractional.L2::evict_first.b64 %once, 1.0;\n");
    if (copies)
        sn_text_put(t, "\t.reg .b32 \t%none;\n"
                       "\t.reg .b64 \t%zero, %to;\n"
                       "\tmov.b32 \t%none, %ctaid.z;\n"
                       "\tcvt.u64.u32 \t%zero, %none;\n");
}

void sn_nvptx_stream(sn_text *t, const char *ptx, size_t size, bool posts, bool once) {
    const char *end;
    bool copies = strstr(ptx, TO) != NULL, ahead = posts && copies && strstr(ptx, PREFETCH);
    for (const char *line = ptx, *stop = ptx + size; line < stop; line = end + 1) {
        end = memchr(line, '\n', (size_t)(stop - line));
        if (!end) end = stop - 1;
        if (ahead && put_prefetch(t, line, end)) continue;
        if (!put_access(t, line, end, LOAD, STREAM) && !put_copy(t, line, end, once ? ONCE : STREAM) &&
            (!once || (!put_access(t, line, end, LOAD_ONCE, ONCE) && !put_access(t, line, end, STORE, ONCE))))
            sn_text_putn(t, line, (size_t)(end - line) + 1);
        if (*line == '{') put_registers(t, copies, ahead, once); /* the kernel's body */
    }
}
