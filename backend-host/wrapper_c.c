/* wrapper_c.c: Wrapper IR to one self-contained C file over the CUDA driver API: kernels as PTX strings, constants as
 * bytes, and load, run, unload and workspace functions. For ahead-of-time use, and to read what a program does.
 *
 * Names of the module become C identifiers with a prefix for what they are (in_x, out_y, tmp_t, const_c, kernel_k0,
 * ptx_k0), so they meet neither keywords nor cuda.h. Must agree with the step interpreter (runtime/exec.c). Contains
 * no LLVM; stands here because the other wrapper emitter does. Weights (ir/graph/weights.h) are not in the file: it
 * has a table of their names and sizes, and the caller, who has read them, gives NAME_load where they are on the
 * device. Tensor maps are encoded for each launch, on the stack: the struct holds none, so that nothing has to be
 * aligned or locked. NAME_load also runs the prepare part, whose results are memory of the struct.
 */
#include "backend-host/wrapper_c_debug.h"

#include <ctype.h>
#include <string.h>

typedef struct writer {
    sn_text *t;
    sn_module *m;
    const sn_gpu_code *codes;      /* NULL: kernels by name only */
    const sn_wrapper_debug *debug; /* NULL: its runs say nothing */
    bool running;                  /* what is written is the run, not the prepare part */
    uint32_t calls;                /* of the run, so far */
    sn_arena scratch;
    sn_names used;            /* identifiers given out */
    const char *name;         /* of the program */
    const char **buf_name;    /* by buffer id: how C refers to it */
    uint32_t depth;           /* repeats around the step */
    uint32_t *number;         /* by kernel id: position in m->kernels */
    const char **kernel_name; /* by that number: the part after ptx_ and kernel_ */
    bool *needed;             /* by buffer id: some call or copy uses its place */
} writer;

/* ---- names ---- */

/* prefix + name as an identifier that nothing else has. */
static const char *identifier(writer *w, const char *prefix, const char *name) {
    char *id = sn_strf(&w->scratch, "%s%s", prefix, name);
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    const char *unique = id;
    for (int i = 2; sn_names_get(&w->used, unique); i++) unique = sn_strf(&w->scratch, "%s_%d", id, i);
    sn_names_put(&w->used, unique, 1);
    return unique;
}

/* The program's own name stands alone in `struct NAME`: a keyword or a leading digit gets a prefix. */
static const char *program_name(writer *w) {
    static const char *const keywords[] = {
        "auto",   "break",    "case",     "char",     "const", "continue", "default", "do",     "double",
        "else",   "enum",     "extern",   "float",    "for",   "goto",     "if",      "inline", "int",
        "long",   "register", "restrict", "return",   "short", "signed",   "sizeof",  "static", "struct",
        "switch", "typedef",  "union",    "unsigned", "void",  "volatile", "while"};
    const char *name = w->m->wrap.name ? w->m->wrap.name : "program";
    for (size_t i = 0; i < SN_COUNT(keywords); i++)
        if (strcmp(name, keywords[i]) == 0) return identifier(w, "program_", name);
    return identifier(w, isdigit((unsigned char)*name) ? "program_" : "", name);
}

static void name_buffers(writer *w) {
    static const char *const prefixes[] = {
        [SN_BUF_INPUT] = "in_",  [SN_BUF_OUTPUT] = "out_", [SN_BUF_TEMP] = "tmp_",      [SN_BUF_CONST] = "const_",
        [SN_BUF_STEP] = "step_", [SN_BUF_REG] = "reg_",    [SN_BUF_SHARED] = "shared_", [SN_BUF_POSTED] = "posted_"};
    w->buf_name = SN_NEWN(&w->scratch, const char *, w->m->bufs.count);
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        w->buf_name[i] = identifier(w, prefixes[b->scope], b->name);
    }
}

static void name_kernels(writer *w) {
    w->number = sn_kern_numbers(w->m, &w->scratch);
    w->kernel_name = SN_NEWN(&w->scratch, const char *, w->m->kernels.n);
    for (uint32_t i = 0; i < w->m->kernels.n; i++)
        w->kernel_name[i] = identifier(w, "", sn_kern_get(w->m, w->m->kernels.at[i])->name);
}

/* Is the step a `carry` of what has not been written over the state? */
static bool changes_place(const writer *w, uint32_t step) {
    const sn_step *s = &w->m->wrap.steps.at[step];
    if (s->kind != SN_STEP_CARRY) return false;
    for (uint32_t i = step; i-- > 0;) {
        const sn_step *before = &w->m->wrap.steps.at[i];
        bool placed = before->kind == SN_STEP_ALLOC || before->kind == SN_STEP_REUSE;
        if (placed && sn_buf_eq(before->buf, s->from)) return before->kind == SN_STEP_ALLOC;
    }
    return true;
}

/* Backwards through the steps: a storage is needed by calls and copies from step `first` up to `end`, and by needed
 * buffers that take it over. Without this the compiler would warn of locals that nobody reads. */
static void find_needed(writer *w, uint32_t first, uint32_t end) {
    w->needed = SN_NEWN(&w->scratch, bool, w->m->bufs.count);
    for (uint32_t i = end; i-- > 0;) {
        const sn_step *s = &w->m->wrap.steps.at[i];
        if ((s->kind == SN_STEP_REUSE || s->kind == SN_STEP_WINDOW) && w->needed[s->buf.i]) w->needed[s->from.i] = true;
        if (i < first) continue;
        if (changes_place(w, i)) w->needed[s->buf.i] = w->needed[s->from.i] = true;
        if (s->kind == SN_STEP_COPY) w->needed[s->buf.i] = w->needed[s->from.i] = true;
        if (s->kind != SN_STEP_CALL) continue;
        for (uint32_t p = 0; p < s->args.n; p++) w->needed[s->args.at[p].buf.i] = true;
    }
}

/* ---- pieces of text ---- */

/* A string literal a line, line ends escaped. */
static void put_string_lines(sn_text *t, const char *s) {
    while (*s) {
        sn_text_put(t, "    \"");
        for (; *s && *s != '\n'; s++) {
            if (*s == '"' || *s == '\\') sn_text_put(t, "\\");
            if (*s == '\t') sn_text_put(t, "\\t");
            else sn_text_putn(t, s, 1);
        }
        sn_text_put(t, *s ? "\\n\"\n" : "\"\n");
        if (*s) s++;
    }
}

/* Text of a user inside a comment: it can end neither the comment nor the line, nor seem to open another one. */
static void put_comment(sn_text *t, const char *s) {
    char before = ' ';
    for (; *s; s++) {
        char c = *s == '\n' || *s == '\r' ? ' ' : *s;
        if ((before == '*' && c == '/') || (before == '/' && c == '*')) sn_text_put(t, " ");
        sn_text_putn(t, &c, 1);
        before = c;
    }
}

static void put_shape(writer *w, const sn_buf_rec *b) {
    sn_text_printf(w->t, "%s[", sn_dtypes[b->dtype].name);
    for (uint32_t i = 0; i < b->rank; i++) {
        if (i) sn_text_put(w->t, ", ");
        sn_ix_print(w->t, w->m, b->shape[i], NULL, NULL);
    }
    sn_text_put(w->t, "]");
}

static sn_status const_bytes(int64_t *out, writer *w, const sn_buf_rec *b) {
    SN_TRY(sn_wrap_number(out, w->m, b->size, "the size", b->name));
    *out *= sn_dtype_bytes(b->dtype);
    return SN_OK;
}

/* ---- kernels and constants at file scope ---- */

static void put_kernel_texts(writer *w) {
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(w->m, w->m->kernels.at[i]);
        const char *ptx = w->codes ? w->codes[i].ptx : NULL;
        sn_text_printf(w->t, "/* Kernel %s", k->name);
        if (k->note) {
            sn_text_put(w->t, ": ");
            put_comment(w->t, k->note);
        }
        if (!ptx) {
            sn_text_printf(w->t, ". Its PTX is not embedded here. */\nextern const char ptx_%s[];\n\n",
                           w->kernel_name[i]);
            continue;
        }
        sn_text_printf(w->t, " */\nstatic const char ptx_%s[] =\n", w->kernel_name[i]);
        put_string_lines(w->t, *ptx ? ptx : "\n");
        sn_text_put(w->t, "    ;\n\n");
    }
}

/* A const buffer whose elements the file holds; the caller has those of weights. */
static bool is_literal(const writer *w, uint32_t buf) {
    const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){buf});
    return b->scope == SN_BUF_CONST && !b->weight.i;
}

static bool is_weight(const writer *w, uint32_t buf) { return sn_buf_get(w->m, (sn_buf){buf})->weight.i != 0; }

static bool has_weights(const writer *w) {
    for (uint32_t i = 1; i < w->m->bufs.count; i++)
        if (is_weight(w, i)) return true;
    return false;
}

static sn_status put_const_data(writer *w, sn_buf buf) {
    enum { PER_LINE = 16 };
    const sn_buf_rec *b = sn_buf_get(w->m, buf);
    int64_t bytes;
    SN_TRY(const_bytes(&bytes, w, b));
    if (!bytes) return SN_OK;
    sn_text_printf(w->t, "/* Constant %s: ", b->name);
    put_shape(w, b);
    sn_text_printf(w->t, " */\nstatic const unsigned char data_%s[%lld] = {", w->buf_name[buf.i], (long long)bytes);
    for (int64_t i = 0; i < bytes; i++)
        sn_text_printf(w->t, "%s%d,", i % PER_LINE ? " " : "\n    ", ((const unsigned char *)b->data)[i]);
    sn_text_put(w->t, "\n};\n\n");
    return SN_OK;
}

static bool is_const(const writer *w, uint32_t buf) { return sn_buf_get(w->m, (sn_buf){buf})->scope == SN_BUF_CONST; }

static sn_status put_constants(writer *w) {
    for (uint32_t i = 1; i < w->m->bufs.count; i++)
        if (is_literal(w, i)) SN_TRY(put_const_data(w, (sn_buf){i}));
    return SN_OK;
}

/* struct f_weight {...};  const struct f_weight f_weights[] = {{"conv1.weight", 37632}}; */
static sn_status put_weights(writer *w) {
    const char *n = w->name;
    if (!has_weights(w)) return SN_OK;
    sn_text_printf(w->t, "struct %s_weight {\n    const char *name;\n    size_t size;\n};\n\n", n);
    sn_text_printf(w->t, "const struct %s_weight %s_weights[] = {\n", n, n);
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        if (!is_weight(w, i)) continue;
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        int64_t bytes;
        SN_TRY(const_bytes(&bytes, w, b));
        sn_text_put(w->t, "    {");
        sn_text_quoted(w->t, sn_wt_get(w->m, b->weight)->name);
        sn_text_printf(w->t, ", %lld},   /* ", (long long)bytes);
        put_shape(w, b);
        sn_text_put(w->t, " */\n");
    }
    sn_text_put(w->t, "};\n\n");
    return SN_OK;
}

static void put_load_signature(writer *w, const char *function) {
    sn_text_printf(w->t, "%s(struct %s *self%s)", function, w->name,
                   has_weights(w) ? ", const CUdeviceptr *weights" : "");
}

/* Memory that a kernel keeps between runs; 0: none. */
static uint64_t kept_bytes(const writer *w, uint32_t kernel) { return w->codes ? w->codes[kernel].kept_bytes : 0; }

static void put_struct(writer *w) {
    uint32_t n = w->m->kernels.n;
    sn_text_printf(w->t, "struct %s {\n    CUmodule modules[%u];\n", w->name, n ? n : 1);
    for (uint32_t i = 0; i < n; i++) sn_text_printf(w->t, "    CUfunction kernel_%s;\n", w->kernel_name[i]);
    for (uint32_t i = 1; i < w->m->bufs.count; i++)
        if (is_const(w, i)) sn_text_printf(w->t, "    CUdeviceptr %s;\n", w->buf_name[i]);
    for (uint32_t i = 0; i < n; i++)
        if (kept_bytes(w, i)) sn_text_printf(w->t, "    CUdeviceptr kept_%s;\n", w->kernel_name[i]);
    if (w->m->wrap.n_prepare) sn_text_put(w->t, "    CUdeviceptr prepared;\n");
    sn_text_put(w->t, "};\n\n");
}

/* ---- load, unload, workspace ---- */

static void put_unload(writer *w) {
    sn_text_printf(w->t, "void %s_unload(struct %s *self) {\n", w->name, w->name);
    for (uint32_t i = 0; i < w->m->kernels.n; i++)
        sn_text_printf(w->t, "    if (self->modules[%u]) cuModuleUnload(self->modules[%u]);\n", i, i);
    for (uint32_t i = 1; i < w->m->bufs.count; i++)
        if (is_literal(w, i))
            sn_text_printf(w->t, "    if (self->%s) cuMemFree(self->%s);\n", w->buf_name[i], w->buf_name[i]);
    for (uint32_t i = 0; i < w->m->kernels.n; i++)
        if (kept_bytes(w, i))
            sn_text_printf(w->t, "    if (self->kept_%s) cuMemFree(self->kept_%s);\n", w->kernel_name[i],
                           w->kernel_name[i]);
    if (w->m->wrap.n_prepare) sn_text_put(w->t, "    if (self->prepared) cuMemFree(self->prepared);\n");
    sn_text_printf(w->t, "    *self = (struct %s){0};\n}\n\n", w->name);
}

static void put_try(writer *w, const char *indent, const char *call) {
    sn_text_printf(w->t, "%sresult = %s;\n%sif (result != CUDA_SUCCESS) return result;\n", indent, call, indent);
}

static sn_status put_load_consts(writer *w) {
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        if (!is_literal(w, i)) continue;
        const char *name = w->buf_name[i];
        int64_t bytes;
        SN_TRY(const_bytes(&bytes, w, sn_buf_get(w->m, (sn_buf){i})));
        if (!bytes) continue;
        put_try(w, "    ", sn_strf(&w->scratch, "cuMemAlloc(&self->%s, %lld)", name, (long long)bytes));
        put_try(w, "    ", sn_strf(&w->scratch, "cuMemcpyHtoD(self->%s, data_%s, %lld)", name, name, (long long)bytes));
    }
    return SN_OK;
}

/* Zero before the first run. */
static void put_load_kept(writer *w) {
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        const char *name = w->kernel_name[i];
        unsigned long long bytes = kept_bytes(w, i);
        if (!bytes) continue;
        put_try(w, "    ", sn_strf(&w->scratch, "cuMemAlloc(&self->kept_%s, %llu)", name, bytes));
        put_try(w, "    ", sn_strf(&w->scratch, "cuMemsetD8(self->kept_%s, 0, %llu)", name, bytes));
    }
}

static sn_status put_load_prepared(writer *w) {
    int64_t bytes;
    if (!w->m->wrap.n_prepare) return SN_OK;
    SN_TRY(sn_wrap_number(&bytes, w->m, w->m->wrap.prepared, "the prepared memory", "the wrapper"));
    if (bytes) put_try(w, "    ", sn_strf(&w->scratch, "cuMemAlloc(&self->prepared, %lld)", (long long)bytes));
    put_try(w, "    ", "prepare_parts(self)");
    return SN_OK;
}

/* In the order of the table. Kernels take it for granted that they are aligned. */
static void put_take_weights(writer *w) {
    uint32_t number = 0;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        if (!is_weight(w, i)) continue;
        sn_text_printf(w->t, "    if (weights[%u] %% %u) return CUDA_ERROR_INVALID_VALUE;\n", number,
                       sn_buf_get(w->m, (sn_buf){i})->align);
        sn_text_printf(w->t, "    self->%s = weights[%u];\n", w->buf_name[i], number++);
    }
}

static sn_status put_load(writer *w) {
    const char *weights = has_weights(w) ? ", weights" : "";
    put_load_signature(w, "static CUresult load_parts");
    sn_text_put(w->t, " {\n    CUresult result = CUDA_SUCCESS;\n");
    sn_text_printf(w->t, "    *self = (struct %s){0};\n", w->name);
    put_take_weights(w);
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        const char *c_name = w->kernel_name[i], *name = sn_kern_get(w->m, w->m->kernels.at[i])->name;
        put_try(w, "    ", sn_strf(&w->scratch, "cuModuleLoadData(&self->modules[%u], ptx_%s)", i, c_name));
        put_try(
            w, "    ",
            sn_strf(&w->scratch, "cuModuleGetFunction(&self->kernel_%s, self->modules[%u], \"%s\")", c_name, i, name));
        if (w->codes && w->codes[i].cluster > 8)
            put_try(
                w, "    ",
                sn_strf(&w->scratch,
                        "cuFuncSetAttribute(self->kernel_%s, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)",
                        c_name));
        if (w->codes && w->codes[i].shared_bytes)
            put_try(w, "    ",
                    sn_strf(&w->scratch,
                            "cuFuncSetAttribute(self->kernel_%s, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, %u)",
                            c_name, w->codes[i].shared_bytes));
    }
    SN_TRY(put_load_consts(w));
    put_load_kept(w);
    SN_TRY(put_load_prepared(w));
    sn_text_put(w->t, "    return result;\n}\n\n");
    put_load_signature(w, sn_strf(&w->scratch, "int %s_load", w->name));
    sn_text_printf(w->t, " {\n    CUresult result = load_parts(self%s);\n", weights);
    sn_text_printf(w->t, "    if (result != CUDA_SUCCESS) %s_unload(self);\n    return result;\n}\n\n", w->name);
    return SN_OK;
}

static sn_status put_workspace(writer *w) {
    int64_t bytes;
    SN_TRY(sn_wrap_number(&bytes, w->m, w->m->wrap.workspace, "the workspace", "the wrapper"));
    sn_text_printf(w->t, "size_t %s_workspace(void) { return %lld; }\n\n", w->name, (long long)bytes);
    return SN_OK;
}

/* ---- run ---- */

static uint32_t count_ios(const writer *w, sn_buf_scope scope) {
    uint32_t n = scope == SN_BUF_INPUT ? w->m->graph.inputs.n : w->m->graph.outputs.n;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        if (b->scope == scope && b->io >= n) n = b->io + 1;
    }
    return n;
}

/* The parameter of graph input or output `io`; one that no buffer stands for still keeps its place in the list. */
static const char *io_name(writer *w, sn_buf_scope scope, uint32_t io) {
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        if (b->scope == scope && b->io == io) return w->buf_name[i];
    }
    return sn_strf(&w->scratch, "unused_%s_%u", scope == SN_BUF_INPUT ? "input" : "output", io);
}

static void put_run_signature(writer *w) {
    static const sn_buf_scope scopes[] = {SN_BUF_INPUT, SN_BUF_OUTPUT};
    sn_text_printf(w->t, "int %s_run(struct %s *self", w->name, w->name);
    for (size_t k = 0; k < SN_COUNT(scopes); k++)
        for (uint32_t io = 0, n = count_ios(w, scopes[k]); io < n; io++)
            sn_text_printf(w->t, ",\n    CUdeviceptr %s", io_name(w, scopes[k], io));
    sn_text_put(w->t, ",\n    CUdeviceptr workspace, CUstream stream)");
}

/* What stands for the buffer in an expression. */
static const char *place(writer *w, sn_buf buf) {
    return sn_strf(&w->scratch, "%s%s", is_const(w, buf.i) ? "self->" : "", w->buf_name[buf.i]);
}

static void put_check(writer *w, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(w->m, buf);
    const char *name = w->buf_name[buf.i];
    int64_t elements = 0;
    bool null_is_bad = sn_ix_is_const(w->m, b->size, &elements) && elements;
    if (!null_is_bad && b->align <= 1) return;
    sn_text_printf(w->t, "    if (");
    if (null_is_bad) sn_text_printf(w->t, "!%s", name);
    if (b->align > 1) sn_text_printf(w->t, "%s%s %% %u", null_is_bad ? " || " : "", name, b->align);
    sn_text_put(w->t, ") return CUDA_ERROR_INVALID_VALUE;   /* ");
    put_shape(w, b);
    sn_text_put(w->t, " */\n");
}

static sn_status put_alloc(writer *w, const sn_step *s, const char *memory) {
    const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
    int64_t offset;
    SN_TRY(sn_wrap_number(&offset, w->m, s->offset, "the offset", b->name));
    if (!w->needed[s->buf.i]) return SN_OK;
    sn_text_printf(w->t, "    CUdeviceptr %s = %s + %lld;   /* ", w->buf_name[s->buf.i], memory, (long long)offset);
    put_shape(w, b);
    sn_text_put(w->t, " */\n");
    return SN_OK;
}

static sn_status launch_size(sn_gpu_code *out, writer *w, uint32_t kernel) {
    if (w->codes) {
        *out = w->codes[kernel];
        return SN_OK;
    }
    sn_launch launch = sn_kern_launch(w->m, w->m->kernels.at[kernel]);
    bool param_block = sn_kern_segments(w->m, w->m->kernels.at[kernel]) > 1;
    *out = (sn_gpu_code){.block_x = launch.block_x, .block_y = launch.block_y, .param_block = param_block};
    return sn_wrap_number(&out->grid, w->m, launch.grid, "the grid", sn_kern_get(w->m, w->m->kernels.at[kernel])->name);
}

static const char *moved(writer *w, const sn_arg *a) {
    long long bytes = (long long)a->offset * sn_dtype_bytes(sn_buf_get(w->m, a->buf)->dtype);
    return bytes ? sn_strf(&w->scratch, "%s + %lld", place(w, a->buf), bytes) : place(w, a->buf);
}

static void put_numbers(writer *w, const char *type, const int64_t *numbers, uint32_t n) {
    sn_text_printf(w->t, ", (%s[]){", type);
    for (uint32_t i = 0; i < n; i++) sn_text_printf(w->t, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    sn_text_put(w->t, n ? "}" : "0}");
}

/* As runtime/tensor_map.c does it. */
static void put_map(writer *w, uint32_t number, const sn_tensor_map *map, const sn_arg *argument) {
    int64_t steps[SN_MAP_RANK] = {1, 1, 1, 1, 1}, box[SN_MAP_RANK], low[SN_MAP_RANK], high[SN_MAP_RANK];
    uint32_t walked = map->pixels ? map->rank - 2 : 0;
    for (uint32_t i = 0; i < map->rank; i++) box[i] = map->box[i];
    for (uint32_t i = 0; i < walked; i++) low[i] = map->low[i], high[i] = map->high[i], steps[1 + i] = map->steps[i];
    sn_text_printf(w->t, "        CUtensorMap map%u;\n        result = cuTensorMapEncode%s(\n", number,
                   map->pixels ? "Im2col" : "Tiled");
    sn_text_printf(w->t, "            &map%u, CU_TENSOR_MAP_DATA_TYPE_", number);
    if (map->tf32) sn_text_put(w->t, "TFLOAT32");
    else sn_text_printf(w->t, "UINT%u", 8 * sn_dtype_bytes(map->dtype));
    sn_text_printf(w->t, ", %u, (void *)(%s", map->rank, moved(w, argument));
    if (map->offset) sn_text_printf(w->t, " + %lld", (long long)map->offset);
    sn_text_put(w->t, ")");
    put_numbers(w, "cuuint64_t", map->dims, map->rank);
    put_numbers(w, "cuuint64_t", map->strides, map->rank - 1);
    if (walked) {
        put_numbers(w, "int", low, walked);
        put_numbers(w, "int", high, walked);
        sn_text_printf(w->t, ", %u, %u", map->box[0], map->box[1]);
    } else {
        put_numbers(w, "cuuint32_t", box, map->rank);
    }
    put_numbers(w, "cuuint32_t", steps, map->rank);
    sn_text_put(w->t, ",\n            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_");
    if (map->swizzle) sn_text_printf(w->t, "%uB", map->swizzle);
    else sn_text_put(w->t, "NONE");
    sn_text_put(w->t, ", CU_TENSOR_MAP_L2_PROMOTION_L2_128B,\n            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
                      "        if (result != CUDA_SUCCESS) return result;\n");
}

/* What cuLaunchKernel reads: the address of each pointer, or of the one array that holds them all; of kept memory; of
 * tensor maps. */
static void put_args(writer *w, uint32_t kernel, const sn_arg_list *args, bool block) {
    uint32_t n_maps = w->codes ? w->codes[kernel].n_maps : 0;
    if (!args->n && !kept_bytes(w, kernel)) return;
    for (uint32_t i = 0; i < n_maps; i++) {
        const sn_tensor_map *map = &w->codes[kernel].maps[i];
        put_map(w, i, map, &args->at[map->param]);
    }
    for (uint32_t i = 0; i < args->n && !block; i++)
        if (args->at[i].offset) sn_text_printf(w->t, "        CUdeviceptr arg%u = %s;\n", i, moved(w, &args->at[i]));
    sn_text_put(w->t, block ? "        CUdeviceptr block[] = {" : "        void *params[] = {");
    for (uint32_t i = 0; i < args->n; i++) {
        const sn_arg *a = &args->at[i];
        if (i) sn_text_put(w->t, ", ");
        if (block) sn_text_put(w->t, moved(w, a));
        else if (a->offset) sn_text_printf(w->t, "&arg%u", i);
        else sn_text_printf(w->t, "&%s", place(w, a->buf));
    }
    if (block) sn_text_put(w->t, "};   /* one parameter, by value */\n        void *params[] = {block");
    if (kept_bytes(w, kernel)) sn_text_printf(w->t, "%s&self->kept_%s", args->n ? ", " : "", w->kernel_name[kernel]);
    for (uint32_t i = 0; i < n_maps; i++) sn_text_printf(w->t, ", &map%u", i);
    sn_text_put(w->t, "};\n");
}

/* What a kernel is about to read, or has written. */
static void put_shown(writer *w, const sn_step *s, uint32_t call, bool written) {
    const sn_kern_rec *k = sn_kern_get(w->m, s->kern);
    for (uint32_t i = 0; i < s->args.n; i++) {
        const sn_buf_rec *formal = sn_buf_get(w->m, k->params.at[i]);
        bool is_shown = formal->role == SN_ROLE_INOUT || formal->role == (written ? SN_ROLE_OUT : SN_ROLE_IN);
        if (!is_shown) continue;
        sn_wrapper_debug_arg a = {call,
                                  k->name,
                                  k->note ? k->note : "",
                                  sn_buf_get(w->m, s->args.at[i].buf)->name,
                                  moved(w, &s->args.at[i]),
                                  k->params.at[i],
                                  written};
        sn_wrapper_debug_argument(w->t, w->m, &a);
    }
}

/* Around the launch of a kernel that somebody looks at. */
static void put_debug(writer *w, const sn_step *s, uint32_t call, bool behind) {
    const sn_wrapper_debug *d = w->debug;
    const sn_kern_rec *k = sn_kern_get(w->m, s->kern);
    if (!d || !d->kernels[w->number[s->kern.i]] || call == UINT32_MAX) return;
    if (!behind) sn_wrapper_debug_call(w->t, d, call, k->name, k->note ? k->note : "");
    if (sn_wrapper_debug_looks(d)) put_shown(w, s, call, behind);
    if (behind && d->names) put_try(w, "        ", "cuStreamSynchronize(stream)");
}

/* call: its number in the run; UINT32_MAX: it is none of the run. */
static sn_status put_call(writer *w, const sn_step *s, uint32_t call) {
    uint32_t number = w->number[s->kern.i];
    sn_gpu_code size;
    SN_TRY(launch_size(&size, w, number));
    if (!size.grid) return SN_OK;
    sn_text_put(w->t, "    {\n");
    put_debug(w, s, call, false);
    put_args(w, number, &s->args, size.param_block);
    put_try(w, "        ",
            sn_strf(&w->scratch, "cuLaunch%sKernel(self->kernel_%s, %lld, 1, 1, %u, %u, 1, %u, stream, %s%s)",
                    size.together ? "Cooperative" : "", w->kernel_name[number], (long long)size.grid, size.block_x,
                    size.block_y, size.shared_bytes, s->args.n || size.kept_bytes ? "params" : "NULL",
                    size.together ? "" : ", NULL"));
    put_debug(w, s, call, true);
    sn_text_put(w->t, "    }\n");
    return SN_OK;
}

static sn_status put_copy(writer *w, const sn_step *s) {
    int64_t size;
    SN_TRY(sn_wrap_number(&size, w->m, s->size, "the size", sn_buf_get(w->m, s->buf)->name));
    if (!size) return SN_OK;
    put_try(w, "    ",
            sn_strf(&w->scratch, "cuMemcpyDtoDAsync(%s, %s, %lld, stream)", place(w, s->buf), place(w, s->from),
                    (long long)size));
    return SN_OK;
}

static sn_status put_repeat(writer *w, const sn_step *s) {
    int64_t trip;
    SN_TRY(sn_wrap_number(&trip, w->m, s->size, "the number of steps", "a repeat"));
    sn_text_printf(w->t, "    for (long long t%u = 0; t%u < %lld; t%u++) {\n", w->depth, w->depth, (long long)trip,
                   w->depth);
    w->depth++;
    return SN_OK;
}

/* Addresses count modulo 2^64: a negative distance is a large one. */
static sn_status put_window(writer *w, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
    int64_t first, by = 0;
    if (!w->needed[s->buf.i]) return SN_OK;
    SN_TRY(sn_wrap_number(&first, w->m, s->offset, "the offset", b->name));
    if (!sn_ix_is_const(w->m, s->size, &by)) SN_TRY(sn_wrap_number(&by, w->m, s->size, "the distance", b->name));
    sn_text_printf(w->t, "    CUdeviceptr %s = %s + (CUdeviceptr)(%lld + %lld * t%u);   /* ", w->buf_name[s->buf.i],
                   place(w, s->from), (long long)first, (long long)by, w->depth - 1);
    put_shape(w, b);
    sn_text_put(w->t, " */\n");
    return SN_OK;
}

/* memory: what the offsets of `alloc` count from. */
static sn_status put_step(writer *w, const sn_step *s, const char *memory) {
    switch (s->kind) {
    case SN_STEP_CHECK: put_check(w, s->buf); return SN_OK;
    case SN_STEP_ALLOC: return put_alloc(w, s, memory);
    case SN_STEP_REUSE:
        if (w->needed[s->buf.i])
            sn_text_printf(w->t, "    CUdeviceptr %s = %s;\n", w->buf_name[s->buf.i], place(w, s->from));
        return SN_OK;
    case SN_STEP_CALL: return put_call(w, s, w->running ? w->calls++ : UINT32_MAX);
    case SN_STEP_COPY: return put_copy(w, s);
    case SN_STEP_COMMENT:
        sn_text_put(w->t, "    /* ");
        put_comment(w->t, s->text);
        sn_text_put(w->t, " */\n");
        return SN_OK;
    case SN_STEP_REPEAT: return put_repeat(w, s);
    case SN_STEP_WINDOW: return put_window(w, s);
    case SN_STEP_CARRY:
        if (!changes_place(w, (uint32_t)(s - w->m->wrap.steps.at))) return SN_OK;
        sn_text_printf(w->t, "    {\n        CUdeviceptr was = %s;\n", place(w, s->buf));
        sn_text_printf(w->t, "        %s = %s;\n", place(w, s->buf), place(w, s->from));
        sn_text_printf(w->t, "        %s = was;\n    }\n", place(w, s->from));
        return SN_OK;
    case SN_STEP_END:
        w->depth--;
        sn_text_put(w->t, "    }\n");
        return SN_OK;
    case SN_STEP_FREE:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

/* Of the prepare part a run wants to know where its results are. */
static bool says_a_place(const sn_step *s) { return s->kind == SN_STEP_ALLOC || s->kind == SN_STEP_REUSE; }

static sn_status put_run(writer *w) {
    const sn_wrap *wrap = &w->m->wrap;
    find_needed(w, wrap->n_prepare, wrap->steps.n);
    put_run_signature(w);
    w->running = true;
    sn_text_put(w->t, " {\n    CUresult result = CUDA_SUCCESS;\n");
    for (uint32_t i = 0; i < wrap->n_prepare; i++)
        if (says_a_place(&wrap->steps.at[i])) SN_TRY(put_step(w, &wrap->steps.at[i], "self->prepared"));
    for (uint32_t i = wrap->n_prepare; i < wrap->steps.n; i++) SN_TRY(put_step(w, &wrap->steps.at[i], "workspace"));
    sn_text_put(w->t, "    return result;\n}\n");
    return SN_OK;
}

/* What depends on constants alone. */
static sn_status put_prepare(writer *w) {
    const sn_wrap *wrap = &w->m->wrap;
    if (!wrap->n_prepare) return SN_OK;
    find_needed(w, 0, wrap->n_prepare);
    sn_text_printf(w->t, "static CUresult prepare_parts(struct %s *self) {\n", w->name);
    sn_text_put(w->t, "    CUresult result = CUDA_SUCCESS;\n    CUstream stream = NULL;\n");
    for (uint32_t i = 0; i < wrap->n_prepare; i++) SN_TRY(put_step(w, &wrap->steps.at[i], "self->prepared"));
    put_try(w, "    ", "cuStreamSynchronize(stream)");
    sn_text_put(w->t, "    return result;\n}\n\n");
    return SN_OK;
}

/* ---- the file ---- */

static void put_head(writer *w) {
    const char *n = w->name;
    sn_text_printf(w->t,
                   "/* %s, compiled by Sinter: calls of the CUDA driver API, kernels and constants included.\n *\n", n);
    sn_text_printf(w->t, " *   %s_load       once, with the CUDA context current that will run it\n", n);
    if (has_weights(w))
        sn_text_printf(
            w->t,
            " *                weights: device memory (256-aligned) that stays the caller's, in the order of "
            "%s_weights\n",
            n);
    if (has_weights(w) && w->m->wrap.n_prepare)
        sn_text_put(w->t,
                    " *                it reads them and waits for that: they hold their elements before, and what is "
                    "written to\n *                them later has no effect\n");
    sn_text_printf(
        w->t,
        " *   %s_run        inputs, outputs, %s_workspace() bytes of device memory (256-aligned); asynchronous;\n"
        " *                one run of a struct at a time: kernels keep memory in it\n",
        n, n);
    sn_text_printf(w->t, " *   %s_unload     at the end\n", n);
    sn_text_put(
        w->t,
        " *\n * Results are CUresult numbers, 0 is success. Compile with cuda.h in the include path, link with -lcuda.\n */\n");
    sn_text_put(w->t, "#include <cuda.h>\n#include <stddef.h>\n\n");
    if (w->debug) sn_wrapper_debug_head(w->t, w->debug);
    put_struct(w);
    put_load_signature(w, sn_strf(&w->scratch, "int %s_load", n));
    sn_text_printf(w->t, ";\nvoid %s_unload(struct %s *self);\nsize_t %s_workspace(void);\n", n, n, n);
    put_run_signature(w);
    sn_text_put(w->t, ";\n\n");
}

static sn_status put_file(writer *w) {
    put_head(w);
    put_kernel_texts(w);
    SN_TRY(put_constants(w));
    SN_TRY(put_weights(w));
    put_unload(w);
    SN_TRY(put_prepare(w));
    SN_TRY(put_load(w));
    SN_TRY(put_workspace(w));
    return put_run(w);
}

sn_status sn_wrapper_c(sn_text *out, sn_module *m, const sn_gpu_code *codes, const sn_wrapper_debug *debug) {
    if (!m->wrap.steps.n)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "the module has no wrapper: run the pass plan first");
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
        if (sn_kern_is_library(k))
            return sn_fail(m->env, SN_ERROR_ARGUMENT,
                           "kernel %s: a library runs it, and C source calls none; emit it from the graph", k->name);
    }
    writer w = {.t = out, .m = m, .codes = codes, .debug = debug};
    sn_arena_init(&w.scratch, m->env);
    sn_names_init(&w.used, &w.scratch);
    sn_names_put(&w.used, "debug_number", 1);
    sn_names_put(&w.used, "debug_show", 1);
    w.name = program_name(&w);
    name_buffers(&w);
    name_kernels(&w);
    sn_status status = put_file(&w);
    sn_arena_free(&w.scratch);
    return status;
}
