/* safetensors.c: the header of a .safetensors file, for a process that has libsinter-rt alone.
 *
 *     length of the header (u64)   {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}   elements
 *
 * The header is JSON of a fixed form: an object of objects with a text and two lists of numbers, and __metadata__, an object of
 * texts, which is skipped. That much of JSON is read here, so that the library needs no other one; frontend/files/safetensors.c, which
 * also writes such files and looks at all of them (no holes, no overlaps), has a JSON library. Nothing is
 * used before it is checked. Cost: one walk over the header.
 */
#include "runtime/safetensors.h"

#include <string.h>

enum { LENGTH_BYTES = 8 };

static const char *const types[SN_N_DTYPES] = {
#define SN_DTYPE(ID, name, bytes, cls, digits, npy, dlpack) [SN_##ID] = #ID,
#include "include/sinter/dtypes.def"
#undef SN_DTYPE
};

const char *sn_safetensors_type_name(sn_dtype dtype) { return types[dtype]; }

/* Reading goes on harmlessly behind a fault, at the end. */
typedef struct reader {
    sn_arena *arena;
    const char *begin, *at, *end;
    const char *fault; /* the first thing that is wrong */
    uint64_t fault_at; /* byte of the header */
} reader;

static void fault(reader *r, const char *what) {
    if (!r->fault) r->fault = what, r->fault_at = (uint64_t)(r->at - r->begin);
    r->at = r->end;
}

/* ---- JSON ---- */

static char peek(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
    return r->at < r->end ? *r->at : 0;
}

static bool accept(reader *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static void expect(reader *r, char c, const char *what) {
    if (!accept(r, c)) fault(r, what);
}

/* Behind an element: does another one follow? */
static bool more(reader *r, char close, const char *what) {
    if (accept(r, ',')) return true;
    expect(r, close, what);
    return false;
}

static uint32_t hex4(reader *r) {
    uint32_t x = 0;
    for (int k = 0; k < 4; k++) {
        char c = r->at < r->end ? *r->at : 0, lower = (char)(c | 32);
        bool digit = c >= '0' && c <= '9', letter = lower >= 'a' && lower <= 'f';
        if (!digit && !letter) return fault(r, "no such escape"), 0;
        x = 16 * x + (uint32_t)(digit ? c - '0' : lower - 'a' + 10);
        r->at++;
    }
    return x;
}

static char *put_utf8(char *to, uint32_t x) {
    if (x < 0x80) return *to++ = (char)x, to;
    if (x < 0x800) *to++ = (char)(0xc0 | x >> 6);
    else if (x < 0x10000) *to++ = (char)(0xe0 | x >> 12), *to++ = (char)(0x80 | (x >> 6 & 63));
    else *to++ = (char)(0xf0 | x >> 18), *to++ = (char)(0x80 | (x >> 12 & 63)), *to++ = (char)(0x80 | (x >> 6 & 63));
    *to++ = (char)(0x80 | (x & 63));
    return to;
}

/* Behind "\u"; two of them where the first is half a letter. */
static uint32_t escaped_letter(reader *r) {
    uint32_t x = hex4(r);
    if (x < 0xd800 || x > 0xdfff) return x;
    bool pair = x < 0xdc00 && r->end - r->at > 6 && r->at[0] == '\\' && r->at[1] == 'u';
    uint32_t low = pair ? (r->at += 2, hex4(r)) : 0;
    if (low < 0xdc00 || low > 0xdfff) return fault(r, "half a letter"), '?';
    return 0x10000 + ((x - 0xd800) << 10) + (low - 0xdc00);
}

static char *escape(reader *r, char *to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *which = c ? strchr(from, c) : NULL;
    uint32_t x = c == 'u' ? escaped_letter(r) : 0;
    if (which) *to++ = into[which - from];
    else if (x) to = put_utf8(to, x);
    else fault(r, "no such escape"); /* a zero neither: texts end there */
    return to;
}

/* A text is no longer than what it is written as. */
static const char *text(reader *r) {
    expect(r, '"', "a text is missing");
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    char *out = sn_zalloc(r->arena, (size_t)(close - r->at) + 1), *to = out;
    while (r->at < close) {
        char c = *r->at++;
        if (c == '\\') to = escape(r, to);
        else if ((unsigned char)c < ' ') fault(r, "a letter that texts have not");
        else *to++ = c;
        if (r->fault) return "";
    }
    expect(r, '"', "a text has no end");
    return out;
}

static int64_t number(reader *r) {
    int64_t x = 0;
    bool any = false;
    for (char c = peek(r); c >= '0' && c <= '9'; c = r->at < r->end ? *r->at : 0) {
        if (sn_mul_overflow(x, 10, &x) || sn_add_overflow(x, c - '0', &x)) return fault(r, "a number is too large"), 0;
        r->at++;
        any = true;
    }
    if (!any) fault(r, "a number is missing");
    return x;
}

/* How many there are; as many as have room are in the list. */
static uint32_t numbers(reader *r, int64_t *out, uint32_t room) {
    uint32_t n = 0;
    expect(r, '[', "a list is missing");
    if (accept(r, ']')) return 0;
    do {
        int64_t x = number(r);
        if (n < room) out[n] = x;
        n++;
    } while (!r->fault && more(r, ']', "a list has no end"));
    return n;
}

/* ---- the header ---- */

static void skip_metadata(reader *r) {
    expect(r, '{', "__metadata__ is no object");
    if (accept(r, '}')) return;
    do {
        text(r);
        expect(r, ':', "a name has no value");
        text(r);
    } while (!r->fault && more(r, '}', "__metadata__ has no end"));
}

/* All three, in any order. */
static void entry(reader *r, sn_safetensor *t, int64_t span[2]) {
    unsigned seen = 0;
    expect(r, '{', "a tensor is no object");
    do {
        const char *key = text(r);
        unsigned bit = !strcmp(key, "dtype") ? 1 : !strcmp(key, "shape") ? 2 : !strcmp(key, "data_offsets") ? 4 : 0;
        expect(r, ':', "a name has no value");
        if (!bit || (seen & bit)) fault(r, "a tensor has no such field, or has it twice");
        else if (bit == 1) t->type = text(r);
        else if (bit == 2) t->rank = numbers(r, t->shape, SN_MAX_RANK);
        else if (numbers(r, span, 2) != 2) fault(r, "data_offsets are not two numbers");
        seen |= bit;
    } while (!r->fault && more(r, '}', "a tensor has no end"));
    if (seen != 7) fault(r, "a tensor has no dtype, no shape or no data_offsets");
}

typedef struct walk {
    sn_env *env;
    const char *path, *elements;
    uint64_t size; /* of the elements */
    sn_status (*visit)(void *user, const sn_safetensor *t);
    void *user;
} walk;

static sn_status give(const walk *w, sn_safetensor *t, const int64_t span[2]) {
    if (span[0] > span[1])
        return sn_fail(w->env, SN_ERROR_FILE, "%s: %s: its data_offsets are not two ascending numbers", w->path,
                       t->name);
    if ((uint64_t)span[1] > w->size)
        return sn_fail(w->env, SN_ERROR_FILE,
                       "%s: truncated: tensor %s ends at byte %lld of the elements, there are %llu", w->path, t->name,
                       (long long)span[1], (unsigned long long)w->size);
    t->data = w->elements + span[0];
    t->size = (uint64_t)(span[1] - span[0]);
    return w->visit(w->user, t);
}

static sn_status walk_header(reader *r, const walk *w) {
    expect(r, '{', "it is no object");
    bool any = !accept(r, '}');
    while (any && !r->fault) {
        sn_safetensor t = {.name = text(r)};
        int64_t span[2] = {0};
        expect(r, ':', "a name has no value");
        if (!strcmp(t.name, "__metadata__")) skip_metadata(r);
        else entry(r, &t, span);
        if (!r->fault && t.type) SN_TRY(give(w, &t, span));
        if (r->fault || !more(r, '}', "it has no end")) break;
    }
    if (!r->fault && peek(r)) fault(r, "it goes on behind its end");
    if (!r->fault) return SN_OK;
    return sn_fail(w->env, SN_ERROR_FILE, "%s: malformed header: %s (byte %llu)", w->path, r->fault,
                   (unsigned long long)r->fault_at);
}

sn_status sn_safetensors_walk(sn_env *env, sn_arena *arena, const char *path, const void *file, uint64_t size,
                              sn_status (*visit)(void *user, const sn_safetensor *t), void *user) {
    const unsigned char *bytes = file;
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: %llu bytes", path, (unsigned long long)size);
    for (int k = 0; k < LENGTH_BYTES; k++) length |= (uint64_t)bytes[k] << 8 * k;
    if (length > size - LENGTH_BYTES)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: its header has %llu bytes, the file %llu", path,
                       (unsigned long long)length, (unsigned long long)size);
    const char *header = (const char *)bytes + LENGTH_BYTES;
    reader r = {.arena = arena, .begin = header, .at = header, .end = header + length};
    walk w = {env, path, header + length, size - LENGTH_BYTES - length, visit, user};
    return walk_header(&r, &w);
}
