/* random_forms.c: random graphs near to what passes look for, as .sn text (random.h).
 *
 * Passes recognise masks by position, softmaxes, norms, parts of tensors, scans of rows, products of one operand, loops. What
 * is almost such a form, but is not, has to come out right all the same. So a graph has few sizes, two of which are often
 * equal (a statistic of rows then fits columns, too), and its values meet each other: integers by arithmetic on positions, in
 * any dtype, with constants next to the ends of ranges; bools that compare them; floats that such bools choose from,
 * reduced and broadcast back, cut, joined, turned, gathered and scattered; layers, their gradients, loops and branches of
 * all that. Every graph compiles. The forms are the table random_forms.def; here are the values that they meet in.
 */
#include "tools/random_form.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

sn_dtype form_float_dtype(form_maker *f) {
    static const sn_dtype usual[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16, SN_F64};
    return usual[form_below(f, SN_COUNT(usual))];
}

sn_dtype form_integer_dtype(form_maker *f) {
    static const sn_dtype usual[] = {SN_I32, SN_I32, SN_I64, SN_I64, SN_I8, SN_U8, SN_I16, SN_U16, SN_U32, SN_U64};
    return usual[form_below(f, SN_COUNT(usual))];
}

int64_t form_size(form_maker *f) { return f->sizes[form_below(f, SN_COUNT(f->sizes))]; }

int64_t form_elements(const random_tensor *x) {
    int64_t n = 1;
    for (uint32_t k = 0; k < x->rank; k++) n *= x->at[k];
    return n;
}

bool form_fits(const random_tensor *x) { return form_elements(x) <= FORM_MOST_ELEMENTS; }

bool form_same_shape(const random_tensor *x, const random_tensor *y) {
    return x->rank == y->rank && !memcmp(x->at, y->at, x->rank * sizeof *x->at);
}

bool form_broadcast(random_tensor *out, const random_tensor *x, const random_tensor *y) {
    out->rank = x->rank > y->rank ? x->rank : y->rank;
    for (uint32_t k = 0; k < out->rank; k++) {
        int64_t a = k + x->rank >= out->rank ? x->at[k + x->rank - out->rank] : 1;
        int64_t b = k + y->rank >= out->rank ? y->at[k + y->rank - out->rank] : 1;
        if (a != b && a != 1 && b != 1) return false;
        out->at[k] = a == 1 ? b : a;
    }
    return form_fits(out);
}

static bool is_of(form_kind k, sn_dtype t) {
    switch (k) {
    case FORM_FLOATS: return sn_is_float(t);
    case FORM_INTEGERS: return !sn_is_float(t) && t != SN_BOOL;
    case FORM_BOOLS: return t == SN_BOOL;
    case FORM_NUMBERS: return t != SN_BOOL;
    case FORM_ANYTHING: return true;
    }
    return true;
}

/* ---- new values ---- */

void form_keep(form_maker *f, const random_tensor *x) {
    if (f->n == FORM_MOST_VALUES) return;
    f->used[f->n] = false;
    f->at[f->n++] = *x;
}

random_tensor form_input(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at) {
    random_tensor x = random_input(&f->r, dtype, rank, at);
    form_keep(f, &x);
    return x;
}

static random_tensor fresh(form_maker *f, sn_dtype dtype, uint32_t least_rank) {
    random_tensor want = {.rank = least_rank > 3 ? least_rank : 1 + (uint32_t)form_below(f, 3)};
    if (want.rank < least_rank) want.rank = least_rank;
    for (uint32_t k = 0; k < want.rank; k++) want.at[k] = form_chance(f, 12) ? 1 : form_size(f);
    for (uint32_t k = 0; !form_fits(&want); k++) {
        if (want.rank > least_rank && want.rank > 1) want.rank--;
        else want.at[k % want.rank] = (want.at[k % want.rank] + 2) / 3;
    }
    return form_input(f, dtype, want.rank, want.at);
}

/* What the text names has a user. */
static void mark_used(form_maker *f, const char *text) {
    for (const char *at = strchr(text, '%'); at; at = strchr(at + 1, '%')) {
        size_t n = strcspn(at + 1, " ,");
        for (uint32_t k = 0; k < f->n; k++)
            if (strlen(f->at[k].name) == n && !strncmp(f->at[k].name, at + 1, n)) f->used[k] = true;
    }
}

random_tensor form_tuple(form_maker *f, const char *format, ...) {
    char text[8 * FORM_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mark_used(f, text);
    return random_value(&f->r, &(random_tensor){0}, "%s%s", text, "");
}

random_tensor form_value(form_maker *f, const random_tensor *like, const char *format, ...) {
    char text[8 * FORM_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mark_used(f, text);
    random_tensor x = random_value(&f->r, like, "%s%s", text, "");
    form_keep(f, &x);
    return x;
}

random_tensor form_result(form_maker *f, const random_tensor *like, const random_tensor *tuple, uint32_t number) {
    return form_value(f, like, "project %%%s index=%u", tuple->name, number);
}

random_tensor form_one(form_maker *f, const random_tensor *x, const char *op, const char *behind) {
    return form_value(f, x, "%s %%%s%s", op, x->name, behind);
}

random_tensor form_two(form_maker *f, const random_tensor *like, const char *op, const random_tensor *x,
                       const random_tensor *y) {
    return form_value(f, like, "%s %%%s, %%%s", op, x->name, y->name);
}

random_tensor form_row(form_maker *f, const random_tensor *x, const char *op, uint32_t axis) {
    random_tensor y = *x;
    y.at[axis] = 1;
    return form_value(f, &y, "%s %%%s axes=[%u] keepdim=true", op, x->name, axis);
}

random_tensor form_cast(form_maker *f, const random_tensor *x, sn_dtype t) {
    random_tensor y = *x;
    y.dtype = t;
    return x->dtype == t ? *x : form_value(f, &y, "cast %%%s dtype=%s", x->name, sn_dtypes[t].name);
}

const char *form_list(char *out, const char *name, const int64_t *at, uint32_t n) {
    size_t used = (size_t)snprintf(out, FORM_TEXT, " %s=[", name);
    for (uint32_t k = 0; k < n; k++)
        used += (size_t)snprintf(out + used, FORM_TEXT - used, "%s%lld", k ? ", " : "", (long long)at[k]);
    snprintf(out + used, FORM_TEXT - used, "]");
    return out;
}

random_tensor form_permuted(form_maker *f, const random_tensor *x, const int64_t *perm) {
    char list[FORM_TEXT];
    random_tensor y = *x;
    for (uint32_t k = 0; k < x->rank; k++) y.at[k] = x->at[perm[k]];
    return form_value(f, &y, "permute %%%s%s", x->name, form_list(list, "perm", perm, x->rank));
}

random_tensor form_swapped(form_maker *f, const random_tensor *x) {
    int64_t perm[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) perm[k] = k + 2 < x->rank ? k : 2 * x->rank - 3 - k;
    return form_permuted(f, x, perm);
}

random_tensor form_sliced(form_maker *f, const random_tensor *x, uint32_t axis, int64_t start, int64_t stop,
                          int64_t step) {
    random_tensor y = *x;
    y.at[axis] = (stop - start + step - 1) / step;
    return form_value(f, &y, "slice %%%s axis=%u start=%lld stop=%lld step=%lld", x->name, axis, (long long)start,
                      (long long)stop, (long long)step);
}

random_tensor form_product(form_maker *f, const random_tensor *x, const random_tensor *y) {
    static const char *const words[] = {"exact", "high", "tf32", "bf16"};
    random_tensor z = *x;
    z.at[x->rank - 1] = y->at[y->rank - 1];
    if (x->dtype != SN_F32 || form_chance(f, 85)) return form_two(f, &z, "matmul", x, y);
    return form_value(f, &z, "matmul %%%s, %%%s precision=%s", x->name, y->name, words[form_below(f, SN_COUNT(words))]);
}

/* ---- values that are there ---- */

random_tensor form_pick(form_maker *f, form_kind k, uint32_t least_rank) {
    for (int try = 0; try < FORM_TRIES && f->n; try++) {
        bool late = form_chance(f, 50) && f->n > 5;
        uint32_t x = late ? f->n - 1 - (uint32_t)form_below(f, 5) : (uint32_t)form_below(f, f->n);
        if (is_of(k, f->at[x].dtype) && f->at[x].rank >= least_rank) return f->at[x];
    }
    return fresh(f,
                 k == FORM_INTEGERS ? form_integer_dtype(f)
                 : k == FORM_BOOLS  ? SN_BOOL
                                    : form_float_dtype(f),
                 least_rank);
}

bool form_pick_for(random_tensor *y, random_tensor *shape, form_maker *f, const random_tensor *x, form_kind k) {
    for (int try = 0; try < FORM_TRIES; try++) {
        *y = form_pick(f, k, 0);
        if (form_broadcast(shape, x, y)) return true;
    }
    return false;
}

bool form_pick_within(random_tensor *y, form_maker *f, const random_tensor *x, form_kind k) {
    random_tensor shape;
    return form_pick_for(y, &shape, f, x, k) && form_same_shape(&shape, x);
}

random_tensor form_pick_like(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at) {
    for (uint32_t k = f->n; k-- > 0 && form_chance(f, 85);) {
        const random_tensor *x = &f->at[k];
        if (x->dtype == dtype && x->rank == rank && (!rank || !memcmp(x->at, at, rank * sizeof *at))) return *x;
    }
    return form_input(f, dtype, rank, at);
}

bool form_positions(random_tensor *out, form_maker *f, int64_t size) {
    random_tensor x = form_pick(f, FORM_INTEGERS, 1);
    if (x.rank != 1 || x.dtype == SN_U64 || !size) return false;
    x = form_cast(f, &x, SN_I64);
    *out = form_value(f, &x, "clamp %%%s min=%lld max=%lld", x.name, (long long)(form_chance(f, 30) ? -size : 0),
                      (long long)size - 1);
    return true;
}

random_tensor form_masked(form_maker *f, const random_tensor *x, const char *fill) {
    random_tensor c;
    if (!form_pick_within(&c, f, x, FORM_BOOLS)) return *x;
    bool kept = form_chance(f, 75);
    return form_value(f, x, "where %%%s, %s%s, %s%s", c.name, kept ? "%" : "", kept ? x->name : fill, kept ? "" : "%",
                      kept ? fill : x->name);
}

/* ---- the whole ---- */

typedef struct form {
    void (*make)(form_maker *);
    int weight;
} form;

static const form forms[] = {
#define SN_FORM(name, weight, text) {form_make_##name, weight},
#include "tools/random_forms.def"
#undef SN_FORM
};

void form_make(form_maker *f) {
    int64_t all = 0, draw;
    if (f->n + 8 >= FORM_MOST_VALUES) return;
    for (uint32_t k = 0; k < SN_COUNT(forms); k++) all += forms[k].weight;
    draw = form_below(f, all);
    for (uint32_t k = 0; k < SN_COUNT(forms); draw -= forms[k++].weight) {
        if (draw >= forms[k].weight) continue;
        forms[k].make(f);
        return;
    }
}

/* The number of an input that a value may be written back to; -1: none. */
static int64_t writable(const form_maker *f, const random_tensor *x, uint64_t written) {
    for (uint32_t k = 0; k < f->n; k++) {
        const random_tensor *in = &f->at[k];
        if (in->name[0] != 'x' || in->strided || in->dtype != x->dtype || !form_same_shape(in, x)) continue;
        uint32_t number = (uint32_t)strtoul(in->name + 1, NULL, 10);
        if (number < 64 && !(written >> number & 1)) return number;
    }
    return -1;
}

/* What nobody uses, and some of the rest; now and then written to an input. */
static void put_outputs(form_maker *f) {
    uint64_t written = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        bool is_input = f->at[k].name[0] == 'x';
        if (is_input || (f->used[k] && !form_chance(f, 8))) continue;
        random_output(&f->r, &f->at[k]);
        int64_t to = form_chance(f, 40) ? writable(f, &f->at[k], written) : -1;
        if (to < 0) continue;
        sn_text_printf(&f->r.outputs, " writes %%x%lld", (long long)to);
        written |= (uint64_t)1 << to;
    }
    if (f->r.n_outputs == 0) random_output(&f->r, &f->at[f->n - 1]);
}

sn_status random_forms(sn_text *out, sn_context *ctx, uint64_t seed, sn_distribution inputs) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 48, 64, 65, 128, 130, 257, 300, 512, 1000};
    form_maker f = {.inputs = inputs};
    random_begin(&f.r, &ctx->env, seed);
    for (uint32_t k = 0; k < SN_COUNT(f.sizes); k++)
        f.sizes[k] = form_chance(&f, 3) ? 0 : sizes[form_below(&f, SN_COUNT(sizes))];
    if (form_chance(&f, 40)) f.sizes[1] = f.sizes[0];
    fresh(&f, form_float_dtype(&f), 1);
    for (int64_t steps = 4 + form_below(&f, 24); steps > 0; steps--) form_make(&f);
    put_outputs(&f);
    sn_text_printf(out, "graph @random(%s) {\n%s  return %s\n}\n", f.r.inputs.s ? f.r.inputs.s : "",
                   f.r.body.s ? f.r.body.s : "", f.r.outputs.s);
    sn_text_free(&f.r.inputs);
    sn_text_free(&f.r.body);
    sn_text_free(&f.r.outputs);
    return SN_OK;
}
