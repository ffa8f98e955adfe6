/* fuse.c: the pass `fuse`: kernels that share data become one.
 *
 *     k0: loop i { %m = reduce max r { load x[1024*i + r] }  store t[i], %m }
 *     k1: loop i { loop j { load x[1024*i + j]  load t[i]  sub  store y[1024*i + j] } }
 *  -> k0: loop i { %m = reduce max r { ... }  loop j { load x[1024*i + j]  sub %m  store y[1024*i + j] } }
 *
 * Vertical: a producer and a consumer (pointwise chains, prologues into reductions, epilogues after them, rows such as
 * softmax). Horizontal: kernels that read the same buffers (one kernel with several outputs; two reductions over one
 * tensor in one loop). Legality is in match.c, merging in merge.c. Pairs are tried best first by bytes of memory
 * traffic saved; a pair is left alone when a third kernel stands between them in the order of data, when the merged
 * kernel would have more than SN_FUSE_OPS operations (on a CPU SN_FUSE_OPS_HOST) or SN_MAX_NESTS loops side by side,
 * when too little parallelism would remain, when both have products of f32 and not in the same precision, or when both
 * headers choose something and not the same; else the merged kernel has the header that chooses something. On a CPU
 * reductions over windows stay apart (windowed.c). A matrix product stays one, and takes no longer than before, or the
 * library that one of the two is left to runs the merged one too (product.c). A mean and a variance that are read by
 * parts stay alone with what they give (passes/schedule/base/moments.c). A kernel that stores to what an earlier one
 * has stored (the scatter after its copy) counts as if it read that too. Kernels that touch a buffer which is loaded
 * before its last store, up to that one (the steps of a sort), stay as they are, one after the other. Afterwards
 * temporaries that nobody loads any more vanish. A kernel that computes from constants alone runs once, when a program
 * is loaded: it is not merged with one that runs each time. Cost: each kernel is tried against the writers of what it
 * reads and at most MAX_SIBLINGS other readers, in at most MAX_ROUNDS rounds.
 */
#include "passes/fuse/fuse.h"

#include "ir/loop/figures.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/moments.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIBLINGS = 8, MAX_ROUNDS = 4, MAX_TRIES = 16 };

typedef struct buf_list {
    sn_buf *at;
    uint32_t n, cap;
} buf_list;
typedef struct index_list {
    uint32_t *at;
    uint32_t n, cap;
} index_list;

/* A kernel of the original order; after a merge, `rep` leads to the one that lives on. */
typedef struct fnode {
    sn_kern k;
    uint32_t rep, lo, hi; /* lo, hi: range of original positions inside */
    uint32_t ops, stamp;
    bool library;           /* a library runs it */
    bool constant;          /* it computes from constants alone */
    bool windowed;          /* CPU: it reduces windows that overlap */
    bool in_place;          /* it touches a buffer that is loaded before its last store, up to that one */
    double product;         /* cycles of the matrix product that it is; 0: it is none; -1: nobody has counted yet */
    buf_list loads, stores; /* loads: then what is stored over */
    uint32_t n_read;        /* of the loads: those that are not stored over */
} fnode;

/* Two kernels, by original position, that were left apart. */
typedef struct refusal {
    uint32_t a, b, number;
    const char *why;
} refusal;

typedef struct fuse {
    sn_pass_ctx *cx;
    sn_module *m;
    fnode *nodes;
    uint32_t n, stamp;
    uint32_t *span;      /* by position p: largest hi of the merged kernels whose lo is at most p */
    index_list *writers; /* by buffer: positions of the kernels that store it; one, but for scatters */
    index_list *readers; /* by buffer */
    uint32_t *last; /* by buffer: 1 + the kernel that stores it for the last time, where one loads it before; else 0 */
    uint32_t *touched; /* by such a buffer: 1 + the kernel that touched it last, while nodes are built */
    uint32_t merged;
    SN_VEC(refusal) refused; /* where somebody asks */
} fuse;

static uint32_t find(fuse *fu, uint32_t i) {
    while (fu->nodes[i].rep != i) i = fu->nodes[i].rep = fu->nodes[fu->nodes[i].rep].rep;
    return i;
}

/* ---- data flow between kernels ---- */

static void add_buf(fuse *fu, buf_list *list, sn_buf b) {
    for (uint32_t k = 0; k < list->n; k++)
        if (sn_buf_eq(list->at[k], b)) return;
    SN_PUSH(fu->cx->scratch, list, b);
}

/* What a kernel in place stores for the next one that touches the same: a buffer that no module has. */
static sn_buf token_of(const fuse *fu, uint32_t i) { return (sn_buf){fu->m->bufs.count + i}; }

/* Node i touches b: a step of what happens to it in place? Then it comes behind the one before. */
static bool note_step(fuse *fu, sn_buf b, uint32_t i) {
    if (i >= fu->last[b.i]) return false;
    fnode *f = &fu->nodes[i];
    if (fu->touched[b.i] && fu->touched[b.i] != i + 1) add_buf(fu, &f->loads, token_of(fu, fu->touched[b.i] - 1));
    add_buf(fu, &f->stores, token_of(fu, i));
    fu->touched[b.i] = i + 1;
    return f->in_place = true;
}

static void build(fuse *fu) {
    sn_module *m = fu->m;
    const char *why_not;
    const bool *constant = sn_kerns_constant(m, fu->cx->scratch);
    fu->writers = SN_NEWN(fu->cx->scratch, index_list, m->bufs.count + fu->n);
    fu->readers = SN_NEWN(fu->cx->scratch, index_list, m->bufs.count + fu->n);
    fu->touched = SN_NEWN(fu->cx->scratch, uint32_t, m->bufs.count);
    for (uint32_t i = 0; i < fu->n; i++) {
        fnode *f = &fu->nodes[i];
        *f = (fnode){.k = m->kernels.at[i], .rep = i, .lo = i, .hi = i, .ops = sn_kern_ops(m, m->kernels.at[i])};
        f->library = sn_pass_library_runs(&why_not, fu->cx, f->k);
        f->constant = constant[i];
        f->windowed = !fu->cx->target->is_gpu && sn_fuse_has_windows(m, f->k);
        f->product = f->library ? 0 : -1;
        for (sn_stmt s = sn_stmt_walk_first(m, f->k); s.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (sn_loads(r) && !note_step(fu, r->buf, i)) add_buf(fu, &f->loads, r->buf);
            if (sn_stores(r) && (!note_step(fu, r->buf, i) || i + 1 == fu->last[r->buf.i]))
                add_buf(fu, &f->stores, r->buf);
        }
        f->n_read = f->loads.n;
        for (uint32_t k = 0; k < f->stores.n; k++) {
            sn_buf b = f->stores.at[k];
            if (fu->writers[b.i].n) add_buf(fu, &f->loads, b);
            SN_PUSH(fu->cx->scratch, &fu->writers[b.i], i);
        }
        for (uint32_t k = 0; k < f->loads.n; k++) SN_PUSH(fu->cx->scratch, &fu->readers[f->loads.at[k].i], i);
    }
}

/* Is it an intermediate that nobody but the kernel at `at` stores? What that loads of it, it has stored itself. */
static bool is_own(const fuse *fu, sn_buf b, uint32_t at) {
    const index_list *w = &fu->writers[b.i];
    return sn_buf_get(fu->m, b)->scope == SN_BUF_TEMP && w->n == 1 && w->at[0] == at;
}

/* Buffers that are loaded before they are stored for the last time; false: there are none. */
static bool note_in_place(fuse *fu) {
    bool found = false;
    for (uint32_t i = 0; i < fu->n; i++)
        for (uint32_t k = 0; k < fu->nodes[i].n_read; k++) {
            sn_buf b = fu->nodes[i].loads.at[k];
            const index_list *w = &fu->writers[b.i];
            if (!w->n || w->at[w->n - 1] < i || is_own(fu, b, i)) continue;
            fu->last[b.i] = w->at[w->n - 1] + 1;
            found = true;
        }
    return found;
}

/* 1 + the kernel whose stores to b the kernel at x needs: the last one, or the one before its own; 0: none. */
static uint32_t writer_for(fuse *fu, sn_buf b, uint32_t x) {
    const index_list *w = &fu->writers[b.i];
    uint32_t last = 0;
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t at = find(fu, w->at[k]);
        if (at == x) break;
        last = at + 1;
    }
    return last;
}

/* No way along data to b leads through a kernel that begins behind this position. Data flows forward, but a merged
 * kernel spans from lo to hi, and a way can come back from hi to lo: all spans that can be entered before the bound
 * extend it. */
static uint32_t reach(const fuse *fu, uint32_t b) {
    uint32_t last = fu->nodes[b].hi;
    while (fu->span[last] > last) last = fu->span[last];
    return last;
}

/* How many of them stand at this position or before it. */
static uint32_t readers_until(const index_list *readers, uint32_t last) {
    uint32_t low = 0, high = readers->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (readers->at[middle] <= last) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Is there a way along data from a to b through another kernel? */
static bool indirect_path(fuse *fu, uint32_t a, uint32_t b) {
    index_list todo = {0};
    uint32_t last = reach(fu, b);
    fu->stamp++;
    fu->nodes[a].stamp = fu->stamp;
    SN_PUSH(fu->cx->scratch, &todo, a);
    while (todo.n) {
        uint32_t at = todo.at[--todo.n];
        for (uint32_t k = 0; k < fu->nodes[at].stores.n; k++) {
            const index_list *readers = &fu->readers[fu->nodes[at].stores.at[k].i];
            for (uint32_t r = 0, n = readers_until(readers, last); r < n; r++) {
                uint32_t to = find(fu, readers->at[r]);
                if (to == b && at != a) return true;
                if (to == b || fu->nodes[to].stamp == fu->stamp || fu->nodes[to].lo > last) continue;
                fu->nodes[to].stamp = fu->stamp;
                SN_PUSH(fu->cx->scratch, &todo, to);
            }
        }
    }
    return false;
}

static bool feeds(fuse *fu, uint32_t a, uint32_t b) {
    for (uint32_t k = 0; k < fu->nodes[b].loads.n; k++) {
        if (writer_for(fu, fu->nodes[b].loads.at[k], b) == a + 1) return true;
    }
    return false;
}

/* ---- one pair ---- */

static const char *name_of(const fuse *fu, uint32_t i) { return sn_kern_get(fu->m, fu->nodes[i].k)->name; }

static void join_notes(fuse *fu, sn_kern_rec *a, const sn_kern_rec *b) {
    if (!b->note) return;
    a->note = a->note ? sn_strf(&fu->m->arena, "%s; %s", a->note, b->note) : b->note;
}

/* What the header of a kernel chooses. The precision of its products is no choice. */
static sn_sched choice_of(const sn_kern_rec *k) {
    sn_sched choice = k->sched;
    choice.precision = SN_PRECISION_EXACT;
    return choice;
}

static sn_sched merged_header(const sn_kern_rec *a, const sn_kern_rec *b, const sn_fuse_match *mt) {
    sn_sched choice = choice_of(a), merged = sn_sched_is_open(&choice) ? b->sched : a->sched;
    merged.precision = mt->precision;
    return merged;
}

static void record_fusion(const fuse *fu, sn_kern a, sn_kern b, const sn_fuse_match *mt) {
    sn_metric_log *log = fu->cx->metrics;
    const sn_kern_rec *ka = sn_kern_get(fu->m, a), *kb = sn_kern_get(fu->m, b);
    sn_row_fusions *row = SN_ADD_ROW(log, FUSIONS, fusions);
    if (!row) return;
    *row = (sn_row_fusions){.into = sn_metric_text(log, ka->name),
                            .taken = sn_metric_text(log, kb->name),
                            .into_was = sn_metric_text(log, ka->note),
                            .taken_was = sn_metric_text(log, kb->note),
                            .kind = mt->vertical ? "vertical" : "horizontal",
                            .saves = mt->bytes};
}

static void merge(fuse *fu, uint32_t a, uint32_t b, const sn_fuse_match *mt) {
    fnode *fa = &fu->nodes[a], *fb = &fu->nodes[b];
    sn_remark(fu->cx, name_of(fu, a), "fused with %s (%s, saves %lld bytes)", name_of(fu, b),
              mt->vertical ? "vertical" : "horizontal", (long long)mt->bytes);
    record_fusion(fu, fa->k, fb->k, mt);
    sn_fuse_merge(fu->cx, fa->k, fb->k, mt);
    sn_kern_rec *ka = sn_kern_get(fu->m, fa->k);
    const sn_kern_rec *kb = sn_kern_get(fu->m, fb->k);
    join_notes(fu, ka, kb);
    sn_kern_add_from(fu->m, fa->k, kb->from);
    ka->sched = merged_header(ka, kb, mt);
    for (uint32_t k = 0; k < fb->loads.n; k++) add_buf(fu, &fa->loads, fb->loads.at[k]);
    for (uint32_t k = 0; k < fb->stores.n; k++) add_buf(fu, &fa->stores, fb->stores.at[k]);
    fa->ops += fb->ops;
    fa->library |= fb->library;
    fa->windowed |= fb->windowed;
    if (fb->lo < fa->lo) fa->lo = fb->lo;
    if (fb->hi > fa->hi) fa->hi = fb->hi;
    for (uint32_t p = fa->lo; p < fu->n && fu->span[p] < fa->hi; p++) fu->span[p] = fa->hi;
    fb->rep = a;
    fu->merged++;
}

/* A header that stands is obeyed, so that two which differ keep their kernels apart. */
static bool headers_differ(const sn_kern_rec *a, const sn_kern_rec *b) {
    sn_sched of_a = choice_of(a), of_b = choice_of(b);
    return !sn_sched_is_open(&of_a) && !sn_sched_is_open(&of_b) && !sn_sched_eq(&of_a, &of_b);
}

/* What the two become, as a kernel of no list. */
static sn_kern try_merge(fuse *fu, uint32_t a, uint32_t b, const sn_fuse_match *mt) {
    const fnode *fa = &fu->nodes[a];
    sn_kern of_a = fa->k, of_b = fu->nodes[b].k;
    sn_sched header = merged_header(sn_kern_get(fu->m, of_a), sn_kern_get(fu->m, of_b), mt);
    buf_list gone = {0};
    for (uint32_t k = 0; k < fa->stores.n; k++) {
        const index_list *readers = &fu->readers[fa->stores.at[k].i];
        bool elsewhere = sn_buf_get(fu->m, fa->stores.at[k])->scope != SN_BUF_TEMP;
        for (uint32_t r = 0; r < readers->n; r++) {
            uint32_t by = find(fu, readers->at[r]);
            elsewhere |= by != a && by != b;
        }
        if (!elsewhere) SN_PUSH(fu->cx->scratch, &gone, fa->stores.at[k]);
    }
    return sn_fuse_try(fu->cx, of_a, of_b, &header, gone.at, gone.n);
}

/* Cycles of the kernel as a product, counted when somebody asks. */
static double product_of(fuse *fu, uint32_t i) {
    fnode *f = &fu->nodes[i];
    if (f->product < 0 && sn_fuse_count_product(&f->product, fu->cx, f->k) != SN_OK) f->product = 0;
    return f->product;
}

/* Do both together take no longer than one after the other? */
static bool counts_fewer(const char **why_not, fuse *fu, double both, double apart, const sn_fuse_match *mt) {
    const sn_target *t = fu->cx->target;
    if (t->is_gpu) apart += (double)mt->passed / ((double)t->cycle_bytes * t->units);
    *why_not = sn_strf(fu->cx->scratch, "%.0f cycles in one product, %.0f apart", both, apart);
    return both <= apart;
}

/* Is what the two become as good a product as they are? *cycles: as in fnode, of both. */
static bool keeps_product(double *cycles, const char **why_not, fuse *fu, uint32_t a, uint32_t b,
                          const sn_fuse_match *mt) {
    const fnode *fa = &fu->nodes[a], *fb = &fu->nodes[b];
    int64_t steps_a = sn_fuse_steps(fu->m, fa->k), steps_b = sn_fuse_steps(fu->m, fb->k);
    bool library = fa->library || fb->library, behind = mt->shared == mt->a.n && mt->shared == mt->b.n;
    bool attention = sn_kern_is_attention(fu->m, fa->k);
    *why_not = "they would be no attention that a class takes";
    if ((attention || sn_kern_is_attention(fu->m, fb->k)) && !(attention && !steps_b && behind)) return false;
    *cycles = fa->product;
    if (!library && !steps_b && (!steps_a || behind)) return true;
    *cycles = 0;
    if (!library && product_of(fu, a) + product_of(fu, b) == 0) return true;
    *why_not = "they would be no product that a class does in one nest";
    if (!library && steps_a && steps_b && steps_a != steps_b) return false;
    sn_kern both = try_merge(fu, a, b, mt);
    if (library) {
        const char *unused;
        *why_not = "the library does not run both";
        return both.i && sn_pass_library_runs(&unused, fu->cx, both);
    }
    if (!both.i || sn_fuse_count_product(cycles, fu->cx, both) != SN_OK || *cycles == 0) return false;
    return counts_fewer(why_not, fu, *cycles, fa->product + fb->product, mt);
}

/* Is k a mean and a variance of rows that are read once, by parts (passes/schedule/base/moments.c)? */
static bool is_by_parts(fuse *fu, sn_kern k, bool alone) {
    sn_moments mo;
    return sn_moments_find(&mo, fu->cx, k) && sn_moments_part(&mo, fu->cx, alone);
}

/* Reductions and scans that wait for one another are cut into parts apart, or as a mean and a variance. These stay alone with what
 * they give: whoever reads the row again stands behind all of its parts. */
static bool keeps_parts(const char **why_not, fuse *fu, uint32_t a, uint32_t b, const sn_fuse_match *mt) {
    bool gpu = fu->cx->target->is_gpu;
    if (gpu ? !mt->vertical && !mt->waits : !mt->waits) return true;
    *why_not = "too few rows to fill the device, which it could if each reduction or scan were cut";
    if (!gpu) return false;
    if (mt->waits) {
        sn_kern both = try_merge(fu, a, b, mt);
        return both.i && is_by_parts(fu, both, true);
    }
    *why_not = "its rows are read by parts";
    bool reads_row = mt->shared < mt->b.n || sn_fuse_steps(fu->m, fu->nodes[b].k);
    return !reads_row || !is_by_parts(fu, fu->nodes[a].k, false);
}

static void refuse(fuse *fu, uint32_t a, uint32_t b, const char *why) {
    sn_remark(fu->cx, name_of(fu, a), "not fused with %s: %s", name_of(fu, b), why);
    if (fu->cx->metrics) SN_PUSH(fu->cx->scratch, &fu->refused, ((refusal){a, b, fu->refused.n, why}));
}

/* Nests that a kernel of these outer loops has side by side inside of the first `shared` ones. */
static uint32_t nests_inside(const sn_module *m, sn_kern k, const sn_chain *outer, uint32_t shared) {
    uint32_t n = 0;
    sn_stmt around = shared ? outer->at[shared - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, around); s.i; s = sn_next(m, s))
        n += sn_lop_has_region(sn_stmt_get(m, s)->op);
    return n;
}

static bool has_few_nests(const fuse *fu, uint32_t a, uint32_t b, const sn_fuse_match *mt) {
    return nests_inside(fu->m, fu->nodes[a].k, &mt->a, mt->shared) +
               nests_inside(fu->m, fu->nodes[b].k, &mt->b, mt->shared) <=
           SN_MAX_NESTS;
}

/* What the headers and the places of two kernels say against one; NULL: nothing. */
static const char *against_headers(const fuse *fu, uint32_t a, uint32_t b) {
    const fnode *fa = &fu->nodes[a], *fb = &fu->nodes[b];
    const sn_kern_rec *ka = sn_kern_get(fu->m, fa->k), *kb = sn_kern_get(fu->m, fb->k);
    uint32_t most =
        fu->cx->target->is_gpu ? SN_FUSE_OPS : SN_FUSE_OPS_HOST; /* a GPU's registers are all that a thread has */
    if (fa->ops + fb->ops > most) return "one kernel would have too many operations";
    if (ka->scheduled || kb->scheduled) return "the schedule of one stands";
    if (fa->in_place || fb->in_place) return "one is a step of what happens to a buffer in place";
    if (ka->section != kb->section) return "a repeat begins or ends between them";
    if (fa->windowed && fb->windowed && !sn_fuse_same_windows(fu->m, fa->k, fb->k))
        return "each reduces windows of its own, which one class does alone";
    if (fa->constant != fb->constant) return "one of them runs once";
    return headers_differ(ka, kb) ? "their headers differ" : NULL;
}

/* Why the two stay apart; NULL: they match. */
static const char *against(sn_fuse_match *mt, double *cycles, fuse *fu, uint32_t a, uint32_t b) {
    const char *why_not = against_headers(fu, a, b);
    sn_access_list in_a, in_b;
    if (why_not) return why_not;
    sn_access_find_all(&in_a, fu->cx->m, fu->cx->scratch, fu->nodes[a].k);
    sn_access_find_all(&in_b, fu->cx->m, fu->cx->scratch, fu->nodes[b].k);
    if (!sn_fuse_find(mt, fu->cx, fu->nodes[a].k, fu->nodes[b].k, &in_a, &in_b)) return mt->why_not;
    if (indirect_path(fu, a, b) || indirect_path(fu, b, a)) return "a third kernel stands between them";
    if (!has_few_nests(fu, a, b, mt)) return "one kernel would have too many loops side by side";
    bool keeps = keeps_parts(&why_not, fu, a, b, mt) && keeps_product(cycles, &why_not, fu, a, b, mt);
    return keeps ? NULL : why_not;
}

/* Merge x and y in the order that data asks for. */
static bool try_pair(fuse *fu, uint32_t x, uint32_t y) {
    uint32_t a = x, b = y;
    if (feeds(fu, y, x) || (!feeds(fu, x, y) && fu->nodes[y].lo < fu->nodes[x].lo)) a = y, b = x;
    sn_fuse_match mt;
    double cycles;
    const char *why_not = against(&mt, &cycles, fu, a, b);
    if (why_not) {
        refuse(fu, a, b, why_not);
        return false;
    }
    merge(fu, a, b, &mt);
    fu->nodes[a].product = cycles;
    return true;
}

/* ---- candidates ---- */

typedef struct candidate {
    uint32_t i;
    int64_t score;
} candidate;

typedef struct candidates {
    candidate at[MAX_TRIES];
    uint32_t n;
} candidates;

static void add_candidate(candidates *cs, uint32_t i, int64_t score) {
    for (uint32_t k = 0; k < cs->n; k++)
        if (cs->at[k].i == i) {
            cs->at[k].score += score;
            return;
        }
    if (cs->n < MAX_TRIES) cs->at[cs->n++] = (candidate){i, score};
}

/* Kernels before x that share data with it: writers of what it reads, and other readers. Readers behind all
 * that a kernel up to x spans are none of them. */
static void collect(candidates *cs, fuse *fu, uint32_t x) {
    cs->n = 0;
    const fnode *f = &fu->nodes[x];
    if (f->in_place) return;
    for (uint32_t k = 0; k < f->loads.n; k++) {
        sn_buf b = f->loads.at[k];
        int64_t bytes = sn_buf_bytes(fu->m, b);
        uint32_t w = writer_for(fu, b, x);
        if (w) add_candidate(cs, w - 1, 2 * bytes + 1);
        const index_list *readers = &fu->readers[b.i];
        uint32_t tried = 0;
        for (uint32_t r = readers_until(readers, fu->span[f->lo]); r-- > 0 && tried < MAX_SIBLINGS;) {
            uint32_t y = find(fu, readers->at[r]);
            if (y == x || fu->nodes[y].lo > f->lo) continue;
            add_candidate(cs, y, bytes);
            tried++;
        }
    }
    for (uint32_t i = 1; i < cs->n; i++)
        for (uint32_t j = i; j > 0 && cs->at[j].score > cs->at[j - 1].score; j--) {
            candidate t = cs->at[j];
            cs->at[j] = cs->at[j - 1];
            cs->at[j - 1] = t;
        }
}

static bool fuse_round(fuse *fu) {
    uint32_t before = fu->merged;
    for (uint32_t x = 0; x < fu->n; x++) {
        if (find(fu, x) != x) continue;
        candidates cs;
        collect(&cs, fu, x);
        for (uint32_t k = 0; k < cs.n; k++) {
            uint32_t self = find(fu, x), other = find(fu, cs.at[k].i);
            if (self != other) try_pair(fu, self, other);
        }
    }
    return fu->merged > before;
}

/* ---- what is recorded (metrics/tables.def) ---- */

static void count_nests(const fuse *fu, sn_counter_id nests, sn_counter_id bytes) {
    for (uint32_t i = 0; fu->cx->metrics && i < fu->m->kernels.n; i++) {
        sn_kern_figures figures;
        sn_kern_count(&figures, fu->m, fu->m->kernels.at[i]);
        sn_metric_count(fu->cx->metrics, nests, 1);
        sn_metric_count(fu->cx->metrics, bytes, (uint64_t)figures.bytes);
    }
}

/* By the kernels that the two are part of in the end; of the same pair the last one first. */
static int by_pair(const void *x, const void *y) {
    const refusal *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    if (p->b != q->b) return p->b < q->b ? -1 : 1;
    return p->number > q->number ? -1 : 1;
}

/* What two kernels have in common when all is merged. */
typedef struct shared {
    const char *names; /* NULL: nothing */
    int64_t bytes, saves;
    bool vertical;
} shared;

/* What b reads, or stores over, that a writes or reads too. Both by position. */
static shared find_shared(const fuse *fu, const sn_users *users, uint32_t a, uint32_t b) {
    const sn_buf_list *params = &sn_kern_get(fu->m, fu->m->kernels.at[b])->params;
    shared out = {0};
    for (uint32_t k = 0; k < params->n; k++) {
        sn_buf x = params->at[k];
        const sn_user *of_a = sn_users_get(users, x, a), *of_b = sn_users_get(users, x, b);
        bool written = of_a && of_a->stores, read = of_a && of_a->loads && of_b && of_b->loads;
        if (!written && !read) continue;
        const char *name = sn_buf_get(fu->m, x)->name;
        out.names = out.names ? sn_strf(fu->cx->scratch, "%s %s", out.names, name) : name;
        out.bytes += sn_buf_bytes(fu->m, x);
        out.saves += sn_buf_bytes(fu->m, x) * (written ? 2 : 1);
        out.vertical |= written;
    }
    return out;
}

static void record_refusal(const fuse *fu, const sn_users *users, const uint32_t *place, const refusal *r) {
    sn_metric_log *log = fu->cx->metrics;
    sn_kern a = fu->nodes[r->a].k, b = fu->nodes[r->b].k;
    shared is = find_shared(fu, users, place[a.i], place[b.i]);
    if (!is.names) return;
    sn_metric_count(log, SN_COUNTER_REFUSED, 1);
    sn_row_fusion_failures *row = SN_ADD_ROW(log, FUSION_FAILURES, fusion_failures);
    if (!row) return;
    *row = (sn_row_fusion_failures){.first = sn_metric_text(log, sn_kern_get(fu->m, a)->name),
                                    .second = sn_metric_text(log, sn_kern_get(fu->m, b)->name),
                                    .first_is = sn_metric_text(log, sn_kern_get(fu->m, a)->note),
                                    .second_is = sn_metric_text(log, sn_kern_get(fu->m, b)->note),
                                    .kind = is.vertical ? "vertical" : "horizontal",
                                    .buffers = sn_metric_text(log, is.names),
                                    .bytes = is.bytes,
                                    .saves = is.saves,
                                    .reason = sn_metric_text(log, r->why)};
}

/* Each two kernels once, for the last reason, unless they met in the end, or share nothing then. */
static void record_refusals(fuse *fu) {
    if (!fu->refused.n) return;
    uint32_t *place =
        SN_NEWN(fu->cx->scratch, uint32_t, fu->m->kerns.count); /* what was merged since may have turned two round */
    for (uint32_t i = 0; i < fu->m->kernels.n; i++) place[fu->m->kernels.at[i].i] = i;
    for (uint32_t i = 0; i < fu->refused.n; i++) {
        refusal *r = &fu->refused.at[i];
        uint32_t a = find(fu, r->a), b = find(fu, r->b);
        bool in_order = place[fu->nodes[a].k.i] <= place[fu->nodes[b].k.i];
        r->a = in_order ? a : b;
        r->b = in_order ? b : a;
    }
    qsort(fu->refused.at, fu->refused.n, sizeof *fu->refused.at, by_pair);
    sn_users users;
    sn_users_find(&users, fu->m, fu->cx->scratch);
    for (uint32_t i = 0; i < fu->refused.n; i++) {
        const refusal *r = &fu->refused.at[i], *last = i ? r - 1 : NULL;
        if (r->a != r->b && !(last && last->a == r->a && last->b == r->b)) record_refusal(fu, &users, place, r);
    }
}

/* ---- afterwards ---- */

/* Live kernels in an order that data allows, close to the original one (depth first along data). */
static void order_kernels(fuse *fu) {
    sn_kern_list out = {0};
    index_list todo = {0};
    uint8_t *state = SN_NEWN(fu->cx->scratch, uint8_t, fu->n); /* 1: on the stack, 2: placed */
    for (uint32_t x = 0; x < fu->n; x++) {
        SN_PUSH(fu->cx->scratch, &todo, find(fu, x));
        while (todo.n) {
            uint32_t at = todo.at[todo.n - 1];
            if (state[at]) {
                todo.n--;
                if (state[at] == 1) SN_PUSH(&fu->m->arena, &out, fu->nodes[at].k);
                state[at] = 2;
                continue;
            }
            state[at] = 1;
            for (uint32_t k = 0; k < fu->nodes[at].loads.n; k++) {
                uint32_t w = writer_for(fu, fu->nodes[at].loads.at[k], at), from = w ? w - 1 : at;
                if (!state[from]) SN_PUSH(fu->cx->scratch, &todo, from);
            }
        }
    }
    fu->m->kernels = out;
}

void sn_fuse_drop_dead(sn_pass_ctx *cx) {
    sn_module *m = cx->m;
    uint8_t *loaded = SN_NEWN(cx->scratch, uint8_t, m->bufs.count);
    for (uint32_t i = 0; i < m->kernels.n; i++)
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]); s.i; s = sn_stmt_walk_next(m, s))
            if (sn_loads(sn_stmt_get(m, s))) loaded[sn_stmt_get(m, s)->buf.i] = 1;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]), next; s.i; s = next) {
            next = sn_stmt_walk_next(m, s);
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (sn_stores(r) && sn_buf_get(m, r->buf)->scope == SN_BUF_TEMP && !loaded[r->buf.i]) sn_stmt_unlink(m, s);
        }
        sn_kern_dead_code(m, m->kernels.at[i]);
        sn_kern_cse(m, m->kernels.at[i]);
        sn_kern_collect_params(m, m->kernels.at[i]);
    }
}

void sn_fuse_forward_all(sn_pass_ctx *cx) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (sn_fuse_forward(cx, m->kernels.at[i])) sn_kern_dead_code(m, m->kernels.at[i]);
}

static sn_status run(fuse *fu, bool *changed) {
    sn_module *m = fu->m;
    if (fu->n < 2) return SN_OK;
    fu->nodes = SN_NEWN(fu->cx->scratch, fnode, fu->n);
    fu->span = SN_NEWN(fu->cx->scratch, uint32_t, fu->n);
    for (uint32_t i = 0; i < fu->n; i++) fu->span[i] = i;
    fu->last = SN_NEWN(fu->cx->scratch, uint32_t, m->bufs.count);
    build(fu);
    if (note_in_place(fu)) build(fu);
    for (uint32_t round = 0; round < MAX_ROUNDS && fuse_round(fu); round++) continue;
    if (fu->merged) {
        order_kernels(fu);
        sn_fuse_forward_all(fu->cx);
        sn_fuse_drop_dead(fu->cx);
        *changed = true;
    }
    record_refusals(fu);
    return m->env->status;
}

sn_status sn_fuse_all(sn_pass_ctx *cx, bool *changed) {
    fuse fu = {.cx = cx, .m = cx->m, .n = cx->m->kernels.n};
    return run(&fu, changed);
}

sn_status sn_pass_fuse(sn_pass_ctx *cx, bool *changed) {
    fuse fu = {.cx = cx, .m = cx->m, .n = cx->m->kernels.n};
    count_nests(&fu, SN_COUNTER_NESTS_BEFORE, SN_COUNTER_BYTES_BEFORE);
    sn_status status = run(&fu, changed);
    count_nests(&fu, SN_COUNTER_NESTS_AFTER, SN_COUNTER_BYTES_AFTER);
    return status;
}
