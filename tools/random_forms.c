/* random_forms.c: random graphs near to what passes look for, as .sn text (random.h).
 *
 * Passes recognise masks by position, softmaxes, norms, parts of tensors, scans of rows, products of one operand. What
 * is almost such a form, but is not, has to come out right all the same. So a graph has few sizes, two of which are often
 * equal (a statistic of rows then fits columns, too), and its values meet each other: integers by arithmetic on positions, in
 * any dtype, with constants next to the ends of ranges; bools that compare them; floats that such bools choose from,
 * reduced and broadcast back, cut, joined, turned, gathered and scattered. Every graph compiles.
 */
#include "tools/random_text.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 15, MOST_VALUES = 96, TEXT = 256, TRIES = 12 };

typedef struct form_maker {
    random_maker r;
    int64_t sizes[3];
    random_tensor at[MOST_VALUES];
    bool used[MOST_VALUES];
    uint32_t n;
} form_maker;

static int64_t below(form_maker *f, int64_t n) { return random_below(&f->r.state, n); }
static bool chance(form_maker *f, int percent) { return random_chance(&f->r.state, percent); }

/* ---- values ---- */

static int64_t elements(const random_tensor *x) {
    int64_t n = 1;
    for (uint32_t k = 0; k < x->rank; k++) n *= x->at[k];
    return n;
}

static void keep(form_maker *f, const random_tensor *x) {
    if (f->n < MOST_VALUES) f->at[f->n++] = *x;
}

/* A value of that type, made by what the text says. */
static random_tensor put(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at, const char *text) {
    random_tensor like = {.dtype = dtype, .rank = rank};
    for (uint32_t k = 0; k < rank; k++) like.at[k] = at[k];
    random_tensor x = random_value(&f->r, &like, "%s%s", text, "");
    keep(f, &x);
    return x;
}

static random_tensor put_like(form_maker *f, const random_tensor *x, const char *text) {
    return put(f, x->dtype, x->rank, x->at, text);
}

static int64_t any_of_sizes(form_maker *f) { return f->sizes[below(f, SN_COUNT(f->sizes))]; }

static random_tensor fresh(form_maker *f, sn_dtype dtype) {
    random_tensor want = {.dtype = dtype, .rank = 1 + (uint32_t)below(f, 3)};
    for (uint32_t k = 0; k < want.rank; k++) want.at[k] = chance(f, 12) ? 1 : any_of_sizes(f);
    while (elements(&want) > MOST_ELEMENTS) want.rank--;
    random_tensor x = random_input(&f->r, dtype, want.rank, want.at);
    keep(f, &x);
    return x;
}

typedef enum kind { FLOATS, INTEGERS, BOOLS, NUMBERS, ANYTHING } kind;

static bool is_of(kind k, sn_dtype t) {
    switch (k) {
    case FLOATS: return sn_is_float(t);
    case INTEGERS: return !sn_is_float(t) && t != SN_BOOL;
    case BOOLS: return t == SN_BOOL;
    case NUMBERS: return t != SN_BOOL;
    case ANYTHING: return true;
    }
    return true;
}

static sn_dtype float_dtype(form_maker *f) {
    static const sn_dtype usual[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16, SN_F64};
    return usual[below(f, SN_COUNT(usual))];
}

static sn_dtype integer_dtype(form_maker *f) {
    static const sn_dtype usual[] = {SN_I32, SN_I32, SN_I64, SN_I64, SN_I8, SN_U8, SN_I16, SN_U16, SN_U32, SN_U64};
    return usual[below(f, SN_COUNT(usual))];
}

/* One that is there, the latest ones more often; else an input. */
static random_tensor pick(form_maker *f, kind k, uint32_t least_rank) {
    for (int try = 0; try < TRIES && f->n; try++) {
        uint32_t x = chance(f, 50) && f->n > 5 ? f->n - 1 - (uint32_t)below(f, 5) : (uint32_t)below(f, f->n);
        if (!is_of(k, f->at[x].dtype) || f->at[x].rank < least_rank) continue;
        f->used[x] = true;
        return f->at[x];
    }
    for (;;) {
        random_tensor x = fresh(f, k == INTEGERS ? integer_dtype(f) : k == BOOLS ? SN_BOOL : float_dtype(f));
        if (x.rank < least_rank) continue;
        f->used[f->n - 1] = f->n < MOST_VALUES;
        return x;
    }
}

/* The shape that both come to; false: they do not fit, or it is large. */
static bool broadcast(random_tensor *out, const random_tensor *x, const random_tensor *y) {
    out->rank = x->rank > y->rank ? x->rank : y->rank;
    for (uint32_t k = 0; k < out->rank; k++) {
        int64_t a = k + x->rank >= out->rank ? x->at[k + x->rank - out->rank] : 1;
        int64_t b = k + y->rank >= out->rank ? y->at[k + y->rank - out->rank] : 1;
        if (a != b && a != 1 && b != 1) return false;
        out->at[k] = a == 1 ? b : a;
    }
    return elements(out) <= MOST_ELEMENTS;
}

/* One that meets x. */
static bool pick_for(random_tensor *y, random_tensor *shape, form_maker *f, const random_tensor *x, kind k) {
    for (int try = 0; try < TRIES; try++) {
        *y = pick(f, k, 0);
        if (broadcast(shape, x, y)) return true;
    }
    return false;
}

/* ---- integers and bools ---- */

static void make_iota(form_maker *f) {
    random_tensor x = {.dtype = chance(f, 85) ? integer_dtype(f) : float_dtype(f), .rank = 1 + (uint32_t)below(f, 2)};
    char text[TEXT];
    for (uint32_t k = 0; k < x.rank; k++) x.at[k] = any_of_sizes(f);
    uint32_t axis = (uint32_t)below(f, x.rank);
    if (x.rank == 2 && chance(f, 70)) x.at[1 - axis] = 1;
    snprintf(text, sizeof text,
             x.rank == 1 ? "iota axis=%u dtype=%s shape=[%lld]" : "iota axis=%u dtype=%s shape=[%lld, %lld]", axis,
             sn_dtypes[x.dtype].name, (long long)x.at[0], (long long)x.at[1]);
    if (elements(&x) <= MOST_ELEMENTS) put_like(f, &x, text);
}

/* A number that the type can hold. */
static int64_t any_integer(form_maker *f, sn_dtype t) {
    static const int64_t usual[] = {0,  1,  2,   3,   4,   5,   7,    8,     16,        31,        63,
                                    64, -1, 127, 128, 255, 256, -128, 32767, INT32_MAX, INT32_MIN, INT64_MAX};
    int64_t x = sn_wrap_to(t, usual[below(f, SN_COUNT(usual))]);
    return t == SN_U64 && x < 0 ? INT64_MAX : x;
}

static void make_integer(form_maker *f) {
    static const char *const unary[] = {"neg", "abs", "not", "sign"};
    static const char *const binary[] = {"add",     "sub",     "sub", "mul", "div", "floordiv", "rem", "fmod",
                                         "minimum", "maximum", "and", "or",  "xor", "shl",      "shr", "pow"};
    random_tensor x = pick(f, INTEGERS, 0), y, shape;
    char text[TEXT];
    switch (below(f, 6)) {
    case 0: snprintf(text, sizeof text, "%s %%%s", unary[below(f, SN_COUNT(unary))], x.name); break;
    case 1:
        if (!pick_for(&y, &shape, f, &x, INTEGERS) || y.dtype != x.dtype) return;
        snprintf(text, sizeof text, "%s %%%s, %%%s", binary[below(f, SN_COUNT(binary))], x.name, y.name);
        shape.dtype = x.dtype;
        put_like(f, &shape, text);
        return;
    case 2: {
        sn_dtype to = integer_dtype(f);
        snprintf(text, sizeof text, "cast %%%s dtype=%s", x.name, sn_dtypes[to].name);
        x.dtype = to;
        break;
    }
    default: {
        const char *op = binary[below(f, SN_COUNT(binary))];
        long long c = (long long)any_integer(f, x.dtype);
        if (chance(f, 30)) snprintf(text, sizeof text, "%s %lld, %%%s", op, c, x.name);
        else snprintf(text, sizeof text, "%s %%%s, %lld", op, x.name, c);
    }
    }
    put_like(f, &x, text);
}

static const char *const comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};

static void make_bool(form_maker *f) {
    static const char *const joined[] = {"and", "or", "xor", "and"};
    char text[TEXT];
    random_tensor x = pick(f, chance(f, 75) ? INTEGERS : chance(f, 50) ? BOOLS : FLOATS, 0), y, shape;
    const char *op = comparisons[below(f, SN_COUNT(comparisons))];
    if (x.dtype == SN_BOOL) {
        if (!pick_for(&y, &shape, f, &x, BOOLS)) return;
        snprintf(text, sizeof text, "%s %%%s, %%%s", joined[below(f, SN_COUNT(joined))], x.name, y.name);
        if (chance(f, 20)) snprintf(text, sizeof text, "not %%%s", x.name), shape = x;
    } else if (chance(f, 60) && pick_for(&y, &shape, f, &x, sn_is_float(x.dtype) ? FLOATS : INTEGERS) &&
               y.dtype == x.dtype) {
        snprintf(text, sizeof text, "%s %%%s, %%%s", op, x.name, y.name);
    } else {
        shape = x;
        snprintf(text, sizeof text, "%s %%%s, %lld", op, x.name,
                 (long long)(sn_is_float(x.dtype) ? below(f, 3) : any_integer(f, x.dtype)));
    }
    shape.dtype = SN_BOOL;
    put_like(f, &shape, text);
}

/* ---- floats ---- */

static void make_where(form_maker *f) {
    static const char *const fills[] = {"0.0", "-inf", "-inf", "inf", "nan", "-10000.0", "1.0", "-0.0", "-30000.0"};
    random_tensor c = pick(f, BOOLS, 0), x, y, shape, whole;
    char text[TEXT];
    if (!pick_for(&x, &shape, f, &c, chance(f, 85) ? FLOATS : INTEGERS)) return;
    shape.dtype = x.dtype;
    if (chance(f, 25) && pick_for(&y, &whole, f, &shape, sn_is_float(x.dtype) ? FLOATS : INTEGERS) &&
        y.dtype == x.dtype) {
        snprintf(text, sizeof text, "where %%%s, %%%s, %%%s", c.name, x.name, y.name);
        whole.dtype = x.dtype;
        put_like(f, &whole, text);
        return;
    }
    const char *fill = sn_is_float(x.dtype) ? fills[below(f, SN_COUNT(fills))] : chance(f, 50) ? "1" : "0";
    if (chance(f, 70)) snprintf(text, sizeof text, "where %%%s, %%%s, %s", c.name, x.name, fill);
    else snprintf(text, sizeof text, "where %%%s, %s, %%%s", c.name, fill, x.name);
    put_like(f, &shape, text);
}

static void make_unary(form_maker *f) {
    static const char *const ops[] = {"neg",     "abs",   "exp",  "log",        "sqrt",  "rsqrt",
                                      "relu",    "silu",  "tanh", "floor",      "sign",  "exp2",
                                      "sigmoid", "isnan", "gelu", "reciprocal", "trunc", "exp"};
    random_tensor x = pick(f, FLOATS, 0);
    char text[TEXT];
    const char *op = ops[below(f, SN_COUNT(ops))];
    snprintf(text, sizeof text, "%s %%%s", op, x.name);
    if (!strcmp(op, "isnan")) x.dtype = SN_BOOL;
    put_like(f, &x, text);
}

static void make_binary(form_maker *f) {
    static const char *const ops[] = {"add", "sub", "sub", "mul", "mul", "div", "maximum", "minimum"};
    static const char *const numbers[] = {"2.0", "0.125", "-1.0", "0.0", "1.0", "0.5", "1e-5", "1024.0"};
    random_tensor x = pick(f, FLOATS, 0), y, shape;
    char text[TEXT];
    const char *op = ops[below(f, SN_COUNT(ops))];
    if (chance(f, 25)) {
        const char *c = numbers[below(f, SN_COUNT(numbers))];
        if (chance(f, 75)) snprintf(text, sizeof text, "%s %%%s, %s", op, x.name, c);
        else snprintf(text, sizeof text, "%s %s, %%%s", op, c, x.name);
        put_like(f, &x, text);
        return;
    }
    if (!pick_for(&y, &shape, f, &x, FLOATS) || y.dtype != x.dtype) return;
    snprintf(text, sizeof text, "%s %%%s, %%%s", op, x.name, y.name);
    shape.dtype = x.dtype;
    put_like(f, &shape, text);
}

static void make_cast(form_maker *f) {
    random_tensor x = pick(f, ANYTHING, 0);
    char text[TEXT];
    sn_dtype to = chance(f, 75) ? float_dtype(f) : integer_dtype(f);
    snprintf(text, sizeof text, "cast %%%s dtype=%s", x.name, sn_dtypes[to].name);
    x.dtype = to;
    put_like(f, &x, text);
}

/* ---- rows and columns ---- */

static void make_reduce(form_maker *f) {
    static const char *const of_floats[] = {"sum",  "sum",       "mean", "amax", "amax",
                                            "amin", "logsumexp", "var",  "any",  "argmax"};
    static const char *const of_others[] = {"sum", "amax", "amin", "argmax", "argmin", "any", "all", "prod"};
    static const char *const of_bools[] = {"sum", "any", "all"};
    random_tensor x = pick(f, chance(f, 75) ? FLOATS : ANYTHING, 1), y = x;
    char text[TEXT];
    const char *op = sn_is_float(x.dtype) ? of_floats[below(f, SN_COUNT(of_floats))]
                     : x.dtype == SN_BOOL ? of_bools[below(f, SN_COUNT(of_bools))]
                                          : of_others[below(f, SN_COUNT(of_others))];
    uint32_t axis = chance(f, 60) ? x.rank - 1 : (uint32_t)below(f, x.rank);
    bool keeps = chance(f, 60);
    snprintf(text, sizeof text, "%s %%%s axes=[%u] keepdim=%s", op, x.name, axis, keeps ? "true" : "false");
    if (keeps) y.at[axis] = 1;
    else {
        for (uint32_t k = axis; k + 1 < x.rank; k++) y.at[k] = x.at[k + 1];
        y.rank--;
    }
    if (!strcmp(op, "any") || !strcmp(op, "all")) y.dtype = SN_BOOL;
    else if (!strncmp(op, "arg", 3)) y.dtype = SN_I64;
    else if (!sn_is_float(x.dtype) && (!strcmp(op, "sum") || !strcmp(op, "prod"))) y.dtype = SN_I64;
    put_like(f, &y, text);
}

static void make_row(form_maker *f) {
    static const char *const scans[] = {"cumsum", "cumsum", "cummax", "cummin"};
    random_tensor x = pick(f, chance(f, 70) ? FLOATS : INTEGERS, 1);
    char text[TEXT];
    uint32_t axis = chance(f, 60) ? x.rank - 1 : (uint32_t)below(f, x.rank);
    if (sn_is_float(x.dtype) && chance(f, 50)) {
        snprintf(text, sizeof text, "%s %%%s axis=%u", chance(f, 75) ? "softmax" : "log_softmax", x.name, axis);
    } else {
        const char *op = scans[below(f, SN_COUNT(scans))];
        snprintf(text, sizeof text, "%s %%%s axis=%u exclusive=%s reverse=%s", op, x.name, axis,
                 chance(f, 30) ? "true" : "false", chance(f, 30) ? "true" : "false");
        if (!strcmp(op, "cumsum") && !sn_is_float(x.dtype)) x.dtype = SN_I64;
    }
    put_like(f, &x, text);
}

/* Of the last two axes, one of them turned where it fits so; perhaps of the same value. */
static void make_matmul(form_maker *f) {
    random_tensor x = pick(f, FLOATS, 2), y;
    char text[TEXT];
    int64_t k = x.at[x.rank - 1];
    for (int try = 0; try < TRIES; try++) {
        y = pick(f, FLOATS, 2);
        bool aligned = y.rank == 2 || (y.rank == x.rank && !memcmp(y.at, x.at, (x.rank - 2) * sizeof *x.at));
        if (y.dtype != x.dtype || !aligned) continue;
        bool turned = y.at[y.rank - 1] == k && (y.at[y.rank - 2] != k || chance(f, 50));
        if (!turned && y.at[y.rank - 2] != k) continue;
        random_tensor z = x;
        z.at[x.rank - 1] = y.at[turned ? y.rank - 2 : y.rank - 1];
        if (elements(&z) > MOST_ELEMENTS || elements(&z) * k > 1 << 21) continue;
        if (turned) y = random_swapped(&f->r, &y);
        snprintf(text, sizeof text, "matmul %%%s, %%%s", x.name, y.name);
        put_like(f, &z, text);
        return;
    }
}

/* ---- places ---- */

static void put_list(char *text, size_t size, const int64_t *at, uint32_t n) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t k = 0; k < n; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", k ? ", " : "", (long long)at[k]);
    snprintf(text + used, size - used, "]");
}

static random_tensor make_slice(form_maker *f, const random_tensor *x, uint32_t axis) {
    char text[TEXT];
    random_tensor y = *x;
    int64_t start = below(f, x->at[axis]), step = chance(f, 75) ? 1 : 1 + below(f, 3);
    int64_t stop = chance(f, 40) ? x->at[axis] : start + 1 + below(f, x->at[axis] - start);
    y.at[axis] = (stop - start + step - 1) / step;
    snprintf(text, sizeof text, "slice %%%s axis=%u start=%lld stop=%lld step=%lld", x->name, axis, (long long)start,
             (long long)stop, (long long)step);
    return put_like(f, &y, text);
}

static void make_reshape(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    char text[2 * TEXT], list[TEXT];
    uint32_t axis = (uint32_t)below(f, x->rank);
    if (x->rank >= 2 && axis + 1 < x->rank && chance(f, 60)) { /* joined with the next one */
        y.at[axis] *= x->at[axis + 1];
        for (uint32_t k = axis + 1; k + 1 < x->rank; k++) y.at[k] = x->at[k + 1];
        y.rank--;
    } else { /* cut */
        int64_t by = 2;
        while (by < x->at[axis] && x->at[axis] % by) by++;
        if (by > x->at[axis] || x->rank == 5) return;
        for (uint32_t k = x->rank; k > axis + 1; k--) y.at[k] = x->at[k - 1];
        y.at[axis] = x->at[axis] / by, y.at[axis + 1] = by, y.rank++;
    }
    put_list(list, sizeof list, y.at, y.rank);
    snprintf(text, sizeof text, "reshape %%%s shape=%s", x->name, list);
    put_like(f, &y, text);
}

static void make_pad(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    char text[3 * TEXT], lows[TEXT], highs[TEXT];
    int64_t low[SN_MAX_RANK], high[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) {
        low[k] = chance(f, 40) ? below(f, 4) : 0, high[k] = chance(f, 40) ? below(f, 4) - (x->at[k] > 2) : 0;
        y.at[k] += low[k] + high[k];
    }
    if (elements(&y) > MOST_ELEMENTS) return;
    put_list(lows, sizeof lows, low, x->rank), put_list(highs, sizeof highs, high, x->rank);
    snprintf(text, sizeof text, "pad %%%s low=%s high=%s%s", x->name, lows, highs, chance(f, 50) ? "" : " value=1");
    put_like(f, &y, text);
}

static void make_view(form_maker *f) {
    random_tensor x = pick(f, ANYTHING, 1);
    char text[TEXT];
    uint32_t axis = (uint32_t)below(f, x.rank);
    switch (below(f, 7)) {
    case 0:
    case 1: make_slice(f, &x, axis); return;
    case 2:
        snprintf(text, sizeof text, "flip %%%s axes=[%u]", x.name, axis);
        put_like(f, &x, text);
        return;
    case 3:
        if (x.rank < 2) return;
        x = random_swapped(&f->r, &x);
        keep(f, &x);
        return;
    case 4: make_reshape(f, &x); return;
    case 5: make_pad(f, &x); return;
    default:
        if (x.rank > 3) return;
        axis = (uint32_t)below(f, x.rank + 1);
        snprintf(text, sizeof text, "unsqueeze %%%s axes=[%u]", x.name, axis);
        for (uint32_t k = x.rank; k > axis; k--) x.at[k] = x.at[k - 1];
        x.at[axis] = 1, x.rank++;
        put_like(f, &x, text);
    }
}

/* Parts of values side by side: of one value, in order or not, or of several. */
static void make_concat(form_maker *f) {
    random_tensor x = pick(f, NUMBERS, 1), y;
    uint32_t axis = (uint32_t)below(f, x.rank), parts = 2 + (uint32_t)below(f, 3);
    char text[TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "concat");
    random_tensor whole = x;
    whole.at[axis] = 0;
    for (uint32_t k = 0; k < parts; k++) {
        random_tensor part = x;
        if (chance(f, 60)) part = make_slice(f, &x, axis);
        y = pick(f, NUMBERS, 1);
        bool fits = y.rank == x.rank && y.dtype == x.dtype;
        for (uint32_t i = 0; fits && i < x.rank; i++) fits = i == axis || y.at[i] == x.at[i];
        if (fits && chance(f, 50)) part = y;
        whole.at[axis] += part.at[axis];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %%%s", k ? "," : "", part.name);
    }
    snprintf(text + used, sizeof text - used, " axis=%u", axis);
    if (elements(&whole) <= MOST_ELEMENTS) put_like(f, &whole, text);
}

/* Positions of an axis of that size, made of any integers. */
static bool positions(random_tensor *out, form_maker *f, int64_t size) {
    random_tensor x = pick(f, INTEGERS, 1);
    char text[TEXT];
    if (x.rank != 1 || x.dtype == SN_U64) return false;
    snprintf(text, sizeof text, "cast %%%s dtype=i64", x.name);
    x.dtype = SN_I64;
    x = put_like(f, &x, text);
    snprintf(text, sizeof text, "clamp %%%s min=%lld max=%lld", x.name, (long long)(chance(f, 30) ? -size : 0),
             (long long)size - 1);
    *out = put_like(f, &x, text);
    return true;
}

static void make_gather(form_maker *f) {
    random_tensor x = pick(f, NUMBERS, 1), index;
    char text[TEXT];
    uint32_t axis = (uint32_t)below(f, x.rank);
    if (!positions(&index, f, x.at[axis])) return;
    snprintf(text, sizeof text, "index_select %%%s, %%%s axis=%u", x.name, index.name, axis);
    x.at[axis] = index.at[0];
    if (elements(&x) <= MOST_ELEMENTS) put_like(f, &x, text);
}

static void make_scatter(form_maker *f) {
    static const char *const ops[] = {"scatter_sum", "scatter_sum", "scatter_max", "scatter_min", "scatter_prod"};
    random_tensor x = pick(f, NUMBERS, 1), y, index;
    char text[TEXT];
    if (!positions(&index, f, x.at[0])) return;
    for (int try = 0; try < TRIES; try++) {
        y = pick(f, NUMBERS, 1);
        bool fits = y.dtype == x.dtype && y.rank == x.rank && y.at[0] == index.at[0];
        for (uint32_t k = 1; fits && k < x.rank; k++) fits = x.at[k] == y.at[k];
        if (!fits) continue;
        snprintf(text, sizeof text, "%s %%%s, %%%s, %%%s", ops[below(f, SN_COUNT(ops))], x.name, index.name, y.name);
        put_like(f, &x, text);
        return;
    }
}

/* ---- attention, or almost ---- */

/* One that meets x and leaves its shape as it is. */
static bool pick_within(random_tensor *y, form_maker *f, const random_tensor *x, kind k) {
    random_tensor shape;
    return pick_for(y, &shape, f, x, k) && shape.rank == x->rank && !memcmp(shape.at, x->at, x->rank * sizeof *x->at);
}

static random_tensor put_one(form_maker *f, const random_tensor *x, const char *before, const char *behind) {
    char text[TEXT];
    snprintf(text, sizeof text, "%s %%%s%s", before, x->name, behind);
    return put_like(f, x, text);
}

static random_tensor put_two(form_maker *f, const random_tensor *like, const char *op, const random_tensor *x,
                             const random_tensor *y) {
    char text[TEXT];
    snprintf(text, sizeof text, "%s %%%s, %%%s", op, x->name, y->name);
    return put_like(f, like, text);
}

static random_tensor put_row(form_maker *f, const random_tensor *x, const char *op, uint32_t axis) {
    random_tensor y = *x;
    char text[24];
    snprintf(text, sizeof text, " axes=[%u] keepdim=true", axis);
    y.at[axis] = 1;
    return put_one(f, &y, op, text); /* by name alone: that of x */
}

/* Positions of queries and keys, and what some arithmetic makes of them. */
static void put_positions(form_maker *f, int64_t rows, int64_t columns) {
    char text[TEXT];
    const char *dtype = sn_dtypes[integer_dtype(f)].name;
    random_tensor i = {.rank = 2, .at = {rows, 1}}, j = {.rank = 2, .at = {1, columns}},
                  both = {.dtype = SN_BOOL, .rank = 2};
    for (i.dtype = 0; strcmp(sn_dtypes[i.dtype].name, dtype) != 0;) i.dtype++;
    j.dtype = i.dtype, both.at[0] = rows, both.at[1] = columns;
    snprintf(text, sizeof text, "iota axis=0 dtype=%s shape=[%lld, 1]", dtype, (long long)rows);
    i = put_like(f, &i, text);
    snprintf(text, sizeof text, "iota axis=1 dtype=%s shape=[1, %lld]", dtype, (long long)columns);
    j = put_like(f, &j, text);
    for (int64_t n = below(f, 4); n > 0; n--) make_integer(f);
    put_two(f, &both, comparisons[below(f, SN_COUNT(comparisons))], &i, &j);
    for (int64_t n = below(f, 4); n > 0; n--) make_bool(f);
}

static random_tensor put_masked(form_maker *f, const random_tensor *x, const char *fill) {
    random_tensor c;
    char text[TEXT];
    if (!pick_within(&c, f, x, BOOLS)) return *x;
    bool kept = chance(f, 75);
    snprintf(text, sizeof text, "where %%%s, %s%s, %s%s", c.name, kept ? "%" : "", kept ? x->name : fill,
             kept ? "" : "%", kept ? fill : x->name);
    return put_like(f, x, text);
}

static random_tensor on_scores(form_maker *f, const random_tensor *x) {
    static const char *const fills[] = {"-inf", "-inf", "-inf", "-10000.0", "-30000.0", "0.0", "nan"};
    random_tensor y;
    switch (below(f, 6)) {
    case 0: return pick_within(&y, f, x, FLOATS) && y.dtype == x->dtype ? put_two(f, x, "add", x, &y) : *x;
    case 1: return put_one(f, x, "mul", ", 0.125");
    case 2: return put_one(f, x, "tanh", "");
    default: return put_masked(f, x, fills[below(f, SN_COUNT(fills))]);
    }
}

/* Weights of the scores: a softmax, its parts, or parts of which one is not what it should be. whole: what the product is divided by. */
static random_tensor put_weights(form_maker *f, const random_tensor *s, random_tensor *whole, bool *later) {
    random_tensor e = *s;
    uint32_t last = s->rank - 1;
    *later = false;
    if (chance(f, 45)) return put_one(f, s, "softmax", chance(f, 90) ? " axis=-1" : " axis=-2");
    if (chance(f, 75)) {
        static const char *const tops[] = {"amax", "amax", "amax", "logsumexp", "mean"};
        random_tensor top = put_row(f, s, tops[below(f, SN_COUNT(tops))], chance(f, 90) ? last : last - 1);
        e = put_two(f, s, "sub", s, &top);
    }
    random_tensor before = e = put_one(f, &e, "exp", "");
    if (chance(f, 25)) e = put_masked(f, &e, "0.0");
    *whole = put_row(f, chance(f, 85) ? &e : &before, "sum", chance(f, 95) ? last : last - 1);
    if (chance(f, 20)) *whole = put_one(f, whole, "add", chance(f, 50) ? ", 1.0" : ", 1e-6");
    *later = whole->at[last] == 1 && whole->at[last - 1] == s->at[last - 1] && chance(f, 40);
    return *later ? e : put_two(f, s, "div", &e, whole);
}

static void make_attention(form_maker *f) {
    static const int64_t depths[] = {1, 8, 16, 32, 64, 80};
    sn_dtype t = float_dtype(f);
    int64_t h = 1 + below(f, 3), d = depths[below(f, SN_COUNT(depths))], rows = any_of_sizes(f);
    int64_t columns = chance(f, 60) ? rows : any_of_sizes(f);
    if (h * rows * columns > MOST_ELEMENTS || f->n + 40 > MOST_VALUES) return;
    random_tensor q = random_input(&f->r, t, 3, (int64_t[]){h, rows, d}),
                  k = random_input(&f->r, t, 3, (int64_t[]){h, columns, d});
    random_tensor v = chance(f, 15) ? k : random_input(&f->r, t, 3, (int64_t[]){h, columns, d}), whole, s = q, y = q;
    bool later;
    put_positions(f, rows, columns);
    k = random_swapped(&f->r, &k);
    s.at[2] = columns;
    s = put_two(f, &s, "matmul", &q, &k);
    for (int64_t n = below(f, 4); n > 0; n--) s = on_scores(f, &s);
    s = put_weights(f, &s, &whole, &later);
    if (chance(f, 20)) s = put_masked(f, &s, "0.0");
    y = put_two(f, &y, "matmul", &s, &v);
    if (later) put_two(f, &y, "div", &y, &whole);
}

/* ---- the whole ---- */

static void make(form_maker *f) {
    static void (*const makers[])(form_maker *) = {
        make_iota,   make_integer, make_integer,   make_integer,   make_bool,   make_bool, make_where,
        make_where,  make_unary,   make_binary,    make_binary,    make_binary, make_cast, make_reduce,
        make_reduce, make_reduce,  make_row,       make_matmul,    make_view,   make_view, make_concat,
        make_gather, make_scatter, make_attention, make_attention,
    };
    if (f->n + 8 < MOST_VALUES) makers[below(f, SN_COUNT(makers))](f);
}

/* What nobody uses, and some of the rest; each of at most two values that inputs have room for is written there. */
static void put_outputs(form_maker *f) {
    for (uint32_t k = 0; k < f->n; k++) {
        bool is_input = f->at[k].name[0] == 'x';
        if (is_input || (f->used[k] && !chance(f, 8))) continue;
        random_output(&f->r, &f->at[k]);
    }
    if (f->r.n_outputs == 0) random_output(&f->r, &f->at[f->n - 1]);
}

sn_status random_forms(sn_text *out, sn_context *ctx, uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 48, 64, 65, 128, 130, 257, 300, 512, 1000};
    form_maker f = {.n = 0};
    random_begin(&f.r, &ctx->env, seed);
    for (uint32_t k = 0; k < SN_COUNT(f.sizes); k++) f.sizes[k] = sizes[below(&f, SN_COUNT(sizes))];
    if (chance(&f, 40)) f.sizes[1] = f.sizes[0];
    fresh(&f, float_dtype(&f));
    for (int64_t steps = 4 + below(&f, 24); steps > 0; steps--) make(&f);
    put_outputs(&f);
    sn_text_printf(out, "graph @random(%s) {\n%s  return %s\n}\n", f.r.inputs.s ? f.r.inputs.s : "",
                   f.r.body.s ? f.r.body.s : "", f.r.outputs.s);
    sn_text_free(&f.r.inputs);
    sn_text_free(&f.r.body);
    sn_text_free(&f.r.outputs);
    return SN_OK;
}
