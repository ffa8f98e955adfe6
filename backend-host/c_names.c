/* c_names.c: names of a graph as identifiers of C source.
 *
 *     x.1 -> x_1 ;   x_1 beside it -> x_1_2 ;   a graph called int -> program_int
 *
 * Headers are read by C++ too, so that its keywords count as those of C, and so do macros of headers that they include.
 */
#include "backend-host/c_names.h"

#include <ctype.h>
#include <string.h>

static const char *const taken[] = {
    /* C */
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "typeof", "union", "unsigned", "void", "volatile", "while", "asm",
    /* C++ */
    "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "bool", "catch", "char16_t", "char32_t", "char8_t",
    "class", "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval", "constexpr",
    "constinit", "decltype", "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable", "namespace",
    "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
    "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local", "throw", "true",
    "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq",
    /* macros */
    "EOF", "NULL", "errno", "linux", "stderr", "stdin", "stdout", "unix",
    /* the texts of backend-host/source */
    "constant", "feature", "kernel", "map", "queue", "stat"};

const char *sn_c_identifier(sn_names *used, sn_arena *arena, const char *prefix, const char *name) {
    char *id = sn_strf(arena, "%s%s", prefix, name);
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    const char *unique = id;
    for (int i = 2; sn_names_get(used, unique); i++) unique = sn_strf(arena, "%s_%d", id, i);
    sn_names_put(used, unique, 1);
    return unique;
}

const char *sn_c_program_name(sn_names *used, sn_arena *arena, const char *name) {
    bool prefixed = isdigit((unsigned char)*name);
    for (size_t i = 0; i < SN_COUNT(taken); i++) prefixed |= !strcmp(name, taken[i]);
    return sn_c_identifier(used, arena, prefixed ? "program_" : "", name);
}
