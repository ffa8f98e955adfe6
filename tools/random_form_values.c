/* random_form_values.c: forms (random_forms.def) of elements and rows: integers, bools that compare them, floats that such bools
 * choose from, reduced and broadcast back, products.
 */
#include "tools/random_form.h"

#include <stdio.h>
#include <string.h>

/* ---- integers and bools ---- */

void form_make_iota(form_maker *f) {
    random_tensor x = {.dtype = form_chance(f, 85) ? form_integer_dtype(f) : form_float_dtype(f),
                       .rank = 1 + (uint32_t)form_below(f, 2)};
    char text[FORM_TEXT];
    for (uint32_t k = 0; k < x.rank; k++) x.at[k] = form_size(f);
    uint32_t axis = (uint32_t)form_below(f, x.rank);
    if (x.rank == 2 && form_chance(f, 70)) x.at[1 - axis] = 1;
    snprintf(text, sizeof text,
             x.rank == 1 ? "iota axis=%u dtype=%s shape=[%lld]" : "iota axis=%u dtype=%s shape=[%lld, %lld]", axis,
             sn_dtypes[x.dtype].name, (long long)x.at[0], (long long)x.at[1]);
    if (form_fits(&x)) form_like(f, &x, text);
}

/* A number that the type can hold. */
static int64_t any_integer(form_maker *f, sn_dtype t) {
    static const int64_t usual[] = {0,  1,  2,   3,   4,   5,   7,    8,     16,        31,        63,
                                    64, -1, 127, 128, 255, 256, -128, 32767, INT32_MAX, INT32_MIN, INT64_MAX};
    int64_t x = sn_wrap_to(t, usual[form_below(f, SN_COUNT(usual))]);
    return t == SN_U64 && x < 0 ? INT64_MAX : x;
}

void form_make_integer(form_maker *f) {
    static const char *const unary[] = {"neg", "abs", "not", "sign"};
    static const char *const binary[] = {"add",     "sub",     "sub", "mul", "div", "floordiv", "rem", "fmod",
                                         "minimum", "maximum", "and", "or",  "xor", "shl",      "shr", "pow"};
    random_tensor x = form_pick(f, FORM_INTEGERS, 0), y, shape;
    char text[FORM_TEXT];
    switch (form_below(f, 6)) {
    case 0: snprintf(text, sizeof text, "%s %%%s", unary[form_below(f, SN_COUNT(unary))], x.name); break;
    case 1:
        if (!form_pick_for(&y, &shape, f, &x, FORM_INTEGERS) || y.dtype != x.dtype) return;
        snprintf(text, sizeof text, "%s %%%s, %%%s", binary[form_below(f, SN_COUNT(binary))], x.name, y.name);
        shape.dtype = x.dtype;
        form_like(f, &shape, text);
        return;
    case 2: {
        sn_dtype to = form_integer_dtype(f);
        snprintf(text, sizeof text, "cast %%%s dtype=%s", x.name, sn_dtypes[to].name);
        x.dtype = to;
        break;
    }
    default: {
        const char *op = binary[form_below(f, SN_COUNT(binary))];
        long long c = (long long)any_integer(f, x.dtype);
        if (form_chance(f, 30)) snprintf(text, sizeof text, "%s %lld, %%%s", op, c, x.name);
        else snprintf(text, sizeof text, "%s %%%s, %lld", op, x.name, c);
    }
    }
    form_like(f, &x, text);
}

const char *const form_comparisons[6] = {"eq", "ne", "lt", "le", "gt", "ge"};

void form_make_bool(form_maker *f) {
    static const char *const joined[] = {"and", "or", "xor", "and"};
    char text[FORM_TEXT];
    random_tensor x = form_pick(f,
                                form_chance(f, 75)   ? FORM_INTEGERS
                                : form_chance(f, 50) ? FORM_BOOLS
                                                     : FORM_FLOATS,
                                0),
                  y, shape;
    const char *op = form_comparisons[form_below(f, SN_COUNT(form_comparisons))];
    if (x.dtype == SN_BOOL) {
        if (!form_pick_for(&y, &shape, f, &x, FORM_BOOLS)) return;
        snprintf(text, sizeof text, "%s %%%s, %%%s", joined[form_below(f, SN_COUNT(joined))], x.name, y.name);
        if (form_chance(f, 20)) snprintf(text, sizeof text, "not %%%s", x.name), shape = x;
    } else if (form_chance(f, 60) &&
               form_pick_for(&y, &shape, f, &x, sn_is_float(x.dtype) ? FORM_FLOATS : FORM_INTEGERS) &&
               y.dtype == x.dtype) {
        snprintf(text, sizeof text, "%s %%%s, %%%s", op, x.name, y.name);
    } else {
        shape = x;
        snprintf(text, sizeof text, "%s %%%s, %lld", op, x.name,
                 (long long)(sn_is_float(x.dtype) ? form_below(f, 3) : any_integer(f, x.dtype)));
    }
    shape.dtype = SN_BOOL;
    form_like(f, &shape, text);
}

/* ---- floats ---- */

void form_make_where(form_maker *f) {
    static const char *const fills[] = {"0.0", "-inf", "-inf", "inf", "nan", "-10000.0", "1.0", "-0.0", "-30000.0"};
    random_tensor c = form_pick(f, FORM_BOOLS, 0), x, y, shape, whole;
    char text[FORM_TEXT];
    if (!form_pick_for(&x, &shape, f, &c, form_chance(f, 85) ? FORM_FLOATS : FORM_INTEGERS)) return;
    shape.dtype = x.dtype;
    if (form_chance(f, 25) &&
        form_pick_for(&y, &whole, f, &shape, sn_is_float(x.dtype) ? FORM_FLOATS : FORM_INTEGERS) &&
        y.dtype == x.dtype) {
        snprintf(text, sizeof text, "where %%%s, %%%s, %%%s", c.name, x.name, y.name);
        whole.dtype = x.dtype;
        form_like(f, &whole, text);
        return;
    }
    const char *fill = sn_is_float(x.dtype) ? fills[form_below(f, SN_COUNT(fills))] : form_chance(f, 50) ? "1" : "0";
    if (form_chance(f, 70)) snprintf(text, sizeof text, "where %%%s, %%%s, %s", c.name, x.name, fill);
    else snprintf(text, sizeof text, "where %%%s, %s, %%%s", c.name, fill, x.name);
    form_like(f, &shape, text);
}

void form_make_unary(form_maker *f) {
    static const char *const ops[] = {"neg",     "abs",   "exp",  "log",        "sqrt",  "rsqrt",
                                      "relu",    "silu",  "tanh", "floor",      "sign",  "exp2",
                                      "sigmoid", "isnan", "gelu", "reciprocal", "trunc", "exp"};
    random_tensor x = form_pick(f, FORM_FLOATS, 0);
    char text[FORM_TEXT];
    const char *op = ops[form_below(f, SN_COUNT(ops))];
    snprintf(text, sizeof text, "%s %%%s", op, x.name);
    if (!strcmp(op, "isnan")) x.dtype = SN_BOOL;
    form_like(f, &x, text);
}

void form_make_binary(form_maker *f) {
    static const char *const ops[] = {"add", "sub", "sub", "mul", "mul", "div", "maximum", "minimum"};
    static const char *const numbers[] = {"2.0", "0.125", "-1.0", "0.0", "1.0", "0.5", "1e-5", "1024.0"};
    random_tensor x = form_pick(f, FORM_FLOATS, 0), y, shape;
    char text[FORM_TEXT];
    const char *op = ops[form_below(f, SN_COUNT(ops))];
    if (form_chance(f, 25)) {
        const char *c = numbers[form_below(f, SN_COUNT(numbers))];
        if (form_chance(f, 75)) snprintf(text, sizeof text, "%s %%%s, %s", op, x.name, c);
        else snprintf(text, sizeof text, "%s %s, %%%s", op, c, x.name);
        form_like(f, &x, text);
        return;
    }
    if (!form_pick_for(&y, &shape, f, &x, FORM_FLOATS) || y.dtype != x.dtype) return;
    snprintf(text, sizeof text, "%s %%%s, %%%s", op, x.name, y.name);
    shape.dtype = x.dtype;
    form_like(f, &shape, text);
}

void form_make_cast(form_maker *f) {
    random_tensor x = form_pick(f, FORM_ANYTHING, 0);
    char text[FORM_TEXT];
    sn_dtype to = form_chance(f, 75) ? form_float_dtype(f) : form_integer_dtype(f);
    snprintf(text, sizeof text, "cast %%%s dtype=%s", x.name, sn_dtypes[to].name);
    x.dtype = to;
    form_like(f, &x, text);
}

/* Random numbers of any type, or elements of a value that are dropped by them. */
void form_make_random(form_maker *f) {
    random_tensor x = form_pick(f, FORM_FLOATS, 1), seed = form_pick_like(f, SN_I64, 0, NULL);
    random_tensor offset = form_chance(f, 60) ? seed : form_pick_like(f, SN_I64, 0, NULL);
    char list[FORM_TEXT];
    if (form_chance(f, 50)) {
        form_value(f, &x, "dropout %%%s, %%%s, %%%s p=%s", x.name, seed.name, offset.name,
                   form_chance(f, 70) ? "0.25" : "0.0");
        return;
    }
    if (form_chance(f, 25)) x.dtype = form_integer_dtype(f);
    bool normal = sn_is_float(x.dtype) && form_chance(f, 40);
    form_value(f, &x, "%s %%%s, %%%s dtype=%s%s", normal ? "random_normal" : "random", seed.name, offset.name,
               sn_dtypes[x.dtype].name, form_list(list, "shape", x.at, x.rank));
}

/* ---- rows and columns ---- */

void form_make_reduce(form_maker *f) {
    static const char *const of_floats[] = {"sum",  "sum",       "mean", "amax", "amax",
                                            "amin", "logsumexp", "var",  "any",  "argmax"};
    static const char *const of_others[] = {"sum", "amax", "amin", "argmax", "argmin", "any", "all", "prod"};
    static const char *const of_bools[] = {"sum", "any", "all"};
    random_tensor x = form_pick(f, form_chance(f, 75) ? FORM_FLOATS : FORM_ANYTHING, 1), y = x;
    char text[FORM_TEXT];
    const char *op = sn_is_float(x.dtype) ? of_floats[form_below(f, SN_COUNT(of_floats))]
                     : x.dtype == SN_BOOL ? of_bools[form_below(f, SN_COUNT(of_bools))]
                                          : of_others[form_below(f, SN_COUNT(of_others))];
    uint32_t axis = form_chance(f, 60) ? x.rank - 1 : (uint32_t)form_below(f, x.rank);
    bool keeps = form_chance(f, 60);
    if (!x.at[axis]) op = "sum"; /* nothing has no largest element */
    snprintf(text, sizeof text, "%s %%%s axes=[%u] keepdim=%s", op, x.name, axis, keeps ? "true" : "false");
    if (keeps) y.at[axis] = 1;
    else {
        for (uint32_t k = axis; k + 1 < x.rank; k++) y.at[k] = x.at[k + 1];
        y.rank--;
    }
    if (!strcmp(op, "any") || !strcmp(op, "all")) y.dtype = SN_BOOL;
    else if (!strncmp(op, "arg", 3)) y.dtype = SN_I64;
    else if (!sn_is_float(x.dtype) && (!strcmp(op, "sum") || !strcmp(op, "prod"))) y.dtype = SN_I64;
    form_like(f, &y, text);
}

void form_make_row(form_maker *f) {
    static const char *const scans[] = {"cumsum", "cumsum", "cummax", "cummin"};
    random_tensor x = form_pick(f, form_chance(f, 70) ? FORM_FLOATS : FORM_INTEGERS, 1);
    char text[FORM_TEXT];
    uint32_t axis = form_chance(f, 60) ? x.rank - 1 : (uint32_t)form_below(f, x.rank);
    if (sn_is_float(x.dtype) && form_chance(f, 50)) {
        snprintf(text, sizeof text, "%s %%%s axis=%u", form_chance(f, 75) ? "softmax" : "log_softmax", x.name, axis);
    } else {
        const char *op = scans[form_below(f, SN_COUNT(scans))];
        snprintf(text, sizeof text, "%s %%%s axis=%u exclusive=%s reverse=%s", op, x.name, axis,
                 form_chance(f, 30) ? "true" : "false", form_chance(f, 30) ? "true" : "false");
        if (!strcmp(op, "cumsum") && !sn_is_float(x.dtype)) x.dtype = SN_I64;
    }
    form_like(f, &x, text);
}

/* Of the last two axes, one of them turned where it fits so; perhaps of the same value. */
void form_make_matmul(form_maker *f) {
    random_tensor x = form_pick(f, form_chance(f, 90) ? FORM_FLOATS : FORM_NUMBERS, 2), y;
    int64_t k = x.at[x.rank - 1];
    for (int try = 0; try < FORM_TRIES; try++) {
        y = form_pick(f, FORM_NUMBERS, 2);
        bool aligned = y.rank == 2 || (y.rank == x.rank && !memcmp(y.at, x.at, (x.rank - 2) * sizeof *x.at));
        if (y.dtype != x.dtype || !aligned) continue;
        bool turned = y.at[y.rank - 1] == k && (y.at[y.rank - 2] != k || form_chance(f, 50));
        if (!turned && y.at[y.rank - 2] != k) continue;
        random_tensor z = x;
        z.at[x.rank - 1] = y.at[turned ? y.rank - 2 : y.rank - 1];
        if (!form_fits(&z) || form_elements(&z) * k > 2 * FORM_MOST_STEPS) continue;
        if (turned) y = form_swapped(f, &y);
        form_product(f, &x, &y);
        return;
    }
}
