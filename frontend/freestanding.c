/* freestanding.c: a graph as C source without a library: `sinter compile --emit-c DIR --freestanding`.
 *
 *     graph  --compile, no libraries-->  program  --backend-host/source.c-->  NAME.h, NAME.c, NAME.bin
 *
 * The steps and kernels are those of the program that sn_compile makes where no library is chosen, so that the bits are the same. Kernels
 * of a GPU have their cubin beside the PTX where libnvJitLink is there (runtime/image_assemble.c). Constants of up to EMBEDDED bytes
 * are in the C source: as text they are four times as long. Debugging is the runtime's, which is not there: it is refused.
 */
#include "frontend/frontend.h"

#include <errno.h>
#include <string.h>

enum { EMBEDDED = 1 << 20 };

/* ---- a program as what the source is made from ---- */

static const sn_source_feature *features_of(uint32_t *n, uint64_t bits, sn_arena *a) {
    enum { EAX, EBX, ECX, EDX, YMM = 0x06, ZMM = 0xe6 };
    static const sn_source_feature all[] = {
#define FEATURE(llvm, leaf, subleaf, word, bit, saved) {llvm, leaf, subleaf, word, bit, saved},
#include "runtime/image_features.def"
#undef FEATURE
    };
    sn_source_feature *out = SN_NEWN(a, sn_source_feature, SN_COUNT(all));
    *n = 0;
    for (size_t i = 0; i < SN_COUNT(all); i++)
        if (bits >> i & 1) out[(*n)++] = all[i];
    return out;
}

static sn_status host_source(sn_source *out, sn_program *p, sn_arena *a) {
    uint32_t n = p->m->kernels.n;
    sn_host_image *code = SN_NEW(a, sn_host_image);
    uint64_t *kept = SN_NEWN(a, uint64_t, n + 1);
    if (!p->host) return sn_fail(&p->ctx->env, SN_ERROR_UNSUPPORTED, "the program has no code");
    SN_TRY(sn_host_code_link(code, p->host, &p->ctx->env, a));
    for (uint32_t k = 0; k < n; k++) kept[k] = sn_host_code_kept_bytes(p->host, k);
    out->host = code;
    out->host_kept = kept;
    out->features = features_of(&out->n_features, sn_image_features_of(code->features), a);
    return SN_OK;
}

sn_status sn_program_source(sn_source *out, sn_program *p, sn_arena *arena) {
    *out = (sn_source){0};
    if (!p->gpu_code) return host_source(out, p, arena);
    out->codes = p->codes;
    out->sm = p->target.sm;
    for (uint32_t k = 0; k < p->m->kernels.n; k++) out->only |= sn_ptx_is_for_one(p->codes[k].ptx);
    return SN_OK;
}

/* What they were assembled to. */
static const sn_file_part *cubins_of(sn_program *p, sn_arena *a) {
    uint32_t n = p->m->kernels.n;
    sn_image_part part = {
        .target = p->target.name, .sm = p->target.sm, .n_kernels = n, .kernels = SN_NEWN(a, sn_image_kernel, n + 1)};
    sn_file_part *out = SN_NEWN(a, sn_file_part, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        const sn_gpu_code *c = &p->codes[k];
        part.kernels[k].launch = (sn_rt_kernel){.name = sn_kern_get(p->m, p->m->kernels.at[k])->name,
                                                .ptx = c->ptx,
                                                .ptx_size = c->ptx_size,
                                                .whole = c->whole};
    }
    sn_program_assemble(p, &part, a);
    for (uint32_t k = 0; k < n; k++)
        out[k] = (sn_file_part){part.kernels[k].launch.cubin, part.kernels[k].launch.cubin_size};
    return out;
}

/* ---- the files ---- */

static uint64_t constant_bytes(const sn_program *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < p->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
        int64_t elements = 0;
        if (b->scope == SN_BUF_CONST && sn_ix_is_const(p->m, b->size, &elements))
            bytes += (uint64_t)elements * sn_dtype_bytes(b->dtype);
    }
    return bytes;
}

static sn_status write_files(const sn_source_files *f, sn_env *env, const char *folder, sn_arena *a) {
    sn_file_part texts[] = {{f->header.s, f->header.n}, {f->source.s, f->source.n}};
    const struct {
        const char *ending;
        const sn_file_part *parts;
        uint32_t n;
    } files[] = {{"h", &texts[0], 1}, {"c", &texts[1], 1}, {"bin", f->constants.at, f->constants.n}};
    for (size_t i = 0; i < SN_COUNT(files); i++) {
        const char *path = sn_strf(a, "%s/%s.%s", folder, f->name, files[i].ending);
        if (!files[i].n) continue;
        if (!sn_file_place(path, files[i].parts, files[i].n, SN_FILE_PUBLIC))
            return sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(errno));
    }
    return SN_OK;
}

static sn_status emit_program(sn_program *p, const char *folder, const sn_source_options *how) {
    sn_env *env = &p->ctx->env;
    sn_arena *a = &p->ctx->scratch;
    sn_source source;
    sn_source_files files;
    SN_TRY(sn_program_source(&source, p, a));
    if (p->gpu_code) source.cubins = cubins_of(p, a);
    source.weights_given = how->without_weights;
    source.constants_in_file = how->in_file || constant_bytes(p) > EMBEDDED;
    if (!sn_folder_make(folder)) return sn_fail(env, SN_ERROR_FILE, "cannot make %s: %s", folder, strerror(errno));
    sn_status status = sn_source_print(&files, p->m, &source, a);
    if (status == SN_OK) status = write_files(&files, env, folder, a);
    sn_source_free(&files);
    return status;
}

/* ---- the public call ---- */

typedef struct emit_args {
    sn_graph *g;
    const sn_compile_options *options;
    const char *folder;
    const sn_source_options *how;
} emit_args;

static void destroy_half(void *p) { sn_program_destroy(p); }

static sn_status refuse_debug(sn_context *ctx, const sn_compile_options *options) {
    sn_settings s;
    uint32_t on;
    SN_TRY(sn_settings_read(&s, ctx, options));
    SN_TRY(sn_debug_read(&on, &ctx->env, s.debug.debug));
    if (!on) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED,
                   "debug: C source without a library has no debugging; --emit-c without --freestanding has it "
                   "(libsinter-rt), and so have `sinter run` and images");
}

static sn_status body(sn_context *ctx, void *user) {
    const emit_args *e = user;
    sn_program *p;
    SN_TRY(refuse_debug(ctx, e->options));
    SN_TRY(sn_compile_to(&p, e->g, e->options, SN_PHASE_SOURCE));
    sn_making_begin(ctx, p, destroy_half);
    SN_TRY(emit_program(p, e->folder, e->how));
    sn_making_end(ctx, p);
    sn_program_destroy(p);
    return SN_OK;
}

sn_status sn_graph_emit_c(sn_graph *g, const sn_compile_options *options, const char *folder,
                          const sn_source_options *how) {
    emit_args e = {g, options, folder, how};
    return sn_guarded(g->ctx, body, &e);
}
