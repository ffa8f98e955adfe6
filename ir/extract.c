/* extract.c: one kernel of a module, or a few, as a module of their own.
 *
 * Code generation works on such a module, on any thread: it may add index expressions, symbols and kernels there, and the
 * module that the kernel comes from is only read. Index expressions keep their order (terms of a sum are sorted by id),
 * so that the code does not depend on what else the module holds. The elements of constants stay where they are.
 * Relies on verified kernels. Cost: linear in the kernels, whatever the size of the module.
 */
#include "ir/module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/index/ix_build.h"

/* Old ids to new ones: open addressing; 0 is no id. */
typedef struct id_map {
    struct id_pair {
        uint32_t old, new;
    } *at;
    uint32_t n, cap;
} id_map;

typedef struct extractor {
    const sn_module *from;
    sn_module *to;
    sn_arena scratch;
    id_map ixs, axes, syms, vals, bufs;
    SN_VEC(uint32_t) order; /* index expressions that the kernel names, later by id */
} extractor;

/* ---- maps ---- */

static struct id_pair *slot_of(const id_map *map, uint32_t old) {
    uint32_t s = (uint32_t)sn_hash(0, old) & (map->cap - 1);
    while (map->at[s].old && map->at[s].old != old) s = (s + 1) & (map->cap - 1);
    return &map->at[s];
}

static void map_put(extractor *x, id_map *map, uint32_t old, uint32_t new) {
    if (2 * map->n >= map->cap) {
        id_map larger = {.cap = map->cap ? 2 * map->cap : 32, .n = map->n};
        larger.at = SN_NEWN(&x->scratch, struct id_pair, larger.cap);
        for (uint32_t s = 0; s < map->cap; s++)
            if (map->at[s].old) *slot_of(&larger, map->at[s].old) = map->at[s];
        *map = larger;
    }
    struct id_pair *p = slot_of(map, old);
    map->n += !p->old;
    *p = (struct id_pair){old, new};
}

static bool map_has(const id_map *map, uint32_t old) { return map->cap && slot_of(map, old)->old == old; }

static uint32_t map_get(const id_map *map, uint32_t old) {
    SN_ASSERT(!old || map_has(map, old));
    return old ? slot_of(map, old)->new : 0;
}

/* ---- what the kernel names ---- */

static void note_ix(extractor *x, sn_ix e) {
    if (!e.i || map_has(&x->ixs, e.i)) return;
    const sn_ix_rec *r = sn_ix_get(x->from, e);
    map_put(x, &x->ixs, e.i, 0);
    SN_PUSH(&x->scratch, &x->order, e.i);
    for (uint32_t i = 0; i < r->n_terms; i++) note_ix(x, r->terms[i].atom);
    note_ix(x, r->a);
    note_ix(x, r->b);
    if (r->kind == SN_IX_SYM && !map_has(&x->syms, r->id))
        map_put(x, &x->syms, r->id, sn_sym_named(x->to, sn_sym_get(x->from, (sn_sym){r->id})->name).i);
}

static void note_buffers(extractor *x, const sn_buf_list *list) {
    for (uint32_t i = 0; i < list->n; i++) {
        const sn_buf_rec *b = sn_buf_get(x->from, list->at[i]);
        note_ix(x, b->size);
        for (uint32_t k = 0; k < b->rank; k++) note_ix(x, b->shape[k]);
    }
}

static void note_kernel(extractor *x, sn_kern k) {
    note_buffers(x, &sn_kern_get(x->from, k)->params);
    note_buffers(x, &sn_kern_get(x->from, k)->locals);
    for (sn_stmt s = sn_stmt_walk_first(x->from, k); s.i; s = sn_stmt_walk_next(x->from, s)) {
        const sn_stmt_rec *r = sn_stmt_get(x->from, s);
        note_ix(x, r->ix);
        note_ix(x, r->bound);
        if (r->axis.i) note_ix(x, sn_axis_get(x->from, r->axis)->extent);
        if (r->axis.i)
            map_put(x, &x->axes, r->axis.i, sn_axis_new(x->to, sn_axis_get(x->from, r->axis)->name, (sn_ix){0}).i);
        for (uint32_t i = 0; i < r->n_results; i++) map_put(x, &x->vals, r->result.i + i, sn_table_add(&x->to->vals));
    }
}

/* ---- copies ---- */

static uint32_t copy_id(const extractor *x, const sn_ix_rec *r) {
    switch (r->kind) {
    case SN_IX_AXIS: return map_get(&x->axes, r->id);
    case SN_IX_SYM: return map_get(&x->syms, r->id);
    case SN_IX_VAL: return map_get(&x->vals, r->id);
    case SN_IX_SUM:
    case SN_IX_DIV:
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_PROD: break;
    }
    return 0;
}

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* A record names only records with smaller ids. */
static void copy_ixs(extractor *x) {
    if (x->order.n) qsort(x->order.at, x->order.n, sizeof *x->order.at, by_id);
    for (uint32_t i = 0; i < x->order.n; i++) {
        sn_ix_rec r = *sn_ix_get(x->from, (sn_ix){x->order.at[i]});
        sn_ix_term *terms = SN_NEWN(&x->scratch, sn_ix_term, r.n_terms);
        for (uint32_t k = 0; k < r.n_terms; k++)
            terms[k] = (sn_ix_term){r.terms[k].c, {map_get(&x->ixs, r.terms[k].atom.i)}};
        r.terms = terms;
        r.id = copy_id(x, &r);
        r.a.i = map_get(&x->ixs, r.a.i);
        r.b.i = map_get(&x->ixs, r.b.i);
        map_put(x, &x->ixs, x->order.at[i], sn_ix_record(x->to, r).i);
    }
}

static sn_ix copied(const extractor *x, sn_ix e) { return (sn_ix){map_get(&x->ixs, e.i)}; }

static void copy_buffers(extractor *x, sn_buf_list *out, const sn_buf_list *list) {
    for (uint32_t i = 0; i < list->n; i++) {
        sn_buf b = {map_has(&x->bufs, list->at[i].i) ? map_get(&x->bufs, list->at[i].i) : 0};
        if (b.i) { /* of a kernel before this one, too */
            SN_PUSH(&x->to->arena, out, b);
            continue;
        }
        b.i = sn_table_add(&x->to->bufs);
        sn_buf_rec *r = sn_buf_get(x->to, b);
        *r = *sn_buf_get(x->from, list->at[i]);
        r->data = sn_buf_data(x->from, r);
        r->weight = (sn_wt){0};
        r->name = sn_strdup(&x->to->arena, r->name);
        r->size = copied(x, r->size);
        for (uint32_t k = 0; k < r->rank; k++) r->shape[k] = copied(x, r->shape[k]);
        map_put(x, &x->bufs, list->at[i].i, b.i);
        SN_PUSH(&x->to->arena, out, b);
    }
}

static void copy_values(extractor *x, sn_stmt s, sn_stmt_rec *r, const sn_stmt_rec *old) {
    r->result.i = map_get(&x->vals, old->result.i);
    for (uint32_t i = 0; i < old->n_results; i++) {
        sn_val_rec *v = sn_val_get(x->to, (sn_val){r->result.i + i});
        *v = *sn_val_get(x->from, (sn_val){old->result.i + i});
        v->def = s;
    }
    r->in = r->n_in ? sn_memdup(&x->to->arena, old->in, r->n_in * sizeof *r->in) : NULL;
    for (uint32_t i = 0; i < r->n_in; i++) r->in[i].i = map_get(&x->vals, old->in[i].i);
}

static void copy_region(extractor *x, sn_kern k, sn_stmt parent, sn_stmt first) {
    for (sn_stmt s = first; s.i; s = sn_stmt_get(x->from, s)->next) {
        const sn_stmt_rec *old = sn_stmt_get(x->from, s);
        sn_stmt t = {sn_table_add(&x->to->stmts)};
        sn_stmt_rec *r = sn_stmt_get(x->to, t);
        *r = *old;
        r->first = r->last = r->next = r->prev = r->parent = (sn_stmt){0};
        r->kern = k;
        copy_values(x, t, r, old);
        r->buf.i = map_get(&x->bufs, old->buf.i);
        r->ix = copied(x, old->ix);
        r->bound = copied(x, old->bound);
        r->axis.i = map_get(&x->axes, old->axis.i);
        if (old->axis.i) sn_axis_get(x->to, r->axis)->extent = copied(x, sn_axis_get(x->from, old->axis)->extent);
        sn_stmt_insert(x->to, sn_at_end(k, parent), t);
        copy_region(x, k, t, old->first);
    }
}

static void copy_kernel(extractor *x, sn_kern k) {
    const sn_kern_rec *old = sn_kern_get(x->from, k);
    sn_kern copy = sn_kern_new(x->to, old->name);
    sn_kern_rec *r = sn_kern_get(x->to, copy);
    r->sched = old->sched;
    r->scheduled = old->scheduled;
    copy_buffers(x, &r->params, &old->params);
    copy_buffers(x, &r->locals, &old->locals);
    copy_region(x, copy, (sn_stmt){0}, old->first);
}

sn_module *sn_module_of_kernels(sn_env *env, const sn_module *m, const sn_kern *k, uint32_t n) {
    extractor x = {.from = m, .to = sn_module_new(env)};
    sn_arena_init(&x.scratch, env);
    for (uint32_t i = 0; i < n; i++) note_kernel(&x, k[i]);
    copy_ixs(&x);
    for (uint32_t i = 0; i < n; i++) copy_kernel(&x, k[i]);
    sn_arena_free(&x.scratch);
    return x.to;
}

sn_module *sn_module_of_kernel(sn_env *env, const sn_module *m, sn_kern k) {
    return sn_module_of_kernels(env, m, &k, 1);
}

/* ---- equal kernels ---- */

/* Of registers and shared memory: "right_h_2" is made for "right_h". Of memory beside results: "k3_p0" of kernel k9 is "k9_p0". */
static const char *base_name(sn_arena *arena, const char *name, const char *of, const char *k) {
    size_t n = strlen(name), start = strlen(of);
    if (!strncmp(name, of, start)) return sn_strf(arena, "%s%s", k, name + start);
    size_t end = n;
    while (end && isdigit((unsigned char)name[end - 1])) end--;
    return end > 1 && end < n && name[end - 1] == '_' ? sn_strndup(arena, name, end - 1) : name;
}

/* What the other one has got since. Sizes of those buffers hang on no axis. */
static void copy_new_buffers(extractor *x, const sn_buf_list *list, const char *of, const char *k) {
    for (uint32_t i = 0; i < list->n; i++) {
        const sn_buf_rec *old = sn_buf_get(x->from, list->at[i]);
        if (map_has(&x->bufs, list->at[i].i)) continue;
        const char *name = base_name(&x->scratch, old->name, of, k);
        sn_buf b = sn_buf_new(x->to, name, old->dtype, old->scope, old->shape, old->rank);
        sn_buf_rec *r = sn_buf_get(x->to, b);
        name = r->name;
        *r = *old;
        r->name = name;
        map_put(x, &x->bufs, list->at[i].i, b.i);
    }
}

static void put_origins(sn_module *m, sn_kern k, const sn_equal *t) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < t->origins.n; i++) {
            if (r->from != t->origins.at[i].of) continue;
            r->from = t->origins.at[i].own;
            break;
        }
    }
}

void sn_kern_take(sn_module *m, sn_kern k, const sn_equal *t) {
    extractor x = {.from = m, .to = m};
    const sn_kern_rec *old = sn_kern_get(m, t->of);
    sn_kern_rec *r = sn_kern_get(m, k);
    sn_arena_init(&x.scratch, m->env);
    for (sn_stmt s; (s = r->first).i;) sn_stmt_unlink(m, s);
    for (uint32_t i = 0; i < t->was.n; i++) map_put(&x, &x.bufs, t->was.at[i].i, r->params.at[i].i);
    note_kernel(&x, t->of);
    copy_ixs(&x);
    copy_new_buffers(&x, &old->params, old->name, r->name);
    copy_new_buffers(&x, &old->locals, old->name, r->name);
    copy_region(&x, k, (sn_stmt){0}, old->first);
    sn_kern_collect_params(m, k);
    put_origins(m, k, t);
    r->sched = old->sched;
    r->scheduled = old->scheduled;
    sn_arena_free(&x.scratch);
}
