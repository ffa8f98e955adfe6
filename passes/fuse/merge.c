/* merge.c: make one kernel of a matched pair.
 *
 * The inside of b moves behind the inside of a, its common axes renamed. Then nests that stand side by side and have
 * the same extent merge, level by level, as far as no value or element has to cross over: two reduces become one with
 * the combiners of both, a loop joins a reduce that walks the same elements. Stored elements that are read again in the
 * same place are forwarded as values.
 */
#include "passes/fuse/fuse.h"

enum { MAX_COMBS = 4 };

/* ---- splice ---- */

static void splice(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_fuse_match *mt) {
    sn_module *m = cx->m;
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    sn_chain_permute(m, &mt->a, mt->a_order);
    sn_chain_permute(m, &mt->b, mt->b_order);
    for (uint32_t k = 0; k < mt->shared; k++) {
        from[k] = sn_stmt_axis(m, mt->b.at[k]);
        to[k] = sn_ix_axis(m, sn_stmt_axis(m, mt->a.at[k]));
    }
    sn_stmt into = mt->shared ? mt->a.at[mt->shared - 1] : (sn_stmt){0};
    sn_stmt first = sn_region_first(m, b, mt->shared ? mt->b.at[mt->shared - 1] : (sn_stmt){0});
    for (sn_stmt s = first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        if (mt->shared) sn_stmt_subst(m, s, from, to, mt->shared);
        sn_stmt_insert(m, sn_at_end(a, into), s);
    }
}

/* ---- may two sibling nests merge? ---- */

typedef struct siblings {
    sn_pass_ctx *cx;
    sn_arena *arena; /* of the lists */
    sn_kern k;
    sn_stmt one, two;
    sn_access_list before; /* accesses from one up to two */
    SN_VEC(sn_stmt) hoist; /* statements between them that two needs, in order found */
} siblings;

static bool between(const siblings *sb, sn_stmt s) {
    for (sn_stmt t = sb->one; t.i && t.i != sb->two.i; t = sn_next(sb->cx->m, t))
        if (t.i == s.i) return true;
    return false;
}

static bool already_hoisted(const siblings *sb, sn_stmt s) {
    for (uint32_t i = 0; i < sb->hoist.n; i++)
        if (sb->hoist.at[i].i == s.i) return true;
    return false;
}

/* The definition of v has to stand before `one`: it does, or it can be moved there. */
static bool need_value(siblings *sb, sn_val v) {
    const sn_module *m = sb->cx->m;
    sn_stmt def = sn_val_get(m, v)->def;
    if (!between(sb, def) || already_hoisted(sb, def)) return true;
    const sn_stmt_rec *r = sn_stmt_get(m, def);
    if (sn_lop_has_region(r->op)) return false;
    if (sn_loads(r) && sn_stores_between(m, sb->one, def, r->buf)) return false;
    SN_PUSH(sb->arena, &sb->hoist, def);
    return true;
}

typedef struct need_ix {
    siblings *sb;
    bool ok;
} need_ix;

static void need_ix_atom(void *user, sn_ix atom) {
    need_ix *ni = user;
    const sn_ix_rec *r = sn_ix_get(ni->sb->cx->m, atom);
    if (r->kind == SN_IX_VAL) ni->ok &= need_value(ni->sb, (sn_val){r->id});
}

static bool need_operands(siblings *sb, sn_stmt s) {
    const sn_module *m = sb->cx->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    for (uint32_t k = 0; k < r->n_in; k++)
        if (!need_value(sb, r->in[k])) return false;
    need_ix ni = {sb, true};
    if (r->ix.i && sn_ix_uses_vals(m, r->ix)) sn_ix_walk(m, r->ix, need_ix_atom, &ni);
    if (r->bound.i && sn_ix_uses_vals(m, r->bound)) sn_ix_walk(m, r->bound, need_ix_atom, &ni);
    return ni.ok;
}

/* Loops from `top` down to s, top included. */
static void nest_of(sn_chain *out, const sn_module *m, sn_stmt top, sn_stmt s) {
    sn_chain_below(out, m, s, sn_stmt_get(m, top)->parent);
}

/* May the store that stands between them move before `one`: what the state of steps begins with, where `one` has nothing to do with that? Sums that
 * wait for a maximum which is stored stay with theirs: both are one reduction then (loops/online_softmax.c). */
static bool may_hoist(siblings *sb, sn_stmt store) {
    const sn_module *m = sb->cx->m;
    if (already_hoisted(sb, store)) return true;
    if (!between(sb, store) || sn_stmt_get(m, store)->op != SN_LOP_STORE || !sn_runs_in_order(m, sb->two)) return false;
    for (uint32_t i = 0; i < sb->before.n; i++) {
        const sn_access *x = &sb->before.at[i];
        if (!sn_buf_eq(x->buf, sn_stmt_get(m, store)->buf)) continue;
        if (!x->store || sn_stmt_inside(m, x->s, sb->one)) return false;
    }
    SN_PUSH(sb->arena, &sb->hoist, store);
    return true;
}

/* What is stored before `two` is the element that the load reads in the same iteration of the merged nest, or no
 * matter. */
static bool load_may_move(siblings *sb, sn_stmt load) {
    sn_module *m = sb->cx->m;
    sn_chain of_load, of_store;
    nest_of(&of_load, m, sb->two, load);
    for (uint32_t i = 0; i < sb->before.n; i++) {
        const sn_access *x = &sb->before.at[i];
        if (!x->store || !sn_buf_eq(x->buf, sn_stmt_get(m, load)->buf)) continue;
        if (may_hoist(sb, x->s)) continue;
        if (!sn_stmt_inside(m, x->s, sb->one)) return false;
        nest_of(&of_store, m, sb->one, x->s);
        if (!sn_same_element(m, x->s, &of_store, load, &of_load)) return false;
    }
    return true;
}

/* It stores nothing that is stored or loaded between the two, and stays there: what a state begins with, which a loop over steps stores over. */
static bool store_may_move(siblings *sb, const sn_stmt_rec *store) {
    sn_module *m = sb->cx->m;
    int64_t by;
    for (uint32_t i = 0; i < sb->before.n; i++) {
        const sn_access *x = &sb->before.at[i];
        if (!sn_buf_eq(x->buf, store->buf) || sn_stmt_inside(m, x->s, sb->one)) continue;
        bool beside = store->ix.i && x->ix.i && sn_ix_is_const(m, sn_ix_sub(m, x->ix, store->ix), &by) && by != 0;
        if (!beside && !may_hoist(sb, x->s)) return false;
    }
    return true;
}

/* A scan and the steps of a repeat: on a GPU loads go ahead of either, and of no nest that is both (schedule/moves/element.c). */
static bool waits_twice(const siblings *sb) {
    const sn_module *m = sb->cx->m;
    bool one = sn_is_scan(m, sb->one), two = sn_is_scan(m, sb->two);
    return sb->cx->target->is_gpu && one != two && sn_is_steps(m, one ? sb->two : sb->one);
}

static bool may_merge(siblings *sb) {
    sn_module *m = sb->cx->m;
    const sn_stmt_rec *one = sn_stmt_get(m, sb->one), *two = sn_stmt_get(m, sb->two);
    if (!sn_ix_eq(sn_stmt_extent(m, sb->one), sn_stmt_extent(m, sb->two))) return false;
    if (one->kind != SN_AXIS_SEQ || two->kind != SN_AXIS_SEQ) return false;
    if (one->n_combs + two->n_combs > MAX_COMBS) return false;
    if (one->op != two->op && (sn_runs_in_order(m, sb->one) || sn_runs_in_order(m, sb->two))) return false;
    if (waits_twice(sb)) return false;
    sn_access_find(&sb->before, m, sb->arena, sb->one, sb->two);
    sn_stmt end = sn_stmt_walk_skip(m, sb->two);
    for (sn_stmt s = sb->two; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        if (!need_operands(sb, s)) return false;
        if (sn_loads(sn_stmt_get(m, s)) && !load_may_move(sb, s)) return false;
        if (sn_stores(sn_stmt_get(m, s)) && !store_may_move(sb, sn_stmt_get(m, s))) return false;
    }
    for (uint32_t i = 0; i < sb->hoist.n; i++) /* grows while it is walked */
        if (!need_operands(sb, sb->hoist.at[i])) return false;
    return true;
}

/* ---- merging ---- */

/* Move the region of s to the end of `into`, its axis renamed; the yield (if any) is taken out and returned. */
static sn_stmt move_region(sn_pass_ctx *cx, sn_kern k, sn_stmt into, sn_axis axis, sn_stmt s) {
    sn_module *m = cx->m;
    sn_axis old = sn_stmt_axis(m, s);
    sn_ix to = sn_ix_axis(m, axis);
    sn_stmt yield = {0};
    for (sn_stmt t = sn_stmt_get(m, s)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        if (!sn_axis_eq(old, axis)) sn_stmt_subst(m, t, &old, &to, 1);
        if (sn_stmt_get(m, t)->op == SN_LOP_YIELD) yield = t;
        else sn_stmt_insert(m, sn_at_end(k, into), t);
    }
    return yield;
}

static sn_stmt merge_reduces(siblings *sb) {
    sn_module *m = sb->cx->m;
    sn_stmt parts[2] = {sb->one, sb->two};
    sn_comb combs[MAX_COMBS];
    sn_dtype dtypes[2 * MAX_COMBS];
    sn_val yields[2 * MAX_COMBS];
    uint32_t n_combs = 0, n = 0;
    for (uint32_t p = 0; p < 2; p++) {
        const sn_stmt_rec *r = sn_stmt_get(m, parts[p]);
        for (uint32_t k = 0; k < r->n_combs; k++) combs[n_combs++] = r->combs[k];
        for (uint32_t k = 0; k < r->n_results; k++) dtypes[n++] = sn_val_get(m, sn_result(r, k))->dtype;
    }
    sn_axis ax = sn_stmt_axis(m, sb->one);
    sn_stmt merged = sn_put_reduce(m, sn_at_before(m, sb->one), ax, SN_AXIS_SEQ, combs, n_combs, dtypes);
    sn_stmt_get(m, merged)->from = sn_stmt_get(m, sb->one)->from;
    n = 0;
    for (uint32_t p = 0; p < 2; p++) {
        sn_stmt yield = move_region(sb->cx, sb->k, merged, ax, parts[p]);
        const sn_stmt_rec *r = sn_stmt_get(m, parts[p]);
        for (uint32_t k = 0; k < r->n_results; k++, n++) {
            yields[n] = sn_stmt_get(m, yield)->in[k];
            sn_val_replace(m, sb->k, sn_result(r, k), sn_result(sn_stmt_get(m, merged), n));
        }
        sn_stmt_unlink(m, parts[p]);
    }
    sn_put_yield(m, sn_at_end(sb->k, merged), yields, n);
    return merged;
}

static sn_stmt merge_loops(siblings *sb) {
    sn_module *m = sb->cx->m;
    move_region(sb->cx, sb->k, sb->one, sn_stmt_axis(m, sb->one), sb->two);
    sn_stmt_unlink(m, sb->two);
    return sb->one;
}

static sn_stmt merge_pair(siblings *sb) {
    sn_module *m = sb->cx->m;
    for (sn_stmt t = sb->one, next; t.i && t.i != sb->two.i; t = next) { /* in program order */
        next = sn_next(m, t);
        if (!already_hoisted(sb, t)) continue;
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_before(m, sb->one), t);
    }
    bool reduce = sn_stmt_get(m, sb->one)->op == SN_LOP_REDUCE || sn_stmt_get(m, sb->two)->op == SN_LOP_REDUCE;
    return reduce ? merge_reduces(sb) : merge_loops(sb);
}

static bool merge_first_of(sn_pass_ctx *cx, sn_kern k, sn_stmt parent, sn_arena *arena) {
    sn_module *m = cx->m;
    for (sn_stmt two = sn_region_first(m, k, parent); two.i; two = sn_next(m, two)) {
        if (!sn_is_nest(sn_stmt_get(m, two))) continue;
        for (sn_stmt one = sn_region_first(m, k, parent); one.i != two.i; one = sn_next(m, one)) {
            siblings sb = {.cx = cx, .arena = arena, .k = k, .one = one, .two = two};
            if (!sn_is_nest(sn_stmt_get(m, one)) || !may_merge(&sb)) continue;
            merge_pair(&sb);
            return true;
        }
    }
    return false;
}

/* Each pair has a list of what stands between its nests, which nobody wants when the next two are looked for. */
static bool merge_first_pair(sn_pass_ctx *cx, sn_kern k, sn_stmt parent) {
    sn_arena arena;
    sn_arena_init(&arena, cx->m->env);
    bool merged = merge_first_of(cx, k, parent, &arena);
    sn_arena_free(&arena);
    return merged;
}

/* All levels below `parent`. */
static void merge_siblings(sn_pass_ctx *cx, sn_kern k, sn_stmt parent) {
    while (merge_first_pair(cx, k, parent)) continue;
    for (sn_stmt s = sn_region_first(cx->m, k, parent); s.i; s = sn_next(cx->m, s))
        if (sn_is_nest(sn_stmt_get(cx->m, s))) merge_siblings(cx, k, s);
}

bool sn_fuse_join(sn_pass_ctx *cx, sn_kern k, sn_stmt one, sn_stmt two) {
    siblings sb = {.cx = cx, .arena = cx->scratch, .k = k, .one = one, .two = two};
    if (!sn_is_nest(sn_stmt_get(cx->m, one)) || !sn_is_nest(sn_stmt_get(cx->m, two)) || !may_merge(&sb)) return false;
    merge_siblings(cx, k, merge_pair(&sb));
    return true;
}

/* ---- forwarding ---- */

typedef struct stored {
    sn_buf buf;
    sn_ix ix;
    sn_val val;
} stored;

typedef struct forward {
    sn_pass_ctx *cx;
    sn_notes map;
    SN_VEC(stored) known; /* stores that dominate the current place */
    bool changed;
} forward;

static sn_val find_stored(const forward *fw, sn_buf b, sn_ix ix) {
    for (uint32_t i = fw->known.n; i-- > 0;)
        if (sn_buf_eq(fw->known.at[i].buf, b) && sn_ix_eq(fw->known.at[i].ix, ix)) return fw->known.at[i].val;
    return (sn_val){0};
}

static void forward_load(forward *fw, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(fw->cx->m, s);
    sn_val v = find_stored(fw, r->buf, r->ix);
    if (!v.i) return;
    fw->changed = true;
    if (!r->has_mask) {
        sn_notes_set(&fw->map, r->result.i, sn_val_follow(&fw->map, v).i);
        return;
    }
    sn_val mask = r->in[0], otherwise = r->in[1]; /* the masked load becomes a select of the stored value */
    sn_val in[3] = {mask, v, otherwise};
    sn_val chosen = sn_put_op(fw->cx->m, sn_at_before(fw->cx->m, s), SN_LOP_SELECT, in, 3);
    sn_val_replace(fw->cx->m, r->kern, r->result, chosen);
}

/* Are they elements beside one another? */
static bool are_beside(sn_module *m, sn_ix a, sn_ix b) {
    int64_t by;
    return sn_ix_is_const(m, sn_ix_sub(m, a, b), &by) && by != 0;
}

/* What was stored to element ix of b before, none: to any, is not known any more. */
static void forget(forward *fw, sn_buf b, sn_ix ix) {
    for (uint32_t i = 0; i < fw->known.n; i++) {
        stored *st = &fw->known.at[i];
        if (sn_buf_eq(st->buf, b) && !(ix.i && are_beside(fw->cx->m, st->ix, ix))) st->buf = (sn_buf){0};
    }
}

/* A region may run before itself (a loop) or not at all (an `if`). */
static void forget_stores_of(forward *fw, sn_stmt s) {
    sn_module *m = fw->cx->m;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t))
        if (sn_stores(sn_stmt_get(m, t))) forget(fw, sn_stmt_get(m, t)->buf, (sn_ix){0});
}

static void forward_region(forward *fw, sn_stmt first) {
    sn_module *m = fw->cx->m;
    uint32_t outside = fw->known.n;
    for (sn_stmt s = first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r)) {
            forget(fw, r->buf, r->op == SN_LOP_STORE ? r->ix : (sn_ix){0});
            if (r->op != SN_LOP_STORE || r->has_mask) continue;
            stored st = {r->buf, r->ix, r->in[0]};
            SN_PUSH(fw->cx->scratch, &fw->known, st);
        } else if (r->op == SN_LOP_LOAD) {
            forward_load(fw, s);
        } else if (sn_lop_has_region(r->op)) {
            forget_stores_of(fw, s);
            forward_region(fw, r->first);
        }
    }
    fw->known.n = outside;
}

bool sn_fuse_forward(sn_pass_ctx *cx, sn_kern k) {
    forward fw = {.cx = cx, .map = {.arena = cx->scratch}};
    forward_region(&fw, sn_kern_get(cx->m, k)->first);
    if (fw.changed) sn_val_replace_all(cx->m, k, &fw.map);
    return fw.changed;
}

void sn_fuse_merge(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_fuse_match *mt) {
    splice(cx, a, b, mt);
    merge_siblings(cx, a, mt->shared ? mt->a.at[mt->shared - 1] : (sn_stmt){0});
}
