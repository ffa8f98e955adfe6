/* wrap.c: Wrapper IR: adding steps, and their text. Sizes print as index expressions over symbols. Whether the steps
 * make sense is verify.c's business: text with a wrong order of steps parses.
 */
#include "ir/wrap/wrap.h"

#include "ir/base/text.h"
#include "ir/loop/loop.h"

const char *const sn_step_names[SN_N_STEP_KINDS] = {
    [SN_STEP_CHECK] = "check",   [SN_STEP_ALLOC] = "alloc", [SN_STEP_REUSE] = "reuse",     [SN_STEP_FREE] = "free",
    [SN_STEP_CALL] = "call",     [SN_STEP_COPY] = "copy",   [SN_STEP_COMMENT] = "comment", [SN_STEP_REPEAT] = "repeat",
    [SN_STEP_WINDOW] = "window", [SN_STEP_CARRY] = "carry", [SN_STEP_WHILE] = "while",     [SN_STEP_IF] = "if",
    [SN_STEP_ELSE] = "else",     [SN_STEP_END] = "end",
};

void sn_wrap_add(sn_module *m, sn_step step) { SN_PUSH(&m->arena, &m->wrap.steps, step); }

/* ---- printing ---- */

/* ` word expression`; nothing when the expression is none. */
static void put_amount(sn_text *t, const sn_module *m, const char *word, sn_ix e) {
    if (!e.i) return;
    sn_text_printf(t, " %s ", word);
    sn_ix_print(t, m, e, NULL, NULL);
}

static void print_call(sn_text *t, const sn_module *m, const sn_step *s) {
    sn_text_printf(t, " @%s(", sn_kern_get(m, s->kern)->name);
    for (uint32_t i = 0; i < s->args.n; i++) {
        const sn_arg *a = &s->args.at[i];
        sn_text_printf(t, "%s%s", i ? ", " : "", sn_buf_get(m, a->buf)->name);
        if (a->offset) sn_text_printf(t, " + %lld", (long long)a->offset);
    }
    sn_text_put(t, ")");
}

static const char *size_word(sn_step_kind kind) {
    return kind == SN_STEP_REPEAT ? "steps" : kind == SN_STEP_WINDOW ? "by" : "size";
}

static void print_step(sn_text *t, const sn_module *m, const sn_step *s) {
    sn_text_put(t, sn_step_names[s->kind]);
    if (s->kind == SN_STEP_COMMENT) {
        sn_text_put(t, " ");
        sn_text_quoted(t, s->text);
    }
    if (s->kind == SN_STEP_CALL) print_call(t, m, s);
    if (s->buf.i) sn_text_printf(t, " %s", sn_buf_get(m, s->buf)->name);
    if (s->from.i) sn_text_printf(t, " from %s", sn_buf_get(m, s->from)->name);
    put_amount(t, m, size_word(s->kind), s->size);
    put_amount(t, m, "offset", s->offset);
}

void sn_wrap_print(sn_text *t, const sn_module *m) {
    const sn_wrap *w = &m->wrap;
    uint32_t depth = 0; /* repeats and branches around the step */
    sn_text_printf(t, "wrapper @%s", w->name ? w->name : "main");
    put_amount(t, m, "workspace", w->workspace);
    put_amount(t, m, "prepared", w->prepared);
    sn_text_put(t, " {\n");
    if (w->n_prepare) sn_text_put(t, "  prepare {\n");
    for (uint32_t i = 0; i < w->steps.n; i++) {
        sn_step_kind kind = w->steps.at[i].kind;
        depth -= (kind == SN_STEP_END || kind == SN_STEP_ELSE) && depth;
        sn_text_indent(t, (int)depth + (i < w->n_prepare ? 2 : 1));
        depth += kind == SN_STEP_REPEAT || kind == SN_STEP_IF || kind == SN_STEP_ELSE;
        print_step(t, m, &w->steps.at[i]);
        sn_text_put(t, "\n");
        if (i + 1 == w->n_prepare) sn_text_put(t, "  }\n");
    }
    sn_text_put(t, "}\n");
}

/* ---- parsing ---- */

typedef struct parser {
    sn_module *m;
    sn_lex *lx;
    sn_names bufs, kernels;
} parser;

static void collect_names(parser *p) {
    sn_names_init(&p->bufs, &p->m->arena);
    sn_names_init(&p->kernels, &p->m->arena);
    for (sn_buf b = {1}; b.i < p->m->bufs.count; b.i++)
        if (sn_buf_is_global(sn_buf_get(p->m, b))) sn_names_put(&p->bufs, sn_buf_get(p->m, b)->name, b.i);
    for (uint32_t i = 0; i < p->m->kernels.n; i++)
        sn_names_put(&p->kernels, sn_kern_get(p->m, p->m->kernels.at[i])->name, p->m->kernels.at[i].i);
}

static sn_status parse_buf(sn_buf *out, parser *p) {
    sn_lex at = *p->lx; /* for the place of a message */
    char *name;
    SN_TRY(sn_lex_name(&name, p->lx, &p->m->arena));
    out->i = sn_names_get(&p->bufs, name);
    return out->i ? SN_OK : sn_lex_fail(&at, "there is no buffer %s", name);
}

static sn_status parse_kernel(sn_kern *out, parser *p) {
    sn_lex at = *p->lx;
    char *name;
    SN_TRY(sn_lex_at(&name, p->lx, &p->m->arena));
    out->i = sn_names_get(&p->kernels, name);
    return out->i ? SN_OK : sn_lex_fail(&at, "there is no kernel @%s", name);
}

static sn_status parse_call(sn_step *s, parser *p) {
    SN_TRY(parse_kernel(&s->kern, p));
    SN_TRY(sn_lex_expect(p->lx, "("));
    while (!sn_lex_is(p->lx, ")")) {
        sn_arg a = {0};
        bool moved;
        if (s->args.n) SN_TRY(sn_lex_expect(p->lx, ","));
        SN_TRY(parse_buf(&a.buf, p));
        SN_TRY(sn_lex_accept(&moved, p->lx, "+"));
        if (moved) SN_TRY(sn_lex_int(&a.offset, p->lx));
        SN_PUSH(&p->m->arena, &s->args, a);
    }
    return sn_lex_next(p->lx);
}

static sn_ix find_symbol(void *user, bool is_value, const char *name) {
    sn_module *m = user;
    return is_value ? (sn_ix){0} : sn_ix_sym(m, sn_sym_named(m, name));
}

/* `word expression` if the word stands here. */
static sn_status parse_amount(sn_ix *out, parser *p, const char *word) {
    bool found;
    SN_TRY(sn_lex_accept_name(&found, p->lx, word));
    return found ? sn_ix_parse(out, p->lx, p->m, find_symbol, p->m) : SN_OK;
}

static sn_status parse_from(sn_step *s, parser *p) {
    SN_TRY(sn_lex_expect_name(p->lx, "from"));
    return parse_buf(&s->from, p);
}

static sn_status parse_size(sn_step *s, parser *p) {
    const char *word = size_word(s->kind);
    if (!sn_lex_is_name(p->lx, word)) return sn_lex_fail(p->lx, "expected %s after %s", word, sn_step_names[s->kind]);
    return parse_amount(&s->size, p, word);
}

static sn_status parse_operands(sn_step *s, parser *p) {
    switch (s->kind) {
    case SN_STEP_CHECK:
    case SN_STEP_WHILE:
    case SN_STEP_IF:
    case SN_STEP_FREE: return parse_buf(&s->buf, p);
    case SN_STEP_ALLOC:
        SN_TRY(parse_buf(&s->buf, p));
        SN_TRY(parse_size(s, p));
        return parse_amount(&s->offset, p, "offset");
    case SN_STEP_REUSE:
    case SN_STEP_CARRY: SN_TRY(parse_buf(&s->buf, p)); return parse_from(s, p);
    case SN_STEP_REPEAT: return parse_size(s, p);
    case SN_STEP_WINDOW:
        SN_TRY(parse_buf(&s->buf, p));
        SN_TRY(parse_from(s, p));
        SN_TRY(parse_size(s, p));
        return parse_amount(&s->offset, p, "offset");
    case SN_STEP_ELSE:
    case SN_STEP_END: return SN_OK;
    case SN_STEP_COPY:
        SN_TRY(parse_buf(&s->buf, p));
        SN_TRY(parse_from(s, p));
        return parse_size(s, p);
    case SN_STEP_CALL: return parse_call(s, p);
    case SN_STEP_COMMENT: {
        char *text;
        SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
        s->text = text;
        return SN_OK;
    }
    case SN_N_STEP_KINDS: break;
    }
    return SN_OK;
}

static sn_status parse_step(parser *p) {
    sn_step s = {0};
    while (s.kind < SN_N_STEP_KINDS && !sn_lex_is_name(p->lx, sn_step_names[s.kind])) s.kind++;
    if (s.kind == SN_N_STEP_KINDS)
        return sn_lex_fail(p->lx, "expected check, alloc, reuse, free, call, copy, repeat, window, carry, while, if, "
                                  "else, end, comment or '}'");
    SN_TRY(sn_lex_next(p->lx));
    SN_TRY(parse_operands(&s, p));
    sn_wrap_add(p->m, s);
    return SN_OK;
}

/* `prepare { steps }`, where it stands. */
static sn_status parse_prepare(parser *p) {
    bool found;
    SN_TRY(sn_lex_accept_name(&found, p->lx, "prepare"));
    if (!found) return SN_OK;
    SN_TRY(sn_lex_expect(p->lx, "{"));
    while (!sn_lex_is(p->lx, "}")) SN_TRY(parse_step(p));
    p->m->wrap.n_prepare = p->m->wrap.steps.n;
    return sn_lex_next(p->lx);
}

sn_status sn_wrap_parse(sn_module *m, sn_lex *lx) {
    parser p = {.m = m, .lx = lx};
    if (m->wrap.name) return sn_lex_fail(lx, "the module has a wrapper already (@%s)", m->wrap.name);
    SN_TRY(sn_lex_expect_name(lx, "wrapper"));
    char *name;
    SN_TRY(sn_lex_at(&name, lx, &m->arena));
    m->wrap.name = name;
    SN_TRY(parse_amount(&m->wrap.workspace, &p, "workspace"));
    SN_TRY(parse_amount(&m->wrap.prepared, &p, "prepared"));
    SN_TRY(sn_lex_expect(lx, "{"));
    collect_names(&p);
    SN_TRY(parse_prepare(&p));
    while (!sn_lex_is(lx, "}")) SN_TRY(parse_step(&p));
    return sn_lex_next(lx);
}
