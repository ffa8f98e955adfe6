/* verify.c: the invariants of Wrapper IR, numbered. One walk over the steps that keeps the life of every buffer.
 *
 *   W1   a step names what it may name: check an input or output; alloc, reuse and free a temp; call a kernel of the
 *        module; copy between two different buffers
 *   W2   a temp gets its place once
 *   W3   a temp has a place before it is freed, copied, handed on or passed to a kernel
 *   W4   ... and its life has not ended: it was not freed, nor was its storage handed on or taken by an output; an input is not read
 *        after a call that stores to an output which is written back to it without a copy
 *   W5   reuse: the source is a temp, or an output that no kernel has written; both have the same size in bytes, and
 *        the source is as aligned
 *   W6   reuse: nothing alive is in that storage but the source
 *   W7   alloc: large enough, inside the workspace (in the prepare part: the prepared memory), aligned as the buffer asks
 *   W8   alloc: its bytes overlap no storage that is alive
 *   W9   every kernel of the module is a function, and called if it is no alternative of another one
 *   W10  sizes and offsets are expressions over symbols, never negative; copy stays inside both buffers
 *   W11  a call has an argument for each formal, of its dtype, at least as long and as aligned; no const is stored to
 *   W12  what is noalias shares its storage with no other argument of the call, and nothing stored has the storage of what is
 *        invariant
 *   W13  the prepare part has no check and no copy, and its calls touch const and temp buffers alone
 *   W14  what is alive at its end stays as it is: no later step stores to it, frees it or takes its storage
 *   W15  repeats and branches have an end; window, carry and while stand in a repeat, else in an if; what was placed before a
 *        repeat or a branch is placed alike at its end, and what is placed inside is freed inside
 *   W16  a window is a buffer of scope step that has no other place; in no step it leaves what it is from, which is alive, and no
 *        temp lives in an output that has windows
 *   W17  carry: two buffers of scope step and one size, both alive, or the one that took the storage of the other; the second
 *        one is not freed while the first is alive
 *   W18  while and if: one bool in a buffer of scope step, which is alive
 *
 * `reuse b from a` while a is alive hands the storage on: the next call may still read a, and ends its life. A temp
 * may live in the storage of an output; the call that gets the output as an argument ends its life in the same way.
 * Offsets and sizes that hold symbols are compared by id alone; bounds on them are checked where they are constants.
 * Whether a kernel may overwrite its operand is decided by the pass `plan`, not here. Cost: a search in what is
 * alive for each step; where symbols stand in sizes or offsets, a look at all that is alive.
 */
#include "ir/wrap/wrap.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/loop.h"
#include "ir/loop/repeats.h"

typedef enum life_state {
    UNPLACED,
    ALIVE,
    HANDED, /* the next call ends it */
    ENDED,  /* by that call; a `free` may still say so */
    FREED
} life_state;

typedef struct life {
    life_state state;
    sn_buf root;           /* the alloc or output whose storage it has */
    sn_buf taken_by;       /* HANDED, ENDED, INPUT: who has the storage now */
    sn_buf window_of;      /* ALIVE as a window of that */
    sn_buf state_of;       /* it follows that state, with a place of its own */
    uint32_t alive_index;  /* place in the list of temps with ALIVE or HANDED */
    bool written;          /* OUTPUT: a kernel got it */
    bool prepared;         /* alive at the end of the prepare part */
    sn_buf input;          /* OUTPUT: the input that it is written back to without a copy */
    sn_ix size, offset;    /* roots made by alloc */
    uint32_t uses, stores; /* roots: by the arguments of a call */
    uint32_t holders;      /* roots: how many have its storage with ALIVE or HANDED, */
    sn_buf holder;         /* and the last that got it: no other can be ALIVE (W6) */
    uint32_t noted;        /* the last change that was noted of it, counted from 1 */
} life;

/* What a buffer was before the first change to it inside a frame, or inside of a frame in that one. */
typedef struct change {
    sn_buf buf, root, window_of;
    life_state state;
    bool written, written_in_if; /* the latter: of an `if`, from its `else` on, as its first branch left it */
} change;

/* Bytes of the workspace that are alive. */
typedef struct span {
    int64_t begin, end;
    sn_buf root;
} span;

typedef enum frame_kind { IN_REPEAT, IN_IF, IN_ELSE } frame_kind;

/* A repeat or an `if` that has not ended. Which buffers had which place when it began: the changes since tell. */
typedef struct frame {
    frame_kind kind;
    int64_t trip; /* -1: not known */
    uint32_t first_change;
} frame;

typedef struct verifier {
    sn_module *m;
    const char *where;
    uint32_t step;
    life *lives;            /* by buffer id */
    uint8_t *called;        /* by kernel id; 1: in the module, 2: called */
    SN_VEC(sn_buf) alive;   /* temps with ALIVE or HANDED */
    SN_VEC(sn_buf) handed;  /* since the last call: temps that became HANDED */
    SN_VEC(span) spans;     /* of alive roots with constant bounds, if not empty: disjoint (W8), in order */
    SN_VEC(frame) frames;   /* outermost first */
    SN_VEC(change) changes; /* since the outermost one began */
    uint32_t n_symbolic;    /* alive roots with an offset and other bounds */
} verifier;

static const char *name_of(const verifier *v, sn_buf b) { return sn_buf_get(v->m, b)->name; }
static sn_buf_scope scope_of(const verifier *v, sn_buf b) { return sn_buf_get(v->m, b)->scope; }
static life *life_of(const verifier *v, sn_buf b) { return &v->lives[b.i]; }
static bool is_alive(life_state s) { return s == ALIVE || s == HANDED; }
static bool is_placed_by_steps(const verifier *v, sn_buf b) {
    return scope_of(v, b) == SN_BUF_TEMP || scope_of(v, b) == SN_BUF_STEP;
}
/* What a window of windows is from in the end. */
static sn_buf base_of(const verifier *v, sn_buf b) {
    while (life_of(v, b)->window_of.i) b = life_of(v, b)->window_of;
    return b;
}

static sn_status broken(const verifier *v, int number, const char *format, ...) SN_PRINTF(3, 4);
static sn_status broken(const verifier *v, int number, const char *format, ...) {
    char text[SN_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const sn_wrap *w = &v->m->wrap;
    const char *kind = v->step < w->steps.n ? sn_step_names[w->steps.at[v->step].kind] : "end";
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: W%d: wrapper @%s, step %u (%s): %s", v->where, number,
                   w->name ? w->name : "main", v->step, kind, text);
}

static sn_ix bytes_of(const verifier *v, sn_buf b) {
    const sn_buf_rec *r = sn_buf_get(v->m, b);
    return sn_ix_scale(v->m, r->size, sn_dtype_bytes(r->dtype));
}

/* ---- W1, W10: operands ---- */

static bool may_name(sn_step_kind kind, sn_buf_scope scope) {
    switch (kind) {
    case SN_STEP_CHECK: return scope == SN_BUF_INPUT || scope == SN_BUF_OUTPUT;
    case SN_STEP_ALLOC:
    case SN_STEP_REUSE:
    case SN_STEP_FREE: return scope == SN_BUF_TEMP || scope == SN_BUF_STEP;
    case SN_STEP_WINDOW:
    case SN_STEP_WHILE:
    case SN_STEP_IF:
    case SN_STEP_CARRY: return scope == SN_BUF_STEP;
    case SN_STEP_COPY: return scope < SN_BUF_CONST;
    case SN_STEP_CALL:
    case SN_STEP_REPEAT:
    case SN_STEP_ELSE:
    case SN_STEP_END:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return false;
    }
    return false;
}

static bool needs_from(sn_step_kind kind) {
    return kind == SN_STEP_REUSE || kind == SN_STEP_COPY || kind == SN_STEP_WINDOW || kind == SN_STEP_CARRY;
}

static bool names_buffers(sn_step_kind kind) {
    return kind != SN_STEP_CALL && kind != SN_STEP_COMMENT && kind != SN_STEP_REPEAT && kind != SN_STEP_ELSE &&
           kind != SN_STEP_END;
}

static sn_status check_buffers(const verifier *v, const sn_step *s) {
    uint32_t count = v->m->bufs.count;
    if (s->buf.i == 0 || s->buf.i >= count) return broken(v, 1, "there is no buffer %u", s->buf.i);
    if (!may_name(s->kind, scope_of(v, s->buf)))
        return broken(v, 1, "%s has the scope %s", name_of(v, s->buf), sn_buf_scope_names[scope_of(v, s->buf)]);
    if (!needs_from(s->kind)) return SN_OK;
    if (s->from.i == 0 || s->from.i >= count) return broken(v, 1, "there is no buffer %u", s->from.i);
    if (!sn_buf_is_global(sn_buf_get(v->m, s->from)))
        return broken(v, 1, "%s has the scope %s", name_of(v, s->from), sn_buf_scope_names[scope_of(v, s->from)]);
    if (sn_buf_eq(s->buf, s->from)) return broken(v, 1, "%s is both source and target", name_of(v, s->buf));
    return SN_OK;
}

static sn_status check_amount(const verifier *v, const char *what, sn_ix e) {
    if (!e.i) return SN_OK;
    if (!sn_ix_only_symbols(v->m, e)) return broken(v, 10, "the %s is not an expression over symbols", what);
    int64_t c;
    if (sn_ix_is_const(v->m, e, &c) && c < 0) return broken(v, 10, "the %s is %lld", what, (long long)c);
    return SN_OK;
}

static sn_status check_operands(const verifier *v, const sn_step *s) {
    if (names_buffers(s->kind)) SN_TRY(check_buffers(v, s));
    if (s->kind == SN_STEP_CALL && (s->kern.i >= v->m->kerns.count || !v->called[s->kern.i]))
        return broken(v, 1, "the kernel is not in the module");
    if ((s->kind == SN_STEP_ALLOC || s->kind == SN_STEP_COPY) && !s->size.i)
        return broken(v, 10, "%s has no size", name_of(v, s->buf));
    if ((s->kind == SN_STEP_REPEAT || s->kind == SN_STEP_WINDOW) && !s->size.i)
        return broken(v, 10, "how many steps, or by how much, is missing");
    int64_t by;
    bool backwards = s->kind == SN_STEP_WINDOW && sn_ix_is_const(v->m, s->size, &by) && by < 0;
    if (!backwards) SN_TRY(check_amount(v, "size", s->size));
    return check_amount(v, "offset", s->offset);
}

/* ---- lives ---- */

/* Before a change to the state, the root, the window or the writing of a buffer. */
static void note_change(verifier *v, sn_buf b) {
    if (!v->frames.n) return;
    life *l = life_of(v, b);
    uint32_t first = v->frames.at[v->frames.n - 1].first_change;
    if (l->noted > first && l->noted <= v->changes.n && sn_buf_eq(v->changes.at[l->noted - 1].buf, b)) return;
    SN_PUSH(&v->m->arena, &v->changes,
            ((change){b, l->root, l->window_of, l->state, l->written, .written_in_if = l->written}));
    l->noted = v->changes.n;
}

static bool is_const(const verifier *v, sn_ix e, int64_t *out) { return e.i && sn_ix_is_const(v->m, e, out); }

static bool find_span(span *out, const verifier *v, sn_ix offset, sn_ix size) {
    int64_t bytes;
    return is_const(v, offset, &out->begin) && is_const(v, size, &bytes) &&
           !sn_add_overflow(out->begin, bytes, &out->end);
}

/* Position of the first span that ends behind a byte. */
static uint32_t span_behind(const verifier *v, int64_t byte) {
    uint32_t low = 0, high = v->spans.n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (v->spans.at[middle].end <= byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void occupy(verifier *v, sn_buf root) {
    span s = {.root = root};
    if (!life_of(v, root)->offset.i) return;
    if (!find_span(&s, v, life_of(v, root)->offset, life_of(v, root)->size)) {
        v->n_symbolic++;
    } else if (s.end > s.begin) {
        SN_PUSH(&v->m->arena, &v->spans, s);
        uint32_t at = span_behind(v, s.begin), n = v->spans.n - 1;
        memmove(&v->spans.at[at + 1], &v->spans.at[at], (n - at) * sizeof s);
        v->spans.at[at] = s;
    }
}

static void vacate(verifier *v, sn_buf root) {
    span s;
    if (!life_of(v, root)->offset.i) return;
    if (!find_span(&s, v, life_of(v, root)->offset, life_of(v, root)->size)) {
        v->n_symbolic--;
    } else if (s.end > s.begin) {
        uint32_t at = span_behind(v, s.begin), n = --v->spans.n;
        memmove(&v->spans.at[at], &v->spans.at[at + 1], (n - at) * sizeof s);
    }
}

static void begin_life(verifier *v, sn_buf b, sn_buf root) {
    life *l = life_of(v, b);
    note_change(v, b);
    l->state = ALIVE;
    l->root = root;
    l->alive_index = v->alive.n;
    SN_PUSH(&v->m->arena, &v->alive, b);
    life_of(v, root)->holder = b;
    if (!life_of(v, root)->holders++) occupy(v, root);
}

static void hand_on(verifier *v, sn_buf b, sn_buf to) {
    note_change(v, b);
    life_of(v, b)->state = HANDED;
    life_of(v, b)->taken_by = to;
    SN_PUSH(&v->m->arena, &v->handed, b);
}

static void end_life(verifier *v, sn_buf b, life_state how) {
    life *l = life_of(v, b);
    note_change(v, b);
    if (is_alive(l->state)) {
        sn_buf last = v->alive.at[--v->alive.n];
        v->alive.at[l->alive_index] = last;
        life_of(v, last)->alive_index = l->alive_index;
        if (!--life_of(v, l->root)->holders) vacate(v, l->root);
    }
    l->state = how;
}

/* W3, W4: may the buffer be read or written now? */
static sn_status check_alive(const verifier *v, sn_buf b) {
    const life *l = life_of(v, b);
    if (scope_of(v, b) == SN_BUF_INPUT && l->taken_by.i)
        return broken(v, 4, "the storage of %s was taken by %s", name_of(v, b), name_of(v, l->taken_by));
    if (!is_placed_by_steps(v, b)) return SN_OK;
    if (l->window_of.i) return check_alive(v, l->window_of);
    switch (l->state) {
    case ALIVE:
    case HANDED: return SN_OK;
    case UNPLACED: return broken(v, 3, "%s has no place yet", name_of(v, b));
    case FREED: return broken(v, 4, "%s was freed before", name_of(v, b));
    case ENDED: break;
    }
    return broken(v, 4, "the storage of %s was taken by %s", name_of(v, b), name_of(v, l->taken_by));
}

static sn_status check_unplaced(const verifier *v, sn_buf b) {
    if (life_of(v, b)->state == UNPLACED) return SN_OK;
    return broken(v, 2, "%s has a place already", name_of(v, b));
}

/* ---- W7, W8: alloc ---- */

static sn_status check_fit(const verifier *v, const sn_step *s) {
    bool prepares = v->step < v->m->wrap.n_prepare;
    sn_ix room = prepares ? v->m->wrap.prepared : v->m->wrap.workspace;
    int64_t size, need, offset, bytes = 0, end;
    bool size_known = is_const(v, s->size, &size);
    bool need_known = is_const(v, bytes_of(v, s->buf), &need);
    if (size_known && need_known && size < need)
        return broken(v, 7, "%s needs %lld bytes, not %lld", name_of(v, s->buf), (long long)need, (long long)size);
    if (!(size_known && need_known) && !sn_ix_eq(s->size, bytes_of(v, s->buf)))
        return broken(v, 7, "the size is not the one that %s has in symbols", name_of(v, s->buf));
    if (!is_const(v, s->offset, &offset)) return SN_OK;
    uint32_t align = sn_buf_get(v->m, s->buf)->align;
    if (align && offset % align != 0)
        return broken(v, 7, "offset %lld of %s is no multiple of %u", (long long)offset, name_of(v, s->buf), align);
    if (!size_known || (room.i && !is_const(v, room, &bytes))) return SN_OK;
    if (sn_add_overflow(offset, size, &end) || end > bytes)
        return broken(v, 7, "%s (%lld bytes at %lld) is outside the %s of %lld bytes", name_of(v, s->buf),
                      (long long)size, (long long)offset, prepares ? "prepared memory" : "workspace", (long long)bytes);
    return SN_OK;
}

/* Do two pieces of the workspace share bytes, as far as that can be known? */
static bool overlap(const verifier *v, const sn_step *s, const life *root) {
    int64_t at, size, root_at, root_size;
    bool known = is_const(v, s->size, &size), root_known = is_const(v, root->size, &root_size);
    if (!s->offset.i || !root->offset.i || (known && size == 0) || (root_known && root_size == 0)) return false;
    if (sn_ix_eq(s->offset, root->offset)) return true;
    if (!known || !root_known || !is_const(v, s->offset, &at) || !is_const(v, root->offset, &root_at)) return false;
    return at < root_at ? root_at - at < size : at - root_at < root_size; /* none is negative (W10) */
}

/* Can bytes of the workspace be alive in another storage than `self`? Those with symbols are compared one by one. */
static bool may_overlap(const verifier *v, sn_ix offset, sn_ix size, sn_buf self) {
    span s;
    if (!offset.i) return false;
    if (v->n_symbolic || !find_span(&s, v, offset, size)) return true;
    uint32_t at = span_behind(v, s.begin);
    if (at < v->spans.n && sn_buf_eq(v->spans.at[at].root, self)) at++;
    return at < v->spans.n && v->spans.at[at].begin < s.end;
}

static sn_status check_alloc(verifier *v, const sn_step *s) {
    SN_TRY(check_unplaced(v, s->buf));
    SN_TRY(check_fit(v, s));
    bool look = may_overlap(v, s->offset, s->size, (sn_buf){0});
    for (uint32_t i = 0; look && i < v->alive.n; i++) {
        sn_buf other = v->alive.at[i];
        if (overlap(v, s, life_of(v, life_of(v, other)->root)))
            return broken(v, 8, "%s overlaps %s, which is alive", name_of(v, s->buf), name_of(v, other));
    }
    life_of(v, s->buf)->size = s->size;
    life_of(v, s->buf)->offset = s->offset;
    begin_life(v, s->buf, s->buf);
    return SN_OK;
}

/* ---- W5, W6: reuse ---- */

static sn_status check_source(const verifier *v, const sn_step *s) {
    sn_buf_scope scope = scope_of(v, s->from);
    const char *from = name_of(v, s->from);
    if ((!is_placed_by_steps(v, s->from) && scope != SN_BUF_OUTPUT) || life_of(v, s->from)->window_of.i)
        return broken(v, 5, "%s has the scope %s: its storage cannot be reused", from, sn_buf_scope_names[scope]);
    if (scope == SN_BUF_OUTPUT && life_of(v, s->from)->written)
        return broken(v, 5, "output %s was written before", from);
    if (!sn_ix_eq(bytes_of(v, s->buf), bytes_of(v, s->from)))
        return broken(v, 5, "%s and %s differ in size", name_of(v, s->buf), from);
    if (sn_buf_get(v->m, s->buf)->align > sn_buf_get(v->m, s->from)->align)
        return broken(v, 5, "%s is not as aligned as %s has to be", from, name_of(v, s->buf));
    if (life_of(v, s->from)->state == UNPLACED && scope != SN_BUF_OUTPUT)
        return broken(v, 3, "%s has no place yet", from);
    return SN_OK;
}

/* Storage of the same root, or (for a root whose life ended earlier) bytes of the workspace that others got since. */
static bool occupies(const verifier *v, sn_buf other, sn_buf root) {
    sn_buf other_root = life_of(v, other)->root;
    if (sn_buf_eq(other_root, root)) return true;
    const life *l = life_of(v, root);
    sn_step as_alloc = {.size = l->size, .offset = l->offset};
    return overlap(v, &as_alloc, life_of(v, other_root));
}

static sn_status check_reuse(verifier *v, const sn_step *s) {
    SN_TRY(check_unplaced(v, s->buf));
    SN_TRY(check_source(v, s));
    life *from = life_of(v, s->from);
    if (from->prepared) return broken(v, 14, "%s was prepared for all runs", name_of(v, s->from));
    sn_buf root = scope_of(v, s->from) == SN_BUF_OUTPUT ? s->from : from->root;
    if (scope_of(v, root) == SN_BUF_OUTPUT && life_of(v, root)->written)
        return broken(v, 5, "output %s was written before", name_of(v, root));
    const life *l = life_of(v, root);
    bool look = l->holders > (from->state == ALIVE) || may_overlap(v, l->offset, l->size, root);
    for (uint32_t i = 0; look && i < v->alive.n; i++) {
        sn_buf other = v->alive.at[i];
        bool handing_on = sn_buf_eq(other, s->from) && from->state == ALIVE;
        if (!handing_on && occupies(v, other, root))
            return broken(v, 6, "%s is alive in the storage of %s", name_of(v, other), name_of(v, s->from));
    }
    if (from->state == ALIVE) hand_on(v, s->from, s->buf);
    begin_life(v, s->buf, root);
    return SN_OK;
}

/* ---- free, call, copy ---- */

static sn_status check_free(verifier *v, const sn_step *s) {
    if (life_of(v, s->buf)->prepared) return broken(v, 14, "%s was prepared for all runs", name_of(v, s->buf));
    if (life_of(v, s->buf)->state != ENDED) SN_TRY(check_alive(v, s->buf));
    if (life_of(v, s->buf)->window_of.i) return broken(v, 16, "%s is a window", name_of(v, s->buf));
    sn_buf state = life_of(v, s->buf)->state_of;
    if (state.i && is_alive(life_of(v, state)->state)) return broken(v, 17, "%s may have its place", name_of(v, state));
    end_life(v, s->buf, FREED);
    return SN_OK;
}

/* A kernel that gets an output ends what lived in its storage (this kernel may still read it). */
static void take_outputs(verifier *v, const sn_arg_list *args) {
    for (uint32_t k = 0; k < args->n; k++) {
        sn_buf b = base_of(v, args->at[k].buf);
        life *l = life_of(v, b);
        if (scope_of(v, b) != SN_BUF_OUTPUT) continue;
        note_change(v, b);
        l->written = true;
        if (l->holders && life_of(v, l->holder)->state == ALIVE) hand_on(v, l->holder, b);
    }
}

/* What was in an input is gone when an output that has its storage is stored to. */
static void take_inputs(verifier *v, const sn_step *s, const sn_buf_list *formals) {
    for (uint32_t k = 0; k < s->args.n; k++) {
        sn_buf b = base_of(v, s->args.at[k].buf), input = life_of(v, b)->input;
        if (input.i && sn_buf_get(v->m, formals->at[k])->role != SN_ROLE_IN) life_of(v, input)->taken_by = b;
    }
}

/* W11 */
static sn_status check_argument(const verifier *v, const sn_arg *arg, const sn_buf_rec *formal) {
    const sn_buf_rec *b = sn_buf_get(v->m, arg->buf);
    int64_t need, have, at = arg->offset;
    if (!sn_buf_is_global(b)) return broken(v, 11, "%s has the scope %s", b->name, sn_buf_scope_names[b->scope]);
    if (b->dtype != formal->dtype)
        return broken(v, 11, "%s is %s, %s is %s", b->name, sn_dtypes[b->dtype].name, formal->name,
                      sn_dtypes[formal->dtype].name);
    if (at < 0 || at > INT64_MAX / (int64_t)sn_dtype_bytes(b->dtype))
        return broken(v, 11, "element %lld of %s is outside of it", (long long)at, b->name);
    bool known = is_const(v, formal->size, &need) && is_const(v, b->size, &have);
    if (known && (at > have || have - at < need))
        return broken(v, 11, "%s has %lld elements from %lld on, %s has %lld", b->name,
                      (long long)(at > have ? 0 : have - at), (long long)at, formal->name, (long long)need);
    if (!known && (at || !sn_ix_eq(formal->size, b->size)))
        return broken(v, 11, "%s is not as long as %s in symbols", b->name, formal->name);
    if (b->align < formal->align || at * sn_dtype_bytes(b->dtype) % formal->align)
        return broken(v, 11, "element %lld of %s is not aligned to %u bytes as %s is", (long long)at, b->name,
                      formal->align, formal->name);
    sn_buf base = base_of(v, arg->buf);
    if (scope_of(v, base) == SN_BUF_CONST && formal->role != SN_ROLE_IN)
        return broken(v, 11, "%s is a const", name_of(v, base));
    if (life_of(v, base)->prepared && formal->role != SN_ROLE_IN)
        return broken(v, 14, "%s was prepared for all runs", b->name);
    return SN_OK;
}

/* An output that is written back to an input without a copy is that input. */
static sn_buf storage_of(const verifier *v, sn_buf b) {
    b = base_of(v, b);
    sn_buf root = is_placed_by_steps(v, b) ? life_of(v, b)->root : b;
    return life_of(v, root)->input.i ? life_of(v, root)->input : root;
}

/* W12, for arguments in the order of the formals. The uses of a storage are counted in its life. */
static sn_status check_sharing(const verifier *v, const sn_step *s, const sn_buf_list *formals) {
    const char *wrong = NULL;
    uint32_t at = 0;
    for (uint32_t i = 0; i < formals->n; i++) {
        life *root = life_of(v, storage_of(v, s->args.at[i].buf));
        root->uses++;
        root->stores += sn_buf_get(v->m, formals->at[i])->role != SN_ROLE_IN;
    }
    for (uint32_t i = 0; i < formals->n && !wrong; i++) {
        const life *root = life_of(v, storage_of(v, s->args.at[i].buf));
        const sn_buf_rec *formal = sn_buf_get(v->m, formals->at[i]);
        if (formal->noalias && root->uses > 1) wrong = "noalias, and another argument has its storage";
        if (formal->invariant && root->stores) wrong = "invariant, and its storage is stored to";
        at = i;
    }
    for (uint32_t i = 0; i < formals->n; i++) {
        life *root = life_of(v, storage_of(v, s->args.at[i].buf));
        root->uses = root->stores = 0;
    }
    return wrong ? broken(v, 12, "%s is %s", name_of(v, s->args.at[at].buf), wrong) : SN_OK;
}

/* W13 */
static sn_status check_prepares(const verifier *v, const sn_step *s) {
    if (s->kind == SN_STEP_CHECK || s->kind == SN_STEP_COPY || s->kind == SN_STEP_REPEAT || s->kind == SN_STEP_IF)
        return broken(v, 13, "nothing to prepare");
    for (uint32_t i = 0; i < s->args.n; i++) {
        sn_buf b = s->args.at[i].buf;
        if (scope_of(v, b) == SN_BUF_INPUT || scope_of(v, b) == SN_BUF_OUTPUT)
            return broken(v, 13, "%s is of a run", name_of(v, b));
    }
    return SN_OK;
}

/* What is alive when the prepare part ends has its place for good, in other memory than what comes. */
static void end_prepare(verifier *v) {
    for (uint32_t i = 0; i < v->handed.n; i++)
        if (life_of(v, v->handed.at[i])->state == HANDED) end_life(v, v->handed.at[i], ENDED);
    for (uint32_t i = 0; i < v->alive.n; i++) life_of(v, v->alive.at[i])->prepared = true;
    v->handed.n = v->alive.n = v->spans.n = v->n_symbolic = 0;
}

static sn_status check_call(verifier *v, const sn_step *s) {
    const sn_kern_rec *k = sn_kern_get(v->m, s->kern);
    v->called[s->kern.i] = 2;
    if (k->alternative_of.i)
        return broken(v, 9, "@%s is an alternative, which the call of another one stands for", k->name);
    if (!sn_kern_is_function(v->m, s->kern)) return broken(v, 9, "the parameters of @%s are no formals", k->name);
    if (s->args.n != k->params.n)
        return broken(v, 11, "@%s has %u parameters, the call %u arguments", k->name, k->params.n, s->args.n);
    for (uint32_t i = 0; i < k->params.n; i++) {
        SN_TRY(check_argument(v, &s->args.at[i], sn_buf_get(v->m, k->params.at[i])));
        SN_TRY(check_alive(v, s->args.at[i].buf));
    }
    SN_TRY(check_sharing(v, s, &k->params));
    take_outputs(v, &s->args);
    take_inputs(v, s, &k->params);
    for (uint32_t i = 0; i < v->handed.n; i++)
        if (life_of(v, v->handed.at[i])->state == HANDED) end_life(v, v->handed.at[i], ENDED);
    v->handed.n = 0;
    return SN_OK;
}

static sn_status check_copy(verifier *v, const sn_step *s) {
    int64_t size, have;
    const sn_buf ends[] = {s->buf, s->from};
    for (int i = 0; i < 2; i++) {
        SN_TRY(check_alive(v, ends[i]));
        if (is_const(v, s->size, &size) && is_const(v, bytes_of(v, ends[i]), &have) && size > have)
            return broken(v, 10, "copies %lld bytes, %s has %lld", (long long)size, name_of(v, ends[i]),
                          (long long)have);
    }
    return SN_OK;
}

/* ---- W15 to W18: repeats and branches ---- */

static sn_status open_frame(verifier *v, frame f) {
    f.first_change = v->changes.n;
    SN_PUSH(&v->m->arena, &v->frames, f);
    return SN_OK;
}

static sn_status check_repeat(verifier *v, const sn_step *s) {
    frame f = {.trip = -1};
    if (is_const(v, s->size, &f.trip) && f.trip < 1) return broken(v, 15, "%lld steps", (long long)f.trip);
    return open_frame(v, f);
}

static bool is_in(const verifier *v, frame_kind kind) {
    return v->frames.n && v->frames.at[v->frames.n - 1].kind == kind;
}

static sn_status check_flag(const verifier *v, sn_buf b) {
    int64_t bytes;
    if (sn_buf_get(v->m, b)->dtype != SN_BOOL || !is_const(v, bytes_of(v, b), &bytes) || bytes != 1)
        return broken(v, 18, "%s is not one bool", name_of(v, b));
    return check_alive(v, b);
}

static sn_status check_if(verifier *v, const sn_step *s) {
    SN_TRY(check_flag(v, s->buf));
    return open_frame(v, (frame){.kind = IN_IF});
}

static sn_status check_while(verifier *v, const sn_step *s) {
    if (!is_in(v, IN_REPEAT)) return broken(v, 15, "%s ends no repeat here", name_of(v, s->buf));
    return check_flag(v, s->buf);
}

static sn_status check_window(verifier *v, const sn_step *s) {
    life *l = life_of(v, s->buf);
    int64_t first, by, size, room, end;
    if (!is_in(v, IN_REPEAT)) return broken(v, 15, "%s is a window outside of a repeat", name_of(v, s->buf));
    if (l->state != UNPLACED) return broken(v, 16, "%s has a place already", name_of(v, s->buf));
    SN_TRY(check_alive(v, s->from));
    sn_buf base = base_of(v, s->from);
    if (scope_of(v, base) == SN_BUF_OUTPUT) {
        if (life_of(v, base)->holders)
            return broken(v, 16, "%s lives in %s", name_of(v, life_of(v, base)->holder), name_of(v, base));
        note_change(v, base);
        life_of(v, base)->written = true;
    }
    note_change(v, s->buf);
    l->state = ALIVE;
    l->window_of = s->from;
    int64_t trip = v->frames.at[v->frames.n - 1].trip;
    bool known = trip > 0 && (!s->offset.i || is_const(v, s->offset, &first)) && is_const(v, s->size, &by) &&
                 is_const(v, bytes_of(v, s->buf), &size) && is_const(v, bytes_of(v, s->from), &room);
    if (!known) return SN_OK;
    if (!s->offset.i) first = 0;
    bool inside = !sn_mul_overflow(by, trip - 1, &end) && !sn_add_overflow(first, end, &end) && end >= 0 &&
                  size <= room && first <= room - size && end <= room - size;
    uint32_t align = sn_buf_get(v->m, s->buf)->align;
    bool aligned = align <= sn_buf_get(v->m, s->from)->align && first % align == 0 && by % align == 0;
    if (!inside) return broken(v, 16, "%s leaves %s", name_of(v, s->buf), name_of(v, s->from));
    return aligned ? SN_OK : broken(v, 16, "%s is not always aligned to %u bytes", name_of(v, s->buf), align);
}

static sn_status check_carry(verifier *v, const sn_step *s) {
    life *state = life_of(v, s->buf), *next = life_of(v, s->from);
    if (!is_in(v, IN_REPEAT)) return broken(v, 15, "%s is carried outside of a repeat", name_of(v, s->buf));
    if (!sn_ix_eq(bytes_of(v, s->buf), bytes_of(v, s->from)) || state->window_of.i || next->window_of.i)
        return broken(v, 17, "%s cannot have the place of %s", name_of(v, s->buf), name_of(v, s->from));
    SN_TRY(check_alive(v, s->from));
    if (state->state == ENDED && sn_buf_eq(state->taken_by, s->from)) {
        sn_buf root = next->root;
        end_life(v, s->from, UNPLACED);
        begin_life(v, s->buf, root);
        return SN_OK;
    }
    SN_TRY(check_alive(v, s->buf));
    if (sn_buf_get(v->m, s->buf)->align != sn_buf_get(v->m, s->from)->align)
        return broken(v, 17, "%s and %s are not equally aligned", name_of(v, s->buf), name_of(v, s->from));
    next->state_of = s->buf;
    return SN_OK;
}

/* A buffer that changed inside of a frame in this one may have been noted there again: the first one tells. */
static bool is_first_change(const verifier *v, uint32_t i) { return life_of(v, v->changes.at[i].buf)->noted == i + 1; }

static void find_first_changes(verifier *v, const frame *f) {
    for (uint32_t i = v->changes.n; i > f->first_change; i--) life_of(v, v->changes.at[i - 1].buf)->noted = i;
}

/* What holds at the end of a repeat, and of each branch. */
static sn_status check_lives(verifier *v, const frame *f) {
    const char *what = f->kind == IN_REPEAT ? "repeat" : "branch";
    find_first_changes(v, f);
    for (uint32_t i = f->first_change; i < v->changes.n; i++) {
        const change *then = &v->changes.at[i];
        life *now = life_of(v, then->buf);
        if (!is_first_change(v, i)) continue;
        if (now->window_of.i && !then->window_of.i) {
            now->state = UNPLACED;
            now->window_of = (sn_buf){0};
        }
        bool was_placed = is_alive(then->state);
        if (was_placed && (now->state != then->state || !sn_buf_eq(now->root, then->root)))
            return broken(v, 15, "%s was placed before the %s and is not as it was", name_of(v, then->buf), what);
        if (!was_placed && is_alive(now->state))
            return broken(v, 15, "%s is placed inside and not freed", name_of(v, then->buf));
    }
    return SN_OK;
}

/* The second branch finds outputs as the first one did. */
static sn_status check_else(verifier *v) {
    if (!is_in(v, IN_IF)) return broken(v, 15, "there is no if");
    frame *f = &v->frames.at[v->frames.n - 1];
    SN_TRY(check_lives(v, f));
    f->kind = IN_ELSE;
    for (uint32_t i = f->first_change; i < v->changes.n; i++) {
        change *then = &v->changes.at[i];
        if (!is_first_change(v, i)) continue;
        then->written_in_if = life_of(v, then->buf)->written;
        life_of(v, then->buf)->written = then->written;
    }
    return SN_OK;
}

static sn_status check_end(verifier *v) {
    if (!v->frames.n) return broken(v, 15, "there is no repeat or if to end");
    const frame *f = &v->frames.at[v->frames.n - 1];
    SN_TRY(check_lives(v, f));
    for (uint32_t i = f->first_change; i < v->changes.n; i++) {
        const change *then = &v->changes.at[i];
        if (is_first_change(v, i)) life_of(v, then->buf)->written |= then->written_in_if;
    }
    if (!--v->frames.n) v->changes.n = 0;
    return SN_OK;
}

static sn_status check_step(verifier *v, const sn_step *s) {
    SN_TRY(check_operands(v, s));
    if (v->step < v->m->wrap.n_prepare) SN_TRY(check_prepares(v, s));
    switch (s->kind) {
    case SN_STEP_ALLOC: return check_alloc(v, s);
    case SN_STEP_REUSE: return check_reuse(v, s);
    case SN_STEP_FREE: return check_free(v, s);
    case SN_STEP_CALL: return check_call(v, s);
    case SN_STEP_COPY: return check_copy(v, s);
    case SN_STEP_REPEAT: return check_repeat(v, s);
    case SN_STEP_WINDOW: return check_window(v, s);
    case SN_STEP_CARRY: return check_carry(v, s);
    case SN_STEP_WHILE: return check_while(v, s);
    case SN_STEP_IF: return check_if(v, s);
    case SN_STEP_ELSE: return check_else(v);
    case SN_STEP_END: return check_end(v);
    case SN_STEP_CHECK:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

sn_status sn_wrap_verify(sn_module *m, const char *where) {
    verifier v = {.m = m, .where = where};
    v.lives = SN_NEWN(&m->arena, life, m->bufs.count);
    v.called = SN_NEWN(&m->arena, uint8_t, m->kerns.count);
    const sn_buf *input = sn_wrap_inputs_written(m, &m->arena);
    for (uint32_t i = 1; i < m->bufs.count; i++) v.lives[i].input = input[i];
    for (uint32_t i = 0; i < m->kernels.n; i++) v.called[m->kernels.at[i].i] = 1;
    for (; v.step < m->wrap.steps.n; v.step++) {
        if (v.step == m->wrap.n_prepare) end_prepare(&v);
        SN_TRY(check_step(&v, &m->wrap.steps.at[v.step]));
    }
    if (v.frames.n) return broken(&v, 15, "a repeat or an if has no end");
    SN_TRY(check_amount(&v, "workspace", m->wrap.workspace));
    SN_TRY(check_amount(&v, "prepared memory", m->wrap.prepared));
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (v.called[m->kernels.at[i].i] == 1 && !sn_kern_get(m, m->kernels.at[i])->alternative_of.i)
            return broken(&v, 9, "@%s is never called", sn_kern_get(m, m->kernels.at[i])->name);
    return SN_OK;
}
