/* element.c: class element: a thread owns outputs, flat position = ((g*U + u)*T + t)*V + v over all outer loops. U is 1
 * where the lanes of a vector are enough for a thread to wait for; narrow accesses want several positions.
 *
 * One guard stands around the vector when the last block is not full. Positions that are left behind whole vectors
 * (possible for a single outer loop alone), or behind whole blocks where U is more than 1, are done one by one by the
 * first threads of as many blocks as it takes, in several turns where a pinned schedule has too few of both. A scan walks
 * its axis in groups of U steps, whose loads go ahead (scan.c); a small window is written out, and so are reductions of few steps.
 * Where rows read one buffer that no cache keeps for the next row, blocks go through the rows in turns, and g is another one's:
 * `abreast=3` of 10 blocks are those at 0 4 8, 1 5 9, 2 6, 3 7.
 *
 * Where rows, parts or borders end inside vectors, or loads start anywhere, the lanes of a GPU may be *runs* of neighbours
 * (ir/loop/runs.h, codegen-llvm/runs.c): the loops are the same, and the header says so. Where most vectors have one run, the elements of the others
 * are done apart (ends.c).
 *
 * On the CPU, where V does not divide the last outer axis, rows are *open*: vectors start with a row of that axis, and
 * the last one of it is tested. position = p div W, (p mod W)*V + v; p = g*T + t, W vectors a row.
 */
#include "ir/loop/runs.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/ends.h"

/* ---- choosing ---- */

/* What flat positions ask about the kernel. */
typedef struct flat {
    uint32_t flat, not_flat; /* bytes of accesses that walk all outer loops in row-major order; of others */
    uint32_t alike;          /* ... of the others: those that are the same all along the last outer axis */
    uint32_t apart;          /* bytes of those that step over elements along the last outer axis */
    uint32_t bytes;          /* smallest element among all accesses that walk the last outer axis */
    uint32_t near;           /* ... of those that step over a few elements there (CPU, codegen-llvm/apart.c) */
    uint32_t
        written_out; /* values that each lane has to itself: accesses that step over more or are looked up, quotients of integers */
    uint32_t stored;    /* largest one that is stored there, */
    uint32_t widest;    /* ... and that is loaded */
    uint32_t loaded;    /* bytes that a position waits for: of several loads under masks one */
    uint32_t looked_up; /* ... once it knows where: their offsets are loaded */
    bool moves;         /* nothing is computed (GPU): as many lanes as an access has */
    bool computes;      /* more than it moves and casts */
    bool packed;        /* all of it is arithmetic on bytes, which takes words (GPU) */
    uint32_t by_runs;   /* lanes of a vector that goes run by run; 0: none does */
    uint32_t abreast,
        other; /* rows that take turns, 1 where none do, 0 where there is nothing to choose; what else is worth timing */
} flat;

static bool walks(sn_module *m, sn_ix e, sn_axis ax) {
    int64_t c;
    return sn_ix_coef(m, e, ax, &c) && (c == 1 || c == -1);
}

/* Has the CPU no vector instruction for it? */
static bool divides_integers(const sn_module *m, const sn_stmt_rec *r) {
    if ((r->op != SN_LOP_DIV && r->op != SN_LOP_FLOORDIV && r->op != SN_LOP_REM) || sn_is_float(r->dtype)) return false;
    return sn_stmt_get(m, sn_val_get(m, r->in[1])->def)->op != SN_LOP_CONST;
}

/* Rows that read the same large buffer, each once: where it is out of the cache by the time the next row comes, blocks take turns with
 * rows, so that those of one place run together. Not so where another kernel loads the rows, too: what that one read last is in the cache yet,
 * where it ends (passes/loops/reverse_grid.c), unless that is less than what rows would read again, and than what they read in between. */
static void choose_turns(flat *fl, const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    int64_t bytes = 0, together = 1, largest = 0, again = 0;
    bool elsewhere = false;
    if (!cx->target->is_gpu || sh->n_nests || sh->scans || sh->outer.n < 2) return;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        int64_t rows = 1;
        uint32_t axis = 0;
        for (; axis < sh->outer.n && !sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->outer.at[axis])); axis++)
            rows *= sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[axis]));
        bytes += sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        elsewhere |= r->op == SN_LOP_LOAD && sn_users_load_elsewhere(sh->users, r->buf, sh->at);
        if (r->op != SN_LOP_LOAD || axis == sh->outer.n || sn_ix_uses_vals(m, r->ix)) continue;
        int64_t size = sn_buf_bytes(m, r->buf);
        if (rows > 1 && size > largest) largest = size, together = rows;
        again = sn_add_clamped(again, sn_mul_clamped(size, rows - 1));
    }
    int64_t between = sn_mul_clamped(sh->rows / together, bytes), cache = cx->target->cache_bytes;
    elsewhere &= again < cache || between < cache;
    bool gone = between >= (int64_t)(cx->target->cache_bytes / SN_ELEMENT_CACHE);
    bool much = sn_mul_clamped(again, SN_ELEMENT_AGAIN) >= sn_mul_clamped(sh->rows, bytes);
    if (!gone || !much || together > INT32_MAX) return;
    fl->abreast = elsewhere ? 1 : (uint32_t)together;
    fl->other = elsewhere ? (uint32_t)together : 1;
}

/* Is it in the cache after a few of all positions? Nobody waits for memory there. Rows that take turns read together what they have in common,
 * however large it is. */
static bool is_near(const flat *fl, const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_stmt_rec *r) {
    if (sn_schedule_is_cached(cx, sh, r)) return true;
    bool in_common = !sn_ix_uses_axis(cx->m, r->ix, sn_stmt_axis(cx->m, sh->outer.at[0]));
    return fl->abreast > 1 && in_common && sn_schedule_reads_again(cx, sh, r);
}

static flat look_at_flat(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    flat fl = {0};
    uint32_t masked = 0;
    if (!sh->outer.n) return fl;
    choose_turns(&fl, cx, k, sh);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        fl.written_out += divides_integers(m, r);
        if (!r->buf.i) continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        *(sn_schedule_walks_all(m, sh, r->ix) ? &fl.flat : &fl.not_flat) += bytes;
        if (!sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->body))) fl.alike += bytes;
        if (r->op == SN_LOP_LOAD && sn_ix_uses_vals(m, r->ix)) fl.looked_up += bytes;
        fl.written_out += sn_ix_uses_vals(m, r->ix) ? SN_LANE_ACCESS : 0;
        if (r->op == SN_LOP_LOAD && !r->n_in && !is_near(&fl, cx, sh, r)) fl.loaded += bytes;
        if (r->op == SN_LOP_LOAD && r->n_in && bytes > masked) masked = bytes;
        if (!walks(m, r->ix, sn_stmt_axis(m, sh->body))) {
            int64_t step;
            bool steps = sn_ix_coef(m, r->ix, sn_stmt_axis(m, sh->body), &step) && step > 1 && step <= SN_MOST_APART;
            if (steps) sn_schedule_smaller(&fl.near, bytes);
            else fl.written_out += sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->body)) ? SN_LANE_ACCESS : 0;
            fl.apart += sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->body)) ? bytes : 0;
            continue;
        }
        sn_schedule_smaller(&fl.bytes, bytes);
        uint32_t *most = r->op == SN_LOP_STORE ? &fl.stored : &fl.widest;
        if (bytes > *most) *most = bytes;
    }
    fl.loaded += masked;
    return fl;
}

/* Words or more from rows that are looked up: lanes that find their own do better than runs, one of which waits behind the other, if a
 * thread has several vectors on their way. */
static bool waits_twice(const flat *fl) { return fl->looked_up && fl->bytes >= SN_RUNS_WIDE; }

/* Vectors may cross the ends of rows, as long as what is not walked in row-major order, lane by lane then, is no more than
 * what is. What belongs to a row is in the nearest cache, unless lanes have to wait for it. */
static bool crosses_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl) {
    uint32_t by_lanes = fl->not_flat - (fl->looked_up ? 0 : fl->alike);
    return cx->target->is_gpu && !sh->n_nests && (fl->flat >= by_lanes || waits_twice(fl));
}

/* Bytes or halves made of words that lie otherwise: each lane loads its own whatever the vector is, and several together are one store. */
static bool stores_less_than_words(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl, uint32_t v) {
    if (!cx->target->is_gpu || sh->n_nests || sh->windows || sh->scans || !fl->stored) return false;
    return v * fl->stored < SN_RUNS_WIDE && fl->not_flat >= SN_RUNS_WIDE;
}

static bool is_short(const sn_schedule_shape *sh) {
    return sh->ops <= SN_FEW_OPS && sh->instructions <= SN_FEW_INSTRUCTIONS;
}

/* Straight-line code that loads, chooses and stores; and converts, as halves are on their way through a choice. */
static bool only_moves(const sn_module *m, const sn_schedule_shape *sh, bool casts) {
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        sn_lop op = sn_stmt_get(m, s)->op;
        if (op != SN_LOP_LOAD && op != SN_LOP_STORE && op != SN_LOP_CONST && op != SN_LOP_IN && op != SN_LOP_AND &&
            op != SN_LOP_SELECT && !(casts && op == SN_LOP_CAST))
            return false;
    }
    return true;
}

/* Straight-line code on bytes, four of which are computed at a time (codegen-llvm/bytes.c). */
static bool is_packed(const sn_module *m, const sn_schedule_shape *sh) {
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool access = sn_is_access(r), in = r->op == SN_LOP_LOAD || r->op == SN_LOP_CONST || r->op == SN_LOP_ADD ||
                                            r->op == SN_LOP_SUB || r->op == SN_LOP_MUL || r->op == SN_LOP_NEG ||
                                            r->op == SN_LOP_ABS || r->op == SN_LOP_MAX || r->op == SN_LOP_MIN;
        sn_dtype t = access ? sn_buf_get(m, r->buf)->dtype : r->dtype;
        if (r->has_mask || !(in || r->op == SN_LOP_STORE) || (t != SN_I8 && t != SN_U8)) return false;
    }
    return true;
}

/* ---- runs ---- */

enum { MOST_CUTS = 32 };

/* Positions along the last outer axis at which runs end; UINT32_MAX: too many. */
static uint32_t count_cuts(sn_module *m, const sn_runs *runs, sn_axis ax, int64_t row) {
    int64_t cut[MOST_CUTS] = {row}, at, of;
    uint32_t n = 1;
    for (uint32_t i = 0; i < runs->ends.n; i++) {
        const sn_run_end *e = &runs->ends.at[i];
        sn_ix rest = sn_ix_sub(m, e->at, sn_ix_axis(m, ax));
        if (!sn_ix_is_const(m, e->of, &of)) return UINT32_MAX;
        if (!e->test || !sn_ix_is_const(m, rest, &at)) {
            n += e->test ? 2 : sn_least((uint32_t)sn_ceil_div(row, of), MOST_CUTS);
            if (n >= MOST_CUTS) return UINT32_MAX;
            continue;
        }
        for (int side = 0; side < 2; side++) {
            int64_t c = (side ? of : 0) - at;
            bool known = c <= 0 || c >= row;
            for (uint32_t k = 0; k < n; k++) known |= cut[k] == c;
            if (!known && n == MOST_CUTS - 1) return UINT32_MAX;
            if (!known) cut[n++] = c;
        }
    }
    return n;
}

/* Is what the lanes of a vector load made of whole aligned accesses, none of them tested? Bytes that belong to rows are worth a run for
 * each row: lane by lane they take longer than all else. Of halves computing twice loses as much (H200). */
static bool has_aligned_pieces(sn_module *m, const sn_schedule_shape *sh, const sn_runs *runs, uint32_t v, int64_t row,
                               uint32_t widest) {
    sn_axis ax = sn_stmt_axis(m, sh->body);
    sn_ix zero = sn_ix_const(m, 0);
    int64_t step;
    bool crosses = sh->outer.n > 1 && row % v;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_ix first = r->ix.i ? sn_ix_subst(m, r->ix, &ax, &zero, 1) : zero;
        bool tested = r->op == SN_LOP_IN && sn_ix_uses_axis(m, r->ix, ax);
        if (r->op == SN_LOP_IN && crosses) return false;
        if (tested && !(sn_ix_is_multiple(m, first, v) && sn_ix_is_multiple(m, r->bound, v))) return false;
        if (r->op != SN_LOP_LOAD || !sn_ix_run(m, r->ix, ax, &step, NULL, NULL)) continue;
        if (!step && crosses && runs->most == 1 && !sn_ix_is_const(m, r->ix, &step)) return false;
        if (!step) continue;
        uint32_t bytes = sn_dtype_bytes(r->dtype), piece = sn_least(v, widest / bytes);
        if (crosses) first = sn_ix_const(m, sn_ix_get(m, r->ix)->c0);
        if (!runs->by_vectors || sn_buf_get(m, r->buf)->align < piece * bytes) return false;
        if ((crosses && !sn_schedule_walks_all(m, sh, r->ix)) || !sn_ix_is_multiple(m, first, piece)) return false;
    }
    return true;
}

/* Lanes of bytes are computed four at a time, and so is what other runs compute once more: no more than once, where vectors have no more than
 * two runs. */
static bool bytes_again(const sn_schedule_shape *sh, uint32_t v, uint32_t cuts, int64_t row) {
    enum { TOGETHER = 2 }; /* operations on words take about twice as many instructions as those on lanes */
    int64_t warp = (int64_t)SN_WARP * v * cuts, again = warp < row ? warp : row;
    return 2 * (int64_t)v * cuts <= row && sh->instructions * again <= SN_RUNS_AGAIN * TOGETHER * row;
}

/* Arithmetic on bytes most of which are whole vectors: lanes that each ask for the few others take less time than runs, which compute all of it
 * again for each row, if every other warp has an end of one. */
static bool has_few_others(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl, uint32_t v) {
    sn_module *m = cx->m;
    bool few = fl->packed && fl->not_flat && fl->flat > fl->not_flat;
    few &= sn_last_outer_extent(cx, sh) <= 2 * (int64_t)SN_WARP * v;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i && few; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || !sn_schedule_walks_all(m, sh, r->ix)) continue;
        few = sn_ix_get(m, r->ix)->c0 % v == 0 && sn_buf_get(m, r->buf)->align >= v;
    }
    return few;
}

/* Words of rows that several blocks have a part of, none of which lie as they are stored, so that each lane would ask for its own: a vector
 * in a thousand has an end inside (ends.c). Shorter rows are lines of a block (line.c). */
static bool are_long(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl, const sn_runs *runs,
                     uint32_t v) {
    bool words = runs->bytes == SN_TILE_WORD && runs->most == SN_TILE_WORD && fl->flat <= fl->stored && !fl->looked_up;
    return words && sn_last_outer_extent(cx, sh) > SN_LINE_PIECES * SN_ELEMENT_THREADS &&
           sn_schedule_find_ends(cx, sh, v).n;
}

/* Each run of a vector computes all lanes: is there so little to compute that it is worth it? Where vectors cross the ends of rows
 * anyway, four lanes or two, as there are of wide elements, are no more instructions than a run. */
static bool runs_pay(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl, const sn_runs *runs,
                     uint32_t v, uint32_t cuts) {
    int64_t row = sn_last_outer_extent(cx, sh), warp = (int64_t)SN_WARP * v * cuts;
    bool crosses = crosses_rows(cx, sh, fl), simple = only_moves(cx->m, sh, true);
    if (crosses && runs->bytes >= SN_RUNS_WIDE && !are_long(cx, sh, fl, runs, v)) return false;
    if (runs->bytes >= SN_RUNS_WIDE && (v - 1) * (int64_t)cuts * SN_RUNS_APART > row) return false;
    if (v * runs->most > 2 * cx->target->vector_bytes) return false;
    if (!simple && crosses && v * runs->bytes <= SN_RUNS_BYTES) return false;
    if ((v - 1) * (int64_t)cuts > (SN_RUNS_MOST - 1) * row) return false;
    if (simple) return true;
    /* Vectors of whole rows' parts are narrower, but compute nothing twice. */
    if (!crosses && sn_pow2_divisor(row) * runs->bytes >= SN_WIDE_ENOUGH) return false;
    if (crosses && has_few_others(cx, sh, fl, v)) return false;
    if (crosses && runs->most == 1) return bytes_again(sh, v, cuts, row);
    return crosses ? sh->instructions * warp <= SN_RUNS_AGAIN * row : is_short(sh);
}

/* Do all stores walk the outer loops as one, in whole accesses of v lanes? */
static bool stores_vectors(sn_module *m, const sn_schedule_shape *sh, uint32_t v, uint32_t widest) {
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE) continue;
        uint32_t piece = sn_least(v * sn_dtype_bytes(r->dtype), widest);
        bool whole = sn_ix_is_multiple(m, sn_ix_const(m, sn_ix_get(m, r->ix)->c0), v);
        if (!sn_schedule_walks_all(m, sh, r->ix) || !whole || sn_buf_get(m, r->buf)->align < piece) return false;
    }
    return true;
}

/* Of rows whose ends vectors would cross, are half as wide vectors whole parts? They need no runs and no tests, and compute nothing twice. */
static bool has_narrower(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl, uint32_t bytes) {
    if (!cx->target->is_gpu || sh->outer.n < 2 || !crosses_rows(cx, sh, fl) || only_moves(cx->m, sh, true))
        return false;
    if (bytes >= SN_RUNS_WIDE) return false; /* lanes of words ask each for themselves in time */
    return sn_pow2_divisor(sn_last_outer_extent(cx, sh)) * bytes >= SN_WIDE_ENOUGH;
}

/* Lanes of a vector of runs, each of which is an access; 0: what there is without them does better. */
static uint32_t runs_vector(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl) {
    sn_module *m = cx->m;
    sn_runs runs;
    if (!cx->target->is_gpu || !sh->outer.n || sh->n_nests || sh->windows || sh->scans) return 0;
    if (!sn_runs_find(&runs, m, sh->body, cx->scratch)) return 0;
    int64_t row = sn_last_outer_extent(cx, sh);
    uint32_t widest = cx->target->vector_bytes, v = sn_least(widest, cx->target->io_align) / runs.stored;
    bool narrower = has_narrower(cx, sh, fl, runs.bytes);
    if (narrower) v = sn_least(v, sn_pow2_divisor(row));
    uint32_t cuts = sh->outer.n > 1 || runs.ends.n ? count_cuts(m, &runs, sn_stmt_axis(m, sh->body), row) : 0;
    if (v < 2 || v * runs.bytes < SN_RUNS_BYTES || !stores_vectors(m, sh, v, widest)) return 0;
    if (cuts == UINT32_MAX || has_aligned_pieces(m, sh, &runs, v, row, widest)) return 0;
    if (narrower) return runs.ends.n || runs.most >= SN_RUNS_WIDE ? 0 : v;
    return runs_pay(cx, sh, fl, &runs, v, cuts) ? v : 0;
}

/* ---- figures ---- */

/* Any kernel: what is not parallel runs inside the thread. */
bool sn_schedule_element_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)why_not, (void)cx, (void)k, (void)sh;
    return true;
}

/* A single axis has a tail instead. */
static bool has_open_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    return sh->outer.n > 1 && !sh->scans && sn_schedule_has_open_rows(cx, sh, sc);
}

/* On the CPU what counts is that lanes are full. Waking a CPU thread takes longer than some elements: a small kernel is
 * one block. */
static uint32_t host_threads(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    int64_t units = cx->target->units, vectors = sh->rows / sc->vector;
    if (has_open_rows(cx, sh, sc)) vectors = sn_schedule_open_vectors(cx, sh, sc);
    double each = sh->n_nests ? (double)sh->max_count : 1, share = (double)sh->rows / (double)units;
    int64_t threads = share * each < SN_HOST_LITTLE ? vectors : sn_ceil_div(vectors, units);
    return threads < 1 ? 1 : threads > SN_ELEMENT_THREADS ? SN_ELEMENT_THREADS : (uint32_t)threads;
}

/* Vectors of the CPU along the last outer axis. Elements that lie apart are loaded one by one, code for each lane. */
static uint32_t row_vector(const sn_schedule_shape *sh, const flat *fl, int64_t row, uint32_t v) {
    if (!fl->bytes || sh->scans || fl->apart) return sn_least(v, sn_pow2_divisor(row));
    return sn_schedule_open_vector(row, fl->bytes, v);
}

/* A block of U vectors a thread has no guards. */
static bool has_whole_block(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    return cx->target->is_gpu && !sh->windows && sh->rows / sc->vector / sc->block_x >= sc->unroll;
}

/* Nests of a GPU that are so short that they are written out: their loads go together, and what several of them load stays. */
static bool are_tiny(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    return cx->target->is_gpu && sh->n_nests && sh->all_perfect && !sh->scans && sh->max_count <= SN_TINY_NEST &&
           sh->instructions * sh->max_count <= SN_ELEMENT_CODE;
}

/* Bytes that a position of tiny nests waits for; 0: they are none. */
static uint32_t loaded_by_nests(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    const sn_module *m = cx->m;
    uint32_t bytes = 0;
    if (!are_tiny(cx, sh)) return 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (sn_stmt s = sh->nests[i].top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            bool again = false;
            for (uint32_t k = 0; k < i && sn_loads(r); k++) again |= sn_stmt_loads(m, sh->nests[k].top, r->buf);
            if (sn_loads(r) && !again) bytes += sn_dtype_bytes(r->dtype) * (uint32_t)sh->nests[i].count;
        }
    }
    return bytes;
}

/* Vectors of a thread, T apart: as many as it should wait for together, while every multiprocessor stays full. */
static uint32_t vectors_of_thread(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const flat *fl,
                                  const sn_sched *sc) {
    const sn_target *t = cx->target;
    uint32_t loaded = sh->n_nests ? loaded_by_nests(cx, sh) : fl->looked_up ? fl->looked_up : fl->loaded;
    uint32_t bytes = loaded * sc->vector, u = 1;
    if (!t->is_gpu || sh->windows || !bytes) return 1;
    int64_t all = (int64_t)sc->block_x * sc->vector * sn_target_blocks(t, sc->block_x) * t->units;
    uint32_t flight = waits_twice(fl) ? 2 * SN_ELEMENT_FLIGHT : SN_ELEMENT_FLIGHT;
    int64_t code = (int64_t)sh->instructions * (sh->max_count > 1 ? sh->max_count : 1);
    if (sh->n_nests) flight = flight / 2 + 1; /* no more than that in all: it is kept, too */
    while (u * bytes < flight && 2 * u * code <= SN_ELEMENT_CODE && sh->rows >= 2 * u * all) u *= 2;
    return u;
}

/* Lanes whose vector is aligned at every step of a scan or a nest, whatever the step. */
static uint32_t aligned_steps(sn_module *m, const sn_schedule_shape *sh, uint32_t v) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            int64_t step;
            if (!sn_is_access(r) || !walks(m, r->ix, sn_stmt_axis(m, sh->body))) continue;
            for (uint32_t k = 0; k < nest->chain.n; k++)
                if (sn_ix_coef(m, r->ix, sn_stmt_axis(m, nest->chain.at[k]), &step))
                    v = sn_least(v, sn_pow2_divisor(step < 0 ? -step : step));
        }
    }
    return v;
}

/* Does a thread of a GPU walk the steps of a scan, or of a repeat, some of whose loads go together? Those are `unroll`. */
static bool is_walk(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    return sh->scans || (sh->steps && cx->target->is_gpu);
}

/* Bytes that a step of a repeat loads of what no step stores. */
static uint32_t loaded_by_steps(const sn_module *m, const sn_schedule_shape *sh) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        uint32_t bytes = 0;
        sn_stmt top = sh->nests[i].top, end = sn_stmt_walk_skip(m, top);
        for (sn_stmt s = top; s.i && s.i != end.i && sh->nests[i].steps; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (sn_loads(r) && !sn_stmt_stores(m, top, r->buf)) bytes += sn_dtype_bytes(r->dtype);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Bytes of the loads that go together which registers hold, of so many threads of a multiprocessor. */
static int64_t bytes_ahead(const sn_schedule_shape *sh, int64_t threads) {
    if (threads > SN_SCAN_FEW) return SN_SCAN_AHEAD / 2;
    return sh->scans || threads > SN_STEPS_FEW ? SN_SCAN_AHEAD : SN_STEPS_AHEAD;
}

/* Steps of a scan whose loads go together: more where threads are few, or what each of them loads is. */
static uint32_t steps_by_loads(const sn_target *t, const sn_schedule_shape *sh, uint32_t loaded, const sn_sched *sc) {
    uint32_t bytes = sc->vector * loaded;
    if (!bytes || sn_steps_ahead(sh->max_count, sc) >= sh->max_count) return sn_steps_ahead(sh->max_count, sc);
    int64_t threads = sn_ceil_div(sh->rows / sc->vector, t->units);
    if (threads > t->unit_threads) threads = t->unit_threads;
    int64_t most = sn_ceil_div(t->flight_bytes, (threads ? threads : 1) * bytes);
    int64_t reach = bytes_ahead(sh, threads) / bytes;
    if (most > reach) most = reach;
    if (most > SN_SCAN_MOST_STEPS) most = SN_SCAN_MOST_STEPS;
    if (most <= SN_SCAN_STEPS) return sn_steps_ahead(sh->max_count, sc);
    int64_t turns = (sh->max_count + most / 2) / most;
    int64_t steps = turns > 1 ? sn_ceil_div(sh->max_count, turns) : sh->max_count;
    return (uint32_t)(steps < SN_SCAN_MOST_STEPS ? steps : SN_SCAN_MOST_STEPS);
}

/* They are written out, as those of a repeat are: fewer of them where what stands around them is long. */
static uint32_t steps_of_scan(const sn_target *t, const sn_schedule_shape *sh, uint32_t loaded, const sn_sched *sc) {
    uint32_t steps = steps_by_loads(t, sh, loaded, sc);
    while (steps > 1 && (uint64_t)steps * sc->vector * sh->instructions > SN_SCAN_CODE) steps = (steps + 1) / 2;
    return steps;
}

/* Columns of a scan are few and long, and threads have nothing in common: blocks so small that every multiprocessor has
 * about as many of them. */
static void spread_columns(const sn_target *t, const sn_schedule_shape *sh, sn_sched *sc) {
    int64_t threads = sh->rows / sc->vector;
    while (sc->block_x > SN_WARP && threads < (int64_t)SN_SCAN_SPREAD * t->units * sc->block_x) sc->block_x /= 2;
}

/* Positions of a block, and of those that are whole vectors, or whole blocks where a thread has several. */
static int64_t positions_of_block(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    return (int64_t)(is_walk(cx, sh) ? 1 : sc->unroll) * sc->vector * sc->block_x;
}

static int64_t whole_positions(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    bool several = !is_walk(cx, sh) && sc->unroll > 1;
    return sh->rows - sh->rows % (several ? positions_of_block(cx, sh, sc) : sc->vector);
}

/* The odd ones need no block of their own. */
static int64_t blocks_of(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    int64_t blocks = sn_ceil_div(whole_positions(cx, sh, sc), positions_of_block(cx, sh, sc));
    return blocks > 1 ? blocks : 1;
}

/* Rows that begin with the same block, or vectors that begin with a row, take no turns. */
static bool may_take_turns(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc, uint32_t abreast) {
    return abreast < blocks_of(cx, sh, sc) && !has_open_rows(cx, sh, sc);
}

/* Is there a loop of steps, however deep? */
static bool has_steps(const sn_schedule_shape *sh, const sn_module *m) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt top = sh->nests[i].top, end = sn_stmt_walk_skip(m, top);
        for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(m, s))
            if (sn_is_nest(sn_stmt_get(m, s)) && !sn_is_scan(m, s) && sn_is_steps(m, s)) return true;
    }
    return false;
}

/* Operations of a step that wait for one another, one behind the other. */
static uint32_t depth_of_steps(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    const sn_module *m = cx->m;
    uint16_t *depth = SN_NEWN(cx->scratch, uint16_t, m->vals.count);
    uint32_t most = 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (sn_stmt s = sh->nests[i].top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            uint16_t d = 0;
            for (uint32_t k = 0; k < r->n_in; k++)
                if (depth[r->in[k].i] > d) d = depth[r->in[k].i];
            if (sn_lop_has_region(r->op) || d == UINT16_MAX) continue;
            for (uint32_t k = 0; k < r->n_results; k++) depth[sn_result(r, k).i] = (uint16_t)(d + 1);
            if (d > most) most = d;
        }
    }
    return most;
}

/* On the CPU: vectors of `lanes` that a thread has abreast, so that steps which wait for one another fill the machine. Those of many operations
 * have enough to do by themselves, unless these wait for one another (few more than a line of them), and fill registers; bytes have as many lanes as
 * there may be. */
static uint32_t vectors_abreast(const sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t lanes) {
    if (cx->target->is_gpu || !has_steps(sh, cx->m)) return 1;
    if (sh->ops > SN_HOST_ABREAST_MOST && sh->ops > SN_HOST_ABREAST_WIDE * depth_of_steps(cx, sh)) return 1;
    uint32_t vectors = sh->ops > SN_HOST_ABREAST_FEW ? SN_HOST_ABREAST / 2 : SN_HOST_ABREAST;
    int64_t row = sn_last_outer_extent(cx, sh);
    while (vectors > 1 && lanes * vectors > cx->target->vector_bytes) vectors /= 2;
    while (vectors > 1 && (row % (lanes * vectors) || sh->rows < (int64_t)(lanes * vectors) * cx->target->units))
        vectors /= 2;
    return vectors;
}

static void choose_element(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const flat *fl, sn_sched *sc) {
    bool pinned = sc->block_x != 0;
    if (!pinned) sc->block_x = SN_ELEMENT_THREADS;
    if (!sc->vector && sh->lanes_are_rows) sc->vector = sn_schedule_lanes_of_rows(cx, sh);
    uint32_t by_runs = sc->vector ? 0 : fl->by_runs;
    if (sh->rows < (int64_t)by_runs * sc->block_x * cx->target->units) by_runs = 0;
    if (by_runs) {
        sc->vector = by_runs;
        sc->runs = true;
        bool several = sc->vector * fl->stored == cx->target->vector_bytes;
        /* What a run loads is awaited before the next one; vectors of one run wait together, for rows that are looked up twice. */
        bool waits = fl->looked_up && sn_schedule_find_ends(cx, sh, sc->vector).n;
        if (!sc->unroll && several) sc->unroll = waits ? 2 : 1;
    } else if (!sc->vector) {
        bool nests =
            sh->n_nests && sh->all_perfect; /* else a thread goes through its loops by itself, with all lanes */
        bool apart = !cx->target->is_gpu && !fl->bytes && !nests;
        uint32_t least = apart ? fl->near : fl->bytes;
        uint32_t v = cx->target->is_gpu ? sn_widest(cx, least) : sn_host_widest(cx, k, least);
        if (fl->moves && cx->target->io_align >= cx->target->vector_bytes) v = cx->target->vector_bytes / fl->bytes;
        /* A store of two accesses would leave each line half written for a while; loads may take two. */
        if (cx->target->is_gpu && fl->stored) v = sn_least(v, cx->target->vector_bytes / fl->stored);
        if (cx->target->is_gpu && fl->widest) v = sn_least(v, 2 * cx->target->vector_bytes / fl->widest);
        bool across = crosses_rows(cx, sh, fl) && !has_narrower(cx, sh, fl, fl->bytes);
        /* What lanes ask each for itself is asked once for a group of them; more lanes have more of those. */
        if (fl->packed && across && fl->not_flat) v = sn_least(cx->target->vector_bytes, cx->target->io_align);
        int64_t row = sh->outer.n > 1 ? sn_last_outer_extent(cx, sh) : 0;
        if (row && !cx->target->is_gpu) v = row_vector(sh, fl, row, v);
        else if (row && !across) v = sn_least(v, sn_pow2_divisor(row));
        if (stores_less_than_words(cx, sh, fl, v)) v = SN_RUNS_WIDE / fl->stored;
        if (cx->target->is_gpu && sh->n_nests && sh->outer.n) v = aligned_steps(cx->m, sh, v);
        if (cx->target->is_gpu && sh->windows) v = 1; /* lanes read neighbours, whatever the step */
        int64_t full = cx->target->is_gpu ? (int64_t)sc->block_x * cx->target->units : 1; /* vectors */
        while (v > 1 && sh->rows < v * full) v /= 2;
        /* What cannot become vector instructions is written out lane by lane. All else is as long with many lanes as with few. */
        while (v > 1 && !cx->target->is_gpu && (int64_t)v * fl->written_out > SN_MANY_OPS) v /= 2;
        sc->vector = v > 1 ? v * vectors_abreast(cx, sh, v) : 1;
    }
    if (!pinned && !cx->target->is_gpu) sc->block_x = host_threads(cx, sh, sc);
    int64_t full = has_open_rows(cx, sh, sc) ? sn_schedule_open_vectors(cx, sh, sc) : sh->rows / sc->vector;
    while (sc->block_x > 32 && full < (int64_t)sc->block_x) sc->block_x /= 2;
    if (!pinned && is_walk(cx, sh) && cx->target->is_gpu) spread_columns(cx->target, sh, sc);
    sc->block_y = 1;
    uint32_t of_scan = fl->loaded ? fl->loaded : fl->bytes;
    if (sh->scans)
        sc->unroll = !cx->target->is_gpu ? 1 : sc->unroll ? sc->unroll : steps_of_scan(cx->target, sh, of_scan, sc);
    else if (is_walk(cx, sh))
        sc->unroll = sc->unroll ? sc->unroll : steps_of_scan(cx->target, sh, loaded_by_steps(cx->m, sh), sc);
    else if (!sc->unroll) sc->unroll = vectors_of_thread(cx, sh, fl, sc);
    while (!is_walk(cx, sh) && sc->unroll > 1 && !has_whole_block(cx, sh, sc)) sc->unroll /= 2;
    /* One wide load a thread is in flight: many threads have to be resident, which bounds their registers. What takes
     * more than a few of those would spill, and keeps a thread busy anyway. */
    if (!sc->min_blocks && cx->target->is_gpu && sc->vector > 1 && !sh->n_nests && is_short(sh))
        sc->min_blocks = sn_target_blocks(cx->target, sc->block_x);
    /* A run's lanes wait for those of the others, beside what they are made of. */
    if ((sc->runs || (fl->packed && sc->vector * fl->bytes == cx->target->vector_bytes)) && fl->computes &&
        sc->min_blocks > 1)
        sc->min_blocks /= 2;
    if (!sc->abreast && may_take_turns(cx, sh, sc, fl->abreast)) sc->abreast = fl->abreast;
}

/* Other candidates: twice as many threads a block and half, vectors half as wide, rows in the other order. */
sn_status sn_schedule_element_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                         const sn_sched *pinned) {
    flat fl = look_at_flat(cx, k, sh);
    fl.moves = cx->target->is_gpu && fl.bytes && sh->body.i && only_moves(cx->m, sh, false);
    fl.computes = sh->body.i && !only_moves(cx->m, sh, true);
    fl.packed = cx->target->is_gpu && sh->body.i && is_packed(cx->m, sh);
    fl.by_runs = runs_vector(cx, sh, &fl);
    sn_sched open = *pinned;
    open.cls = SN_SCHED_ELEMENT;
    sn_sched first = open, threads[] = {open, open}, narrow = open;
    if (pinned->block_y > 1) /* a row above would have bound it */
        return sn_fail(
            cx->m->env, SN_ERROR_ARGUMENT,
            "kernel %s: the schedule's block_y=%u wants something that lies across what is stored, on the CPU",
            sn_kern_get(cx->m, k)->name, pinned->block_y);
    choose_element(cx, k, sh, &fl, &first);
    if (pinned->abreast > 1 && !may_take_turns(cx, sh, &first, pinned->abreast))
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's abreast=%u rows take no turns of %lld blocks",
                       sn_kern_get(cx->m, k)->name, pinned->abreast, (long long)blocks_of(cx, sh, &first));
    sn_schedule_propose(out, cx, &first);
    sn_sched order = first;
    threads[0].block_x = first.block_x * 2;
    threads[1].block_x = first.block_x / 2;
    for (size_t i = 0; i < SN_COUNT(threads) && !pinned->block_x; i++) {
        if (threads[i].block_x < SN_WARP || threads[i].block_x > cx->target->max_threads) continue;
        choose_element(cx, k, sh, &fl, &threads[i]);
        sn_schedule_propose(out, cx, &threads[i]);
    }
    if (!pinned->abreast && may_take_turns(cx, sh, &first, fl.other) && fl.other) {
        order.abreast = fl.other;
        sn_schedule_propose(out, cx, &order);
    }
    narrow.vector = first.vector / 2;
    if (!narrow.vector || pinned->vector) return SN_OK;
    choose_element(cx, k, sh, &fl, &narrow);
    sn_schedule_propose(out, cx, &narrow);
    return SN_OK;
}

/* ---- binding ---- */

static sn_axis new_axis(sn_module *m, const char *name, int64_t extent) {
    return sn_axis_new(m, name, sn_ix_const(m, extent));
}

static sn_stmt put_loop(sn_module *m, sn_cursor at, const char *name, int64_t extent, sn_axis_kind kind, sn_ix *out) {
    sn_axis ax = new_axis(m, name, extent);
    *out = sn_ix_axis(m, ax);
    return sn_put_loop(m, at, ax, kind);
}

static void insert_all(sn_module *m, sn_cursor at, const sn_stmt_vec *body) {
    for (uint32_t k = 0; k < body->n; k++) sn_stmt_insert(m, at, body->at[k]);
}

/* `if g in B { if t in rest { body at first + t } }`: a copy of the statements in `main`, for the first threads of as many
 * of the blocks as it takes. */
static void put_tail(sn_pass_ctx *cx, sn_kern k, sn_stmt in_threads, sn_stmt main, const sn_schedule_shape *sh,
                     int64_t blocks, sn_ix g, sn_ix t, int64_t first, int64_t rest) {
    sn_module *m = cx->m;
    sn_ix zero = sn_ix_const(m, 0);
    int64_t threads = sn_ix_value(m, sn_stmt_extent(m, in_threads)), share = sn_ceil_div(rest, threads);
    if (share > blocks) share = blocks;
    sn_stmt into = sn_put_if(m, sn_at_end(k, in_threads), g, sn_ix_const(m, share));
    if (share > 1) t = sn_ix_add(m, sn_ix_scale(m, g, threads), t);
    if (rest > share * threads) {
        sn_ix turn;
        into = put_loop(m, sn_at_end(k, into), "w", sn_ceil_div(rest, share * threads), SN_AXIS_SEQ, &turn);
        t = sn_ix_add(m, sn_ix_scale(m, turn, share * threads), t);
    }
    sn_stmt few = sn_put_if(m, sn_at_end(k, into), t, sn_ix_const(m, rest));
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(k, few), main);
    bool lanes = sn_stmt_get(m, copy)->kind == SN_AXIS_VECTOR;
    sn_axis lane = lanes ? sn_stmt_axis(m, copy) : (sn_axis){0};
    sn_stmt_vec body = {0};
    for (sn_stmt s = sn_stmt_get(m, copy)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        if (lanes) sn_stmt_subst(m, s, &lane, &zero, 1);
        SN_PUSH(cx->scratch, &body, s);
    }
    sn_stmt_unlink(m, copy);
    sn_schedule_subst_outer(cx, &body, sh, sn_ix_addc(m, t, first));
    insert_all(m, sn_at_end(k, few), &body);
}

static void group_steps(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_schedule_nest *nest = &sh->nests[i];
        int64_t u = sc->unroll, outer = (nest->count + u - 1) / u;
        if (!nest->scan || !nest->perfect || u < 2) continue;
        sn_level levels[2] = {{"uo", outer, u, SN_AXIS_SEQ}, {"u", u, 1, SN_AXIS_UNROLL}};
        nest->top = sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count,
                                    outer > 1 ? levels : levels + 1, outer > 1 ? 2 : 1);
    }
}

/* U of the `extent` iterations of a loop from number `first` on are written out: the loads of those go together. */
static void group_part(sn_module *m, sn_stmt loop, int64_t extent, int64_t first, int64_t u) {
    sn_axis old = sn_stmt_axis(m, loop), ax = sn_axis_new(m, sn_axis_get(m, old)->name, sn_ix_const(m, extent)), out,
            in;
    sn_ix at = sn_ix_addc(m, sn_ix_axis(m, ax), first);
    sn_stmt_subst(m, loop, &old, &at, 1);
    sn_stmt_get(m, loop)->axis = ax;
    if (extent > u) loop = sn_stmt_split_axis(m, loop, u, &out, &in);
    sn_stmt_get(m, loop)->kind = SN_AXIS_UNROLL;
}

/* Those of a repeat, which are no chain that could be masked behind the last one: what is left over is a loop of its own. */
static void group_repeats(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt loop = sh->nests[i].top;
        int64_t n = sh->nests[i].count, most = n < SN_SCAN_MOST_STEPS ? n : SN_SCAN_MOST_STEPS;
        int64_t u = sc->unroll < most ? sc->unroll : most, rest = u ? n % u : 0;
        if (!sh->nests[i].steps || u < 2) continue;
        if (rest) group_part(m, sn_stmt_clone(m, sn_at_after(m, loop), loop), rest, n - rest, u);
        group_part(m, loop, n - rest, 0, u);
    }
}

/* The loads of a small window go together, and those of tiny nests. On a CPU so do the tests of its taps: vectors that no border
 * touches have none (codegen-llvm/interior.c). */
static void write_out(sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    bool small = sh->windows && sh->max_count <= SN_WRITTEN_WINDOW;
    if (!cx->target->is_gpu) small &= sh->all_perfect && sh->instructions * sh->max_count <= SN_ELEMENT_CODE;
    for (uint32_t i = 0; i < sh->n_nests && (small || are_tiny(cx, sh)); i++)
        for (uint32_t d = 0; d < sh->nests[i].chain.n; d++)
            sn_stmt_get(m, sh->nests[i].chain.at[d])->kind = SN_AXIS_UNROLL;
}

static void collect_rows(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sc, sn_axis thread,
                         sn_axis lane) {
    sn_host_lanes lanes = {.thread = sn_ix_axis(cx->m, thread), .lane = sn_ix_axis(cx->m, lane)};
    lanes.vector = sc->vector, lanes.threads = sc->block_x;
    if (sh->lanes_are_rows) sn_schedule_collect_rows(cx, k, sh, &lanes);
}

static void bind_open_rows(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc) {
    sn_module *m = cx->m;
    sn_stmt_vec body = {0};
    int64_t n = sn_schedule_open_vectors(cx, sh, sc);
    sn_axis in_block = new_axis(m, "t", sc->block_x), in_vector = new_axis(m, "v", sc->vector);
    sn_ix g, t = sn_ix_axis(m, in_block), lane = sn_ix_axis(m, in_vector);
    collect_rows(cx, k, sh, sc, in_block, in_vector);
    sn_schedule_take_body(&body, cx, k, sh);
    sn_stmt into = put_loop(m, sn_at_end(k, (sn_stmt){0}), "g", sn_ceil_div(n, sc->block_x), SN_AXIS_GRID, &g);
    into = sn_put_loop(m, sn_at_end(k, into), in_block, SN_AXIS_BLOCK_X);
    sn_ix p = sn_ix_add(m, sn_ix_scale(m, g, sc->block_x), t);
    if (n % sc->block_x) into = sn_put_if(m, sn_at_end(k, into), p, sn_ix_const(m, n));
    into = sn_put_loop(m, sn_at_end(k, into), in_vector, SN_AXIS_VECTOR);
    sn_schedule_open_body(cx, k, into, &body, sh, sc, p, lane);
}

/* Elements of vectors that have several runs, in blocks of whole vectors: after those of one. */
static void put_ends(sn_pass_ctx *cx, sn_kern k, const sn_schedule_ends *ends, const sn_schedule_shape *sh,
                     const sn_sched *sc, sn_stmt threads, const sn_stmt_vec *body, sn_ix block, sn_ix t) {
    int64_t tile = positions_of_block(cx, sh, sc);
    sn_ix base = sn_ix_scale(cx->m, block, tile);
    sn_schedule_put_ends(cx, k, ends, sh, threads, body, t, sc->block_x, base, tile, whole_positions(cx, sh, sc));
}

void sn_schedule_element_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    sn_stmt_vec body = {0};
    bool walk = is_walk(cx, sh);
    int64_t v = sc->vector, u = walk ? 1 : sc->unroll, tile = positions_of_block(cx, sh, sc);
    int64_t n = sh->rows, whole = whole_positions(cx, sh, sc), blocks = blocks_of(cx, sh, sc);
    if (has_open_rows(cx, sh, sc)) {
        bind_open_rows(cx, k, sh, sc);
        return;
    }
    if (sh->scans) group_steps(cx, k, sh, sc);
    if (walk) group_repeats(cx, sh, sc);
    else write_out(cx, sh);
    sn_axis in_block = new_axis(m, "t", sc->block_x), in_vector = v > 1 ? new_axis(m, "v", v) : (sn_axis){0};
    sn_ix g, turn, t = sn_ix_axis(m, in_block), lane = v > 1 ? sn_ix_axis(m, in_vector) : sn_ix_const(m, 0);
    if (v > 1) collect_rows(cx, k, sh, sc, in_block, in_vector);
    sn_schedule_ends ends = {0};
    if (sc->runs && sc->abreast <= 1 && !walk) ends = sn_schedule_find_ends(cx, sh, v);
    sn_schedule_take_body(&body, cx, k, sh);
    int64_t rows = sc->abreast > 1 ? sc->abreast : 1, of_row = sn_ceil_div(blocks, rows);
    sn_stmt grid = put_loop(m, sn_at_end(k, (sn_stmt){0}), "g", of_row * rows, SN_AXIS_GRID, &g);
    sn_stmt threads = sn_put_loop(m, sn_at_end(k, grid), in_block, SN_AXIS_BLOCK_X), into = threads;
    sn_ix p = g, block = g;
    if (rows > 1) p = sn_ix_fma(m, of_row, sn_ix_modc(m, g, rows), sn_ix_divc(m, g, rows));
    if (of_row * rows != blocks) into = sn_put_if(m, sn_at_end(k, into), p, sn_ix_const(m, blocks));
    if (u > 1) {
        into = put_loop(m, sn_at_end(k, into), "u", u, SN_AXIS_UNROLL, &turn);
        p = sn_ix_add(m, sn_ix_scale(m, p, u), turn);
    }
    sn_ix start = sn_ix_scale(m, sn_ix_add(m, sn_ix_scale(m, p, sc->block_x), t), v);
    if (whole != blocks * tile) into = sn_put_if(m, sn_at_end(k, into), start, sn_ix_const(m, whole));
    sn_stmt_vec others = ends.n ? sn_schedule_copy_body(cx, k, &body) : (sn_stmt_vec){0};
    if (ends.n) into = sn_schedule_put_whole(cx, k, &ends, into, start);
    if (v > 1) into = sn_put_loop(m, sn_at_end(k, into), in_vector, SN_AXIS_VECTOR);
    insert_all(m, sn_at_end(k, into), &body);
    if (n != whole) put_tail(cx, k, threads, into, sh, blocks, g, t, whole, n - whole);
    if (ends.n) sn_schedule_subst_whole(cx, &body, &ends, sh, start, in_vector);
    else sn_schedule_subst_outer(cx, &body, sh, sn_ix_add(m, start, lane));
    if (ends.n) put_ends(cx, k, &ends, sh, sc, threads, &others, block, t);
    if (walk && cx->target->is_gpu) sn_schedule_loads_ahead(cx, k, sc);
}
