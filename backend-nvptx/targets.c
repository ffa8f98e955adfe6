/* targets.c: targets by name. GPUs come from targets.def, "host" from codegen-llvm/target_host.c. Asks no device. */
#include "backend-nvptx/nvptx.h"

#include <stdio.h>
#include <string.h>

typedef struct row {
    const char *name;
    uint32_t sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb;
} row;

static const row ROWS[] = {
#define SN_TARGET(name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb, note) \
    {name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb},
#include "backend-nvptx/targets.def"
#undef SN_TARGET
};

static void fill(sn_target *out, const row *r) {
    const double reached = 0.9; /* by a copy, of the stated bandwidth: 4.26 of 4.8 TB/s on the H200 */
    *out = (sn_target){
        .is_gpu = true,
        .sm = r->sm,
        .units = r->units,
        .max_threads = 1024,
        .max_regs = 64,
        .shared_bytes = r->shared,
        .cluster = r->cluster,
        .vector_bytes = 16,
        .io_align = 16,
        .unit_threads = r->threads,
        .unit_blocks = r->blocks,
        .flight_bytes = r->flight,
        .special = r->special,
        .cycle_bytes = (float)(reached * 1000 * r->gbps / ((double)r->units * r->mhz)),
        .cache_bytes = (uint64_t)r->cache_mb << 20,
    };
    snprintf(out->name, sizeof out->name, "%s", r->name);
}

sn_status sn_target_named(sn_target *out, sn_env *env, const char *name) {
    if (strcmp(name, "host") == 0) {
        sn_target_host(out, 1);
        return SN_OK;
    }
    char known[512] = "host";
    for (size_t i = 0; i < SN_COUNT(ROWS); i++) {
        if (strcmp(ROWS[i].name, name) == 0) {
            fill(out, &ROWS[i]);
            return SN_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, " %s", ROWS[i].name);
    }
    return sn_fail(env, SN_ERROR_TARGET, "unknown target '%s'; known are: %s", name, known);
}

static bool portable(const row *r) { return !strchr("af", r->name[strlen(r->name) - 1]); }

sn_status sn_target_for_sm(sn_target *out, sn_env *env, uint32_t sm) {
    const row *best = NULL;
    for (size_t i = 0; i < SN_COUNT(ROWS); i++)
        if (ROWS[i].sm <= sm && portable(&ROWS[i]) && (!best || ROWS[i].sm > best->sm)) best = &ROWS[i];
    if (!best)
        return sn_fail(env, SN_ERROR_TARGET,
                       "the device has compute capability %u.%u; %s is the oldest that can be used", sm / 10, sm % 10,
                       ROWS[0].name);
    fill(out, best);
    return SN_OK;
}

/* A device newer than its generation's first row (8.8, say) runs the code of the row before it. */
bool sn_nvptx_cpu(const sn_target *target, const char **cpu, uint32_t *ptx) {
    const row *best = NULL;
    for (size_t i = 0; i < SN_COUNT(ROWS); i++) {
        const row *r = &ROWS[i];
        bool exact = strcmp(r->name, target->name) == 0;
        if (exact || (portable(r) && r->sm <= target->sm)) best = r;
        if (exact) break;
    }
    if (!best) return false;
    *cpu = best->name;
    *ptx = best->ptx;
    return true;
}
