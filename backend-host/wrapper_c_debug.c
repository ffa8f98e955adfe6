/* wrapper_c_debug.c: what wrapper_c.c writes into a program that shall say what it does (option `debug`): a function that prints and saves
 * an argument, and its calls around each launch.
 *
 *     if (debug_show(0, "k0", "sum", "reads", "x", "f32", 'f', 4, "<f4", "12, ", 12, in_x, stream)) return CUDA_ERROR_ASSERT;
 *     result = cuLaunchKernel(..);
 *     ..
 *     if (debug_show(0, "k0", "sum", "writes", "s", ..)) return CUDA_ERROR_ASSERT;
 *
 * Lines go to standard error, with the words of runtime/debug.c; what is bad in an output before its first write is not looked at,
 * so that stop-at-nan here takes what a kernel leaves alone for its own. Files go to the folder of the process unless the text
 * names one. nvtx is of the runtime alone. Nothing of this stands in a program without debugging.
 */
#include "backend-host/wrapper_c_debug.h"

#include <string.h>

static const char head[] =
    "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
    "/* Element k: kind 'f' and 'b' (bf16) are floats, 'i' and 'u' integers. */\n"
    "static double debug_number(const unsigned char *data, size_t k, char kind, int bytes) {\n"
    "    const unsigned char *at = data + k * (size_t)bytes;\n"
    "    uint64_t bits = 0;\n"
    "    memcpy(&bits, at, (size_t)bytes);\n"
    "    if (kind == 'u') return (double)bits;\n"
    "    if (kind == 'i') return (double)((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));\n"
    "    if (bytes == 8) {\n        double x;\n        memcpy(&x, at, sizeof x);\n        return x;\n    }\n"
    "    if (kind == 'b' || bytes == 4) {\n        uint32_t w = (uint32_t)(kind == 'b' ? bits << 16 : bits);\n"
    "        float x;\n        memcpy(&x, &w, sizeof x);\n        return x;\n    }\n"
    "    int exponent = (int)(bits >> 10 & 31), low = (int)(bits & 1023);\n"
    "    double x = exponent == 31 ? (low ? NAN : INFINITY)\n"
    "             : exponent ? ldexp(1024 + low, exponent - 25) : ldexp(low, -24);\n"
    "    return bits >> 15 ? -x : x;\n"
    "}\n\n";

static const char show_begin[] =
    "/* One line about an argument; is it one that the run stops at? */\n"
    "static int debug_show(int call, const char *kernel, const char *made_of, const char *role, const char *buffer,\n"
    "                      const char *dtype, char kind, int bytes, const char *npy, const char *shape, size_t n,\n"
    "                      CUdeviceptr from, CUstream stream) {\n"
    "    unsigned char *data = malloc(n * (size_t)bytes + 1);\n"
    "    size_t nans = 0, infinities = 0, finite = 0;\n"
    "    double least = 0, most = 0, mean = 0, squares = 0;\n"
    "    if (!data) return 1;\n"
    "    if (cuStreamSynchronize(stream) != CUDA_SUCCESS ||\n"
    "        (n && cuMemcpyDtoH(data, from, n * (size_t)bytes) != CUDA_SUCCESS)) {\n"
    "        fprintf(stderr, \"%d %s (%s): the device has failed\\n\", call, kernel, made_of);\n"
    "        free(data);\n        return 1;\n    }\n"
    "    for (size_t k = 0; k < n; k++) {\n"
    "        double x = debug_number(data, k, kind, bytes), off = x - mean;\n"
    "        nans += isnan(x) != 0;\n        infinities += isinf(x) != 0;\n        if (!isfinite(x)) continue;\n"
    "        least = finite && least < x ? least : x;\n        most = finite && most > x ? most : x;\n"
    "        mean += off / (double)++finite;\n        squares += off * (x - mean);\n    }\n";

static const char show_print[] =
    "    fprintf(stderr, \"%d %s (%s) %s %s: %s[%s] %zu elements least %.6g most %.6g mean %.6g deviation %.6g\", call,\n"
    "            kernel, made_of, role, buffer, dtype, shape, n, least, most, mean,\n"
    "            finite ? sqrt(squares / (double)finite) : 0);\n"
    "    if (nans) fprintf(stderr, \", %zu nan\", nans);\n"
    "    if (infinities) fprintf(stderr, \", %zu infinite\", infinities);\n"
    "    fprintf(stderr, \":\");\n"
    "    for (size_t k = 0; k < n; k++) {\n"
    "        if (n <= 64 || k < 4 || k >= n - 4) fprintf(stderr, \" %.9g\", debug_number(data, k, kind, bytes));\n"
    "        else if (k == 4) fprintf(stderr, \" ...\");\n    }\n"
    "    fprintf(stderr, \"\\n\");\n";

/* %s: the folder, as C source. */
static const char show_save[] =
    "    char path[4096], text[512];\n"
    "    static int warned;\n"
    "    snprintf(path, sizeof path, \"%%s/%%03d_%%s_%%s_%%s.npy\", %s, call, kernel, role, buffer);\n"
    "    int size = snprintf(text, sizeof text, \"{'descr': '%%s', 'fortran_order': False, 'shape': (%%s%%s), }\", npy, shape,\n"
    "                        *shape && !strchr(shape, ',') ? \",\" : \"\");\n"
    "    while ((size + 11) %% 64 && size < 500) text[size++] = ' ';\n"
    "    text[size++] = '\\n';\n"
    "    const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)size, (unsigned char)(size >> 8)};\n"
    "    FILE *file = fopen(path, \"wb\");\n"
    "    int good = file && fwrite(magic, 1, 10, file) == 10 && fwrite(text, 1, (size_t)size, file) == (size_t)size &&\n"
    "               fwrite(data, (size_t)bytes, n, file) == n;\n"
    "    if (file && fclose(file)) good = 0;\n"
    "    if (!good && !warned++) fprintf(stderr, \"debug: %%s: cannot be written\\n\", path);\n";

static const char show_end[] = "    free(data);\n";

static const char *const bad_text[] = {"0", "nans", "nans || infinities"};

void sn_wrapper_debug_head(sn_text *t, const sn_wrapper_debug *d) {
    if (!sn_wrapper_debug_looks(d)) {
        sn_text_put(t, "#include <stdio.h>\n\n");
        return;
    }
    sn_text_put(t, head);
    sn_text_put(t, show_begin);
    if (d->print) sn_text_put(t, show_print);
    if (d->save) {
        sn_text folder;
        sn_text_init(&folder, t->env);
        sn_text_quoted(&folder, d->dir);
        sn_text_printf(t, show_save, folder.s);
        sn_text_free(&folder);
    }
    sn_text_put(t, show_end);
    const char *bad = bad_text[d->stop_at_infinity ? 2 : d->stop_at_nan];
    if (*bad != '0') {
        sn_text_printf(t, "    if (*role != 'w' || !(%s)) return 0;\n", bad);
        sn_text_put(t, "    fprintf(stderr, \"kernel %s (%s) writes %s to %s\\n\", kernel, made_of,\n"
                       "            nans ? \"nan\" : \"an infinity\", buffer);\n    return 1;\n}\n\n");
        return;
    }
    if (!d->print)
        sn_text_put(
            t,
            "    (void)made_of, (void)dtype, (void)least, (void)most, (void)squares, (void)nans, (void)infinities;\n");
    sn_text_put(t, "    return 0;\n}\n\n");
}

void sn_wrapper_debug_call(sn_text *t, const sn_wrapper_debug *d, uint32_t call, const char *kernel, const char *note) {
    if (!d->names) return;
    sn_text line;
    sn_text_init(&line, t->env);
    sn_text_printf(&line, "%u %s (%s)\n", call, kernel, note);
    sn_text_put(t, "        fputs(");
    sn_text_quoted(t, line.s);
    sn_text_put(t, ", stderr);\n");
    sn_text_free(&line);
}

static char kind_of(sn_dtype dtype) {
    if (dtype == SN_BF16) return 'b';
    return sn_is_float(dtype) ? 'f' : sn_is_unsigned(dtype) ? 'u' : 'i';
}

void sn_wrapper_debug_argument(sn_text *t, const sn_module *m, const sn_wrapper_debug_arg *a) {
    const sn_buf_rec *b = sn_buf_get(m, a->formal);
    const char *npy = sn_dtypes[b->dtype].npy;
    sn_text_printf(t, "        if (debug_show(%u, ", a->call);
    sn_text_quoted(t, a->kernel);
    sn_text_put(t, ", ");
    sn_text_quoted(t, a->note);
    sn_text_printf(t, ", \"%s\", ", a->written ? "writes" : "reads");
    sn_text_quoted(t, a->buffer);
    sn_text_printf(t, ",\n                       \"%s\", '%c', %u, \"%s\", \"", sn_dtypes[b->dtype].name,
                   kind_of(b->dtype), sn_dtype_bytes(b->dtype), *npy ? npy : "<u2");
    int64_t numel = 0, all = 1;
    sn_ix_is_const(m, b->size, &numel);
    for (uint32_t k = 0; k < b->rank; k++) all *= sn_ix_value(m, b->shape[k]);
    for (uint32_t k = 0; k < b->rank && all == numel; k++)
        sn_text_printf(t, "%s%lld", k ? ", " : "", (long long)sn_ix_value(m, b->shape[k]));
    if (all != numel) sn_text_printf(t, "%lld", (long long)numel);
    sn_text_printf(t, "\", %lld, %s, stream)) return CUDA_ERROR_ASSERT;\n", (long long)numel, a->place);
}
