/* options.c: reads the options of sn_compile into sn_settings, checks them, and fills defaults. The only reader of the
 * environment: SINTER_DEVICE, SINTER_VERIFY, SINTER_THREADS, SINTER_TUNE, SINTER_RECORD_DIR, SINTER_CACHE,
 * SINTER_CACHE_SIZE, SINTER_PTXAS, SINTER_METRICS, SINTER_METRICS_DIR, SINTER_METRICS_MODEL, SINTER_MULTI_KERNEL, SINTER_GRAPHS,
 * SINTER_REPLACE_KERNELS, SINTER_DEBUG, SINTER_DEBUG_KERNELS and SINTER_DEBUG_DIR stand in for options that are not set
 * (options.def), XDG_CACHE_HOME and HOME say where records and code are by default, PATH, CUDA_HOME and CUDA_PATH where ptxas is.
 */
#include "frontend/frontend.h"
#include "frontend/multi.h"
#include "runtime/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *or_environment(const char *option, const char *variable, const char *otherwise) {
    if (option) return option;
    const char *value = getenv(variable);
    return value && value[0] ? value : otherwise;
}

/* Position of `value` in a NULL-terminated list of words. */
static sn_status choose(unsigned *out, sn_env *env, const char *option, const char *value, const char *const *words) {
    char list[128] = "";
    for (unsigned k = 0; words[k]; k++) {
        if (!strcmp(value, words[k])) {
            *out = k;
            return SN_OK;
        }
        if (k) strcat(list, ", ");
        strcat(list, words[k]);
    }
    return sn_fail(env, SN_ERROR_ARGUMENT, "%s: '%s' is none of %s", option, value, list);
}

sn_status sn_verify_from_name(sn_verify_mode *out, sn_env *env, const char *name) {
    static const char *const words[] = {"off", "ends", "each", "paranoid", NULL};
    unsigned k = SN_VERIFY_ENDS;
    SN_TRY(choose(&k, env, "verify", name, words));
    *out = (sn_verify_mode)k;
    return SN_OK;
}

sn_status sn_precision_read(sn_precision *out, sn_env *env, const char *word) {
    unsigned k = SN_PRECISION_EXACT;
    if (word) SN_TRY(choose(&k, env, "precision", word, sn_precision_words));
    *out = (sn_precision)k;
    return SN_OK;
}

sn_status sn_graphs_read(sn_graphs_mode *out, sn_env *env, const char *word) {
    static const char *const words[] = {"off", "auto", "on", NULL};
    unsigned k = SN_GRAPHS_AUTO;
    SN_TRY(choose(&k, env, "graphs", or_environment(word, "SINTER_GRAPHS", "auto"), words));
    *out = (sn_graphs_mode)k;
    return SN_OK;
}

static sn_status read_threads(uint32_t *out, sn_env *env, unsigned option) {
    enum { MOST = 4096 };
    long n = option;
    if (n > MOST) return sn_fail(env, SN_ERROR_ARGUMENT, "threads: %u is more than %d", option, MOST);
    if (!n) {
        const char *value = or_environment(NULL, "SINTER_THREADS", "0");
        char *end;
        n = strtol(value, &end, 10);
        if (*end || n < 0 || n > MOST)
            return sn_fail(env, SN_ERROR_ARGUMENT, "SINTER_THREADS: '%s' is no number of threads", value);
    }
    *out = n ? (uint32_t)n : sn_processors();
    return SN_OK;
}

static sn_status write_file(void *user, const char *path, const char *text) {
    sn_context *ctx = user;
    return sn_file_write(&ctx->env, path, text, strlen(text));
}

/* Where caches of this user are; NULL: nowhere. */
static const char *cache_folder(sn_context *ctx, const char *what) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') return sn_strf(&ctx->scratch, "%s/sinter/%s", cache, what);
    return home && home[0] == '/' ? sn_strf(&ctx->scratch, "%s/.cache/sinter/%s", home, what) : NULL;
}

/* "1048576", "64K", "512M", "1G". */
static bool read_bytes(uint64_t *out, const char *text) {
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (errno || (*end && (!unit || end[1])) || !*out || *out > UINT64_MAX >> shift) return false;
    *out <<= shift;
    return true;
}

/* A slip of on and off would be the name of a folder: one says so by a slash. */
sn_status sn_cache_settings(const char **folder, uint64_t *size, sn_context *ctx, const char *cache, const char *most) {
    cache = or_environment(cache, "SINTER_CACHE", "off");
    most = or_environment(most, "SINTER_CACHE_SIZE", "1G");
    *folder = NULL;
    if (!read_bytes(size, most))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "cache_size: '%s' is no number of bytes (512M, 1G)", most);
    if (!strcmp(cache, "off")) return SN_OK;
    if (strchr(cache, '/')) *folder = cache;
    else if (strcmp(cache, "on") != 0)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "cache: '%s' is none of on, off and a folder with a / (./%s)",
                       cache, cache);
    else if (!(*folder = cache_folder(ctx, "code")))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT,
                       "cache: 'on' needs XDG_CACHE_HOME or HOME, which say no folder; give one");
    return SN_OK;
}

/* A slip of auto and off would be the name of a file: one says so by a slash. */
static sn_status read_ptxas(sn_settings *out, sn_context *ctx, const char *option) {
    const char *value = or_environment(option, "SINTER_PTXAS", "auto");
    const char *path = getenv("PATH"), *home = getenv("CUDA_HOME"), *other = getenv("CUDA_PATH");
    bool is_file = strchr(value, '/') != NULL;
    if (!is_file && strcmp(value, "auto") != 0 && strcmp(value, "off") != 0)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "ptxas: '%s' is none of auto, off and a file with a / (./%s)",
                       value, value);
    out->with_ptxas = strcmp(value, "off") != 0;
    out->ptxas = is_file ? value : NULL;
    out->ptxas_folders = path ? path : "";
    if (home && *home) out->ptxas_folders = sn_strf(&ctx->scratch, "%s:%s/bin", out->ptxas_folders, home);
    if (other && *other) out->ptxas_folders = sn_strf(&ctx->scratch, "%s:%s/bin", out->ptxas_folders, other);
    return SN_OK;
}

static sn_status read_tune(sn_settings *out, sn_context *ctx, const sn_compile_options *o) {
    static const char *const modes[] = {"off", "records", "on", NULL};
    unsigned mode = SN_TUNE_RECORDS;
    SN_TRY(choose(&mode, &ctx->env, "tune", or_environment(o->tune, "SINTER_TUNE", "records"), modes));
    out->tune = (sn_tune_mode)mode;
    const char *folder = or_environment(o->record_dir, "SINTER_RECORD_DIR", NULL);
    if (!folder) folder = cache_folder(ctx, "records");
    out->record_dir = folder && strcmp(folder, "off") ? folder : NULL;
    out->no_record_home = !folder;
    return SN_OK;
}

static sn_status read_choices(sn_settings *out, sn_context *ctx, const sn_compile_options *o) {
    static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
    static const char *const wrappers[] = {"generated", "interpreted", NULL};
    static const char *const schedules[] = {"host", "gpu", NULL};
    sn_env *env = &ctx->env;
    unsigned device = 0, wrapper = 0, schedule = 0;
    SN_TRY(choose(&device, env, "device", or_environment(o->device, "SINTER_DEVICE", "auto"), devices));
    SN_TRY(choose(&wrapper, env, "wrapper", o->wrapper ? o->wrapper : "generated", wrappers));
    SN_TRY(choose(&schedule, env, "cpu_schedule", o->cpu_schedule ? o->cpu_schedule : "host", schedules));
    SN_TRY(sn_verify_from_name(&out->passes.verify, env, or_environment(o->verify, "SINTER_VERIFY", "ends")));
    out->want_cuda = device != 1 && schedule == 0;
    out->must_cuda = device == 2;
    out->on_device = device == 2 && o->device;
    out->interpreted = wrapper == 1;
    out->gpu_schedule = schedule == 1;
    if (out->gpu_schedule && out->must_cuda)
        return sn_fail(env, SN_ERROR_ARGUMENT, "cpu_schedule: 'gpu' is for the CPU, and the device is 'cuda'");
    return SN_OK;
}

/* Of a program that is compiled, or loaded from an image. */
sn_status sn_debug_settings(sn_debug_options *out, sn_context *ctx, const char *debug, const char *kernels,
                            const char *dir) {
    uint32_t on;
    *out = (sn_debug_options){.debug = or_environment(debug, "SINTER_DEBUG", "off"),
                              .kernels = or_environment(kernels, "SINTER_DEBUG_KERNELS", NULL),
                              .dir = or_environment(dir, "SINTER_DEBUG_DIR", NULL),
                              .say = sn_context_say,
                              .user = ctx};
    return sn_debug_read(&on, &ctx->env, out->debug);
}

static sn_status read_metrics(sn_metric_settings *out, sn_env *env, const sn_compile_options *o) {
    *out = (sn_metric_settings){.row = o->metrics_row, .user = o->metrics_user};
    SN_TRY(sn_metric_list(&out->tables, env, or_environment(o->metrics, "SINTER_METRICS", "off")));
    out->model = or_environment(o->metrics_model, "SINTER_METRICS_MODEL", NULL);
    out->folder = or_environment(o->metrics_dir, "SINTER_METRICS_DIR", o->metrics_row ? NULL : ".");
    return SN_OK;
}

sn_status sn_settings_read(sn_settings *out, sn_context *ctx, const sn_compile_options *options) {
    sn_compile_options o = {0};
    SN_TRY(sn_options_read(&o, sizeof o, &ctx->env, "sn_compile_options", options));
    if (o.alignment > 16 || (o.alignment & (o.alignment - 1)))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "alignment: %u is none of 1, 2, 4, 8, 16", o.alignment);
    if (o.n_dims && !o.dims)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "dims: %u are said to be given, none is", o.n_dims);
    *out = (sn_settings){
        .ordinal = o.ordinal, .target = o.target, .alignment = o.alignment, .dims = o.dims, .n_dims = o.n_dims};
    SN_TRY(read_choices(out, ctx, &o));
    SN_TRY(read_tune(out, ctx, &o));
    SN_TRY(sn_multi_read(&out->passes.choosing.multi, &out->multi_forced, &ctx->env,
                         or_environment(o.multi_kernel, "SINTER_MULTI_KERNEL", "off")));
    out->passes.choosing.multi_short = out->multi_forced;
    SN_TRY(sn_cache_settings(&out->cache, &out->cache_size, ctx, o.cache, o.cache_size));
    SN_TRY(read_ptxas(out, ctx, o.ptxas));
    SN_TRY(read_metrics(&out->metrics, &ctx->env, &o));
    SN_TRY(sn_debug_settings(&out->debug, ctx, o.debug, o.debug_kernels, o.debug_dir));
    out->replace_kernels = or_environment(o.replace_kernels, "SINTER_REPLACE_KERNELS", NULL);
    SN_TRY(read_threads(&out->threads, &ctx->env, o.threads));
    SN_TRY(sn_precision_read(&out->precision, &ctx->env, o.precision));
    SN_TRY(sn_graphs_read(&out->graphs, &ctx->env, o.graphs));
    out->passes.pipeline = o.pipeline;
    out->passes.choosing.allowed = o.choices;
    out->passes.print_before = o.print_before;
    out->passes.print_after = o.print_after;
    out->passes.print_changed = o.print_changed;
    out->passes.remarks = o.remarks;
    out->passes.time_passes = o.time_passes;
    out->passes.repro_dir = o.repro_dir;
    out->passes.print = sn_context_say;
    out->passes.print_user = ctx;
    out->passes.write_file = write_file;
    return SN_OK;
}
