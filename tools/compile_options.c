/* compile_options.c: options of compiling, as several subcommands take them from the command line. */
#include "tools/tool.h"

#include <string.h>

static int read_number(unsigned *out, const char *name) {
    return tool_unsigned(out, optarg) ? TOOL_OK : tool_misuse("--%s %s: a number is wanted", name, optarg);
}

static int add_replacement(sn_compile_options *o, tool_dims *d) {
    size_t n = strlen(d->replace);
    int size = snprintf(d->replace + n, sizeof d->replace - n, "%s%s", n ? "," : "", optarg);
    if (size < 0 || n + (size_t)size >= sizeof d->replace)
        return tool_misuse("--replace-kernel: the names of the files are too long");
    o->replace_kernels = d->replace;
    return TOOL_OK;
}

int tool_compile_option(sn_compile_options *o, tool_dims *dims, int option) {
    switch (option) {
    case TOOL_OPTION_DEVICE: o->device = optarg; return TOOL_OK;
    case TOOL_OPTION_ORDINAL: return read_number(&o->ordinal, "ordinal");
    case TOOL_OPTION_DIM:
        if (tool_add_dim(dims, optarg)) return TOOL_OK;
        return tool_misuse("--dim %s: NAME=NUMBER is wanted", optarg);
    case TOOL_OPTION_THREADS: return read_number(&o->threads, "threads");
    case TOOL_OPTION_CPU_SCHEDULE: o->cpu_schedule = optarg; return TOOL_OK;
    case TOOL_OPTION_PRECISION: o->precision = optarg; return TOOL_OK;
    case TOOL_OPTION_CHOICES: o->choices = optarg; return TOOL_OK;
    case TOOL_OPTION_TUNE: o->tune = optarg ? optarg : "on"; return TOOL_OK;
    case TOOL_OPTION_RECORD_DIR: o->record_dir = optarg; return TOOL_OK;
    case TOOL_OPTION_CACHE: o->cache = optarg ? optarg : "on"; return TOOL_OK;
    case TOOL_OPTION_CACHE_SIZE: o->cache_size = optarg; return TOOL_OK;
    case TOOL_OPTION_PTXAS: o->ptxas = optarg; return TOOL_OK;
    case TOOL_OPTION_TARGET: o->target = optarg; return TOOL_OK;
    case TOOL_OPTION_VERIFY: o->verify = optarg; return TOOL_OK;
    case TOOL_OPTION_REMARKS: o->remarks = optarg; return TOOL_OK;
    case TOOL_OPTION_METRICS: o->metrics = optarg; return TOOL_OK;
    case TOOL_OPTION_METRICS_DIR: o->metrics_dir = optarg; return TOOL_OK;
    case TOOL_OPTION_METRICS_MODEL: o->metrics_model = optarg; return TOOL_OK;
    case TOOL_OPTION_REPLACE_KERNEL: return add_replacement(o, dims);
    case TOOL_OPTION_DEBUG: o->debug = optarg; return TOOL_OK;
    case TOOL_OPTION_DEBUG_KERNELS: o->debug_kernels = optarg; return TOOL_OK;
    case TOOL_OPTION_DEBUG_DIR: o->debug_dir = optarg; return TOOL_OK;
    case TOOL_OPTION_MULTI_KERNEL: o->multi_kernel = optarg; return TOOL_OK;
    case TOOL_OPTION_GRAPHS: o->graphs = optarg; return TOOL_OK;
    default: return TOOL_USAGE;
    }
}
