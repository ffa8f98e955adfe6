/* text.c: text buffer, lexer, name table. Relies on base.h only. The lexer never reads past `end`, so that fuzzed input
 * without a terminator is safe.
 */
#include "ir/base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text buffer ---- */

void sn_text_init(sn_text *t, sn_env *env) {
    *t = (sn_text){.env = env};
    t->s = sn_heap_alloc(env, t->cap = 256);
    t->s[0] = 0;
}

void sn_text_free(sn_text *t) {
    sn_heap_free(t->env, t->s, t->cap);
    *t = (sn_text){.env = t->env};
}

void sn_text_clear(sn_text *t) {
    t->n = 0;
    if (t->s) t->s[0] = 0;
}

static void text_reserve(sn_text *t, size_t more) {
    if (t->n + more + 1 <= t->cap) return;
    size_t cap = t->cap * 2;
    while (cap < t->n + more + 1) cap *= 2;
    t->s = sn_heap_realloc(t->env, t->s, t->cap, cap);
    t->cap = cap;
}

void sn_text_putn(sn_text *t, const char *s, size_t n) {
    text_reserve(t, n);
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void sn_text_put(sn_text *t, const char *s) { sn_text_putn(t, s, strlen(s)); }

void sn_text_printf(sn_text *t, const char *format, ...) {
    va_list args;
    size_t room = t->cap - t->n;
    va_start(args, format);
    int n = vsnprintf(t->s + t->n, room, format, args);
    va_end(args);
    if ((size_t)n >= room) {
        text_reserve(t, (size_t)n);
        va_start(args, format);
        vsnprintf(t->s + t->n, (size_t)n + 1, format, args);
        va_end(args);
    }
    t->n += (size_t)n;
}

void sn_text_number(sn_text *t, uint64_t x) {
    char digits[24], *at = digits + sizeof digits;
    do *--at = (char)('0' + x % 10);
    while (x /= 10);
    sn_text_putn(t, at, (size_t)(digits + sizeof digits - at));
}

void sn_text_indent(sn_text *t, int level) {
    while (level-- > 0) sn_text_putn(t, "  ", 2);
}

void sn_text_double(sn_text *t, double x) {
    if (isnan(x)) {
        sn_text_put(t, "nan");
        return;
    }
    if (isinf(x)) {
        sn_text_put(t, x < 0 ? "-inf" : "inf");
        return;
    }
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtod(s, NULL) == x) break;
    }
    sn_text_put(t, s);
    if (!strpbrk(s, ".e")) sn_text_put(t, ".0");
}

void sn_text_quoted(sn_text *t, const char *s) {
    sn_text_put(t, "\"");
    for (; *s; s++) {
        if (*s == '\n') {
            sn_text_put(t, "\\n");
            continue;
        }
        if (*s == '"' || *s == '\\') sn_text_put(t, "\\");
        sn_text_putn(t, s, 1);
    }
    sn_text_put(t, "\"");
}

/* ---- lexer ---- */

static bool name_start(int c) { return isalpha(c) || c == '_'; }
static bool name_char(int c) { return isalnum(c) || c == '_' || c == '.'; }

static int peek(const sn_lex *lx, size_t k) { return (size_t)(lx->end - lx->at) > k ? (unsigned char)lx->at[k] : 0; }

static sn_status fail_at(sn_lex *lx, int line, int col, const char *format, va_list args) {
    char text[SN_MESSAGE_MAX / 2];
    vsnprintf(text, sizeof text, format, args);
    return sn_fail(lx->env, SN_ERROR_SYNTAX, "%s:%d:%d: %s", lx->name, line, col, text);
}

sn_status sn_lex_fail(sn_lex *lx, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sn_status st = fail_at(lx, lx->tok_line, lx->tok_col, format, args);
    va_end(args);
    return st;
}

sn_status sn_lex_place(sn_lex *lx, int line, int col) {
    size_t n = strlen(lx->name);
    sn_status st = lx->env->status;
    char message[SN_MESSAGE_MAX];
    if (st == SN_OK || (!strncmp(lx->env->message, lx->name, n) && lx->env->message[n] == ':')) return st;
    snprintf(message, sizeof message, "%s", lx->env->message);
    sn_env_clear(lx->env);
    return sn_fail(lx->env, st, "%s:%d:%d: %s", lx->name, line, col, message);
}

static void skip_space(sn_lex *lx) {
    for (; lx->at < lx->end; lx->at++) {
        char c = *lx->at;
        if (c == '#' || c == ';') {
            while (lx->at < lx->end && *lx->at != '\n') lx->at++;
            if (lx->at == lx->end) return;
            c = '\n';
        }
        if (c == '\n') {
            lx->line++;
            lx->line_start = lx->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static sn_status lex_number_token(sn_lex *lx) {
    const char *s = lx->at;
    bool is_float = false;
    while (isdigit(peek(lx, 0))) lx->at++;
    if (peek(lx, 0) == '.' && isdigit(peek(lx, 1))) {
        is_float = true;
        lx->at++;
        while (isdigit(peek(lx, 0))) lx->at++;
    }
    if (peek(lx, 0) == 'e' || peek(lx, 0) == 'E') {
        size_t k = peek(lx, 1) == '-' || peek(lx, 1) == '+' ? 2 : 1;
        if (isdigit(peek(lx, k))) {
            is_float = true;
            lx->at += k;
            while (isdigit(peek(lx, 0))) lx->at++;
        }
    }
    lx->tok_len = (size_t)(lx->at - s);
    char digits[64];
    if (lx->tok_len >= sizeof digits) return sn_lex_fail(lx, "number has more than %zu characters", sizeof digits - 1);
    memcpy(digits, s, lx->tok_len);
    digits[lx->tok_len] = 0;
    lx->number = strtod(digits, NULL);
    lx->tok = is_float ? SN_TOK_FLOAT : SN_TOK_INT;
    if (is_float) return SN_OK;
    lx->integer = 0;
    for (size_t i = 0; i < lx->tok_len; i++)
        if (sn_mul_overflow(lx->integer, 10u, &lx->integer) ||
            sn_add_overflow(lx->integer, (uint64_t)(digits[i] - '0'), &lx->integer))
            return sn_lex_fail(lx, "integer %s does not fit in 64 bits", digits);
    return SN_OK;
}

static sn_status lex_string_token(sn_lex *lx) {
    lx->tok_start = ++lx->at;
    for (; lx->at < lx->end && *lx->at != '"'; lx->at++) {
        if (*lx->at == '\n') return sn_lex_fail(lx, "string is not closed on its line");
        if (*lx->at == '\\') lx->at++;
        if (lx->at >= lx->end) break;
    }
    if (lx->at >= lx->end) return sn_lex_fail(lx, "string is not closed");
    lx->tok = SN_TOK_STRING;
    lx->tok_len = (size_t)(lx->at++ - lx->tok_start);
    return SN_OK;
}

static sn_status lex_word(sn_lex *lx, sn_tok tok) {
    lx->tok = tok;
    lx->tok_start = lx->at;
    while (name_char(peek(lx, 0))) lx->at++;
    lx->tok_len = (size_t)(lx->at - lx->tok_start);
    return SN_OK;
}

sn_status sn_lex_next(sn_lex *lx) {
    skip_space(lx);
    lx->tok_start = lx->at;
    lx->tok_len = 0;
    lx->tok_line = lx->line;
    lx->tok_col = (int)(lx->at - lx->line_start) + 1;
    if (lx->at >= lx->end) {
        lx->tok = SN_TOK_END;
        return SN_OK;
    }
    int c = peek(lx, 0);
    if (name_start(c)) return lex_word(lx, SN_TOK_NAME);
    if (isdigit(c)) return lex_number_token(lx);
    if (c == '"') return lex_string_token(lx);
    if ((c == '%' || c == '@') && name_char(peek(lx, 1)) && peek(lx, 1) != '.') {
        lx->at++;
        return lex_word(lx, c == '%' ? SN_TOK_VALUE : SN_TOK_AT);
    }
    if (!strchr("()[]{},:=+-*/<>", c) || c == 0) {
        if (isprint(c)) return sn_lex_fail(lx, "unexpected character '%c'", c);
        return sn_lex_fail(lx, "unexpected byte 0x%02x%s", c,
                           lx->line == 1 && lx->at == lx->line_start ? ": this is no .sn text" : "");
    }
    lx->tok = SN_TOK_PUNCT;
    lx->tok_len = c == '-' && peek(lx, 1) == '>' ? 2 : 1;
    lx->at += lx->tok_len;
    return SN_OK;
}

sn_status sn_lex_init(sn_lex *lx, sn_env *env, const char *name, const char *text, size_t size) {
    *lx = (sn_lex){.env = env, .name = name, .at = text, .end = text + size, .line_start = text, .line = 1};
    return sn_lex_next(lx);
}

bool sn_lex_text_is(const sn_lex *lx, const char *s) {
    return strlen(s) == lx->tok_len && memcmp(lx->tok_start, s, lx->tok_len) == 0;
}

bool sn_lex_is(const sn_lex *lx, const char *punct) { return lx->tok == SN_TOK_PUNCT && sn_lex_text_is(lx, punct); }
bool sn_lex_is_name(const sn_lex *lx, const char *name) { return lx->tok == SN_TOK_NAME && sn_lex_text_is(lx, name); }

sn_status sn_lex_accept(bool *out, sn_lex *lx, const char *punct) {
    *out = sn_lex_is(lx, punct);
    return *out ? sn_lex_next(lx) : SN_OK;
}

sn_status sn_lex_accept_name(bool *out, sn_lex *lx, const char *name) {
    *out = sn_lex_is_name(lx, name);
    return *out ? sn_lex_next(lx) : SN_OK;
}

static sn_status expected(sn_lex *lx, const char *what) {
    if (lx->tok == SN_TOK_END) return sn_lex_fail(lx, "expected %s, found the end of the text", what);
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    return sn_lex_fail(lx, "expected %s, found '%.*s'", what, n, lx->tok_start);
}

sn_status sn_lex_expect(sn_lex *lx, const char *punct) {
    if (sn_lex_is(lx, punct)) return sn_lex_next(lx);
    char what[16];
    snprintf(what, sizeof what, "'%s'", punct);
    return expected(lx, what);
}

sn_status sn_lex_expect_name(sn_lex *lx, const char *name) {
    if (sn_lex_is_name(lx, name)) return sn_lex_next(lx);
    char what[64];
    snprintf(what, sizeof what, "'%s'", name);
    return expected(lx, what);
}

static sn_status take(char **out, sn_lex *lx, sn_arena *a, sn_tok tok, const char *what) {
    if (lx->tok != tok) return expected(lx, what);
    *out = sn_strndup(a, lx->tok_start, lx->tok_len);
    return sn_lex_next(lx);
}

sn_status sn_lex_name(char **out, sn_lex *lx, sn_arena *a) { return take(out, lx, a, SN_TOK_NAME, "a name"); }
sn_status sn_lex_value(char **out, sn_lex *lx, sn_arena *a) { return take(out, lx, a, SN_TOK_VALUE, "a %value"); }
sn_status sn_lex_at(char **out, sn_lex *lx, sn_arena *a) { return take(out, lx, a, SN_TOK_AT, "an @name"); }

sn_status sn_lex_string(char **out, sn_lex *lx, sn_arena *a) {
    SN_TRY(take(out, lx, a, SN_TOK_STRING, "a string"));
    char *to = *out;
    for (const char *s = *out; *s; s++) {
        if (*s == '\\' && s[1]) s++, *to++ = *s == 'n' ? '\n' : *s;
        else *to++ = *s;
    }
    *to = 0;
    return SN_OK;
}

sn_status sn_lex_int(int64_t *out, sn_lex *lx) {
    bool minus;
    SN_TRY(sn_lex_accept(&minus, lx, "-"));
    if (lx->tok != SN_TOK_INT) return expected(lx, "an integer");
    if (lx->integer > (uint64_t)INT64_MAX + minus) return sn_lex_fail(lx, "integer does not fit in 64 bits");
    *out = (int64_t)(minus ? 0 - lx->integer : lx->integer);
    return sn_lex_next(lx);
}

sn_status sn_lex_number(double *out, sn_lex *lx) {
    bool minus;
    SN_TRY(sn_lex_accept(&minus, lx, "-"));
    double x;
    if (lx->tok == SN_TOK_INT || lx->tok == SN_TOK_FLOAT) x = lx->number;
    else if (sn_lex_is_name(lx, "nan")) x = NAN;
    else if (sn_lex_is_name(lx, "inf")) x = INFINITY;
    else return expected(lx, "a number");
    *out = minus ? -x : x;
    return sn_lex_next(lx);
}

sn_status sn_lex_word(uint32_t *out, sn_lex *lx, const char *what, const char *const *words) {
    char list[128] = "";
    for (*out = 0; words[*out]; ++*out) {
        if (sn_lex_is_name(lx, words[*out])) return sn_lex_next(lx);
        if (*out) strcat(list, ", ");
        strcat(list, words[*out]);
    }
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    return sn_lex_fail(lx, "%s: '%.*s' is none of %s", what, n, lx->tok_start, list);
}

/* ---- names ---- */

void sn_names_init(sn_names *t, sn_arena *arena) { *t = (sn_names){.arena = arena}; }

static struct sn_name_entry *names_slot(const sn_names *t, const char *name) {
    uint32_t i = (uint32_t)sn_hash_bytes(0, name, strlen(name)) & (t->cap - 1);
    while (t->at[i].name && strcmp(t->at[i].name, name) != 0) i = (i + 1) & (t->cap - 1);
    return &t->at[i];
}

uint32_t sn_names_get(const sn_names *t, const char *name) { return t->cap ? names_slot(t, name)->value : 0; }

void sn_names_put(sn_names *t, const char *name, uint32_t value) {
    if (2 * (t->n + 1) > t->cap) {
        sn_names old = *t;
        t->cap = old.cap ? old.cap * 2 : 16;
        t->at = SN_NEWN(t->arena, struct sn_name_entry, t->cap);
        for (uint32_t i = 0; i < old.cap; i++)
            if (old.at[i].name) *names_slot(t, old.at[i].name) = old.at[i];
    }
    struct sn_name_entry *e = names_slot(t, name);
    if (!e->name) e->name = sn_strdup(t->arena, name), t->n++;
    e->value = value;
}
