/* deal_result.c: the end of a kernel of class deal: the body, vector by vector, of what a block has in shared memory. */
#include "passes/schedule/moves/deal.h"

/* What made the parts one goes: whatever nobody reads any more. */
static void drop_unread(const sn_schedule_dealt *b, sn_stmt_vec *body) {
    sn_module *m = b->cx->m;
    for (uint32_t i = body->n; i-- > 0;) {
        const sn_stmt_rec *r = sn_stmt_get(m, body->at[i]);
        bool read = r->op == SN_LOP_STORE;
        for (uint32_t k = i + 1; k < body->n && !read; k++) {
            const sn_stmt_rec *user = sn_stmt_get(m, body->at[k]);
            for (uint32_t n = 0; n < user->n_in; n++) read |= user->in[n].i == r->result.i;
        }
        if (read) continue;
        for (uint32_t k = i; k + 1 < body->n; k++) body->at[k] = body->at[k + 1];
        body->n--;
    }
}

/* The body at number `at` of the block's result. Its statements are used up. */
static void put_body(const sn_schedule_dealt *b, sn_stmt into, sn_stmt_vec *body, sn_val top, sn_ix at) {
    sn_module *m = b->cx->m;
    sn_cursor end = sn_at_end(b->k, into);
    sn_val x =
        sn_put_cast(m, end, sn_val_get(m, top)->dtype, sn_put_load(m, end, b->shared, sn_ix_addc(m, at, b->front)));
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, end, body->at[i]);
    sn_val_replace(m, b->k, top, x);
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_unlink(m, body->at[i]);
    drop_unread(b, body);
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, end, body->at[i]);
    sn_schedule_subst_outer(b->cx, body, b->sh, sn_ix_fma(m, b->block, b->g, at));
}

static uint32_t position_of(const sn_schedule_dealt *b, const sn_stmt_vec *body, sn_val v) {
    uint32_t i = 0;
    while (body->at[i].i != sn_val_get(b->cx->m, v)->def.i) i++;
    return i;
}

/* The last elements of the result, where these are no whole vector. */
static void put_tail(const sn_schedule_dealt *b, sn_stmt threads, sn_ix t, sn_stmt_vec *body, sn_val top, int64_t v) {
    sn_module *m = b->cx->m;
    int64_t whole = b->total / v * v, last = whole / b->block;
    sn_stmt into = threads;
    if (last) into = sn_put_if(m, sn_at_end(b->k, into), sn_ix_addc(m, b->g, -last), sn_ix_const(m, 1));
    into = sn_put_if(m, sn_at_end(b->k, into), t, sn_ix_const(m, b->total - whole));
    sn_ix at = sn_ix_min(m, sn_ix_addc(m, t, whole - last * b->block), sn_ix_const(m, b->block - 1));
    put_body(b, into, body, top, at);
}

sn_status sn_schedule_check_dealt(sn_pass_ctx *cx, sn_kern k, uint32_t threads, uint32_t vector) {
    if (threads + 1 >= vector) return SN_OK;
    return sn_fail(
        cx->m->env, SN_ERROR_ARGUMENT,
        "kernel %s: the schedule's block_x=%u leaves no thread for each element of a vector that is not whole",
        sn_kern_get(cx->m, k)->name, threads);
}

void sn_schedule_put_dealt(const sn_schedule_dealt *b, sn_stmt into, sn_stmt_vec *body) {
    sn_module *m = b->cx->m;
    int64_t v = b->cx->target->vector_bytes / b->stored, tail = b->total % v;
    uint32_t top = position_of(b, body, b->top);
    sn_stmt_vec rest = {0};
    if (tail) rest = sn_schedule_copy_body(b->cx, b->k, body);
    sn_ix t = sn_open_loop_in(m, b->k, &into, "t", b->threads, SN_AXIS_BLOCK_X);
    sn_stmt threads = into;
    if (b->total >= v) {
        sn_ix u = sn_open_loop_in(m, b->k, &into, "u", sn_ceil_div(b->block, v * b->threads), SN_AXIS_UNROLL);
        sn_ix at = sn_ix_fma(m, b->threads * v, u, sn_ix_scale(m, t, v));
        if (b->block % (v * b->threads)) into = sn_put_if(m, sn_at_end(b->k, into), at, sn_ix_const(m, b->block));
        if (b->total % b->block)
            into =
                sn_put_if(m, sn_at_end(b->k, into), sn_ix_fma(m, b->block, b->g, at), sn_ix_const(m, b->total / v * v));
        sn_ix lane = sn_open_loop_in(m, b->k, &into, "v", v, SN_AXIS_VECTOR);
        put_body(b, into, body, b->top, sn_ix_add(m, at, lane));
    }
    if (tail) put_tail(b, threads, t, &rest, sn_stmt_get(m, rest.at[top])->result, v);
}
