/* wrapper_c.c: the steps of Wrapper IR as C: what a program prepares once, and what a run does.
 *
 *     alloc t size 16 offset 256     char *tmp_t = memory + 256;
 *     reuse v from x                 char *tmp_v = in_x;
 *     call @k1(t, d, u + 64)         char *args[] = {tmp_t, self->constants[0], tmp_u + 256};
 *                                    if (call(self, 1, args, stream)) return 1;
 *     copy w from y size 16          if (copy(self, in_w, out_y, 16, stream)) return 1;
 *
 *     if p  ..  else  ..  end        if (test(self, &holds, step_p, stream)) return 1;
 *                                    if (holds) { .. } else { .. }
 *
 * The same text for a GPU and for the CPU: `call`, `copy` and `test` are functions of the texts in backend-host/source/, which source.c puts
 * around it. Must agree with the step interpreter (runtime/exec.c). Contains no LLVM; stands here because the other wrapper emitter does.
 */
#include "backend-host/source.h"

#include <string.h>

typedef sn_source_writer writer;

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

/* Backwards through the steps: a storage is needed by checks, calls and copies from step `first` up to `end`, and by needed
 * buffers that take it over. Without this the compiler would warn of locals that nobody reads. */
static void find_needed(writer *w, uint32_t first, uint32_t end) {
    w->needed = SN_NEWN(&w->scratch, bool, w->m->bufs.count);
    for (uint32_t i = end; i-- > 0;) {
        const sn_step *s = &w->m->wrap.steps.at[i];
        if ((s->kind == SN_STEP_REUSE || s->kind == SN_STEP_WINDOW) && w->needed[s->buf.i]) w->needed[s->from.i] = true;
        if (i < first) continue;
        if (changes_place(w, i)) w->needed[s->buf.i] = w->needed[s->from.i] = true;
        if (s->kind == SN_STEP_CHECK || s->kind == SN_STEP_IF || s->kind == SN_STEP_WHILE) w->needed[s->buf.i] = true;
        if (s->kind == SN_STEP_COPY) w->needed[s->buf.i] = w->needed[s->from.i] = true;
        if (s->kind != SN_STEP_CALL) continue;
        for (uint32_t p = 0; p < s->args.n; p++) w->needed[s->args.at[p].buf.i] = true;
    }
}

/* ---- inputs and outputs ---- */

uint32_t sn_source_io_buffer(const writer *w, sn_buf_scope scope, uint32_t io) {
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        if (b->scope == scope && b->io == io) return i;
    }
    return 0;
}

uint32_t sn_source_io_count(const writer *w, sn_buf_scope scope) {
    uint32_t n = scope == SN_BUF_INPUT ? w->m->graph.inputs.n : w->m->graph.outputs.n;
    for (uint32_t i = 1; i < w->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(w->m, (sn_buf){i});
        if (b->scope == scope && b->io >= n) n = b->io + 1;
    }
    return n;
}

int sn_source_writes(const writer *w, uint32_t output) {
    return output < w->m->graph.outputs.n ? w->m->graph.outputs.at[output].writes : -1;
}

static const char *io_local(writer *w, sn_buf_scope scope, uint32_t io) {
    uint32_t buf = sn_source_io_buffer(w, scope, io);
    return buf && w->needed[buf] ? w->buf_name[buf] : NULL;
}

/* An output that writes an input is the input's storage, or lies in memory of ours, from where a step copies it. */
static void put_ios(writer *w) {
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_INPUT); io < n; io++) {
        const char *name = io_local(w, SN_BUF_INPUT, io);
        if (name) sn_text_printf(w->t, "    char *%s = inputs[%u];\n", name, io);
    }
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_OUTPUT); io < n; io++) {
        const char *name = io_local(w, SN_BUF_OUTPUT, io);
        if (!name) continue;
        if (sn_source_writes(w, io) < 0) sn_text_printf(w->t, "    char *%s = outputs[%u];\n", name, io);
        else if (w->own[io] < 0) sn_text_printf(w->t, "    char *%s = inputs[%d];\n", name, sn_source_writes(w, io));
        else sn_text_printf(w->t, "    char *%s = self->memory + OWN_AT + %lld;\n", name, (long long)w->own[io]);
    }
}

/* ---- steps ---- */

static void put_check(writer *w, sn_buf buf, const char *name) {
    const sn_buf_rec *b = sn_buf_get(w->m, buf);
    int64_t elements = 0;
    bool has_some = sn_ix_is_const(w->m, b->size, &elements) && elements;
    sn_text_printf(w->t, "    if (check(self, %s, %d, %u, ", name, has_some, sn_source_align(b));
    sn_text_quoted(w->t, sn_strf(&w->scratch, "%s %s", b->scope == SN_BUF_INPUT ? "input" : "output", b->name));
    sn_text_put(w->t, ")) return 1; /* ");
    sn_source_shape(w, b);
    sn_text_put(w->t, " */\n");
}

static sn_status put_alloc(writer *w, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
    int64_t offset;
    SN_TRY(sn_wrap_number(&offset, w->m, s->offset, "the offset", b->name));
    if (!w->needed[s->buf.i]) return SN_OK;
    sn_text_printf(w->t, "    char *%s = memory + %lld; /* ", w->buf_name[s->buf.i], (long long)offset);
    sn_source_shape(w, b);
    sn_text_put(w->t, " */\n");
    return SN_OK;
}

static const char *moved(writer *w, const sn_arg *a) {
    long long bytes = (long long)a->offset * sn_dtype_bytes(sn_buf_get(w->m, a->buf)->dtype);
    return bytes ? sn_strf(&w->scratch, "%s + %lld", w->buf_name[a->buf.i], bytes) : w->buf_name[a->buf.i];
}

static sn_status is_empty(bool *out, writer *w, sn_kern k) {
    int64_t grid;
    sn_launch launch = sn_kern_launch(w->m, k);
    if (w->s->codes) return *out = !w->s->codes[w->number[k.i]].grid, SN_OK;
    SN_TRY(sn_wrap_number(&grid, w->m, launch.parts, "the grid", sn_kern_get(w->m, k)->name));
    *out = !grid;
    return SN_OK;
}

static sn_status put_call(writer *w, const sn_step *s) {
    uint32_t number = w->number[s->kern.i], n = 0;
    uint64_t kept_at, kept = sn_source_kept(&kept_at, w, number);
    bool empty;
    SN_TRY(is_empty(&empty, w, s->kern));
    if (empty) return SN_OK;
    sn_text_put(w->t, "    {\n        char *args[] = {");
    for (uint32_t i = 0; i < s->args.n; i++, n++) sn_text_printf(w->t, "%s%s", n ? ", " : "", moved(w, &s->args.at[i]));
    if (kept) sn_text_printf(w->t, "%sself->memory + KEPT_AT + %llu", n++ ? ", " : "", (unsigned long long)kept_at);
    sn_text_printf(w->t, "%s};\n        if (call(self, %u, args, stream)) return 1; /* %s */\n    }\n", n ? "" : "NULL",
                   number, sn_kern_get(w->m, s->kern)->name);
    return SN_OK;
}

static sn_status put_copy(writer *w, const sn_step *s) {
    int64_t size;
    SN_TRY(sn_wrap_number(&size, w->m, s->size, "the size", sn_buf_get(w->m, s->buf)->name));
    if (size)
        sn_text_printf(w->t, "    if (copy(self, %s, %s, %lld, stream)) return 1;\n", w->buf_name[s->buf.i],
                       w->buf_name[s->from.i], (long long)size);
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

/* The bool that a branch is taken by, or a repeat goes on by. */
static void put_test(writer *w, const sn_step *s, const char *then) {
    sn_text_printf(w->t, "    if (test(self, &holds, %s, stream)) return 1;\n    %s\n", w->buf_name[s->buf.i], then);
}

static sn_status put_window(writer *w, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
    int64_t first, by = 0;
    if (!w->needed[s->buf.i]) return SN_OK;
    SN_TRY(sn_wrap_number(&first, w->m, s->offset, "the offset", b->name));
    if (!sn_ix_is_const(w->m, s->size, &by)) SN_TRY(sn_wrap_number(&by, w->m, s->size, "the distance", b->name));
    sn_text_printf(w->t, "    char *%s = %s + (%lld + %lld * t%u); /* ", w->buf_name[s->buf.i], w->buf_name[s->from.i],
                   (long long)first, (long long)by, w->depth - 1);
    sn_source_shape(w, b);
    sn_text_put(w->t, " */\n");
    return SN_OK;
}

static void put_carry(writer *w, const sn_step *s) {
    const char *state = w->buf_name[s->buf.i], *next = w->buf_name[s->from.i];
    if (!changes_place(w, (uint32_t)(s - w->m->wrap.steps.at))) return;
    sn_text_printf(w->t, "    {\n        char *was = %s;\n        %s = %s;\n        %s = was;\n    }\n", state, state,
                   next, next);
}

static sn_status put_step(writer *w, const sn_step *s) {
    switch (s->kind) {
    case SN_STEP_CHECK: put_check(w, s->buf, w->buf_name[s->buf.i]); return SN_OK;
    case SN_STEP_ALLOC: return put_alloc(w, s);
    case SN_STEP_REUSE:
        if (w->needed[s->buf.i])
            sn_text_printf(w->t, "    char *%s = %s;\n", w->buf_name[s->buf.i], w->buf_name[s->from.i]);
        return SN_OK;
    case SN_STEP_CALL: return put_call(w, s);
    case SN_STEP_COPY: return put_copy(w, s);
    case SN_STEP_COMMENT:
        sn_text_put(w->t, "    /* ");
        sn_source_comment(w->t, s->text);
        sn_text_put(w->t, " */\n");
        return SN_OK;
    case SN_STEP_REPEAT: return put_repeat(w, s);
    case SN_STEP_WINDOW: return put_window(w, s);
    case SN_STEP_CARRY: put_carry(w, s); return SN_OK;
    case SN_STEP_WHILE: put_test(w, s, "if (!holds) break;"); return SN_OK;
    case SN_STEP_IF:
        put_test(w, s, "if (holds) {");
        w->depth++;
        return SN_OK;
    case SN_STEP_ELSE: sn_text_put(w->t, "    } else {\n"); return SN_OK;
    case SN_STEP_END:
        w->depth--;
        sn_text_put(w->t, "    }\n");
        return SN_OK;
    case SN_STEP_FREE:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

/* ---- the functions ---- */

/* Of the prepare part a run wants to know where its results are. */
static bool says_a_place(const sn_step *s) { return s->kind == SN_STEP_ALLOC || s->kind == SN_STEP_REUSE; }

static sn_status put_prepare(writer *w) {
    const sn_wrap *wrap = &w->m->wrap;
    find_needed(w, 0, wrap->n_prepare);
    sn_text_printf(w->t, "/* What depends on constants alone. */\nstatic int prepare(struct %s *self) {\n", w->name);
    sn_text_put(w->t, "    char *memory = self->memory + PREPARED_AT;\n    queue stream = NULL;\n");
    for (uint32_t i = 0; i < wrap->n_prepare; i++) SN_TRY(put_step(w, &wrap->steps.at[i]));
    sn_text_put(w->t, "    return (void)memory, (void)stream, 0;\n}\n\n");
    return SN_OK;
}

static bool tests_any(const sn_wrap *wrap) {
    bool any = false;
    for (uint32_t i = 0; i < wrap->steps.n; i++)
        any |= wrap->steps.at[i].kind == SN_STEP_IF || wrap->steps.at[i].kind == SN_STEP_WHILE;
    return any;
}

static sn_status put_steps(writer *w) {
    const sn_wrap *wrap = &w->m->wrap;
    find_needed(w, wrap->n_prepare, wrap->steps.n);
    sn_text_printf(w->t,
                   "static int run_steps(struct %s *self, char *const *inputs, char *const *outputs, queue stream) {\n",
                   w->name);
    sn_text_put(w->t, "    char *memory = self->memory + PREPARED_AT;\n");
    if (tests_any(wrap)) sn_text_put(w->t, "    int holds = 0;\n");
    put_ios(w);
    for (uint32_t i = 0; i < wrap->n_prepare; i++)
        if (says_a_place(&wrap->steps.at[i])) SN_TRY(put_step(w, &wrap->steps.at[i]));
    sn_text_put(w->t, "    memory = self->memory + WORKSPACE_AT;\n");
    for (uint32_t i = wrap->n_prepare; i < wrap->steps.n; i++) SN_TRY(put_step(w, &wrap->steps.at[i]));
    sn_text_put(w->t, "    return (void)inputs, (void)outputs, (void)memory, (void)stream, 0;\n}\n\n");
    return SN_OK;
}

static void put_addresses(writer *w, const char *list, const char *one, sn_buf_scope scope) {
    uint32_t n = sn_source_io_count(w, scope), count = 0;
    sn_text_printf(w->t, "    char *%s[] = {", list);
    for (uint32_t io = 0; io < n; io++) {
        bool is_given = scope == SN_BUF_INPUT || sn_source_writes(w, io) < 0;
        sn_text_put(w->t, count++ ? ", " : "");
        if (is_given) sn_text_printf(w->t, "(char *)(uintptr_t)%s_%u", one, io);
        else sn_text_put(w->t, "NULL");
    }
    sn_text_put(w->t, count ? "};\n" : "NULL};\n");
}

static bool is_checked(const writer *w, uint32_t buf) {
    for (uint32_t i = 0; i < w->m->wrap.steps.n; i++)
        if (w->m->wrap.steps.at[i].kind == SN_STEP_CHECK && w->m->wrap.steps.at[i].buf.i == buf) return true;
    return false;
}

/* Steps check what kernels count on, which is less than what a caller gets wrong. */
static void put_output_checks(writer *w) {
    for (uint32_t io = 0, n = sn_source_io_count(w, SN_BUF_OUTPUT); io < n; io++) {
        uint32_t buf = sn_source_io_buffer(w, SN_BUF_OUTPUT, io);
        if (buf && sn_source_writes(w, io) < 0 && !is_checked(w, buf))
            put_check(w, (sn_buf){buf}, sn_strf(&w->scratch, "outputs[%u]", io));
    }
}

static void put_run(writer *w) {
    sn_source_run_signature(w, false);
    sn_text_put(w->t, " {\n");
    put_addresses(w, "inputs", "input", SN_BUF_INPUT);
    put_addresses(w, "outputs", "output", SN_BUF_OUTPUT);
    put_output_checks(w);
    sn_text_put(w->t, "    if (enter(self)) return 1;\n");
    sn_text_printf(w->t,
                   "    int result = run_steps(self, inputs, outputs, %s);\n    leave();\n    return result;\n}\n",
                   w->s->codes ? "(queue)stream" : "NULL");
}

sn_status sn_source_steps(writer *w) {
    SN_TRY(put_prepare(w));
    SN_TRY(put_steps(w));
    put_run(w);
    return SN_OK;
}
