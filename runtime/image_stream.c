/* image_stream.c: the fields of an image as bytes, in both directions.
 *
 *     walk_port(io, port)      writing: the fields of *port go to io->to;  reading: they come from io->at
 *
 * One function per record serves both, so that reader and writer cannot disagree. Numbers are little-endian and fixed in
 * size. A read that goes wrong leaves io->fault and zeroes: walks go on harmlessly and the one check is at the end. Counts
 * are bounded by the bytes that are left, which bounds memory by the size of the file. Blobs (code, constants) lie in the
 * file beside the fields, which name them by place, size and checksum.
 */
#include "runtime/image.h"

#include <string.h>

static const uint32_t NO_PART = UINT32_MAX;

struct sn_image_stream {
    sn_env *env;
    sn_arena *arena;
    sn_text *to; /* NULL: reading */
    const unsigned char *at, *end;
    sn_image_bytes file;
    const char *fault; /* the first thing that is wrong, in the arena or static */
    SN_VEC(sn_image_blob) blobs;
    uint64_t next; /* where the next blob goes */
    SN_VEC(sn_image_sum) sums;
    uint32_t part; /* that is walked; NO_PART: constants are */
};
typedef sn_image_stream io;

static void fault(io *s, const char *what) {
    if (!s->fault) s->fault = what;
    s->at = s->end;
}

static void move(io *s, void *p, size_t n) {
    if (s->to) {
        sn_text_putn(s->to, p, n);
    } else if ((size_t)(s->end - s->at) < n) {
        memset(p, 0, n);
        fault(s, "its fields end too early");
    } else {
        memcpy(p, s->at, n);
        s->at += n;
    }
}

static void u32(io *s, uint32_t *x) { move(s, x, sizeof *x); }
static void u64(io *s, uint64_t *x) { move(s, x, sizeof *x); }
static void i64(io *s, int64_t *x) { move(s, x, sizeof *x); }

static void i32(io *s, int32_t *x) { move(s, x, sizeof *x); }

static void flag(io *s, bool *x) {
    uint32_t word = *x;
    u32(s, &word);
    *x = word != 0;
}

/* One of n. */
#define ONE_OF(s, x, n, what)                       \
    do {                                            \
        uint32_t one_of_word = (uint32_t)(x);       \
        u32((s), &one_of_word);                     \
        if (one_of_word >= (uint32_t)(n)) {         \
            fault((s), "no such " what);            \
            one_of_word = 0;                        \
        }                                           \
        (x) = one_of_word;                          \
    } while (0)

/* At most as many as the rest of the fields can hold, at `least` bytes each. */
static void count(io *s, uint32_t *n, size_t least) {
    u32(s, n);
    if (s->to || *n <= (size_t)(s->end - s->at) / least) return;
    *n = 0;
    fault(s, "a list is longer than the file");
}

/* A list: its length, and when reading its memory. */
#define LIST(s, list, n, least)                                                              \
    do {                                                                                     \
        count((s), &(n), (least));                                                           \
        if (!(s)->to) (list) = sn_zalloc_list((s)->arena, sizeof *(list), (size_t)(n) + 1);  \
    } while (0)

static void text(io *s, const char **x) {
    uint32_t n = s->to && *x ? (uint32_t)strlen(*x) : 0;
    count(s, &n, 1);
    if (s->to) {
        sn_text_putn(s->to, *x ? *x : "", n);
        return;
    }
    if (memchr(s->at, 0, n)) fault(s, "a text has a byte 0"), n = 0;
    *x = sn_strndup(s->arena, (const char *)s->at, n);
    s->at += n;
}

/* A number of so many, at most: shapes and the like. */
static void rank(io *s, uint32_t *n, uint32_t most) {
    u32(s, n);
    if (*n <= most) return;
    *n = 0;
    fault(s, "a tensor has too many axes");
}

static void size(io *s, int64_t *x) {
    i64(s, x);
    if (*x >= 0 && *x <= (INT64_C(1) << 62)) return;
    *x = 0;
    fault(s, "a size is negative or too large");
}

/* No count of elements of a shape is beyond 64 bits. */
static void check_shape(io *s, const int64_t *shape, uint32_t n) {
    int64_t product = 1;
    for (uint32_t k = 0; k < n; k++)
        if (shape[k] && sn_mul_overflow(product, shape[k], &product)) fault(s, "a shape is too large");
}

/* Nor is a place of an element, from the start of the storage on. */
static void check_reach(io *s, const sn_image_port *p) {
    int64_t low = p->offset, high = p->offset, step = 0;
    bool bad = p->offset < 0;
    for (uint32_t k = 0; k < p->rank; k++) {
        bad |= sn_mul_overflow(p->shape[k] ? p->shape[k] - 1 : 0, p->strides[k], &step);
        bad |= sn_add_overflow(step < 0 ? low : high, step, step < 0 ? &low : &high);
    }
    if (bad || high > INT64_MAX / 64) fault(s, "a tensor reaches too far");
}

/* ---- blobs ---- */

static uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

static void put_blob(io *s, const sn_image_bytes *b, uint64_t align, uint64_t *offset, sn_cache_key *sum) {
    *offset = 0;
    if (!b->size) return;
    *sum = sn_cache_key_of(b->at, (size_t)b->size);
    for (uint32_t i = 0; i < s->blobs.n; i++) {
        const sn_image_blob *old = &s->blobs.at[i];
        if (old->at == b->at && old->size == b->size && old->offset % align == 0) {
            *offset = old->offset;
            return;
        }
    }
    *offset = s->next = round_up(s->next, align);
    s->next += b->size;
    SN_PUSH(s->arena, &s->blobs, ((sn_image_blob){b->at, b->size, *offset}));
}

static void get_blob(io *s, sn_image_bytes *b, uint64_t align, uint64_t offset, const sn_cache_key *sum) {
    b->at = "";
    if (s->fault || !b->size) {
        b->size = 0;
        return;
    }
    if (offset % align || offset > s->file.size || b->size > s->file.size - offset) {
        b->size = 0;
        fault(s, "code or constants lie outside of the file");
        return;
    }
    b->at = (const char *)s->file.at + offset;
    SN_PUSH(s->arena, &s->sums, ((sn_image_sum){.bytes = *b, .sum = *sum, .part = s->part}));
}

static void blob(io *s, sn_image_bytes *b, uint64_t align) {
    uint64_t offset = 0;
    sn_cache_key sum = {{0, 0}};
    if (s->to) put_blob(s, b, align, &offset, &sum);
    u64(s, &offset);
    u64(s, &b->size);
    u64(s, &sum.at[0]);
    u64(s, &sum.at[1]);
    if (!s->to) get_blob(s, b, align, offset, &sum);
}

/* ---- records ---- */

/* Bytes that a record takes at least. */

enum {
    LEAST_FILE = 4,
    LEAST_PORT = 68,
    LEAST_CONST = 40,
    LEAST_BUF = 28,
    LEAST_ARG = 12,
    LEAST_STEP = 24,
    LEAST_FORMAL = 20,
    LEAST_KERNEL = 72,
    LEAST_MAP = 40,
    LEAST_SLOT = 20,
    LEAST_PART = 100
};

static uint64_t dense_bytes(const sn_image_port *p) {
    uint64_t bytes = sn_dtype_bytes(p->dtype);
    for (uint32_t k = 0; k < p->rank; k++) bytes *= (uint64_t)p->shape[k];
    return bytes;
}

static void walk_port(io *s, sn_image_port *p) {
    text(s, &p->name);
    ONE_OF(s, p->dtype, SN_N_DTYPES, "dtype");
    rank(s, &p->rank, SN_MAX_RANK);
    for (uint32_t k = 0; k < p->rank; k++) size(s, &p->shape[k]), i64(s, &p->strides[k]);
    i64(s, &p->offset);
    check_shape(s, p->shape, p->rank);
    check_reach(s, p);
    u32(s, &p->align);
    i32(s, &p->writes);
    i64(s, &p->own_offset);
    blob(s, &p->otherwise, SN_IMAGE_ALIGN);
    if (p->align & (p->align - 1)) fault(s, "an alignment is no power of two");
    if (!s->fault && p->otherwise.size && p->otherwise.size != dense_bytes(p))
        fault(s, "a default is not as large as its input");
}

static void walk_const(io *s, sn_image_const *c, const sn_image *image) {
    text(s, &c->name);
    ONE_OF(s, c->dtype, SN_N_DTYPES, "dtype");
    rank(s, &c->rank, SN_MAX_RANK);
    for (uint32_t k = 0; k < c->rank; k++) size(s, &c->shape[k]);
    check_shape(s, c->shape, c->rank);
    flag(s, &c->given);
    u32(s, &c->file);
    if (c->file > image->n_files || (c->file && c->given)) fault(s, "a constant lies in no file"), c->file = 0;
    if (c->file) text(s, &c->tensor), u64(s, &c->sum.at[0]), u64(s, &c->sum.at[1]);
    else blob(s, &c->data, SN_IMAGE_ALIGN);
}

static bool has_port(sn_buf_scope scope) { return scope == SN_BUF_INPUT || scope == SN_BUF_OUTPUT; }

static void walk_buf(io *s, sn_image_buf *b, const sn_image *image, const sn_image_part *p) {
    text(s, &b->name);
    ONE_OF(s, b->dtype, SN_N_DTYPES, "dtype");
    ONE_OF(s, b->scope, SN_BUF_FORMAL, "scope");
    u32(s, &b->io);
    u32(s, &b->align);
    size(s, &b->elements);
    if (b->align & (b->align - 1)) fault(s, "an alignment is no power of two");
    if (b->elements > INT64_MAX / 64) fault(s, "a buffer is too large");
    uint32_t most = b->scope == SN_BUF_INPUT ? p->n_inputs : b->scope == SN_BUF_OUTPUT ? p->n_outputs : image->n_consts;
    if ((has_port(b->scope) || b->scope == SN_BUF_CONST) && b->io >= most) fault(s, "a buffer has no port or constant");
}

static void walk_args(io *s, sn_image_step *x, const sn_image_part *p) {
    LIST(s, x->args, x->n_args, LEAST_ARG);
    for (uint32_t i = 0; i < x->n_args; i++) {
        ONE_OF(s, x->args[i].buf, p->n_bufs, "buffer");
        size(s, &x->args[i].offset);
        if (!s->fault && x->args[i].offset > p->bufs[x->args[i].buf].elements)
            fault(s, "an argument is outside of its buffer");
    }
}

static void walk_step(io *s, sn_image_step *x, const sn_image_part *p) {
    ONE_OF(s, x->kind, SN_N_STEP_KINDS, "step");
    if (x->kind == SN_STEP_WINDOW) i64(s, &x->size);
    else size(s, &x->size);
    size(s, &x->offset);
    if (sn_image_step_is_alone(x->kind)) return;
    if (x->kind != SN_STEP_CALL) ONE_OF(s, x->buf, p->n_bufs, "buffer");
    if (sn_image_step_has_from(x->kind)) ONE_OF(s, x->from, p->n_bufs, "buffer");
    if (x->kind == SN_STEP_CALL) {
        ONE_OF(s, x->kernel, p->n_kernels, "kernel");
        walk_args(s, x, p);
        if (!s->fault && x->n_args != p->kernels[x->kernel].n_formals)
            fault(s, "a call has not as many arguments as its kernel");
    }
    if (s->fault) return;
    if (x->kind == SN_STEP_CHECK && !has_port(p->bufs[x->buf].scope)) fault(s, "a check of what is no input or output");
    sn_buf_scope scope = x->kind == SN_STEP_CALL ? SN_BUF_STEP : p->bufs[x->buf].scope;
    if ((x->kind == SN_STEP_ALLOC || x->kind == SN_STEP_REUSE) && scope != SN_BUF_TEMP && scope != SN_BUF_STEP)
        fault(s, "storage for what is no intermediate");
    if ((x->kind == SN_STEP_WINDOW || x->kind == SN_STEP_CARRY) && scope != SN_BUF_STEP)
        fault(s, "a repeat of what is no part of one");
    const sn_image_buf *flag = x->kind == SN_STEP_IF || x->kind == SN_STEP_WHILE ? &p->bufs[x->buf] : NULL;
    if (flag && (scope != SN_BUF_STEP || flag->dtype != SN_BOOL || flag->elements != 1))
        fault(s, "a branch is taken by what is not one bool");
    if (x->kind == SN_STEP_FREE || x->kind == SN_STEP_COMMENT) fault(s, "a step that does nothing");
}

static int64_t bytes_of(const sn_image_buf *b) { return b->elements * sn_dtype_bytes(b->dtype); }

/* In all steps: is the window inside of what it is from? */
static bool is_inside(const sn_image_part *p, const sn_image_step *x, int64_t trip) {
    int64_t last, room = bytes_of(&p->bufs[x->from]) - bytes_of(&p->bufs[x->buf]);
    bool counts = !sn_mul_overflow(x->size, trip - 1, &last) && !sn_add_overflow(last, x->offset, &last);
    return counts && x->offset <= room && last >= 0 && last <= room;
}

/* Repeats and branches that have not ended. trip: of an `if` 0, behind its `else` -1. */
typedef struct open_steps {
    int64_t trip[64];
    uint32_t depth;
} open_steps;

static void open_step(io *s, open_steps *o, const sn_image_step *x, bool prepares) {
    bool repeats = x->kind == SN_STEP_REPEAT;
    if (o->depth == SN_COUNT(o->trip) || prepares || (repeats && x->size < 1)) fault(s, "a repeat is none");
    else o->trip[o->depth++] = repeats ? x->size : 0;
}

static void check_inside(io *s, open_steps *o, const sn_image_step *x, const sn_image_part *p) {
    int64_t *trip = &o->trip[o->depth - 1];
    bool of_repeat = x->kind == SN_STEP_WINDOW || x->kind == SN_STEP_CARRY || x->kind == SN_STEP_WHILE;
    if (of_repeat && *trip < 1) fault(s, "a step of a repeat stands outside of one");
    else if (x->kind == SN_STEP_WINDOW && !is_inside(p, x, *trip)) fault(s, "a window leaves its buffer");
    else if (x->kind == SN_STEP_CARRY && bytes_of(&p->bufs[x->buf]) != bytes_of(&p->bufs[x->from]))
        fault(s, "a state changes its size");
    else if (x->kind == SN_STEP_ELSE && *trip) fault(s, "an else is of no if");
    else if (x->kind == SN_STEP_ELSE) *trip = -1;
    else if (x->kind == SN_STEP_END) o->depth--;
}

/* Repeats and branches stand behind what prepares, and have an end; repeats have at least one step; windows stay inside. */
static void check_repeats(io *s, const sn_image_part *p) {
    open_steps o = {.depth = 0};
    for (uint32_t i = 0; i < p->n_steps && !s->fault; i++) {
        const sn_image_step *x = &p->steps[i];
        bool inside = x->kind == SN_STEP_WINDOW || x->kind == SN_STEP_CARRY || x->kind == SN_STEP_WHILE ||
                      x->kind == SN_STEP_ELSE || x->kind == SN_STEP_END;
        if (inside && !o.depth) fault(s, "a step of a repeat stands outside of one");
        else if (inside) check_inside(s, &o, x, p);
        else if (x->kind == SN_STEP_REPEAT || x->kind == SN_STEP_IF) open_step(s, &o, x, i < p->n_prepare);
    }
    if (o.depth) fault(s, "a repeat has no end");
}

static void walk_formal(io *s, sn_image_formal *f) {
    ONE_OF(s, f->dtype, SN_N_DTYPES, "dtype");
    ONE_OF(s, f->role, SN_N_ROLES, "role");
    rank(s, &f->rank, SN_MAX_RANK);
    for (uint32_t k = 0; k < f->rank; k++) size(s, &f->shape[k]);
    check_shape(s, f->shape, f->rank);
    size(s, &f->numel);
}

static void walk_map(io *s, sn_tensor_map *m, uint32_t n_formals) {
    ONE_OF(s, m->param, n_formals, "parameter");
    i64(s, &m->offset);
    ONE_OF(s, m->dtype, SN_N_DTYPES, "dtype");
    flag(s, &m->tf32);
    rank(s, &m->rank, SN_MAP_RANK);
    for (uint32_t k = 0; k < SN_MAP_RANK; k++) i64(s, &m->dims[k]), u32(s, &m->box[k]);
    for (uint32_t k = 0; k < SN_MAP_RANK - 1; k++) i64(s, &m->strides[k]);
    flag(s, &m->pixels);
    for (uint32_t k = 0; k < SN_MAP_RANK - 2; k++) i32(s, &m->low[k]), i32(s, &m->high[k]), u32(s, &m->steps[k]);
    u32(s, &m->swizzle);
    if (s->to || s->fault) return;
    const char *why = sn_tensor_map_fault(m);
    if (why) fault(s, sn_strf(s->arena, "a tensor map: %s", why));
}

static void walk_matrix(io *s, sn_library_matrix *m, uint32_t n_formals) {
    ONE_OF(s, m->param, n_formals, "parameter");
    i64(s, &m->offset);
    i64(s, &m->ld);
    i64(s, &m->stride);
    flag(s, &m->transposed);
    u32(s, &m->align);
    ONE_OF(s, m->dtype, SN_N_DTYPES, "dtype");
}

static void walk_axis(io *s, sn_library_axis *a) { size(s, &a->size), i64(s, &a->a), i64(s, &a->b), i64(s, &a->c); }

static void walk_conv(io *s, sn_library_conv *c) {
    sn_library_axis *const axes[] = {&c->batch, &c->groups, &c->out, &c->in};
    for (size_t k = 0; k < SN_COUNT(axes); k++) walk_axis(s, axes[k]);
    rank(s, &c->n, SN_LIBRARY_WINDOWS);
    for (uint32_t k = 0; k < c->n; k++) {
        sn_library_window *w = &c->at[k];
        int64_t *const numbers[] = {&w->size, &w->results, &w->taps,     &w->a,     &w->b,
                                    &w->c,    &w->stride,  &w->dilation, &w->apart, &w->low};
        for (size_t i = 0; i < SN_COUNT(numbers); i++) i64(s, numbers[i]);
    }
}

static void walk_library(io *s, sn_library_call *c, uint32_t n_formals) {
    flag(s, &c->is_conv);
    if (c->is_conv) walk_conv(s, &c->conv);
    size(s, &c->m), size(s, &c->n), size(s, &c->k), size(s, &c->batch);
    ONE_OF(s, c->sum, SN_N_DTYPES, "dtype");
    ONE_OF(s, c->precision, SN_N_PRECISIONS, "precision");
    walk_matrix(s, &c->a, n_formals), walk_matrix(s, &c->b, n_formals), walk_matrix(s, &c->c, n_formals);
    flag(s, &c->has_bias);
    flag(s, &c->relu);
    if (c->has_bias) walk_matrix(s, &c->bias, n_formals);
    u32(s, &c->algo);
}

static void walk_launch(io *s, sn_rt_kernel *k) {
    uint64_t kept = k->kept_bytes;
    size(s, &k->grid);
    u32(s, &k->alternative_of);
    u32(s, &k->block_x), u32(s, &k->block_y), u32(s, &k->cluster), u32(s, &k->shared_bytes);
    flag(s, &k->together);
    flag(s, &k->param_block);
    flag(s, &k->whole);
    u64(s, &kept);
    if (kept > (UINT64_C(1) << 40)) fault(s, "a kernel keeps too much memory"), kept = 0;
    k->kept_bytes = (size_t)kept;
}

static void walk_gpu_code(io *s, sn_image_kernel *k) {
    sn_image_bytes ptx = {k->launch.ptx, k->launch.ptx ? k->launch.ptx_size + 1 : 0};
    sn_image_bytes cubin = {k->launch.cubin, k->launch.cubin_size};
    blob(s, &ptx, 16);
    blob(s, &cubin, 16);
    LIST(s, k->maps, k->launch.n_maps, LEAST_MAP);
    for (uint32_t i = 0; i < k->launch.n_maps; i++) walk_map(s, &k->maps[i], k->n_formals);
    if (s->to || k->library) return;
    if (!ptx.size || ((const char *)ptx.at)[ptx.size - 1]) {
        fault(s, "a kernel has no PTX");
        return;
    }
    k->launch.ptx = ptx.at;
    k->launch.ptx_size = (size_t)ptx.size - 1;
    if (cubin.size) k->launch.cubin = cubin.at, k->launch.cubin_size = (size_t)cubin.size;
    k->launch.maps = k->maps;
}

static void walk_kernel(io *s, sn_image_kernel *k, const sn_image_part *p) {
    bool is_call = k->library != NULL;
    text(s, &k->launch.name);
    text(s, &k->note);
    text(s, &k->schedule);
    LIST(s, k->formals, k->n_formals, LEAST_FORMAL);
    for (uint32_t i = 0; i < k->n_formals; i++) walk_formal(s, &k->formals[i]);
    walk_launch(s, &k->launch);
    flag(s, &is_call);
    if (is_call && !s->to) k->library = SN_NEW(s->arena, sn_library_call);
    if (is_call) walk_library(s, k->library, k->n_formals);
    k->launch.library = k->library;
    u64(s, &k->entry);
    if (p->sm) walk_gpu_code(s, k);
}

static void walk_slot(io *s, sn_image_slot *x, const sn_image_part *p) {
    u64(s, &x->at);
    text(s, &x->import);
    u64(s, &x->target);
    if (s->to) return;
    if (!*x->import) x->import = NULL;
    if (x->at % 8 || x->at > p->code.size || p->code.size - x->at < 8 || x->target > p->code.size)
        fault(s, "an address goes outside of the code");
}

static void walk_ports(io *s, sn_image_part *p) {
    LIST(s, p->inputs, p->n_inputs, LEAST_PORT);
    for (uint32_t i = 0; i < p->n_inputs; i++) walk_port(s, &p->inputs[i]);
    LIST(s, p->outputs, p->n_outputs, LEAST_PORT);
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        walk_port(s, &p->outputs[i]);
        if (p->outputs[i].writes >= (int32_t)p->n_inputs) fault(s, "an output writes an input that is not there");
        if (p->outputs[i].own_offset > p->own_size) fault(s, "an output lies outside of its storage");
    }
}

/* What runs in place of another one takes the same arguments. */
static void check_alternatives(io *s, const sn_image_part *p) {
    for (uint32_t i = 0; i < p->n_kernels && !s->fault; i++) {
        uint32_t of = p->kernels[i].launch.alternative_of;
        if (!of) continue;
        if (of > p->n_kernels || p->kernels[of - 1].launch.alternative_of ||
            p->kernels[of - 1].n_formals != p->kernels[i].n_formals || p->kernels[i].library ||
            p->kernels[of - 1].library)
            fault(s, "a kernel is the alternative of none");
    }
}

static void walk_part(io *s, sn_image_part *p, const sn_image *image) {
    text(s, &p->target), text(s, &p->machine), text(s, &p->cpu);
    u64(s, &p->features);
    u32(s, &p->sm);
    flag(s, &p->only);
    size(s, &p->workspace), size(s, &p->prepared), size(s, &p->own_size);
    walk_ports(s, p);
    blob(s, &p->code, SN_IMAGE_ALIGN);
    LIST(s, p->slots, p->n_slots, LEAST_SLOT);
    for (uint32_t i = 0; i < p->n_slots; i++) walk_slot(s, &p->slots[i], p);
    LIST(s, p->bufs, p->n_bufs, LEAST_BUF);
    for (uint32_t i = 0; i < p->n_bufs; i++) walk_buf(s, &p->bufs[i], image, p);
    LIST(s, p->kernels, p->n_kernels, LEAST_KERNEL);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        walk_kernel(s, &p->kernels[i], p);
        if (!p->sm && !p->kernels[i].library && p->kernels[i].entry >= p->code.size) fault(s, "a kernel has no code");
    }
    check_alternatives(s, p);
    u32(s, &p->n_prepare);
    LIST(s, p->steps, p->n_steps, LEAST_STEP);
    for (uint32_t i = 0; i < p->n_steps; i++) walk_step(s, &p->steps[i], p);
    if (p->n_prepare > p->n_steps) fault(s, "more steps prepare than there are");
    if (!s->fault) check_repeats(s, p);
}

static void walk(io *s, sn_image *image) {
    text(s, &image->maker);
    text(s, &image->name);
    LIST(s, image->files, image->n_files, LEAST_FILE);
    for (uint32_t i = 0; i < image->n_files; i++) text(s, &image->files[i]);
    LIST(s, image->consts, image->n_consts, LEAST_CONST);
    s->part = NO_PART;
    for (uint32_t i = 0; i < image->n_consts; i++) walk_const(s, &image->consts[i], image);
    LIST(s, image->parts, image->n_parts, LEAST_PART);
    for (s->part = 0; s->part < image->n_parts; s->part++) walk_part(s, &image->parts[s->part], image);
    if (!s->to && s->at != s->end) fault(s, "it goes on behind its last field");
    if (!image->n_parts) fault(s, "it has no target");
}

void sn_image_put(sn_text *out, sn_image_blob **blobs, uint32_t *n_blobs, const sn_image *image, uint64_t first,
                  sn_arena *arena) {
    io s = {.env = arena->env, .arena = arena, .to = out, .next = first};
    sn_image copy = *image; /* writing changes nothing behind it */
    walk(&s, &copy);
    *blobs = s.blobs.at;
    *n_blobs = s.blobs.n;
}

sn_status sn_image_get(sn_image **out, sn_env *env, sn_arena *arena, const char *name, sn_image_bytes fields,
                       sn_image_bytes file) {
    io s = {.env = env, .arena = arena, .file = file, .at = fields.at};
    s.end = s.at + fields.size;
    *out = SN_NEW(arena, sn_image);
    walk(&s, *out);
    (*out)->file = sn_strdup(arena, name);
    (*out)->sums = s.sums.at;
    (*out)->n_sums = s.sums.n;
    if (!s.fault) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "%s: the image is damaged: %s", name, s.fault);
}
