/* test_access.c: who touches which buffer, and whether two accesses touch the same element (ir/loop/access.h), asked of
 * kernels from text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/loop/access.h"
#include "ir/module.h"

static sn_env env;

static const char BUFFERS[] = "buffer x: f32[64, 32] input 0 align 4\n"
                              "buffer y: f32[64, 32] output 0 align 4\n"
                              "buffer t: f32[64, 32] temp align 256\n"
                              "buffer u: f32[64, 32] temp align 256\n";

/* `text` behind the buffers above; nothing else of the module is looked at. */
static sn_module *parsed(const char *text) {
    char all[8192];
    snprintf(all, sizeof all, "%s%s", BUFFERS, text);
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "test", all, strlen(all)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_loop_verify(m, "test"), SN_OK, "%s", env.message);
    return m;
}

static void end(sn_module *m) {
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

/* Access number i of the first kernel, in the order of the text. */
static sn_stmt nth(const sn_module *m, uint32_t i) {
    sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[0]);
    for (; s.i; s = sn_stmt_walk_next(m, s))
        if (sn_is_access(sn_stmt_get(m, s)) && i-- == 0) break;
    cr_assert(s.i);
    return s;
}

static sn_buf named(const sn_module *m, const char *name) { return sn_buf_named(m, name); }

/* Do accesses a and b meet, under all loops around them? */
static bool same(sn_module *m, uint32_t a, uint32_t b) {
    sn_chain of_a, of_b;
    sn_chain_around(&of_a, m, nth(m, a));
    sn_chain_around(&of_b, m, nth(m, b));
    return sn_same_element(m, nth(m, a), &of_a, nth(m, b), &of_b);
}

static const char TWO_NESTS[] = "kernel @k(x, t, u, y) {\n"
                                "  loop i in 64 {\n"
                                "    loop j in 32 {\n"
                                "      %0 = load x[32*i + j]\n"
                                "      store t[32*i + j], %0\n"
                                "    }\n"
                                "    %1 = load u[i]\n"
                                "    loop j in 32 {\n"
                                "      %2 = load t[32*i + j]\n"
                                "      %3 = load t[32*i - j + 31]\n"
                                "      %4 = add %2, %3\n"
                                "      %5 = add %4, %1\n"
                                "      store y[32*i + j], %5\n"
                                "    }\n"
                                "  }\n"
                                "}\n";

Test(access, who_stores_and_loads) {
    sn_module *m = parsed(TWO_NESTS);
    sn_kern k = m->kernels.at[0];
    sn_stmt loop = sn_stmt_walk_first(m, k), one = sn_stmt_get(m, loop)->first;
    sn_stmt between = sn_stmt_get(m, one)->next, two = sn_stmt_get(m, between)->next;
    sn_buf x = named(m, "x"), y = named(m, "y"), t = named(m, "t"), u = named(m, "u"), any = {0};
    cr_expect(sn_kern_stores(m, k, t) && sn_kern_stores(m, k, y) && !sn_kern_stores(m, k, x));
    cr_expect(sn_kern_loads(m, k, t) && sn_kern_loads(m, k, x) && !sn_kern_loads(m, k, y));
    cr_expect(sn_stmt_stores(m, one, t) && !sn_stmt_stores(m, one, y) && !sn_stmt_stores(m, two, t));
    cr_expect(sn_stmt_loads(m, two, t) && !sn_stmt_loads(m, one, t) && sn_stmt_loads(m, between, u));
    cr_expect(sn_stmt_stores(m, two, any) && !sn_stmt_stores(m, between, any) && sn_stmt_loads(m, loop, any));
    cr_expect(sn_stores_between(m, one, two, t) && !sn_stores_between(m, one, two, y));
    cr_expect(!sn_stores_between(m, between, two, any) && sn_stores_between(m, one, between, any));
    end(m);
}

Test(access, lists_are_in_order_and_know_nests) {
    sn_module *m = parsed(TWO_NESTS);
    sn_arena scratch;
    sn_access_list all, first;
    sn_arena_init(&scratch, &env);
    sn_stmt loop = sn_stmt_walk_first(m, m->kernels.at[0]), one = sn_stmt_get(m, loop)->first;
    sn_access_find_all(&all, m, &scratch, m->kernels.at[0]);
    cr_assert_eq(all.n, 6);
    for (uint32_t i = 0; i < all.n; i++) {
        cr_expect_eq(all.at[i].s.i, nth(m, i).i);
        cr_expect_eq(all.at[i].store, i == 1 || i == 5);
        cr_expect(sn_ix_eq(all.at[i].ix, sn_stmt_get(m, all.at[i].s)->ix));
    }
    sn_access_find(&first, m, &scratch, one, sn_stmt_get(m, one)->next);
    cr_assert_eq(first.n, 2);
    cr_expect(sn_buf_eq(first.at[1].buf, named(m, "t")));
    sn_stmt two = sn_stmt_get(m, loop)->last;
    cr_expect(sn_access_stored(&all, m, named(m, "t"), one) && !sn_access_stored(&all, m, named(m, "t"), two));
    cr_expect(sn_access_stored(&all, m, named(m, "t"), loop) && !sn_access_stored(&all, m, named(m, "x"), loop));
    sn_arena_free(&scratch);
    end(m);
}

Test(access, same_element_under_loops_that_run_alike) {
    sn_module *m = parsed(TWO_NESTS);
    cr_expect(same(m, 1, 3), "t[32*i + j] in both nests");
    cr_expect(!same(m, 1, 4), "one of them walks backwards");
    cr_expect(!same(m, 1, 2), "one loop less");
    /* Without the loop over i both nests are under it: the same loop is the same iteration. */
    sn_stmt loop = sn_stmt_walk_first(m, m->kernels.at[0]);
    sn_chain of_store, of_load;
    sn_chain_below(&of_store, m, nth(m, 1), loop);
    sn_chain_below(&of_load, m, nth(m, 3), loop);
    cr_expect_eq(of_store.n, 1);
    cr_expect(sn_same_element(m, nth(m, 1), &of_store, nth(m, 3), &of_load));
    sn_chain_around(&of_load, m, nth(m, 3));
    cr_expect(of_load.n == 2 && of_load.at[0].i == loop.i, "outermost first");
    end(m);
    m = parsed("kernel @k(x, t, y) {\n"
               "  loop i in 32 {\n    %0 = load x[i]\n    store t[i], %0\n  }\n"
               "  loop i in 31 {\n    %1 = load t[i]\n    store y[i], %1\n  }\n}\n");
    cr_expect(!same(m, 1, 2), "the second loop is shorter");
    end(m);
    m = parsed("kernel @k(x, t, y) schedule element block_x=32 scheduled {\n"
               "  loop i in 32 : block.x {\n    %0 = load x[i]\n    store t[i], %0\n  }\n"
               "  loop i in 32 {\n    %1 = load t[i]\n    store y[i], %1\n  }\n}\n");
    cr_expect(!same(m, 1, 2), "on threads there, in order here");
    end(m);
}

/* A store at each of the offsets, of which i, j and v are the loops around it. */
static bool distinct(const char *offset) {
    char text[1024];
    snprintf(text, sizeof text,
             "kernel @k(x, y) {\n  loop i in 16 {\n    loop j in 9 {\n      loop v in 4 {\n        %%0 = load x[0]\n"
             "        store y[%s], %%0\n      }\n    }\n  }\n}\n",
             offset);
    sn_module *m = parsed(text);
    bool answer = sn_access_distinct(m, nth(m, 1));
    end(m);
    return answer;
}

Test(access, iterations_touch_elements_of_their_own) {
    cr_expect(distinct("36*i + 4*j + v"));
    cr_expect(distinct("i + 16*j + 144*v"), "in any order of the loops");
    cr_expect(distinct("64*i + 4*j + v + 7"), "with gaps");
    cr_expect(distinct("36*i - 4*j - v + 35"), "backwards");
    cr_expect(distinct("100*((4*j + v) div 9) + ((4*j + v) mod 9) + 1000*i"), "taken apart and put together");
    cr_expect(!distinct("36*i + 4*j"), "all v meet");
    cr_expect(!distinct("35*i + 4*j + v"), "the next i begins before this one ends");
    cr_expect(!distinct("36*i + 4*j + (v div 2)"), "two v meet");
}

/* Two accesses to t in a loop over i, at the offsets. */
static bool apart(const char *stored, const char *loaded) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "kernel @k(x, t, y) {\n  loop i in 16 {\n    loop j in 4 {\n      %%0 = load x[j]\n      store t[%s], %%0\n"
        "    }\n    loop j in 4 {\n      %%1 = load t[%s]\n      store y[j], %%1\n    }\n  }\n}\n",
        stored, loaded);
    sn_module *m = parsed(text);
    bool answer = sn_access_apart(m, nth(m, 1), nth(m, 2), sn_stmt_walk_first(m, m->kernels.at[0]));
    end(m);
    return answer;
}

Test(access, iterations_of_a_loop_stay_apart) {
    cr_expect(apart("4*i + j", "4*i - j + 3"), "each has four elements of its own");
    cr_expect(!apart("4*i + j", "4*i + j + 1"), "the next one's first");
    cr_expect(!apart("4*i + j", "8*i + j"), "two steps");
    cr_expect(!apart("j", "j"), "no step");
}

Test(access, users_by_buffer) {
    sn_module *m =
        parsed("kernel @a(x, t) {\n  loop i in 8 {\n    %0 = load x[i]\n    store t[i], %0\n    %1 = load x[i]\n"
               "    store t[i + 8], %1\n  }\n}\n"
               "kernel @b(t, u) {\n  loop i in 8 {\n    %0 = load t[i]\n    store u[i], %0\n  }\n}\n"
               "kernel @c(x, t) {\n  loop i in 8 {\n    %0 = load x[i]\n    store t[i], %0\n  }\n}\n"
               "kernel @d(t, u, y) {\n  loop i in 8 {\n    %0 = load t[i]\n    %1 = load u[i]\n"
               "    %2 = add %0, %1\n    store y[i], %2\n    store t[i], %2\n  }\n}\n");
    sn_arena scratch;
    sn_users users;
    sn_buf t = named(m, "t"), u = named(m, "u"), x = named(m, "x"), y = named(m, "y");
    sn_arena_init(&scratch, &env);
    sn_users_find(&users, m, &scratch);
    cr_assert_eq(users.first[t.i + 1] - users.first[t.i], 4);
    const sn_user *of_t = users.user + users.first[t.i];
    cr_expect(of_t[0].stores && !of_t[0].loads && of_t[1].loads && !of_t[1].stores);
    cr_expect(of_t[3].at == 3 && of_t[3].stores && of_t[3].loads);
    cr_expect_eq(sn_users_storer(&users, t, 2), 0);
    cr_expect_eq(sn_users_storer(&users, t, 3), 2);
    cr_expect_eq(sn_users_storer(&users, t, 0), UINT32_MAX);
    cr_expect_eq(sn_users_storer(&users, x, 4), UINT32_MAX);
    cr_expect_eq(sn_users_storer(&users, y, 4), 3);
    cr_expect(sn_users_touch(&users, u, 1, 3) && !sn_users_touch(&users, u, 2, 3) && sn_users_touch(&users, u, 3, 4));
    cr_expect(sn_users_get(&users, u, 2) == NULL && sn_users_get(&users, u, 3)->loads);
    cr_expect(sn_users_load_elsewhere(&users, u, 1) && !sn_users_load_elsewhere(&users, u, 3));
    /* The kernel at 3 becomes the tail of the one at 1, which loads t and stores u. */
    sn_users_move(&users, t, 3, 1);
    sn_users_move(&users, y, 3, 1);
    sn_users_move(&users, x, 3, 1);
    cr_expect(sn_users_get(&users, t, 1)->stores && sn_users_get(&users, t, 1)->loads && !sn_users_get(&users, t, 3));
    cr_expect(sn_users_storer(&users, t, 2) == 1 && sn_users_storer(&users, t, 4) == 2);
    cr_expect(sn_users_storer(&users, y, 2) == 1 && sn_users_storer(&users, y, 1) == UINT32_MAX);
    sn_buf later = sn_buf_new(m, "later", SN_F32, SN_BUF_TEMP, NULL, 0);
    cr_expect(sn_users_storer(&users, later, 4) == UINT32_MAX && !sn_users_touch(&users, later, 0, 4));
    sn_arena_free(&scratch);
    end(m);
}
