/* text.h: a growing text buffer for printers, and the one lexer that all parsers of .sn text share. */
#ifndef SN_IR_BASE_TEXT_H
#define SN_IR_BASE_TEXT_H

#include "ir/base/base.h"

/* ---- text buffer: always NUL-terminated ---- */

typedef struct sn_text {
    sn_env *env;
    char *s;
    size_t n, cap;
} sn_text;

void sn_text_init(sn_text *t, sn_env *env);
void sn_text_free(sn_text *t);
/* Empty again; the memory stays. */
void sn_text_clear(sn_text *t);
void sn_text_put(sn_text *t, const char *s);
void sn_text_putn(sn_text *t, const char *s, size_t n);
void sn_text_printf(sn_text *t, const char *format, ...) SN_PRINTF(2, 3);
/* What %llu prints, in less time. */
void sn_text_number(sn_text *t, uint64_t x);
/* Two spaces per level. */
void sn_text_indent(sn_text *t, int level);
/* Shortest decimal that reads back as the same double; nan, inf, -inf as such. */
void sn_text_double(sn_text *t, double x);
/* "..." as the lexer reads it. */
void sn_text_quoted(sn_text *t, const char *s);

/* ---- lexer ---- */

typedef enum sn_tok {
    SN_TOK_END,
    SN_TOK_NAME,   /* [A-Za-z_][A-Za-z0-9_.]*  ('.' joins words: block.x, const.f32) */
    SN_TOK_VALUE,  /* %name or %12: text without the % */
    SN_TOK_AT,     /* @name: text without the @ */
    SN_TOK_INT,    /* 42, -7 : integer */
    SN_TOK_FLOAT,  /* 1.5, -2e-3, nan, inf, -inf : number */
    SN_TOK_STRING, /* "..." with \" \\ \n */
    SN_TOK_PUNCT,  /* one of ( ) [ ] { } , : = + - * / < > or -> */
} sn_tok;

/* Words nan and inf are names to the lexer; sn_lex_number accepts them. '-' directly before a digit is a PUNCT too:
 * numbers are unsigned tokens, sn_lex_int and sn_lex_number read the sign. '#' and ';' start a comment to line end. */
typedef struct sn_lex {
    sn_env *env;
    const char *name;     /* file name for messages */
    const char *at, *end; /* rest of the text */
    const char *line_start;
    int line;
    sn_tok tok; /* current token */
    const char *tok_start;
    size_t tok_len;        /* without a leading % or @ ; strings without quotes, escapes unread */
    int tok_line, tok_col; /* 1-based */
    uint64_t integer;      /* SN_TOK_INT */
    double number;         /* SN_TOK_INT and SN_TOK_FLOAT */
} sn_lex;

/* Start lexing and read the first token. The text need not be NUL-terminated. */
sn_status sn_lex_init(sn_lex *lx, sn_env *env, const char *name, const char *text, size_t size);
sn_status sn_lex_next(sn_lex *lx);
/* Failure at the current token: "name:line:col: message". */
sn_status sn_lex_fail(sn_lex *lx, const char *format, ...) SN_PRINTF(2, 3);
/* The status of the environment; a failure of somebody who knows no place gets this one. */
sn_status sn_lex_place(sn_lex *lx, int line, int col);
/* Is the current token this punctuation / this name? */
bool sn_lex_is(const sn_lex *lx, const char *punct);
bool sn_lex_is_name(const sn_lex *lx, const char *name);
/* If it is, step over it. */
sn_status sn_lex_accept(bool *out, sn_lex *lx, const char *punct);
sn_status sn_lex_accept_name(bool *out, sn_lex *lx, const char *name);
/* It must be: step over it or fail with "expected ...". */
sn_status sn_lex_expect(sn_lex *lx, const char *punct);
sn_status sn_lex_expect_name(sn_lex *lx, const char *name);
/* Read a token of the kind; text is copied to the arena. */
sn_status sn_lex_name(char **out, sn_lex *lx, sn_arena *a);
sn_status sn_lex_value(char **out, sn_lex *lx, sn_arena *a);
sn_status sn_lex_at(char **out, sn_lex *lx, sn_arena *a);
sn_status sn_lex_string(char **out, sn_lex *lx, sn_arena *a);
/* Read [-]digits / [-]number (also nan, inf). */
sn_status sn_lex_int(int64_t *out, sn_lex *lx);
sn_status sn_lex_number(double *out, sn_lex *lx);
/* Read one of the words, whose list ends with NULL; `what` is asked for. */
sn_status sn_lex_word(uint32_t *out, sn_lex *lx, const char *what, const char *const *words);

/* Does the token text equal s? */
bool sn_lex_text_is(const sn_lex *lx, const char *s);

/* ---- names of a scope: string -> uint32, for parsers (open addressing, in an arena) ---- */

typedef struct sn_names {
    sn_arena *arena;
    struct sn_name_entry {
        const char *name;
        uint32_t value;
    } *at;
    uint32_t n, cap;
} sn_names;

void sn_names_init(sn_names *t, sn_arena *arena);
/* 0 when absent. */
uint32_t sn_names_get(const sn_names *t, const char *name);
/* Add or overwrite. value must not be 0. */
void sn_names_put(sn_names *t, const char *name, uint32_t value);

#endif
