/* image_c.c: an image as C source: one .c and one .h that any C11 compiler builds against libsinter-rt, so that a compiled model is
 * a library without files.
 *
 *     softmax.h   softmax_init, softmax_run, softmax_error, softmax_free; numbers, shapes and bytes of inputs and outputs
 *     softmax.c   the image as bytes, and those functions on sn_rt_load_memory
 *
 * Bytes are rows of numbers. Names of the graph become C identifiers behind a prefix. Steps are run by libsinter-rt, so that this is
 * the same program as the file. Where the programs were compiled with the option `debug`, softmax_init loads the image with it, and
 * lines go to standard error; else nothing of it is in the text.
 */
#include "backend-host/c_names.h"
#include "frontend/frontend.h"

#include <errno.h>
#include <string.h>

static uint64_t bytes_of(const sn_image_port *p) {
    int64_t last = p->offset;
    for (uint32_t k = 0; k < p->rank; k++) {
        if (!p->shape[k]) return 0;
        if (p->strides[k] > 0) last += (p->shape[k] - 1) * p->strides[k];
    }
    return (uint64_t)(last + 1) * sn_dtype_bytes(p->dtype);
}

/* Targets want storage aligned to different multiples; the largest is good for all. */
static uint32_t align_of(const sn_image *image, bool is_input, uint32_t k) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < image->n_parts; i++) {
        const sn_image_port *p = is_input ? &image->parts[i].inputs[k] : &image->parts[i].outputs[k];
        if (p->align > most) most = p->align;
    }
    return most;
}

static void put_ports(sn_text *h, const sn_image *image, const char *name, bool is_input, sn_arena *a) {
    const sn_image_part *part = &image->parts[0];
    uint32_t n = is_input ? part->n_inputs : part->n_outputs;
    const char *what = is_input ? "in" : "out";
    sn_names used; /* "x.1" beside "x_1" */
    sn_names_init(&used, a);
    sn_text_printf(h, "\n/* %s: what is passed at which number, and bytes of its storage. */\nenum {\n",
                   is_input ? "Inputs" : "Outputs");
    for (uint32_t k = 0; k < n; k++) {
        const sn_image_port *p = is_input ? &part->inputs[k] : &part->outputs[k];
        sn_text_printf(h, "    %s_%s_%s = %u, /* %s[", name, what, sn_c_identifier(&used, a, "", p->name), k,
                       sn_dtypes[p->dtype].name);
        for (uint32_t d = 0; d < p->rank; d++) sn_text_printf(h, "%s%lld", d ? ", " : "", (long long)p->shape[d]);
        sn_text_printf(h, "], %llu bytes, address a multiple of %u", (unsigned long long)bytes_of(p),
                       align_of(image, is_input, k));
        if (p->otherwise.size) sn_text_put(h, "; NULL: its default");
        if (p->writes >= 0) sn_text_printf(h, "; pass NULL: input %d takes it", p->writes);
        sn_text_put(h, " */\n");
    }
    sn_text_printf(h, "    %s_n_%s = %u\n};\n", name, what, n);
}

static void put_header(sn_text *h, const sn_image *image, const char *name, bool debugs, sn_arena *a) {
    sn_text_printf(
        h,
        "/* %s.h: a compiled graph as a library, made by Sinter %s. Needs libsinter-rt (-lsinter-rt).\n *\n"
        " *     %s m;\n *     if (%s_init(&m, NULL) || %s_run(&m, inputs, outputs, NULL)) puts(%s_error(&m));\n"
        " *     %s_free(&m);\n%s */\n#ifndef %s_model_h\n#define %s_model_h\n\n#include <sinter/rt.h>\n",
        name, image->maker, name, name, name, name, name,
        debugs ? " *\n * With debugging: runs wait for each kernel, and say what it does on standard error.\n" : "",
        name, name);
    put_ports(h, image, name, true, a);
    put_ports(h, image, name, false, a);
    sn_text_printf(
        h,
        "\ntypedef struct %s {\n    sn_rt *rt;\n    sn_rt_program *program;\n    sn_rt_state *state;\n} %s;\n\n"
        "/* Everything is ready to run, or an error and its text. device: \"cpu\", \"cuda\"; NULL: what is there. Freed in\n"
        " * either case. One thread uses an object at a time. */\n"
        "sn_status %s_init(%s *m, const char *device);\n"
        "/* sn_rt_run: addresses of the host, or of the device where the program is on it. */\n"
        "sn_status %s_run(%s *m, const void *const *inputs, void *const *outputs, void *stream);\n"
        "const char *%s_error(const %s *m);\nvoid %s_free(%s *m);\n\n#endif\n",
        name, name, name, name, name, name, name, name, name, name);
}

/* A row a line; the last one is filled up with zeroes. */
static void put_bytes(sn_text *c, const unsigned char *at, uint64_t size) {
    enum { PIECE = 64 };
    sn_text_printf(c, "static const struct {\n    _Alignas(%d) unsigned char at[%llu][%d];\n} image = {{\n",
                   SN_IMAGE_ALIGN, (unsigned long long)((size + PIECE - 1) / PIECE), PIECE);
    for (uint64_t i = 0; i < size; i += PIECE) {
        sn_text_put(c, "    {");
        for (uint64_t k = i; k < i + PIECE && k < size; k++) sn_text_printf(c, "%u,", at[k]);
        sn_text_put(c, "},\n");
    }
    sn_text_put(c, "}};\n");
}

static void put_option(sn_text *c, const char *option, const char *value) {
    if (!value) return;
    sn_text_printf(c, "    options.%s = ", option);
    sn_text_quoted(c, value);
    sn_text_put(c, ";\n");
}

/* What debugging adds to the options of loading. */
static void put_debug(sn_text *c, const sn_debug_options *debug) {
    put_option(c, "debug", debug->debug);
    put_option(c, "debug_kernels", debug->kernels);
    put_option(c, "debug_dir", debug->dir);
    sn_text_put(c, "    options.log = say;\n");
}

/* debug: NULL where runs say nothing. */
static void put_source(sn_text *c, const sn_image *image, sn_image_bytes bytes, const char *name,
                       const sn_debug_options *debug) {
    sn_text_printf(c, "/* %s.c: see %s.h. Made by Sinter %s. */\n#include \"%s.h\"\n\n", name, name, image->maker,
                   name);
    if (debug) sn_text_put(c, "#include <stdio.h>\n\n");
    put_bytes(c, bytes.at, bytes.size);
    if (debug)
        sn_text_put(
            c, "\nstatic void say(void *user, const char *text) {\n    (void)user;\n    fputs(text, stderr);\n}\n");
    sn_text_printf(c,
                   "\nsn_status %s_init(%s *m, const char *device) {\n    sn_rt_options options = {0};\n"
                   "    options.struct_size = sizeof options;\n    options.device = device;\n",
                   name, name);
    if (debug) put_debug(c, debug);
    sn_text_printf(
        c,
        "    m->rt = 0;\n    m->program = 0;\n    m->state = 0;\n    sn_status status = sn_rt_create(&m->rt);\n"
        "    if (status == SN_OK) status = sn_rt_load_memory(&m->program, m->rt, image.at, %lluu, &options);\n"
        "    if (status == SN_OK) status = sn_rt_state_create(&m->state, m->program);\n    return status;\n}\n\n",
        (unsigned long long)bytes.size);
    sn_text_printf(
        c,
        "sn_status %s_run(%s *m, const void *const *inputs, void *const *outputs, void *stream) {\n"
        "    return sn_rt_run(m->state, inputs, outputs, stream);\n}\n\n"
        "const char *%s_error(const %s *m) {\n"
        "    return m->state ? sn_rt_state_error(m->state) : m->rt ? sn_rt_error(m->rt) : \"out of memory\";\n}\n\n"
        "void %s_free(%s *m) {\n    sn_rt_state_destroy(m->state);\n    sn_rt_program_destroy(m->program);\n"
        "    sn_rt_destroy(m->rt);\n}\n",
        name, name, name, name, name, name);
}

static sn_status write_text(sn_env *env, sn_arena *a, const char *folder, const char *name, const char *ending,
                            const sn_text *t) {
    return sn_file_write(env, sn_strf(a, "%s/%s.%s", folder, name, ending), t->s, t->n);
}

/* *out: how runs are debugged, NULL: not at all. Kernels of the list are in all parts: who loads the image may get any. */
static sn_status read_debug(const sn_debug_options **out, sn_env *env, const sn_debug_options *debug,
                            const sn_image *image, sn_arena *a) {
    uint32_t on;
    *out = NULL;
    SN_TRY(sn_debug_read(&on, env, debug->debug));
    if (!on) return SN_OK;
    for (uint32_t i = 0; i < image->n_parts; i++) {
        const sn_image_part *part = &image->parts[i];
        const char **names = SN_NEWN(a, const char *, part->n_kernels + 1);
        bool *chosen = SN_NEWN(a, bool, part->n_kernels + 1);
        for (uint32_t k = 0; k < part->n_kernels; k++) names[k] = part->kernels[k].launch.name;
        SN_TRY(sn_debug_choose(chosen, env, "debug_kernels", debug->kernels, names, part->n_kernels));
    }
    *out = debug;
    return SN_OK;
}

static sn_status emit(sn_context *ctx, sn_program *const *programs, unsigned n, const char *folder) {
    sn_arena *a = &ctx->scratch;
    sn_image image;
    sn_image_bytes bytes;
    sn_text h, c;
    const sn_debug_options *debug;
    if (!sn_folder_make(folder))
        return sn_fail(&ctx->env, SN_ERROR_FILE, "cannot make %s: %s", folder, strerror(errno));
    SN_TRY(sn_image_of(&image, ctx, programs, n, &(sn_image_how){0}, a));
    SN_TRY(read_debug(&debug, &ctx->env, &programs[0]->debug, &image, a));
    SN_TRY(sn_image_encode(&bytes, &image, a));
    sn_names used;
    sn_names_init(&used, a);
    const char *name = sn_c_program_name(&used, a, image.name && *image.name ? image.name : "model");
    sn_text_init(&h, &ctx->env);
    sn_text_init(&c, &ctx->env);
    put_header(&h, &image, name, debug, a);
    put_source(&c, &image, bytes, name, debug);
    sn_status status = write_text(&ctx->env, a, folder, name, "h", &h);
    if (status == SN_OK) status = write_text(&ctx->env, a, folder, name, "c", &c);
    sn_text_free(&h);
    sn_text_free(&c);
    return status;
}

typedef struct emit_args {
    sn_program *const *programs;
    unsigned n;
    const char *folder;
} emit_args;

static sn_status body(sn_context *ctx, void *user) {
    const emit_args *e = user;
    return emit(ctx, e->programs, e->n, e->folder);
}

sn_status sn_programs_emit_c(sn_context *ctx, unsigned n, sn_program *const *programs, const char *folder) {
    emit_args e = {programs, n, folder};
    return sn_guarded(ctx, body, &e);
}
