/* source.c: a program as C source without a library: everything around the steps of its wrapper.
 *
 *     f.h    struct f; f_create, f_run, f_destroy, f_error, with the shapes of inputs and outputs
 *     f.c    includes, sizes, kernels and constants as data; texts of backend-host/source/; the steps (wrapper_c.c)
 *     f.bin  constants, where they are too large for C: mapped by f_create
 *
 * Kernels of a GPU are PTX strings, with the cubin beside where there is one. Those of the CPU are the code of an image (link.c) as
 * bytes of assembly inside the C file: one file for any C compiler, symbols that a debugger finds, and no memory that is written and then
 * executed; the very bytes that an image has. Where the image has slots for functions of the C library, the assembly jumps there by
 * name, and the linker fills it in. Texts that do not depend on the program are files of their own, in which $ stands for its name.
 * Names of the module become C identifiers with a prefix for what they are (in_x, out_y, tmp_t). One block of memory holds constants,
 * what was prepared, what kernels keep, outputs on their way to an input, and the workspace, one behind the other.
 */
#include "backend-host/source.h"

#include "backend-host/c_names.h"

#include <string.h>

typedef sn_source_writer writer;

/* The texts (CMakeLists.txt). */
extern const char sn_source_common[], sn_source_checks[], sn_source_file[], sn_source_no_file[], sn_source_host[],
    sn_source_host_body[], sn_source_host_end[], sn_source_cuda[], sn_source_cuda_body[], sn_source_cuda_end[];

/* ROUND: what parts of memory begin at; FILE_HEAD: mark and checksum of the file of constants. */
enum { ROUND = 256, FILE_HEAD = 24, PER_LINE = 24 };
static const char file_mark[8] = "SNCONST";

/* ---- names ---- */

/* prefix + name as an identifier that nothing else has. */
static const char *identifier(writer *w, const char *prefix, const char *name) {
    return sn_c_identifier(&w->used, &w->scratch, prefix, name);
}

static const char *program_name(writer *w) {
    const char *name = w->m->wrap.name && *w->m->wrap.name ? w->m->wrap.name : "program";
    return sn_c_program_name(&w->used, &w->scratch, name);
}

static void name_buffers(writer *w) {
    static const char *const prefixes[] = {
        [SN_BUF_STEP] = "step_", [SN_BUF_INPUT] = "in_", [SN_BUF_OUTPUT] = "out_",    [SN_BUF_TEMP] = "tmp_",
        [SN_BUF_CONST] = "",     [SN_BUF_REG] = "reg_",  [SN_BUF_SHARED] = "shared_", [SN_BUF_POSTED] = "posted_"};
    uint32_t constants = 0;
    w->buf_name = SN_NEWN(&w->scratch, const char *, w->m->bufs.count);
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        if (b->scope == SN_BUF_CONST) w->buf_name[i] = sn_strf(&w->scratch, "self->constants[%u]", constants++);
        else w->buf_name[i] = identifier(w, prefixes[b->scope], b->name);
    }
}

/* ---- pieces of text ---- */

/* $ is the name of the program. */
static void put_text(writer *w, const char *text) {
    for (const char *at; (at = strchr(text, '$')); text = at + 1) {
        sn_text_putn(w->t, text, (size_t)(at - text));
        sn_text_put(w->t, w->name);
    }
    sn_text_put(w->t, text);
}

/* A string literal a line, line ends escaped. */
static void put_string_lines(sn_text *t, const char *s) {
    if (!*s) sn_text_put(t, "    \"\"\n");
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

void sn_source_comment(sn_text *t, const char *s) {
    char before = ' ';
    for (; *s; s++) {
        char c = *s == '\n' || *s == '\r' || *s == '\\' ? ' ' : *s;
        if ((before == '*' && c == '/') || (before == '/' && c == '*')) sn_text_put(t, " ");
        sn_text_putn(t, &c, 1);
        before = c;
    }
}

void sn_source_shape(writer *w, const sn_buf_rec *b) {
    sn_text_printf(w->t, "%s[", sn_dtypes[b->dtype].name);
    for (uint32_t i = 0; i < b->rank; i++) {
        if (i) sn_text_put(w->t, ", ");
        sn_ix_print(w->t, w->m, b->shape[i], NULL, NULL);
    }
    sn_text_put(w->t, "]");
}

static void put_bytes(sn_text *t, const char *indent, const void *data, uint64_t size) {
    const unsigned char *bytes = data;
    for (uint64_t i = 0; i < size; i++)
        sn_text_printf(t, "%s%d%s", i % PER_LINE ? "" : indent, bytes[i],
                       i + 1 == size || i % PER_LINE == PER_LINE - 1 ? ",\n" : ", ");
}

static void put_array(writer *w, const char *name, const void *data, uint64_t size) {
    sn_text_printf(w->t, "ALIGNED static const unsigned char %s[%llu] = {\n", name, (unsigned long long)size);
    put_bytes(w->t, "    ", data, size);
    sn_text_put(w->t, "};\n\n");
}

static uint64_t rounded(uint64_t size) { return (size + ROUND - 1) / ROUND * ROUND; }

/* ---- constants ---- */

static const sn_buf_rec *const_rec(const writer *w, uint32_t i) {
    const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
    return b->scope == SN_BUF_CONST ? b : NULL;
}

static bool is_given(const writer *w, const sn_buf_rec *b) { return b->weight.i && w->s->weights_given; }

static const char *const_name(const writer *w, const sn_buf_rec *b) {
    return b->weight.i ? sn_wt_get(w->m, b->weight)->name : b->name;
}

static uint32_t count_consts(const writer *w, bool given) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) n += const_rec(w, i) && (!given || is_given(w, const_rec(w, i)));
    return n;
}

static sn_status const_bytes(uint64_t *out, writer *w, const sn_buf_rec *b) {
    int64_t size;
    SN_TRY(sn_wrap_number(&size, w->m, b->size, "the size", b->name));
    *out = (uint64_t)size * sn_dtype_bytes(b->dtype);
    if (!*out || is_given(w, b) || sn_buf_data(w->m, b)) return SN_OK;
    return sn_fail(w->m->env, SN_ERROR_ARGUMENT, "weight %s has no elements: none were attached", const_name(w, b));
}

/* By buffer id: do runs read it? */
static const bool *read_by_runs(writer *w) {
    bool *used = SN_NEWN(&w->scratch, bool, w->m->bufs.count);
    for (uint32_t i = w->m->wrap.n_prepare; i < w->m->wrap.steps.n; i++) {
        const sn_step *s = &w->m->wrap.steps.at[i];
        if (s->kind == SN_STEP_COPY) used[s->from.i] = true;
        for (uint32_t k = 0; k < s->args.n; k++) used[s->args.at[k].buf.i] = true;
    }
    return used;
}

/* What the program has in memory, and in the file. */
typedef struct room {
    uint64_t constants, once, prepared, kept, own, workspace, file;
} room;

/* The elements of constants in C, where they are not in the file. */
static sn_status put_const_data(writer *w) {
    for (uint32_t i = 1; i < w->m->bufs.count && !w->s->constants_in_file; i++) {
        const sn_buf_rec *b = const_rec(w, i);
        uint64_t bytes;
        if (!b || is_given(w, b)) continue;
        SN_TRY(const_bytes(&bytes, w, b));
        if (bytes) put_array(w, sn_strf(&w->scratch, "data_%u", i), sn_buf_data(w->m, b), bytes);
    }
    return SN_OK;
}

static sn_status put_constant(writer *w, room *r, uint32_t i, bool once, int weight) {
    const sn_buf_rec *b = const_rec(w, i);
    uint64_t bytes, *at = once ? &r->once : &r->constants;
    bool given = is_given(w, b), in_file = !given && w->s->constants_in_file;
    SN_TRY(const_bytes(&bytes, w, b));
    sn_text_put(w->t, "    {");
    sn_text_quoted(w->t, sn_strf(&w->scratch, "constant %s", const_name(w, b)));
    sn_text_printf(w->t, ", %s, %lld, %d, %llu, %llu, %u, %d}, /* ",
                   given || in_file || !bytes ? "NULL" : sn_strf(&w->scratch, "data_%u", i),
                   in_file ? (long long)r->file : -1, weight, (unsigned long long)bytes, (unsigned long long)*at,
                   b->align ? b->align : 1, once);
    sn_source_shape(w, b);
    sn_text_put(w->t, " */\n");
    if (in_file) r->file += rounded(bytes);
    if (w->s->codes && !given) *at += rounded(bytes);
    return SN_OK;
}

static sn_status put_constants(writer *w, room *r) {
    const bool *in_runs = read_by_runs(w);
    r->file = rounded(FILE_HEAD);
    SN_TRY(put_const_data(w));
    sn_text_put(w->t, "static const struct constant constants[] = {\n");
    int weights = 0;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = const_rec(w, i);
        if (b) SN_TRY(put_constant(w, r, i, w->s->codes && !in_runs[i], is_given(w, b) ? weights++ : -1));
    }
    sn_text_put(w->t, "    {NULL, NULL, -1, -1, 0, 0, 1, 0}};\n\n");
    return SN_OK;
}

/* The bytes of the file; its head has the checksum of the rest. */
static void fill_file(writer *w, sn_source_files *out, sn_arena *arena, char head[FILE_HEAD]) {
    static const char zeroes[ROUND];
    sn_text sums;
    sn_text_init(&sums, w->m->env);
    SN_PUSH(arena, &out->constants, ((sn_file_part){NULL, 0}));
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = const_rec(w, i);
        uint64_t bytes = 0;
        if (!b || is_given(w, b) || const_bytes(&bytes, w, b) != SN_OK || !bytes) continue;
        sn_cache_key sum = sn_cache_key_of(sn_buf_data(w->m, b), bytes);
        sn_text_putn(&sums, (const char *)&sum, sizeof sum);
        SN_PUSH(arena, &out->constants, ((sn_file_part){sn_buf_data(w->m, b), bytes}));
        SN_PUSH(arena, &out->constants, ((sn_file_part){zeroes, rounded(bytes) - bytes}));
    }
    sn_cache_key sum = sn_cache_key_of(sums.s, sums.n);
    char *first = sn_zalloc(arena, ROUND);
    memcpy(head, file_mark, sizeof file_mark);
    memcpy(head + sizeof file_mark, &sum, sizeof sum);
    memcpy(first, head, FILE_HEAD);
    out->constants.at[0] = (sn_file_part){first, ROUND};
    sn_text_free(&sums);
}

/* ---- kernels of a GPU ---- */

static bool has_kept(const writer *w, uint32_t k) {
    return (w->s->codes ? w->s->codes[k].kept_bytes : w->s->host_kept[k]) != 0;
}

uint64_t sn_source_kept(uint64_t *at, const writer *w, uint32_t k) {
    uint64_t size = 0;
    *at = 0;
    for (uint32_t i = 0; i <= k; i++) {
        *at += rounded(size);
        size = w->s->codes ? w->s->codes[i].kept_bytes : w->s->host_kept[i];
    }
    return size;
}

static void put_kernel_note(writer *w, const sn_kern_rec *k) {
    sn_text_printf(w->t, "/* Kernel %s", k->name);
    if (k->note) sn_text_put(w->t, ": "), sn_source_comment(w->t, k->note);
    sn_text_put(w->t, " */\n");
}

static void put_ptx(writer *w, uint32_t i) {
    put_kernel_note(w, sn_kern_get(w->m, w->m->kernels.at[i]));
    sn_text_printf(w->t, "static const char ptx_%u[] =\n", i);
    put_string_lines(w->t, w->s->codes[i].ptx);
    sn_text_put(w->t, "    ;\n\n");
    if (w->s->cubins && w->s->cubins[i].size)
        put_array(w, sn_strf(&w->scratch, "cubin_%u", i), w->s->cubins[i].at, w->s->cubins[i].size);
}

static void put_numbers(sn_text *t, const int64_t *numbers, uint32_t n, uint32_t most) {
    sn_text_put(t, ", {");
    for (uint32_t i = 0; i < most; i++) sn_text_printf(t, "%s%lld", i ? ", " : "", i < n ? (long long)numbers[i] : 0);
    sn_text_put(t, "}");
}

/* As runtime/tensor_map.c and cuda.h number them. */
static int map_type(const sn_tensor_map *map) {
    enum { UINT8 = 0, UINT16 = 1, UINT32 = 2, UINT64 = 4, TFLOAT32 = 11 };
    if (map->tf32) return TFLOAT32;
    switch (sn_dtype_bytes(map->dtype)) {
    case 1: return UINT8;
    case 2: return UINT16;
    case 4: return UINT32;
    default: return UINT64;
    }
}

static void put_map(writer *w, const sn_tensor_map *map) {
    int64_t steps[SN_MAP_RANK] = {1, 1, 1, 1, 1}, box[SN_MAP_RANK] = {0}, low[SN_MAP_RANK] = {0},
            high[SN_MAP_RANK] = {0};
    uint32_t walked = map->pixels ? map->rank - 2 : 0;
    int swizzle = map->swizzle == 128 ? 3 : map->swizzle == 64 ? 2 : map->swizzle == 32;
    for (uint32_t i = 0; i < map->rank; i++) box[i] = map->box[i];
    for (uint32_t i = 0; i < walked; i++) low[i] = map->low[i], high[i] = map->high[i], steps[1 + i] = map->steps[i];
    sn_text_printf(w->t, "    {%u, %lld, %d, %d, %d, %u", map->param, (long long)map->offset, map_type(map), swizzle,
                   map->pixels, map->rank);
    put_numbers(w->t, map->dims, map->rank, SN_MAP_RANK);
    put_numbers(w->t, map->strides, map->rank - 1, SN_MAP_RANK);
    put_numbers(w->t, box, map->rank, SN_MAP_RANK);
    put_numbers(w->t, steps, SN_MAP_RANK, SN_MAP_RANK);
    put_numbers(w->t, low, walked, SN_MAP_RANK - 2);
    put_numbers(w->t, high, walked, SN_MAP_RANK - 2);
    sn_text_put(w->t, "},\n");
}

static void put_gpu_kernel(writer *w, uint32_t i, uint32_t first_map) {
    const sn_gpu_code *c = &w->s->codes[i];
    const sn_kern_rec *k = sn_kern_get(w->m, w->m->kernels.at[i]);
    const char *cubin = w->s->cubins && w->s->cubins[i].size ? sn_strf(&w->scratch, "cubin_%u", i) : "NULL";
    sn_text_put(w->t, "    {");
    sn_text_quoted(w->t, k->name);
    sn_text_printf(w->t, ", ptx_%u, %s, %lld, %u, %u, %u, %u, %u, %d, %d, %d, %u, %u},\n", i, cubin, (long long)c->grid,
                   c->block_x, c->block_y, c->cluster, c->shared_bytes, k->params.n, has_kept(w, i), c->param_block,
                   c->together, first_map, c->n_maps);
}

static void put_gpu_kernels(writer *w) {
    uint32_t n_maps = 0, n = w->m->kernels.n;
    for (uint32_t i = 0; i < n; i++) put_ptx(w, i);
    sn_text_put(w->t, "MAYBE_UNUSED static const struct map maps[] = {\n");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < w->s->codes[i].n_maps; k++) put_map(w, &w->s->codes[i].maps[k]);
    sn_text_put(w->t, "    {0, 0, 0, 0, 0, 0, {0}, {0}, {0}, {0}, {0}, {0}}};\n\n");
    sn_text_put(w->t, "static const struct kernel kernels[] = {\n");
    for (uint32_t i = 0; i < n; i++) {
        put_gpu_kernel(w, i, n_maps);
        n_maps += w->s->codes[i].n_maps;
    }
    sn_text_put(w->t, "    {NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};\n\n");
}

/* ---- kernels of the CPU ---- */

/* Slots by place. */
static const sn_host_slot *slot_behind(const sn_host_image *h, uint64_t at) {
    const sn_host_slot *first = NULL;
    for (uint32_t i = 0; i < h->n_slots; i++)
        if (h->slots[i].at >= at && (!first || h->slots[i].at < first->at)) first = &h->slots[i];
    return first;
}

static void put_asm_bytes(writer *w, uint64_t from, uint64_t end) {
    const unsigned char *bytes = w->s->host->bytes;
    for (uint64_t i = from; i < end; i++)
        sn_text_printf(w->t, "%s%d%s", (i - from) % PER_LINE ? "," : "    \".byte ", bytes[i],
                       i + 1 == end || (i - from) % PER_LINE == PER_LINE - 1 ? "\\n\"\n" : "");
}

static sn_status put_code(writer *w) {
    enum { CELL = 16, JUMP = 8 };
    const sn_host_image *h = w->s->host;
    uint64_t at = 0;
    sn_text_printf(w->t, "__asm__(\n    \".pushsection .text\\n\"\n    \".balign 4096\\n\"\n    \"%s_code:\\n\"\n",
                   w->name);
    for (const sn_host_slot *s; (s = slot_behind(h, at)); at = s->at - JUMP + CELL) {
        if (!s->import || !s->is_jump)
            return sn_fail(w->m->env, SN_ERROR_UNSUPPORTED, "C source cannot have this code: it has addresses in it");
        put_asm_bytes(w, at, s->at - JUMP);
        sn_text_printf(w->t, "    \"jmp %s@PLT\\n.balign %d\\n\"\n", s->import, CELL);
    }
    put_asm_bytes(w, at, h->size);
    for (uint32_t i = 0; i < w->m->kernels.n; i++)
        sn_text_printf(w->t,
                       "    \".globl %s_kernel_%u\\n.hidden %s_kernel_%u\\n.type %s_kernel_%u, @function\\n.set "
                       "%s_kernel_%u, %s_code + %llu\\n\"\n",
                       w->name, i, w->name, i, w->name, i, w->name, i, w->name, (unsigned long long)h->entries[i]);
    sn_text_put(w->t, "    \".popsection\\n\");\n\n");
    return SN_OK;
}

static void put_declarations(writer *w) {
    sn_text_put(w->t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        put_kernel_note(w, sn_kern_get(w->m, w->m->kernels.at[i]));
        sn_text_printf(w->t, "void %s_kernel_%u(void *const *args, int64_t begin, int64_t end);\n", w->name, i);
    }
    sn_text_put(w->t, "#ifdef __cplusplus\n}\n#endif\n\n");
}

static void put_features(writer *w) {
    sn_text_put(w->t, "static const struct feature features[] = {\n");
    for (uint32_t i = 0; i < w->s->n_features; i++) {
        const sn_source_feature *f = &w->s->features[i];
        sn_text_printf(w->t, "    {\"%s\", 0x%xu, %u, %u, %u, %u},\n", f->name, f->leaf, f->subleaf, f->word, f->bit,
                       f->saved);
    }
    sn_text_put(w->t, "    {NULL, 0, 0, 0, 0, 0}};\n\n");
}

static sn_status put_host_kernels(writer *w) {
    if (strcmp(w->s->host->machine, "x86_64") != 0)
        return sn_fail(w->m->env, SN_ERROR_UNSUPPORTED, "C source for the CPU has code of x86-64 in it, this is %s",
                       w->s->host->machine);
    sn_text_put(w->t, "#if !defined(__x86_64__) || !defined(__ELF__)\n#error \"its kernels are machine code of x86-64, "
                      "for systems with ELF\"\n#endif\n\n");
    put_declarations(w);
    SN_TRY(put_code(w));
    sn_text_put(w->t, "static const struct kernel kernels[] = {\n");
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        const char *name = sn_kern_get(w->m, w->m->kernels.at[i])->name;
        int64_t grid;
        SN_TRY(sn_wrap_number(&grid, w->m, sn_kern_launch(w->m, w->m->kernels.at[i]).parts, "the grid", name));
        sn_text_printf(w->t, "    {%s_kernel_%u, %lld},\n", w->name, i, (long long)grid);
    }
    sn_text_put(w->t, "    {NULL, 0}};\n\n");
    put_features(w);
    return SN_OK;
}

/* ---- sizes ---- */

static uint64_t port_bytes(const writer *w, uint32_t output) {
    uint32_t buf = sn_source_io_buffer(w, SN_BUF_OUTPUT, output);
    int64_t elements = 0;
    if (!buf) return 0;
    const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){buf});
    return sn_ix_is_const(w->m, b->size, &elements) ? (uint64_t)elements * sn_dtype_bytes(b->dtype) : 0;
}

/* Outputs that a step copies to the input that they write. */
static uint64_t place_own(writer *w) {
    uint64_t at = 0;
    uint32_t n = sn_source_io_count(w, SN_BUF_OUTPUT);
    w->own = SN_NEWN(&w->scratch, int64_t, n + 1);
    for (uint32_t k = 0; k < n; k++) w->own[k] = -1;
    for (uint32_t i = 0; i < w->m->wrap.steps.n; i++) {
        const sn_step *s = &w->m->wrap.steps.at[i];
        if (s->kind != SN_STEP_COPY) continue;
        const sn_buf_rec *to = sn_buf_get(w->m, s->buf), *from = sn_buf_get(w->m, s->from);
        if (to->scope != SN_BUF_INPUT || from->scope != SN_BUF_OUTPUT) continue;
        if (sn_source_writes(w, from->io) < 0 || w->own[from->io] >= 0) continue;
        w->own[from->io] = (int64_t)at;
        at += rounded(port_bytes(w, from->io) + 1);
    }
    return at;
}

static sn_status measure(room *r, writer *w) {
    int64_t workspace, prepared;
    SN_TRY(sn_wrap_number(&workspace, w->m, w->m->wrap.workspace, "the workspace", "the wrapper"));
    SN_TRY(sn_wrap_number(&prepared, w->m, w->m->wrap.prepared, "the prepared memory", "the wrapper"));
    r->workspace = rounded((uint64_t)workspace);
    r->prepared = rounded((uint64_t)prepared);
    r->own = place_own(w);
    for (uint32_t k = 0; k < w->m->kernels.n; k++) {
        uint64_t at, size = sn_source_kept(&at, w, k);
        r->kept = at + rounded(size);
    }
    return SN_OK;
}

static void put_sizes(writer *w, const room *r) {
    uint32_t maps_of_one = 0, args_of_one = 0, n_maps = 0;
    uint64_t prepared = r->constants, kept = prepared + r->prepared, own = kept + r->kept, workspace = own + r->own;
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        uint32_t maps = w->s->codes ? w->s->codes[i].n_maps : 0,
                 args = sn_kern_get(w->m, w->m->kernels.at[i])->params.n;
        n_maps += maps;
        if (maps > maps_of_one) maps_of_one = maps;
        if (args > args_of_one) args_of_one = args;
    }
    sn_text_printf(w->t,
                   "enum {\n    N_KERNELS = %u,\n    N_CONSTANTS = %u,\n    N_FEATURES = %u,\n    N_ARGS_OF_ONE = %u,\n"
                   "    N_MAPS_OF_ONE = %u,\n    SM = %u,\n    ONLY_SM = %d, /* no other generation runs it */\n"
                   "    EARLY = %d   /* kernels wait for those before them */\n};\n",
                   w->m->kernels.n, count_consts(w, false), w->s->n_features, args_of_one, maps_of_one, w->s->sm,
                   w->s->only, w->s->sm >= 90);
    sn_text_printf(w->t, "#define N_MAPS %u\n", n_maps);
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"MEMORY", workspace + r->workspace},
                 {"ONCE", r->once},
                 {"PREPARED_AT", prepared},
                 {"KEPT_AT", kept},
                 {"KEPT", r->kept},
                 {"OWN_AT", own},
                 {"WORKSPACE_AT", workspace},
                 {"FILE_SIZE", r->file}};
    for (size_t i = 0; i < SN_COUNT(sizes); i++)
        sn_text_printf(w->t, "MAYBE_UNUSED static const size_t %s = %llu;\n", sizes[i].name,
                       (unsigned long long)sizes[i].value);
    sn_text_put(w->t, "\n");
}

/* ---- the header ---- */

void sn_source_run_signature(writer *w, bool named) {
    sn_text_printf(w->t, "int %s_run(struct %s *self", w->name, w->name);
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_INPUT); io < n; io++) {
        uint32_t buf = sn_source_io_buffer(w, SN_BUF_INPUT, io);
        sn_text_printf(w->t, ", %svoid *%s", sn_source_is_written(w, io) ? "" : "const ",
                       named && buf ? w->buf_name[buf] : sn_strf(&w->scratch, "input_%u", io));
    }
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_OUTPUT); io < n; io++) {
        uint32_t buf = sn_source_io_buffer(w, SN_BUF_OUTPUT, io);
        if (sn_source_writes(w, io) >= 0) continue;
        sn_text_printf(w->t, ", void *%s", named && buf ? w->buf_name[buf] : sn_strf(&w->scratch, "output_%u", io));
    }
    sn_text_put(w->t, w->s->codes ? ", void *stream)" : ")");
}

bool sn_source_is_written(const writer *w, uint32_t input) {
    for (uint32_t io = 0; io < w->m->graph.outputs.n; io++)
        if (w->m->graph.outputs.at[io].writes == (int)input) return true;
    for (uint32_t i = 0; i < w->m->wrap.steps.n; i++) { /* of a wrapper without a graph */
        const sn_step *s = &w->m->wrap.steps.at[i];
        if (s->kind != SN_STEP_COPY) continue;
        const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
        if (b->scope == SN_BUF_INPUT && b->io == input) return true;
    }
    return false;
}

static void put_strides(writer *w, uint32_t input) {
    const sn_graph_input *in = input < w->m->graph.inputs.n ? &w->m->graph.inputs.at[input] : NULL;
    if (!in || in->contiguous) return;
    sn_text_put(w->t, ", strides [");
    for (uint32_t i = 0; i < sn_node_get(w->m, in->node)->type.rank; i++) {
        if (i) sn_text_put(w->t, ", ");
        sn_ix_print(w->t, w->m, in->stride[i], NULL, NULL);
    }
    sn_text_put(w->t, "] elements, the first one at ");
    sn_ix_print(w->t, w->m, in->offset, NULL, NULL);
}

static void put_port(writer *w, sn_buf_scope scope, uint32_t io) {
    uint32_t buf = sn_source_io_buffer(w, scope, io);
    int64_t elements = 0;
    if (!buf) {
        sn_text_printf(w->t, " *   %s_%u: not read\n", scope == SN_BUF_INPUT ? "input" : "output", io);
        return;
    }
    const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){buf});
    sn_ix_is_const(w->m, b->size, &elements);
    sn_text_printf(w->t, " *   %s: ", w->buf_name[buf]);
    sn_source_shape(w, b);
    sn_text_printf(w->t, ", %lld bytes at a multiple of %u", (long long)elements * sn_dtype_bytes(b->dtype),
                   sn_source_align(b));
    if (scope == SN_BUF_INPUT) put_strides(w, io);
    if (scope == SN_BUF_INPUT && sn_source_is_written(w, io)) sn_text_put(w->t, "; the run writes it");
    sn_text_put(w->t, "\n");
}

static void put_ports(writer *w) {
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_INPUT); io < n; io++) put_port(w, SN_BUF_INPUT, io);
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_OUTPUT); io < n; io++)
        if (sn_source_writes(w, io) < 0) put_port(w, SN_BUF_OUTPUT, io);
}

static void put_weights(writer *w) {
    uint32_t number = 0;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = const_rec(w, i);
        if (!b || !is_given(w, b)) continue;
        sn_text_printf(w->t, " *   weights[%u]: ", number++);
        sn_source_comment(w->t, const_name(w, b));
        sn_text_put(w->t, ", ");
        sn_source_shape(w, b);
        sn_text_put(w->t, "\n");
    }
}

static void put_create_signature(writer *w) {
    sn_text_printf(w->t, "int %s_create(struct %s **out", w->name, w->name);
    if (w->s->codes) sn_text_put(w->t, ", int device");
    if (w->s->constants_in_file) sn_text_put(w->t, ", const char *constants");
    if (count_consts(w, true)) sn_text_put(w->t, ", const void *const *weights");
    sn_text_put(w->t, ")");
}

static void put_how_to_build(writer *w) {
    const char *n = w->name;
    if (w->s->codes) sn_text_printf(w->t, " *     cc -O2 main.c %s.c -lcuda\n", n);
    else sn_text_printf(w->t, " *     cc -O2 main.c %s.c -lm            (with -fopenmp: on all processors)\n", n);
}

static void put_header(writer *w) {
    const char *n = w->name;
    bool gpu = w->s->codes != NULL;
    sn_text_printf(w->t, "/* %s, compiled by Sinter to C, kernels included: needs %s alone. C11, or C++11.\n *\n", n,
                   gpu ? "libcuda" : "the C library");
    put_how_to_build(w);
    sn_text_put(w->t, " */\n");
    sn_text_printf(w->t, "#ifndef %s_SOURCE_H\n#define %s_SOURCE_H\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                   n, n);
    sn_text_printf(w->t, "/* One run of it at a time. */\nstruct %s;\n\n", n);
    sn_text_printf(w->t,
                   "/* Calls that can fail return 0, or 1 and say why by %s_error. *out is to be destroyed also where "
                   "this fails; NULL where there\n * is no memory for it.\n",
                   n);
    if (gpu) sn_text_put(w->t, " *   device: ordinal of the CUDA device\n");
    if (w->s->constants_in_file) sn_text_printf(w->t, " *   constants: path of %s.bin\n", n);
    if (count_consts(w, true))
        sn_text_printf(w->t,
                       " *   weights: where they are, %s, as long as the program; those that are read once, here:\n",
                       gpu ? "on the device at multiples of 256" : "in memory");
    put_weights(w);
    sn_text_put(w->t, " */\n");
    put_create_signature(w);
    sn_text_put(w->t, ";\n\n/* Row-major elements");
    sn_text_put(w->t,
                gpu ? " on the device; asynchronous on the stream (a CUstream; NULL: the default one).\n" : ".\n");
    put_ports(w);
    sn_text_put(w->t, " */\n");
    sn_source_run_signature(w, true);
    sn_text_printf(w->t, ";\n\n/* \"\" where nothing has failed. */\nconst char *%s_error(const struct %s *self);\n", n,
                   n);
    sn_text_printf(w->t, "/* %sNULL is allowed. */\nvoid %s_destroy(struct %s *self);\n\n",
                   gpu ? "When its runs are done. " : "", n, n);
    sn_text_put(w->t, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- the source ---- */

static void put_includes(writer *w) {
    sn_text_put(w->t, w->s->codes ? "" : "#include <cpuid.h>\n");
    sn_text_put(w->t, "#include <stdarg.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include "
                      "<string.h>\n\n");
}

static void put_create(writer *w) {
    put_create_signature(w);
    sn_text_printf(w->t,
                   " {\n    struct %s *self = *out = (struct %s *)calloc(1, sizeof *self);\n    if (!self) return 1;\n",
                   w->name, w->name);
    if (w->s->codes) sn_text_put(w->t, "    self->ordinal = device;\n");
    if (w->s->constants_in_file) sn_text_put(w->t, "    self->path = constants;\n");
    if (count_consts(w, true)) sn_text_put(w->t, "    self->weights = weights;\n");
    sn_text_put(w->t, "    return start(self);\n}\n\n");
}

static sn_status put_source(writer *w, sn_source_files *out, sn_arena *arena) {
    room r = {0};
    char head[FILE_HEAD];
    bool gpu = w->s->codes != NULL;
    put_includes(w);
    put_text(w, sn_source_common);
    put_text(w, gpu ? sn_source_cuda : sn_source_host);
    SN_TRY(measure(&r, w));
    SN_TRY(put_constants(w, &r));
    if (w->s->constants_in_file) {
        fill_file(w, out, arena, head);
        put_array(w, "file_head", head, sizeof head);
    }
    put_sizes(w, &r);
    if (gpu) put_gpu_kernels(w);
    else SN_TRY(put_host_kernels(w));
    put_text(w, gpu ? sn_source_cuda_body : sn_source_host_body);
    put_text(w, sn_source_checks);
    put_text(w, w->s->constants_in_file ? sn_source_file : sn_source_no_file);
    put_text(w, gpu ? sn_source_cuda_end : sn_source_host_end);
    put_create(w);
    return sn_source_steps(w);
}

static sn_status can_print(sn_module *m) {
    if (!m->wrap.steps.n)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "the module has no wrapper: run the pass plan first");
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
        if (sn_kern_is_library(k))
            return sn_fail(m->env, SN_ERROR_ARGUMENT,
                           "kernel %s: a library runs it, and C source calls none; emit it from the graph", k->name);
    }
    return SN_OK;
}

/* feature_macro: for mmap, before any include. */
static sn_status print(writer *w, sn_source_files *out, sn_arena *arena) {
    sn_names_init(&w->used, &w->scratch);
    w->number = sn_kern_numbers(w->m, &w->scratch);
    w->name = program_name(w);
    out->name = sn_strdup(arena, w->name);
    name_buffers(w);
    w->t = &out->header;
    put_header(w);
    w->t = &out->source;
    sn_text_printf(w->t, "/* %s.c: see %s.h. */\n", w->name, w->name);
    sn_text_put(w->t, "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n");
    sn_text_printf(w->t, "#include \"%s.h\"\n\n", w->name);
    return put_source(w, out, arena);
}

void sn_source_free(sn_source_files *files) {
    sn_text_free(&files->header);
    sn_text_free(&files->source);
}

sn_status sn_source_print(sn_source_files *out, sn_module *m, const sn_source *source, sn_arena *arena) {
    *out = (sn_source_files){0};
    sn_text_init(&out->header, m->env);
    sn_text_init(&out->source, m->env);
    SN_TRY(can_print(m));
    writer w = {.m = m, .s = source};
    sn_arena_init(&w.scratch, m->env);
    sn_status status = print(&w, out, arena);
    sn_arena_free(&w.scratch);
    return status;
}

/* The header stands where the source includes it. */
sn_status sn_wrapper_c(sn_text *out, sn_module *m, const sn_source *source) {
    sn_source_files files;
    sn_arena arena;
    sn_arena_init(&arena, m->env);
    sn_status status = sn_source_print(&files, m, source, &arena);
    if (status == SN_OK) {
        const char *include = sn_strf(&arena, "#include \"%s.h\"\n", files.name), *at = strstr(files.source.s, include);
        sn_text_putn(out, files.source.s, (size_t)(at - files.source.s));
        sn_text_put(out, files.header.s);
        sn_text_put(out, at + strlen(include));
    }
    sn_source_free(&files);
    sn_arena_free(&arena);
    return status;
}
