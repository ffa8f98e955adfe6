/* targets.c: targets by name. GPUs come from targets.def, "host" from codegen-llvm/target_host.c. Asks no device. */
#include "backend-nvptx/nvptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    uint32_t sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb;
} row;

static const row ROWS[] = {
#define SN_TARGET(name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb, note) \
    {name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb},
#define SN_VARIANT(name, sm, ptx, note)
#include "backend-nvptx/targets.def"
#undef SN_VARIANT
#undef SN_TARGET
};

typedef struct variant {
    const char *name;
    uint32_t sm, ptx;
} variant;

static const variant VARIANTS[] = {
#define SN_TARGET(name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb, note)
#define SN_VARIANT(name, sm, ptx, note) {name, sm, ptx},
#include "backend-nvptx/targets.def"
#undef SN_VARIANT
#undef SN_TARGET
};

/* The generation of a compute capability: the newest row that is not newer. NULL: older than all. */
static const row *generation(uint32_t sm) {
    const row *best = NULL;
    for (size_t i = 0; i < SN_COUNT(ROWS); i++)
        if (ROWS[i].sm <= sm && (!best || ROWS[i].sm > best->sm)) best = &ROWS[i];
    return best;
}

/* NULL: the architecture has nothing of its own that we know. */
static const variant *variant_of(uint32_t sm) {
    for (size_t i = 0; i < SN_COUNT(VARIANTS); i++)
        if (VARIANTS[i].sm == sm) return &VARIANTS[i];
    return NULL;
}

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
        .mhz = r->mhz,
        .cycle_bytes = (float)(reached * 1000 * r->gbps / ((double)r->units * r->mhz)),
        .cache_bytes = (uint64_t)r->cache_mb << 20,
    };
    snprintf(out->name, sizeof out->name, "%s", r->name);
}

static void allow_own(sn_target *t, const variant *v) {
    t->specific = true;
    snprintf(t->name, sizeof t->name, "%s", v->name);
}

/* ---- figures of a card ---- */

/* What a device says of itself and a name may say. */
enum { UNITS, THREADS, SHARED, L2, N_FIGURES };
static const char *const figures[N_FIGURES] = {"units", "threads", "shared", "l2"};

static uint64_t figure(const sn_target *t, int which) {
    switch (which) {
    case UNITS: return t->units;
    case THREADS: return t->max_threads;
    case SHARED: return t->shared_bytes;
    default: return t->cache_bytes;
    }
}

static void set_figure(sn_target *t, int which, uint64_t value) {
    switch (which) {
    case UNITS: t->units = (uint32_t)value, t->exact = true; break;
    case THREADS: t->max_threads = (uint32_t)value; break;
    case SHARED: t->shared_bytes = (uint32_t)value; break;
    default: t->cache_bytes = value;
    }
}

void sn_target_name_figures(sn_target *t) {
    const row *r = generation(t->sm);
    sn_target usual;
    if (!t->is_gpu || !r) return;
    fill(&usual, r);
    for (int i = 0; i < N_FIGURES; i++) {
        size_t n = strlen(t->name);
        if (figure(t, i) != figure(&usual, i))
            snprintf(t->name + n, sizeof t->name - n, ":%s=%llu", figures[i], (unsigned long long)figure(t, i));
    }
}

/* ":units=114:l2=52428800"; false: it is none of that. */
static bool read_figures(sn_target *t, const char *text) {
    while (*text == ':') {
        size_t n = strcspn(++text, "=");
        int which = 0;
        while (which < N_FIGURES && (strlen(figures[which]) != n || memcmp(figures[which], text, n) != 0)) which++;
        if (which == N_FIGURES || text[n] != '=' || !isdigit((unsigned char)text[n + 1])) return false;
        char *end;
        unsigned long long value = strtoull(text + n + 1, &end, 10);
        if (!value || value > (which == L2 ? UINT64_C(1) << 40 : 1 << 24)) return false;
        set_figure(t, which, value);
        text = end;
    }
    return !*text;
}

/* The targets with that name: a generation, one with its own instructions. */
static bool find_named(sn_target *out, const char *name) {
    for (size_t i = 0; i < SN_COUNT(ROWS); i++)
        if (strcmp(ROWS[i].name, name) == 0) return fill(out, &ROWS[i]), true;
    for (size_t i = 0; i < SN_COUNT(VARIANTS); i++)
        if (strcmp(VARIANTS[i].name, name) == 0)
            return fill(out, generation(VARIANTS[i].sm)), allow_own(out, &VARIANTS[i]), true;
    return false;
}

sn_status sn_target_named(sn_target *out, sn_env *env, const char *name) {
    if (strcmp(name, "host") == 0) {
        sn_target_host(out, 1);
        return SN_OK;
    }
    char base[sizeof out->name];
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, ":"), name);
    if (find_named(out, base)) {
        if (!read_figures(out, name + strlen(base)))
            return sn_fail(
                env, SN_ERROR_TARGET,
                "target '%s': behind %s stand figures as :units=114:l2=52428800, of units, threads, shared, l2", name,
                base);
        sn_target_name_figures(out);
        return SN_OK;
    }
    sn_text known;
    sn_text_init(&known, env);
    for (size_t i = 0; i < SN_COUNT(ROWS); i++) sn_text_printf(&known, " %s", ROWS[i].name);
    for (size_t i = 0; i < SN_COUNT(VARIANTS); i++) sn_text_printf(&known, " %s", VARIANTS[i].name);
    sn_status status = sn_fail(env, SN_ERROR_TARGET, "unknown target '%s'; known are: host%s", name, known.s);
    sn_text_free(&known);
    return status;
}

sn_status sn_target_for_sm(sn_target *out, sn_env *env, uint32_t sm) {
    const row *best = generation(sm);
    const variant *own = variant_of(sm);
    if (!best)
        return sn_fail(env, SN_ERROR_TARGET,
                       "the device has compute capability %u.%u; %s is the oldest that can be used", sm / 10, sm % 10,
                       ROWS[0].name);
    fill(out, best);
    if (own) allow_own(out, own);
    return SN_OK;
}

bool sn_nvptx_cpu(const sn_target *target, bool specific, const char **cpu, uint32_t *ptx) {
    const row *best = generation(target->sm);
    const variant *own = variant_of(target->sm);
    if (specific ? !own : !best) return false;
    *cpu = specific ? own->name : best->name;
    *ptx = specific ? own->ptx : best->ptx;
    return true;
}
