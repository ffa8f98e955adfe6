/* random_form.h: how forms (random_forms.def) are drawn: values that are there, of a kind and a shape that fits, and new
 * ones, as .sn text (random_forms.c).
 */
#ifndef SN_TOOLS_RANDOM_FORM_H
#define SN_TOOLS_RANDOM_FORM_H

#include "tools/random_text.h"

enum {
    FORM_MOST_ELEMENTS = 1 << 15,
    FORM_MOST_STEPS = 1 << 20,
    FORM_MOST_VALUES = 128,
    FORM_TEXT = 256,
    FORM_TRIES = 12
};

/* Values that may be operands. Those of the body of a repeat, or of a branch, go when it ends. */
typedef struct form_maker {
    random_maker r;
    sn_distribution inputs; /* what their floats will be */
    int64_t sizes[3];
    random_tensor at[FORM_MOST_VALUES];
    bool used[FORM_MOST_VALUES];
    uint32_t n;
    uint32_t depth;   /* repeats and branches around what is made */
    uint32_t repeats; /* their number so far */
} form_maker;

#define SN_FORM(name, weight, text) void form_make_##name(form_maker *f);
#include "tools/random_forms.def"
#undef SN_FORM

/* One form, any of the table. */
void form_make(form_maker *f);

static inline int64_t form_below(form_maker *f, int64_t n) { return random_below(&f->r.state, n); }
static inline bool form_chance(form_maker *f, int percent) { return random_chance(&f->r.state, percent); }

/* ---- types ---- */

typedef enum form_kind { FORM_FLOATS, FORM_INTEGERS, FORM_BOOLS, FORM_NUMBERS, FORM_ANYTHING } form_kind;

sn_dtype form_float_dtype(form_maker *f);
sn_dtype form_integer_dtype(form_maker *f);
/* One of the sizes of the graph. */
int64_t form_size(form_maker *f);
int64_t form_elements(const random_tensor *x);
/* Room for one more value of that type: small enough to be run. */
bool form_fits(const random_tensor *x);
bool form_same_shape(const random_tensor *x, const random_tensor *y);
/* The shape that both come to; false: they do not fit, or it is large. */
bool form_broadcast(random_tensor *out, const random_tensor *x, const random_tensor *y);

/* ---- values that are there ---- */

/* One that is there, the latest ones more often; else an input. */
random_tensor form_pick(form_maker *f, form_kind k, uint32_t least_rank);
/* One that meets x, and what both come to. */
bool form_pick_for(random_tensor *y, random_tensor *shape, form_maker *f, const random_tensor *x, form_kind k);
/* One that meets x and leaves its shape as it is. */
bool form_pick_within(random_tensor *y, form_maker *f, const random_tensor *x, form_kind k);
/* One of that type; else an input. */
random_tensor form_pick_like(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at);

/* ---- new values ---- */

void form_keep(form_maker *f, const random_tensor *x);
random_tensor form_input(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at);
/* A value of the type of `like`, made by what the text says. */
random_tensor form_value(form_maker *f, const random_tensor *like, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An operation of several results, and one of them. */
random_tensor form_tuple(form_maker *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
random_tensor form_result(form_maker *f, const random_tensor *like, const random_tensor *tuple, uint32_t number);
static inline random_tensor form_like(form_maker *f, const random_tensor *like, const char *text) {
    return form_value(f, like, "%s", text);
}
/* op %x and what stands behind it; op %x, %y. */
random_tensor form_one(form_maker *f, const random_tensor *x, const char *op, const char *behind);
random_tensor form_two(form_maker *f, const random_tensor *like, const char *op, const random_tensor *x,
                       const random_tensor *y);
/* A reduction along an axis, which stays. */
random_tensor form_row(form_maker *f, const random_tensor *x, const char *op, uint32_t axis);
random_tensor form_cast(form_maker *f, const random_tensor *x, sn_dtype t);
random_tensor form_permuted(form_maker *f, const random_tensor *x, const int64_t *perm);
random_tensor form_sliced(form_maker *f, const random_tensor *x, uint32_t axis, int64_t start, int64_t stop,
                          int64_t step);
/* The last two axes change places. */
random_tensor form_swapped(form_maker *f, const random_tensor *x);
/* A product of the last two axes; it fits. */
random_tensor form_product(form_maker *f, const random_tensor *x, const random_tensor *y);
/* Positions (i64, rank 1) of an axis of that size, made of any integers. */
bool form_positions(random_tensor *out, form_maker *f, int64_t size);
/* %x where a bool holds, else what `fill` says; or the other way round. */
random_tensor form_masked(form_maker *f, const random_tensor *x, const char *fill);

/* " name=[1, 2]"; returns out, of FORM_TEXT characters. */
const char *form_list(char *out, const char *name, const int64_t *at, uint32_t n);
extern const char *const form_comparisons[6];

#endif
