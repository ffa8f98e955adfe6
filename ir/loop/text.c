/* text.c: buffers and kernels as text (docs/IR.md has the grammar); ir/loop/parse.c reads it back.
 *
 * Values are numbered in print order; axis names are hints made unique per kernel, kept apart from symbols and from the
 * words of the grammar. A statement that names values or axes of another kernel is printed all the same (%?7, axis?7),
 * since the verifier prints what it complains about.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/build.h"
#include "ir/loop/mma.h"

/* ---- numbers ---- */

/* The shortest decimal that reads back as x, a value of the dtype. */
static void put_float(sn_text *t, sn_dtype dtype, double x) {
    char s[40];
    for (int digits = 1; dtype != SN_F64 && isfinite(x) && digits <= 9; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (sn_round_to(dtype, strtod(s, NULL)) != x) continue;
        sn_text_put(t, s);
        if (!strpbrk(s, ".e")) sn_text_put(t, ".0");
        return;
    }
    sn_text_double(t, x);
}

static void put_int(sn_text *t, sn_dtype dtype, int64_t x) {
    if (dtype == SN_BOOL) sn_text_put(t, x ? "true" : "false");
    else if (dtype == SN_U64) sn_text_printf(t, "%llu", (unsigned long long)x);
    else sn_text_printf(t, "%lld", (long long)x);
}

static void put_element(sn_text *t, sn_dtype dtype, const void *p) {
    if (sn_is_float(dtype)) put_float(t, dtype, sn_load_float(dtype, p));
    else put_int(t, dtype, sn_load_int(dtype, p));
}

/* ---- names of a kernel ---- */

typedef struct names {
    const sn_module *m;
    bool plain; /* numbers for names, nothing that is for people: equal kernels are equal text */
    sn_arena arena;
    SN_VEC(sn_val) vals;  /* by number; val.mark is the number, believed only when this agrees */
    SN_VEC(sn_axis) axes; /* by position, likewise */
    SN_VEC(const char *) axis_names;
} names;

static void reserve_names(const sn_module *m, sn_names *used) {
    static const char *const WORDS[] = {"div", "mod", "min", "max", "in", "if", "else", "nan", "inf", "over"};
    for (size_t i = 0; i < SN_COUNT(WORDS); i++) sn_names_put(used, WORDS[i], 1);
    for (sn_sym s = {1}; s.i < m->syms.count; s.i++) sn_names_put(used, sn_sym_get(m, s)->name, 1);
}

static void number_buffers(const sn_module *m, const sn_buf_list *list, uint32_t from) {
    for (uint32_t i = 0; i < list->n; i++) sn_buf_get(m, list->at[i])->mark = from + i;
}

static void names_init(names *n, sn_env *env, const sn_module *m, sn_kern k, bool plain) {
    *n = (names){.m = m, .plain = plain};
    sn_arena_init(&n->arena, env);
    if (plain) {
        number_buffers(m, &sn_kern_get(m, k)->params, 0);
        number_buffers(m, &sn_kern_get(m, k)->locals, sn_kern_get(m, k)->params.n);
    }
    sn_names used;
    sn_names_init(&used, &n->arena);
    reserve_names(m, &used);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_results; i++) {
            sn_val_get(m, sn_result(r, i))->mark = n->vals.n;
            SN_PUSH(&n->arena, &n->vals, sn_result(r, i));
        }
        if (!r->axis.i) continue;
        sn_axis_rec *ax = sn_axis_get(m, r->axis);
        const char *name =
            plain ? sn_strf(&n->arena, "i%u", n->axes.n) : sn_fresh_name(&n->arena, &used, ax->name, "i");
        if (!plain) sn_names_put(&used, name, 1);
        ax->mark = n->axes.n;
        SN_PUSH(&n->arena, &n->axes, r->axis);
        SN_PUSH(&n->arena, &n->axis_names, name);
    }
}

static void names_free(names *n) { sn_arena_free(&n->arena); }

static const char *axis_name(names *n, sn_axis ax) {
    uint32_t at = sn_axis_get(n->m, ax)->mark;
    if (at < n->axes.n && sn_axis_eq(n->axes.at[at], ax)) return n->axis_names.at[at];
    return sn_strf(&n->arena, "axis?%u", ax.i);
}

static bool has_number(const names *n, sn_val v) {
    uint32_t number = sn_val_get(n->m, v)->mark;
    return number < n->vals.n && sn_val_eq(n->vals.at[number], v);
}

static const char *val_name(names *n, sn_val v) {
    return has_number(n, v) ? sn_strf(&n->arena, "%u", sn_val_get(n->m, v)->mark) : sn_strf(&n->arena, "?%u", v.i);
}

static const char *buf_name(names *n, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(n->m, buf);
    return n->plain ? sn_strf(&n->arena, "b%u", b->mark) : b->name;
}

static const char *name_atom(void *user, sn_ix_kind kind, uint32_t id) {
    names *n = user;
    if (kind == SN_IX_AXIS) return axis_name(n, (sn_axis){id});
    if (kind == SN_IX_VAL) return val_name(n, (sn_val){id});
    return sn_sym_get(n->m, (sn_sym){id})->name;
}

static const char *name_symbol(void *user, sn_ix_kind kind, uint32_t id) {
    (void)kind;
    return sn_sym_get(user, (sn_sym){id})->name;
}

/* ---- buffers ---- */

static void put_size(sn_text *t, const sn_module *m, sn_ix e) {
    sn_ix_print(t, m, e, name_symbol, (void *)(uintptr_t)m);
}

static void put_data(sn_text *t, const sn_module *m, const sn_buf_rec *b) {
    int64_t n = 0;
    if (b->weight.i) {
        sn_text_put(t, " weight ");
        sn_text_quoted(t, sn_wt_get(m, b->weight)->name);
        return;
    }
    sn_text_put(t, " data [");
    if (b->data) sn_ix_is_const(m, b->size, &n);
    for (int64_t i = 0; i < n; i++) {
        if (i) sn_text_put(t, ", ");
        put_element(t, b->dtype, (const char *)b->data + (size_t)i * sn_dtype_bytes(b->dtype));
    }
    sn_text_put(t, "]");
}

/* Is size what the shape alone says? Building the product adds records to the module, never changes any. */
static bool size_follows(const sn_module *m, const sn_buf_rec *b) {
    return sn_ix_eq(b->size, sn_ix_product((sn_module *)(uintptr_t)m, b->shape, b->rank));
}

static void put_shape(sn_text *t, const sn_module *m, const sn_buf_rec *b) {
    sn_text_put(t, "[");
    for (uint32_t i = 0; i < b->rank; i++) {
        if (i) sn_text_put(t, ", ");
        put_size(t, m, b->shape[i]);
    }
    sn_text_put(t, "]");
}

void sn_buf_print(sn_text *t, const sn_module *m, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(m, buf);
    sn_text_printf(t, "buffer %s: %s", b->name, sn_dtypes[b->dtype].name);
    put_shape(t, m, b);
    sn_text_printf(t, " %s", sn_buf_scope_names[b->scope]);
    if (b->scope == SN_BUF_INPUT || b->scope == SN_BUF_OUTPUT) sn_text_printf(t, " %u", b->io);
    if (b->scope == SN_BUF_CONST) put_data(t, m, b);
    if (!size_follows(m, b)) {
        sn_text_put(t, " size ");
        put_size(t, m, b->size);
    }
    sn_text_printf(t, " align %u\n", b->align);
}

/* ---- statements ---- */

static void put_ix(sn_text *t, names *n, sn_ix e) { sn_ix_print(t, n->m, e, name_atom, n); }

static void put_val(sn_text *t, names *n, sn_val v, bool first) {
    sn_text_put(t, first ? "%" : ", %");
    if (has_number(n, v)) sn_text_number(t, sn_val_get(n->m, v)->mark);
    else sn_text_printf(t, "?%u", v.i);
}

static void put_vals(sn_text *t, names *n, const sn_val *v, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) put_val(t, n, v[i], !i);
}

static void put_axis(sn_text *t, names *n, const sn_stmt_rec *r) {
    sn_text_put(t, axis_name(n, r->axis));
    sn_text_put(t, " in ");
    put_ix(t, n, sn_axis_get(n->m, r->axis)->extent);
    if (r->kind == SN_AXIS_SEQ && !r->bulk && !r->await && !r->once && !r->pipe && !r->mma) return;
    sn_text_printf(t, " : %s%s%s%s", sn_axis_kind_names[r->kind], r->bulk ? " bulk" : "", r->await ? " await" : "",
                   r->once ? " once" : "");
    if (r->pipe) sn_text_printf(t, " pipe(%u)", r->pipe);
    if (r->mma) sn_text_printf(t, " mma(%s", sn_mmas[r->mma].name);
    if (r->mma && r->mma_columns != 1) sn_text_printf(t, ", %u", r->mma_columns);
    if (r->mma) sn_text_put(t, ")");
}

static void put_combs(sn_text *t, const sn_stmt_rec *r) {
    if (r->n_combs > 1) sn_text_put(t, "(");
    for (uint32_t i = 0; i < r->n_combs; i++) sn_text_printf(t, "%s%s", i ? ", " : "", sn_combs[r->combs[i]].name);
    if (r->n_combs > 1) sn_text_put(t, ")");
}

static void put_literal(sn_text *t, const sn_stmt_rec *r) {
    if (sn_is_float(r->dtype)) put_float(t, r->dtype, r->f);
    else put_int(t, r->dtype, r->i);
}

static void put_mask(sn_text *t, names *n, const sn_stmt_rec *r, char field) {
    sn_text_put(t, "if ");
    put_vals(t, n, r->in + sn_lops[r->op].n_in, 1);
    if (field == 'M') return;
    sn_text_put(t, " else ");
    put_vals(t, n, r->in + sn_lops[r->op].n_in + 1, 1);
}

/* One character of a format of lops.def: a field, or itself. */
static void put_field(sn_text *t, names *n, const sn_stmt_rec *r, char field) {
    switch (field) {
    case 'T': sn_text_printf(t, ".%s", sn_dtypes[r->dtype].name); break;
    case 'L': put_literal(t, r); break;
    case 'V': put_vals(t, n, r->in, r->n_in - (r->has_mask ? sn_lops[r->op].n_mask : 0)); break;
    case 'I': put_ix(t, n, r->ix); break;
    case 'N': put_ix(t, n, r->bound); break;
    case 'B': sn_text_put(t, buf_name(n, r->buf)); break;
    case 'A': put_axis(t, n, r); break;
    case 'C': put_combs(t, r); break;
    case 'M':
    case 'E': put_mask(t, n, r, field); break;
    case 'X': sn_text_put(t, "exclusive"); break;
    default: sn_text_putn(t, &field, 1); break;
    }
}

static bool prints(const sn_stmt_rec *r, char field) {
    if (field == 'M' || field == 'E') return r->has_mask;
    return field == 'X' ? r->exclusive : field != 'R';
}

/* What stands between the operation's name and its region or the line end. Spaces are for what follows. */
static void put_arguments(sn_text *t, names *n, const sn_stmt_rec *r) {
    bool space = true;
    for (const char *f = sn_lops[r->op].format; *f; f++) {
        if (*f == ' ') space = true;
        if (*f == ' ' || !prints(r, *f)) continue;
        if (space && *f != 'T') sn_text_put(t, " ");
        put_field(t, n, r, *f);
        space = false;
    }
}

static void put_stmt(sn_text *t, names *n, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(n->m, s);
    for (uint32_t i = 0; i < r->n_results; i++) put_val(t, n, sn_result(r, i), !i);
    if (r->n_results) sn_text_put(t, " = ");
    sn_text_put(t, sn_lops[r->op].name);
    put_arguments(t, n, r);
    if (n->plain || !r->from || *r->from == '%') return;
    sn_text_put(t, " at ");
    sn_text_quoted(t, r->from);
}

static void put_region(sn_text *t, names *n, sn_stmt first, int level) {
    for (sn_stmt s = first; s.i; s = sn_stmt_get(n->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(n->m, s);
        sn_text_indent(t, level);
        put_stmt(t, n, s);
        sn_text_put(t, sn_lop_has_region(r->op) ? " {\n" : "\n");
        if (!sn_lop_has_region(r->op)) continue;
        put_region(t, n, r->first, level + 1);
        sn_text_indent(t, level);
        sn_text_put(t, "}\n");
    }
}

void sn_stmt_print(sn_text *t, const sn_module *m, sn_stmt s) {
    names n;
    names_init(&n, t->env, m, sn_stmt_get(m, s)->kern, false);
    put_stmt(t, &n, s);
    names_free(&n);
}

sn_status sn_stmt_fail(sn_module *m, sn_status status, const char *where, sn_stmt s, const char *format, ...) {
    char message[SN_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    sn_text t;
    sn_text_init(&t, m->env);
    sn_stmt_print(&t, m, s);
    sn_fail(m->env, status, "%s: kernel @%s, `%.400s`: %s", where, sn_kern_get(m, sn_stmt_get(m, s)->kern)->name, t.s,
            message);
    sn_text_free(&t);
    return status;
}

/* ---- kernels ---- */

static void put_schedule(sn_text *t, const sn_sched *s) {
    if (sn_sched_is_open(s)) return;
    sn_text_put(t, " schedule ");
    sn_sched_print(t, s);
}

/* `x: f32[8192, 1024] in noalias invariant align 16`. The shape is for people; plain text has the size alone. */
static void put_formal(sn_text *t, names *n, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(n->m, buf);
    sn_text_printf(t, "%s: %s", buf_name(n, buf), sn_dtypes[b->dtype].name);
    if (!n->plain) put_shape(t, n->m, b);
    sn_text_printf(t, " %s", sn_role_names[b->role]);
    if (n->plain || !size_follows(n->m, b)) {
        sn_text_put(t, " size ");
        put_size(t, n->m, b->size);
    }
    if (b->noalias) sn_text_put(t, " noalias");
    if (b->invariant) sn_text_put(t, " invariant");
    sn_text_printf(t, " align %u", b->align);
}

static void put_params(sn_text *t, names *n, const sn_buf_list *params) {
    for (uint32_t i = 0; i < params->n; i++) {
        if (i) sn_text_put(t, ", ");
        if (sn_buf_get(n->m, params->at[i])->scope == SN_BUF_FORMAL) put_formal(t, n, params->at[i]);
        else sn_text_put(t, buf_name(n, params->at[i]));
    }
}

static void put_local(sn_text *t, names *n, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(n->m, buf);
    sn_text_indent(t, 1);
    sn_text_printf(t, "%s %s: %s ", sn_buf_scope_names[b->scope], buf_name(n, buf), sn_dtypes[b->dtype].name);
    if (sn_buf_is_private(b)) sn_text_printf(t, "private %u ", b->private_size);
    if (b->swizzle) sn_text_printf(t, "swizzle %u ", b->swizzle);
    sn_text_put(t, "size ");
    put_size(t, n->m, b->size);
    sn_text_put(t, "\n");
}

static void print_kernel(sn_text *t, const sn_module *m, sn_kern k, bool plain) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    names n;
    names_init(&n, t->env, m, k, plain);
    sn_text_printf(t, "kernel @%s(", plain ? "k" : r->name);
    put_params(t, &n, &r->params);
    sn_text_put(t, ")");
    put_schedule(t, &r->sched);
    if (r->scheduled) sn_text_put(t, " scheduled");
    if (r->alternative_of.i && !plain) sn_text_printf(t, " alternative @%s", sn_kern_get(m, r->alternative_of)->name);
    if (r->section && !plain) sn_text_printf(t, " section %u", r->section);
    if (r->note && !plain) {
        sn_text_put(t, " note ");
        sn_text_quoted(t, r->note);
    }
    if (r->from && !plain && sn_kern_is_placed(r)) {
        sn_text_put(t, " from ");
        sn_text_quoted(t, r->from);
    }
    sn_text_put(t, " {\n");
    for (uint32_t i = 0; i < r->locals.n; i++) put_local(t, &n, r->locals.at[i]);
    put_region(t, &n, r->first, 1);
    names_free(&n);
    sn_text_put(t, "}\n");
}

void sn_kern_print(sn_text *t, const sn_module *m, sn_kern k) { print_kernel(t, m, k, false); }
void sn_kern_print_plain(sn_text *t, const sn_module *m, sn_kern k) { print_kernel(t, m, k, true); }
