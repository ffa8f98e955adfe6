/* random_form_loops.c: forms (random_forms.def) of loops and branches. Nothing reads what is made inside of a loop but the loop
 * (invariant G10): those values go when it ends.
 */
#include "tools/random_form.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 17, MOST_STATES = 3, MOST_DEPTH = 2 };

typedef struct loop {
    uint32_t number, outside; /* of the repeat; of values around it */
    int64_t steps;
    uint32_t n_states, n_stacks;
    random_tensor state[MOST_STATES], after[MOST_STATES], stack[MOST_STATES], last; /* last: whether it goes on */
} loop;

static loop begin(form_maker *f, int64_t steps) {
    f->depth++;
    return (loop){.number = ++f->repeats, .outside = f->n, .steps = steps};
}

static random_tensor put_state(form_maker *f, loop *l, const random_tensor *first) {
    random_tensor s = form_value(f, first, "repeat_state %%%s repeat=%u index=%u", first->name, l->number, l->n_states);
    l->state[l->n_states] = l->after[l->n_states] = s;
    l->n_states++;
    return s;
}

static random_tensor put_part(form_maker *f, const loop *l, const random_tensor *x, uint32_t axis) {
    random_tensor y = *x;
    for (uint32_t k = axis; k + 1 < x->rank; k++) y.at[k] = x->at[k + 1];
    y.rank--;
    return form_value(f, &y, "repeat_slice %%%s repeat=%u axis=%u reverse=%s", x->name, l->number, axis,
                      form_chance(f, 30) ? "true" : "false");
}

static size_t add_operands(char *text, size_t used, size_t size, const random_tensor *x, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%%%s", used ? ", " : "", x[k].name);
    return used;
}

/* Results: last states, then stacks; one alone is no tuple. */
static void end(form_maker *f, loop *l) {
    char text[FORM_TEXT];
    bool ends = l->last.name[0] != 0;
    size_t used = add_operands(text, 0, sizeof text, l->state, l->n_states);
    used = add_operands(text, used, sizeof text, l->after, l->n_states);
    used = add_operands(text, used, sizeof text, l->stack, l->n_stacks);
    if (ends) add_operands(text, used, sizeof text, &l->last, 1);
    bool back = l->n_stacks && form_chance(f, 30);
    uint32_t n = l->n_states + l->n_stacks;
    random_tensor results[2 * MOST_STATES], tuple;
    for (uint32_t k = 0; k < n; k++) {
        results[k] = k < l->n_states ? l->state[k] : l->stack[k - l->n_states];
        if (k < l->n_states) continue;
        memmove(results[k].at + 1, results[k].at, results[k].rank * sizeof *results[k].at);
        results[k].at[0] = l->steps, results[k].rank++;
    }
    tuple = form_tuple(f, "repeat %s repeat=%u states=%u trip=[%lld]%s%s", text, l->number, l->n_states,
                       (long long)l->steps, back ? " backwards=[0]" : "", ends ? " while=true" : "");
    f->n = l->outside; /* what was made inside */
    f->depth--;
    for (uint32_t k = 0; k < n; k++) {
        if (n > 1) form_result(f, &results[k], &tuple, k);
        else {
            snprintf(results[k].name, sizeof results[k].name, "%s", tuple.name);
            form_keep(f, &results[k]);
        }
    }
}

/* ---- any body ---- */

/* What a step makes of a state: the last value of its type, or one that fits it. */
static random_tensor next_of(form_maker *f, const loop *l, const random_tensor *state) {
    static const char *const ops[] = {"add", "maximum", "mul", "sub", "minimum"};
    random_tensor y;
    for (uint32_t k = f->n; k-- > l->outside + l->n_states && form_chance(f, 80);)
        if (f->at[k].dtype == state->dtype && form_same_shape(&f->at[k], state)) return f->at[k];
    if (state->dtype == SN_BOOL)
        return form_pick_within(&y, f, state, FORM_BOOLS) ? form_two(f, state, "xor", state, &y) : *state;
    bool met = form_pick_within(&y, f, state, sn_is_float(state->dtype) ? FORM_FLOATS : FORM_INTEGERS);
    if (!met || y.dtype != state->dtype) return *state;
    return form_two(f, state, ops[form_below(f, sn_is_float(state->dtype) ? 2 : SN_COUNT(ops))], state, &y);
}

/* Whether a number of a state is small yet. */
static random_tensor goes_on(form_maker *f, const random_tensor *x) {
    random_tensor y = form_cast(f, x, SN_F32), so = {.dtype = SN_BOOL};
    int64_t axes[SN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    char list[FORM_TEXT];
    so.rank = y.rank;
    for (uint32_t k = 0; k < y.rank; k++) so.at[k] = y.at[k];
    so = form_value(f, &so, "lt %%%s, %lld", y.name, (long long)form_below(f, 4));
    if (!so.rank) return so;
    uint32_t rank = so.rank;
    so.rank = 0;
    return form_value(f, &so, "%s %%%s%s", form_chance(f, 50) ? "any" : "all", so.name,
                      form_list(list, "axes", axes, rank));
}

/* Of which a stack has room for each step. */
static bool small(const random_tensor *x) {
    int64_t n = form_elements(x);
    return n > 0 && n <= FORM_MOST_ELEMENTS / MOST_STEPS;
}

void form_make_repeat(form_maker *f) {
    random_tensor x = form_pick(f, FORM_ANYTHING, 1);
    uint32_t axis = (uint32_t)form_below(f, x.rank), states = (uint32_t)form_below(f, MOST_STATES + 1);
    bool slices = form_elements(&x) > 0 && x.at[axis] <= MOST_STEPS;
    if (f->depth == MOST_DEPTH || f->n + 30 > FORM_MOST_VALUES || (!slices && !states)) return;
    random_tensor first[MOST_STATES];
    for (uint32_t k = 0; k < states; k++) {
        first[k] = form_pick(f, form_chance(f, 75) ? FORM_FLOATS : FORM_ANYTHING, 0);
        if (!small(&first[k])) return;
    }
    loop l = begin(f, slices ? x.at[axis] : 1 + form_below(f, MOST_STEPS));
    if (slices) put_part(f, &l, &x, axis);
    for (uint32_t k = 0; k < states; k++) put_state(f, &l, &first[k]);
    for (int64_t n = 1 + form_below(f, 4); n > 0; n--) form_make(f);
    for (uint32_t k = 0; k < states; k++) l.after[k] = next_of(f, &l, &l.state[k]);
    bool ends = states && form_chance(f, 25);
    if (ends) l.last = goes_on(f, &l.after[0]);
    for (uint32_t k = l.outside; k < f->n && !ends && l.n_stacks < MOST_STATES; k++)
        if (f->at[k].rank < 6 && small(&f->at[k]) && form_chance(f, 25)) l.stack[l.n_stacks++] = f->at[k];
    if (!states && !l.n_stacks) l.stack[l.n_stacks++] = f->at[l.outside];
    end(f, &l);
}

/* ---- recurrences ---- */

/* h = activation(h w + x): a product with the state in each step; a gate lets some of the state by. */
static void put_cell(form_maker *f, loop *l, const random_tensor *part, const random_tensor *w,
                     const random_tensor *h) {
    random_tensor y = form_product(f, h, w);
    y = form_two(f, &y, "add", &y, part);
    y = form_one(f, &y, form_chance(f, 60) ? "tanh" : "sigmoid", "");
    if (form_chance(f, 50)) {
        random_tensor gate = form_one(f, part, "sigmoid", ""), less = form_two(f, &y, "sub", h, &y);
        less = form_two(f, &y, "mul", &less, &gate);
        y = form_two(f, &y, "add", &y, &less);
    }
    l->after[0] = y;
}

/* h = a h + x, of one state or of two that read each other. */
static void put_linear(form_maker *f, loop *l, const random_tensor *part, const random_tensor *decay,
                       const random_tensor *h) {
    random_tensor y = form_two(f, h, "mul", h, decay);
    l->after[0] = form_two(f, h, "add", &y, part);
    if (l->n_states < 2) return;
    y = form_two(f, h, "maximum", &l->state[1], form_chance(f, 50) ? &l->after[0] : h);
    l->after[1] = y;
}

void form_make_recurrence(form_maker *f) {
    int64_t steps = 1 + form_below(f, MOST_STEPS), rows = 1 + form_below(f, 5), width = form_size(f);
    sn_dtype t = form_float_dtype(f);
    bool cell = width * width <= FORM_MOST_ELEMENTS / 2 && width > 0 && form_chance(f, 50);
    if (f->depth == MOST_DEPTH || f->n + 30 > FORM_MOST_VALUES || !width) return;
    if (steps * rows * width > FORM_MOST_ELEMENTS) return;
    uint32_t axis = (uint32_t)form_below(f, 2);
    random_tensor x = form_pick_like(f, t, 3, axis ? (int64_t[]){rows, steps, width} : (int64_t[]){steps, rows, width});
    random_tensor h = form_pick_like(f, t, 2, (int64_t[]){rows, width}), w = h, a = x;
    if (cell) w = form_pick_like(f, t, 2, (int64_t[]){width, width});
    else if (form_chance(f, 60)) a = form_one(f, &x, "sigmoid", "");
    else w = form_pick_like(f, t, 1, &width);
    loop l = begin(f, steps);
    random_tensor part = put_part(f, &l, &x, axis), decay = w;
    if (strcmp(a.name, x.name) != 0) decay = put_part(f, &l, &a, axis);
    h = put_state(f, &l, &h);
    if (!cell && form_same_shape(&w, &h) && form_chance(f, 40)) put_state(f, &l, &w);
    if (cell) put_cell(f, &l, &part, &w, &h);
    else put_linear(f, &l, &part, &decay, &h);
    if (form_chance(f, 75)) l.stack[l.n_stacks++] = l.after[0];
    end(f, &l);
}

/* ---- branches ---- */

void form_make_cond(form_maker *f) {
    random_tensor x = form_pick(f, FORM_NUMBERS, 0), yes, no;
    if (f->depth == MOST_DEPTH || f->n + 30 > FORM_MOST_VALUES || form_elements(&x) == 0) return;
    random_tensor so = form_chance(f, 30) ? form_pick_like(f, SN_BOOL, 0, NULL) : goes_on(f, &x);
    uint32_t outside = f->n;
    f->depth++;
    for (int64_t n = 1 + form_below(f, 4); n > 0; n--) form_make(f);
    f->depth--;
    yes = form_pick(f, FORM_ANYTHING, 0);
    no = form_pick_like(f, yes.dtype, yes.rank, yes.at);
    if (!strcmp(yes.name, no.name)) no = form_input(f, yes.dtype, yes.rank, yes.at);
    random_tensor y = form_value(f, &yes, "cond %%%s, %%%s, %%%s", so.name, yes.name, no.name);
    if (form_chance(f, 40)) return;
    f->n = outside < f->n ? outside : f->n; /* left to the branches alone */
    form_keep(f, &y);
}
