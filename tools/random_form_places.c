/* random_form_places.c: forms (random_forms.def) that move elements: views, parts side by side, gathers, scatters, sorts,
 * windows.
 */
#include "tools/random_form.h"

#include <stdio.h>
#include <string.h>

/* ---- views ---- */

static random_tensor any_slice(form_maker *f, const random_tensor *x, uint32_t axis) {
    int64_t size = x->at[axis];
    if (!size) return *x;
    int64_t start = form_below(f, size), step = form_chance(f, 75) ? 1 : 1 + form_below(f, 3);
    int64_t stop = form_chance(f, 40) ? size : start + 1 + form_below(f, size - start);
    return form_sliced(f, x, axis, start, stop, step);
}

static void put_reshaped(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    char list[FORM_TEXT];
    uint32_t axis = (uint32_t)form_below(f, x->rank);
    if (x->rank >= 2 && axis + 1 < x->rank && form_chance(f, 60)) { /* joined with the next one */
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
    form_value(f, &y, "reshape %%%s%s", x->name, form_list(list, "shape", y.at, y.rank));
}

static void put_padded(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    char lows[FORM_TEXT], highs[FORM_TEXT];
    int64_t low[SN_MAX_RANK], high[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) {
        low[k] = form_chance(f, 40) ? form_below(f, 4) - (x->at[k] > 4) : 0;
        high[k] = form_chance(f, 40) ? form_below(f, 4) - (x->at[k] > 4) : 0;
        y.at[k] += low[k] + high[k];
    }
    if (form_fits(&y))
        form_value(f, &y, "pad %%%s%s%s%s", x->name, form_list(lows, "low", low, x->rank),
                   form_list(highs, "high", high, x->rank), form_chance(f, 50) ? "" : " value=1");
}

/* Axes of one element repeated, or a new one in front. */
static void put_repeated(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    char list[FORM_TEXT];
    for (uint32_t k = 0; k < x->rank; k++)
        if (x->at[k] == 1) y.at[k] = form_size(f);
    if (x->rank < 5 && form_chance(f, 60)) {
        memmove(y.at + 1, y.at, x->rank * sizeof *y.at);
        y.at[0] = form_chance(f, 50) ? 2 : form_size(f);
        y.rank++;
    }
    if (form_fits(&y)) form_value(f, &y, "expand %%%s%s", x->name, form_list(list, "shape", y.at, y.rank));
}

static void put_unsqueezed(form_maker *f, const random_tensor *x) {
    random_tensor y = *x;
    if (x->rank > 3) return;
    uint32_t axis = (uint32_t)form_below(f, x->rank + 1);
    for (uint32_t k = x->rank; k > axis; k--) y.at[k] = x->at[k - 1];
    y.at[axis] = 1, y.rank++;
    form_value(f, &y, "unsqueeze %%%s axes=[%u]", x->name, axis);
}

static void put_permuted(form_maker *f, const random_tensor *x) {
    int64_t perm[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) {
        uint32_t at = (uint32_t)form_below(f, k + 1);
        perm[k] = perm[at], perm[at] = k;
    }
    form_permuted(f, x, perm);
}

void form_make_view(form_maker *f) {
    random_tensor x = form_pick(f, FORM_ANYTHING, 1);
    uint32_t axis = (uint32_t)form_below(f, x.rank);
    switch (form_below(f, 9)) {
    case 0:
    case 1: any_slice(f, &x, axis); return;
    case 2: form_value(f, &x, "flip %%%s axes=[%u]", x.name, axis); return;
    case 3:
        if (x.rank > 1) form_swapped(f, &x);
        return;
    case 4: put_permuted(f, &x); return;
    case 5: put_reshaped(f, &x); return;
    case 6: put_padded(f, &x); return;
    case 7: put_repeated(f, &x); return;
    default: put_unsqueezed(f, &x);
    }
}

void form_make_concat(form_maker *f) {
    random_tensor x = form_pick(f, FORM_NUMBERS, 1), y;
    uint32_t axis = (uint32_t)form_below(f, x.rank), parts = 2 + (uint32_t)form_below(f, 3);
    char text[FORM_TEXT];
    size_t used = 0;
    random_tensor whole = x;
    whole.at[axis] = 0;
    for (uint32_t k = 0; k < parts; k++) {
        random_tensor part = form_chance(f, 60) ? any_slice(f, &x, axis) : x;
        y = form_pick(f, FORM_NUMBERS, 1);
        bool fits = y.rank == x.rank && y.dtype == x.dtype;
        for (uint32_t i = 0; fits && i < x.rank; i++) fits = i == axis || y.at[i] == x.at[i];
        if (fits && form_chance(f, 50)) part = y;
        whole.at[axis] += part.at[axis];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %%%s", k ? "," : "", part.name);
    }
    if (form_fits(&whole)) form_value(f, &whole, "concat%s axis=%u", text, axis);
}

/* ---- by positions ---- */

/* Positions of all axes, those of one of them anything that stays inside. */
static void put_gathered(form_maker *f, const random_tensor *x, uint32_t axis) {
    random_tensor y = *x, index = *x;
    index.at[axis] = 1 + form_below(f, 2 * x->at[axis]);
    if (!form_fits(&index)) return;
    index.dtype = SN_I64;
    if (form_chance(f, 60)) index = form_input(f, SN_I64, index.rank, index.at);
    else {
        random_tensor like = {.dtype = form_integer_dtype(f)};
        if (like.dtype == SN_U64) like.dtype = SN_I32;
        index = form_pick_like(f, like.dtype, index.rank, index.at);
    }
    index = form_cast(f, &index, SN_I64);
    index = form_value(f, &index, "clamp %%%s min=%lld max=%lld", index.name,
                       (long long)(form_chance(f, 30) ? -x->at[axis] : 0), (long long)x->at[axis] - 1);
    y.at[axis] = index.at[axis];
    form_value(f, &y, "gather %%%s, %%%s axis=%u", x->name, index.name, axis);
}

void form_make_gather(form_maker *f) {
    random_tensor x = form_pick(f, FORM_ANYTHING, 1), index;
    uint32_t axis = (uint32_t)form_below(f, x.rank);
    if (!x.at[axis]) return;
    if (form_chance(f, 35)) {
        put_gathered(f, &x, axis);
        return;
    }
    if (!form_positions(&index, f, x.at[axis])) return;
    random_tensor y = x;
    y.at[axis] = index.at[0];
    if (form_fits(&y)) form_value(f, &y, "index_select %%%s, %%%s axis=%u", x.name, index.name, axis);
}

void form_make_scatter(form_maker *f) {
    static const char *const ops[] = {"scatter_sum", "scatter_sum", "scatter_max", "scatter_min", "scatter_prod"};
    random_tensor x = form_pick(f, FORM_NUMBERS, 1), y, index;
    if (!form_positions(&index, f, x.at[0])) return;
    for (int try = 0; try < FORM_TRIES; try++) {
        y = form_pick(f, FORM_NUMBERS, 1);
        bool fits = y.dtype == x.dtype && y.rank == x.rank && y.at[0] == index.at[0];
        for (uint32_t k = 1; fits && k < x.rank; k++) fits = x.at[k] == y.at[k];
        if (!fits) continue;
        form_value(f, &x, "%s %%%s, %%%s, %%%s", ops[form_below(f, SN_COUNT(ops))], x.name, index.name, y.name);
        return;
    }
}

/* ---- sorts ---- */

/* Of values that are inputs rather: sorting what was computed turns on its last bit. */
static random_tensor pick_to_sort(form_maker *f) {
    random_tensor x = form_pick(f, FORM_ANYTHING, 1);
    for (int try = 0; try < FORM_TRIES && sn_is_float(x.dtype) && x.name[0] != 'x'; try++)
        x = form_pick(f, FORM_ANYTHING, 1);
    return x;
}

void form_make_sort(form_maker *f) {
    random_tensor x = pick_to_sort(f), y = x, z;
    uint32_t axis = (uint32_t)form_below(f, x.rank);
    bool most = form_chance(f, 50);
    char text[FORM_TEXT];
    if (most) {
        int64_t k = form_chance(f, 30) ? x.at[axis] : form_below(f, (x.at[axis] < 20 ? x.at[axis] : 20) + 1);
        y.at[axis] = k;
        snprintf(text, sizeof text, " k=%lld axis=%u largest=%s", (long long)k, axis,
                 form_chance(f, 70) ? "true" : "false");
    } else snprintf(text, sizeof text, " axis=%u descending=%s", axis, form_chance(f, 50) ? "true" : "false");
    random_tensor tuple = form_tuple(f, "%s %%%s%s", most ? "topk" : "sort", x.name, text);
    if (form_chance(f, 60)) form_result(f, &y, &tuple, 0);
    if (form_chance(f, 20)) return;
    y.dtype = SN_I64;
    random_tensor at = form_result(f, &y, &tuple, 1);
    if (!most && form_chance(f, 25)) { /* where each went */
        tuple = form_tuple(f, "sort %%%s axis=%u", at.name, axis);
        form_result(f, &y, &tuple, 1);
    }
    z = x;
    if (form_chance(f, 50) && (!form_pick_within(&z, f, &x, FORM_ANYTHING) || !form_same_shape(&z, &x))) return;
    y.dtype = z.dtype;
    form_value(f, &y, "gather %%%s, %%%s axis=%u", z.name, at.name, axis);
}

/* ---- windows ---- */

/* One more axis, of windows along that one. */
static random_tensor unfolded(form_maker *f, const random_tensor *x, uint32_t axis) {
    random_tensor y = *x;
    int64_t size = x->at[axis], window = 1 + form_below(f, size < 7 ? size : 7), step = 1 + form_below(f, 4);
    int64_t dilation = form_chance(f, 75) ? 1 : 2;
    if ((window - 1) * dilation + 1 > size) dilation = 1;
    y.at[axis] = (size - (window - 1) * dilation - 1) / step + 1;
    y.at[y.rank++] = window;
    return form_value(f, &y, "unfold %%%s axis=%u size=%lld step=%lld dilation=[%lld]", x->name, axis,
                      (long long)window, (long long)step, (long long)dilation);
}

static random_tensor padded_for(form_maker *f, const random_tensor *x, uint32_t axis, const char *fill) {
    random_tensor y = *x;
    char lows[FORM_TEXT], highs[FORM_TEXT];
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    if (form_chance(f, 40)) return y;
    low[axis] = form_below(f, 4), high[axis] = form_below(f, 4);
    y.at[axis] += low[axis] + high[axis];
    return form_value(f, &y, "pad %%%s%s%s value=%s", x->name, form_list(lows, "low", low, x->rank),
                      form_list(highs, "high", high, x->rank), fill);
}

void form_make_pool(form_maker *f) {
    static const char *const ops[] = {"amax", "amax", "sum", "mean", "amin", "argmax", "prod", "var"};
    random_tensor x = form_pick(f, form_chance(f, 80) ? FORM_FLOATS : FORM_NUMBERS, 1), y;
    uint32_t axis = (uint32_t)form_below(f, x.rank), other = (uint32_t)form_below(f, x.rank);
    const char *op = ops[form_below(f, sn_is_float(x.dtype) ? SN_COUNT(ops) : 3)];
    bool both = other != axis && x.rank < 4, floats = sn_is_float(x.dtype);
    if (!x.at[axis] || !x.at[other] || x.rank > 4 || form_elements(&x) > FORM_MOST_ELEMENTS / 8) return;
    const char *fill = floats && !strcmp(op, "amax") && form_chance(f, 70) ? "-inf" : "0";
    y = padded_for(f, &x, axis, fill);
    if (both) y = padded_for(f, &y, other, fill);
    y = unfolded(f, &y, axis);
    if (both) y = unfolded(f, &y, other);
    random_tensor z = y;
    z.rank -= both ? 2 : 1;
    if (!strcmp(op, "argmax") || (!floats && !strcmp(op, "sum"))) z.dtype = SN_I64;
    if (both) form_value(f, &z, "%s %%%s axes=[%u, %u]", op, y.name, z.rank, z.rank + 1);
    else form_value(f, &z, "%s %%%s axes=[%u]", op, y.name, z.rank);
}
