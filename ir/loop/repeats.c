/* repeats.c: text and invariants of repeats and branches. See repeats.h.
 *
 *   R1   sections ascend along the kernels, but for alternatives, which have the section of what they stand for
 *   R2   the sections of two repeats are apart, or those of the later one in the list are inside, of one branch if there are two;
 *        trip is positive
 *   R3   a window is a buffer of scope step, of one repeat, of the dtype of what it is from, and stays inside of it in all steps;
 *        what it is from is memory of the program
 *   R4   a state and what follows it are two buffers of scope step, of one dtype and size, which are no windows; each is named once
 *   R5   windows, what follows a state and what a repeat ends by are touched inside of the repeat alone
 *   R6   what a repeat ends by, or a branch is taken by, is one bool in a buffer of scope step, which has no other part; no branch
 *        stores to what it is taken by
 */
#include "ir/loop/repeats.h"

#include <stdio.h>

#include "ir/base/text.h"
#include "ir/loop/access.h"

void sn_repeat_span(uint32_t *first, uint32_t *end, const sn_module *m, const sn_repeat_rec *r) {
    *first = *end = 0;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
        if (k->alternative_of.i) continue;
        if (k->section < r->first) *first = i + 1;
        if (k->section <= r->last) *end = i + 1;
    }
}

uint32_t sn_repeat_middle(const sn_module *m, const sn_repeat_rec *r) {
    sn_repeat_rec one = {.first = r->first, .last = r->otherwise - 1};
    uint32_t first, middle;
    sn_repeat_span(&first, &middle, m, &one);
    return middle;
}

static bool opens(sn_step_kind kind) { return kind == SN_STEP_REPEAT || kind == SN_STEP_IF; }

uint32_t sn_wrap_end(const sn_module *m, uint32_t at) {
    const sn_wrap *w = &m->wrap;
    uint32_t depth = 1;
    for (at++; at < w->steps.n && depth; at++)
        depth += opens(w->steps.at[at].kind) - (w->steps.at[at].kind == SN_STEP_END);
    return depth ? at : at - 1;
}

uint32_t sn_wrap_else(const sn_module *m, uint32_t at) {
    uint32_t end = sn_wrap_end(m, at);
    for (at++; at < end && m->wrap.steps.at[at].kind != SN_STEP_ELSE; at++)
        if (opens(m->wrap.steps.at[at].kind)) at = sn_wrap_end(m, at);
    return at < end ? at : end;
}

sn_buf *sn_wrap_inputs_written(const sn_module *m, sn_arena *a) {
    const sn_graph_ir *g = &m->graph;
    sn_buf *out = SN_NEWN(a, sn_buf, m->bufs.count + 1), *input = SN_NEWN(a, sn_buf, g->inputs.n + 1); /* by number */
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope == SN_BUF_INPUT && b->io < g->inputs.n) input[b->io].i = i;
    }
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        bool writes = b->scope == SN_BUF_OUTPUT && b->io < g->outputs.n && g->outputs.at[b->io].writes >= 0;
        if (writes) out[i] = input[g->outputs.at[b->io].writes];
    }
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        const sn_step *s = &m->wrap.steps.at[i];
        if (s->kind == SN_STEP_COPY && s->from.i && s->from.i < m->bufs.count) out[s->from.i] = (sn_buf){0};
    }
    return out;
}

/* ---- text ---- */

static void put_amount(sn_text *t, const sn_module *m, const char *word, sn_ix e) {
    sn_text_printf(t, " %s ", word);
    sn_ix_print(t, m, e, NULL, NULL);
}

static void print_cond(sn_text *t, const sn_module *m, const sn_repeat_rec *r) {
    sn_text_printf(t, "cond %s sections %u %u else %u %u\n", sn_buf_get(m, r->flag)->name, r->first, r->otherwise - 1,
                   r->otherwise, r->last);
}

void sn_repeat_print(sn_text *t, const sn_module *m, const sn_repeat_rec *r) {
    if (r->otherwise) {
        print_cond(t, m, r);
        return;
    }
    sn_text_put(t, "repeat");
    put_amount(t, m, "steps", r->trip);
    sn_text_printf(t, " sections %u %u {\n", r->first, r->last);
    for (uint32_t i = 0; i < r->windows.n; i++) {
        const sn_repeat_window *w = &r->windows.at[i];
        sn_text_printf(t, "  window %s from %s", sn_buf_get(m, w->buf)->name, sn_buf_get(m, w->of)->name);
        put_amount(t, m, "offset", w->first);
        put_amount(t, m, "by", w->by);
        sn_text_put(t, "\n");
    }
    for (uint32_t i = 0; i < r->carries.n; i++)
        sn_text_printf(t, "  carry %s from %s\n", sn_buf_get(m, r->carries.at[i].state)->name,
                       sn_buf_get(m, r->carries.at[i].next)->name);
    if (r->flag.i) sn_text_printf(t, "  while %s\n", sn_buf_get(m, r->flag)->name);
    sn_text_put(t, "}\n");
}

static sn_status parse_buf(sn_buf *out, sn_module *m, sn_lex *lx) {
    sn_lex at = *lx;
    char *name;
    SN_TRY(sn_lex_name(&name, lx, &m->arena));
    *out = sn_buf_named(m, name);
    return out->i ? SN_OK : sn_lex_fail(&at, "there is no buffer %s", name);
}

static sn_status parse_from(sn_buf *buf, sn_buf *from, sn_module *m, sn_lex *lx) {
    SN_TRY(parse_buf(buf, m, lx));
    SN_TRY(sn_lex_expect_name(lx, "from"));
    return parse_buf(from, m, lx);
}

static sn_ix find_symbol(void *user, bool is_value, const char *name) {
    sn_module *m = user;
    return is_value ? (sn_ix){0} : sn_ix_sym(m, sn_sym_named(m, name));
}

static sn_status parse_amount(sn_ix *out, sn_module *m, sn_lex *lx, const char *word) {
    SN_TRY(sn_lex_expect_name(lx, word));
    return sn_ix_parse(out, lx, m, find_symbol, m);
}

static sn_status parse_section(uint32_t *out, sn_lex *lx) {
    int64_t number;
    sn_lex at = *lx;
    SN_TRY(sn_lex_int(&number, lx));
    *out = (uint32_t)number;
    return number >= 0 && number <= INT32_MAX ? SN_OK : sn_lex_fail(&at, "section %lld", (long long)number);
}

static sn_status parse_entry(sn_repeat_rec *r, sn_module *m, sn_lex *lx) {
    bool window;
    SN_TRY(sn_lex_accept_name(&window, lx, "window"));
    if (window) {
        sn_repeat_window w;
        SN_TRY(parse_from(&w.buf, &w.of, m, lx));
        SN_TRY(parse_amount(&w.first, m, lx, "offset"));
        SN_TRY(parse_amount(&w.by, m, lx, "by"));
        SN_PUSH(&m->arena, &r->windows, w);
        return SN_OK;
    }
    sn_carry c;
    bool ends;
    SN_TRY(sn_lex_accept_name(&ends, lx, "while"));
    if (ends) return r->flag.i ? sn_lex_fail(lx, "a repeat ends by one buffer") : parse_buf(&r->flag, m, lx);
    if (!sn_lex_is_name(lx, "carry")) return sn_lex_fail(lx, "expected window, carry, while or '}'");
    SN_TRY(sn_lex_next(lx));
    SN_TRY(parse_from(&c.state, &c.next, m, lx));
    SN_PUSH(&m->arena, &r->carries, c);
    return SN_OK;
}

sn_status sn_repeat_parse(sn_module *m, sn_lex *lx) {
    sn_repeat_rec r = {0};
    SN_TRY(sn_lex_expect_name(lx, "repeat"));
    SN_TRY(parse_amount(&r.trip, m, lx, "steps"));
    SN_TRY(sn_lex_expect_name(lx, "sections"));
    SN_TRY(parse_section(&r.first, lx));
    SN_TRY(parse_section(&r.last, lx));
    SN_TRY(sn_lex_expect(lx, "{"));
    while (!sn_lex_is(lx, "}")) SN_TRY(parse_entry(&r, m, lx));
    SN_PUSH(&m->arena, &m->repeats, r);
    return sn_lex_next(lx);
}

sn_status sn_cond_parse(sn_module *m, sn_lex *lx) {
    sn_repeat_rec r = {.trip = sn_ix_const(m, 1)};
    uint32_t before;
    SN_TRY(sn_lex_expect_name(lx, "cond"));
    SN_TRY(parse_buf(&r.flag, m, lx));
    SN_TRY(sn_lex_expect_name(lx, "sections"));
    SN_TRY(parse_section(&r.first, lx));
    SN_TRY(parse_section(&before, lx));
    SN_TRY(sn_lex_expect_name(lx, "else"));
    sn_lex at = *lx;
    SN_TRY(parse_section(&r.otherwise, lx));
    if (r.otherwise != before + 1)
        return sn_lex_fail(&at, "the second branch begins in section %u, not %u", before + 1, r.otherwise);
    SN_TRY(parse_section(&r.last, lx));
    SN_PUSH(&m->arena, &m->repeats, r);
    return SN_OK;
}

/* ---- invariants ---- */

typedef struct verifier {
    sn_module *m;
    const char *where;
    uint32_t *repeat; /* by buffer: 1 + number of the repeat whose window it is, or in which it follows a state */
    bool *named;      /* by buffer: a window, a state, or what follows one */
} verifier;

static sn_status broken(const verifier *v, int number, const char *format, ...) SN_PRINTF(3, 4);
static sn_status broken(const verifier *v, int number, const char *format, ...) {
    char text[SN_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: R%d: %s", v->where, number, text);
}

static const char *name_of(const verifier *v, sn_buf b) { return sn_buf_get(v->m, b)->name; }

static sn_status check_sections(const verifier *v) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < v->m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(v->m, v->m->kernels.at[i]);
        bool alternative = k->alternative_of.i;
        uint32_t least = alternative ? sn_kern_get(v->m, k->alternative_of)->section : last;
        if (k->section < least || (alternative && k->section != least))
            return broken(v, 1, "kernel @%s of section %u stands behind one of section %u", k->name, k->section, least);
        if (!alternative) last = k->section;
    }
    return SN_OK;
}

static sn_status check_nesting(const verifier *v, uint32_t i) {
    const sn_repeat_rec *r = &v->m->repeats.at[i];
    int64_t trip;
    if (r->first > r->last || !r->first) return broken(v, 2, "sections %u to %u", r->first, r->last);
    if (r->otherwise && (r->otherwise <= r->first || r->otherwise > r->last))
        return broken(v, 2, "sections %u to %u, of which the second branch begins with %u", r->first, r->last,
                      r->otherwise);
    if (sn_ix_is_const(v->m, r->trip, &trip) && trip < 1) return broken(v, 2, "%lld steps", (long long)trip);
    for (uint32_t k = 0; k < i; k++) {
        const sn_repeat_rec *before = &v->m->repeats.at[k];
        bool apart = before->last < r->first || r->last < before->first;
        bool inside = before->first <= r->first && r->last <= before->last &&
                      (!before->otherwise || r->last < before->otherwise || before->otherwise <= r->first);
        if (!apart && !inside) return broken(v, 2, "two repeats cross in section %u", r->first);
    }
    return SN_OK;
}

static sn_status name_once(verifier *v, int rule, sn_buf b) {
    if (sn_buf_get(v->m, b)->scope != SN_BUF_STEP)
        return broken(v, rule, "%s is no buffer of scope step", name_of(v, b));
    if (v->named[b.i]) return broken(v, rule, "%s is named twice", name_of(v, b));
    v->named[b.i] = true;
    return SN_OK;
}

static sn_status check_window(verifier *v, const sn_repeat_rec *r, const sn_repeat_window *w) {
    const sn_buf_rec *b = sn_buf_get(v->m, w->buf), *of = sn_buf_get(v->m, w->of);
    int64_t first, by, trip, size, room;
    SN_TRY(name_once(v, 3, w->buf));
    if (!sn_buf_is_global(of) || sn_buf_eq(w->buf, w->of) || b->dtype != of->dtype)
        return broken(v, 3, "%s is no window of %s", b->name, of->name);
    bool known = sn_ix_is_const(v->m, w->first, &first) && sn_ix_is_const(v->m, w->by, &by) &&
                 sn_ix_is_const(v->m, r->trip, &trip) && sn_ix_is_const(v->m, b->size, &size) &&
                 sn_ix_is_const(v->m, of->size, &room);
    if (!known) return SN_OK;
    int64_t end;
    bool counts = !sn_mul_overflow(by, trip - 1, &end) && !sn_add_overflow(first, end, &end);
    bool inside = counts && first >= 0 && end >= 0 && size <= room && first <= room - size && end <= room - size;
    return inside ? SN_OK : broken(v, 3, "%s leaves %s", b->name, of->name);
}

static sn_status check_carry(verifier *v, const sn_carry *c) {
    const sn_buf_rec *a = sn_buf_get(v->m, c->state), *b = sn_buf_get(v->m, c->next);
    SN_TRY(name_once(v, 4, c->state));
    SN_TRY(name_once(v, 4, c->next));
    bool alike = a->dtype == b->dtype && sn_ix_eq(a->size, b->size);
    return alike ? SN_OK : broken(v, 4, "%s cannot be %s of the step before", a->name, b->name);
}

static sn_status check_flag(verifier *v, const sn_repeat_rec *r) {
    int64_t size;
    if (!r->flag.i) return SN_OK;
    const sn_buf_rec *b = sn_buf_get(v->m, r->flag);
    SN_TRY(name_once(v, 6, r->flag));
    if (b->dtype != SN_BOOL || !sn_ix_is_const(v->m, b->size, &size) || size != 1)
        return broken(v, 6, "%s is not one bool", b->name);
    for (uint32_t i = 0; i < v->m->kernels.n && r->otherwise; i++) {
        const sn_kern_rec *k = sn_kern_get(v->m, v->m->kernels.at[i]);
        bool inside = k->section >= r->first && k->section <= r->last;
        if (inside && sn_kern_stores(v->m, v->m->kernels.at[i], r->flag))
            return broken(v, 6, "kernel @%s stores to %s, by which it is taken", k->name, b->name);
    }
    return SN_OK;
}

static sn_status check_touched(const verifier *v) {
    for (uint32_t i = 0; i < v->m->kernels.n; i++) {
        const sn_kern_rec *k = sn_kern_get(v->m, v->m->kernels.at[i]);
        for (uint32_t p = 0; p < k->params.n; p++) {
            uint32_t number = v->repeat[k->params.at[p].i];
            const sn_repeat_rec *r = number ? &v->m->repeats.at[number - 1] : NULL;
            if (r && (k->section < r->first || k->section > r->last))
                return broken(v, 5, "kernel @%s touches %s outside of its repeat", k->name,
                              name_of(v, k->params.at[p]));
        }
    }
    return SN_OK;
}

static sn_status check_all(verifier *v) {
    SN_TRY(check_sections(v));
    for (uint32_t i = 0; i < v->m->repeats.n; i++) {
        const sn_repeat_rec *r = &v->m->repeats.at[i];
        SN_TRY(check_nesting(v, i));
        for (uint32_t k = 0; k < r->windows.n; k++) {
            SN_TRY(check_window(v, r, &r->windows.at[k]));
            v->repeat[r->windows.at[k].buf.i] = i + 1;
        }
        for (uint32_t k = 0; k < r->carries.n; k++) {
            SN_TRY(check_carry(v, &r->carries.at[k]));
            v->repeat[r->carries.at[k].next.i] = i + 1;
        }
        SN_TRY(check_flag(v, r));
        if (!r->otherwise && r->flag.i) v->repeat[r->flag.i] = i + 1;
    }
    return check_touched(v);
}

sn_status sn_repeats_verify(sn_module *m, const char *where) {
    sn_arena scratch;
    if (!m->repeats.n) return SN_OK;
    sn_arena_init(&scratch, m->env);
    verifier v = {m, where, SN_NEWN(&scratch, uint32_t, m->bufs.count), SN_NEWN(&scratch, bool, m->bufs.count)};
    sn_status status = check_all(&v);
    sn_arena_free(&scratch);
    return status;
}
