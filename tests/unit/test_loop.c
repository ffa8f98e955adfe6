/* test_loop.c: building, rewriting, printing, parsing and verifying Loop IR through its API (ir/loop). What text alone
 * can show is in tests/loops and tests/verify. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/access.h"
#include "ir/module.h"

static sn_env env;

static sn_module *begin(void) {
    sn_env_init(&env);
    return sn_module_new(&env);
}

static sn_module *parsed(const char *text) {
    sn_module *m = begin();
    cr_assert_eq(sn_module_parse(m, "test", text, strlen(text)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_loop_verify(m, "test"), SN_OK, "%s", env.message);
    return m;
}

static void end(sn_module *m) {
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

/* The text of the first kernel without its first and last line. */
static void body_is(sn_module *m, const char *want) {
    sn_text t;
    sn_text_init(&t, &env);
    cr_assert_eq(sn_loop_verify(m, "test"), SN_OK, "%s", env.message);
    sn_kern_print(&t, m, m->kernels.at[0]);
    char *body = strstr(t.s, "{\n") + 2;
    t.s[t.n - 2] = 0;
    cr_assert_str_eq(body, want);
    sn_text_free(&t);
}

static sn_stmt first(const sn_module *m) { return sn_stmt_walk_first(m, m->kernels.at[0]); }
static sn_stmt next(const sn_module *m, sn_stmt s) { return sn_stmt_walk_next(m, s); }

/* x[i] * 2 over n elements; the loop is returned. */
static sn_stmt build_scale(sn_module *m, int64_t n) {
    sn_ix size = sn_ix_const(m, n);
    sn_buf x = sn_buf_new(m, "x", SN_F32, SN_BUF_INPUT, &size, 1),
           y = sn_buf_new(m, "y", SN_F32, SN_BUF_OUTPUT, &size, 1);
    sn_kern k = sn_kern_new(m, "k");
    sn_axis ax = sn_axis_new(m, "i", size);
    sn_stmt loop = sn_put_loop(m, sn_at_end(k, (sn_stmt){0}), ax, SN_AXIS_SEQ);
    sn_cursor at = sn_at_end(k, loop);
    sn_val v = sn_put_load(m, at, x, sn_ix_axis(m, ax));
    v = sn_put_op2(m, at, SN_LOP_MUL, v, sn_put_const(m, at, SN_F32, 2));
    sn_put_store(m, at, y, sn_ix_axis(m, ax), v);
    sn_kern_collect_params(m, k);
    return loop;
}

Test(loop, build_and_print) {
    sn_module *m = begin();
    build_scale(m, 8);
    body_is(
        m,
        "  loop i in 8 {\n    %0 = load x[i]\n    %1 = const.f32 2.0\n    %2 = mul %0, %1\n    store y[i], %2\n  }\n");
    cr_assert_eq(sn_kern_get(m, m->kernels.at[0])->params.n, 2);
    end(m);
}

Test(loop, names_are_made_unique) {
    sn_module *m = begin();
    for (int i = 0; i < 1000; i++) sn_buf_new(m, "t", SN_F32, SN_BUF_TEMP, NULL, 0);
    cr_assert_str_eq(sn_buf_get(m, (sn_buf){1})->name, "t");
    cr_assert_str_eq(sn_buf_get(m, (sn_buf){2})->name, "t_1");
    cr_assert_str_eq(sn_buf_get(m, (sn_buf){1000})->name, "t_999");
    cr_assert_eq(sn_buf_named(m, "t_7").i, 8);
    cr_assert_str_eq(sn_buf_get(m, sn_buf_new(m, "12", SN_F32, SN_BUF_TEMP, NULL, 0))->name, "b12");
    cr_assert_str_eq(sn_buf_get(m, sn_buf_new(m, "a.b", SN_F32, SN_BUF_TEMP, NULL, 0))->name, "a_b");
    cr_assert_str_eq(sn_kern_get(m, sn_kern_new(m, NULL))->name, "k");
    end(m);
}

Test(loop, walk_and_inside) {
    sn_module *m = begin();
    sn_stmt loop = build_scale(m, 8);
    sn_stmt load = next(m, loop), mul = next(m, next(m, load)), store = next(m, mul);
    cr_assert_eq(first(m).i, loop.i);
    cr_assert_eq(next(m, store).i, 0);
    cr_assert_eq(sn_stmt_walk_skip(m, loop).i, 0);
    cr_assert(sn_stmt_inside(m, store, loop) && !sn_stmt_inside(m, loop, loop) && !sn_stmt_inside(m, loop, store));
    cr_assert(sn_kern_stores(m, m->kernels.at[0], (sn_buf){2}) && !sn_kern_stores(m, m->kernels.at[0], (sn_buf){1}));
    cr_assert(sn_kern_loads(m, m->kernels.at[0], (sn_buf){1}));
    end(m);
}

Test(loop, cursors_insert_and_unlink) {
    sn_module *m = begin();
    sn_stmt loop = build_scale(m, 8);
    sn_stmt load = next(m, loop), two = next(m, load);
    sn_stmt_unlink(m, two);
    sn_stmt_insert(m, sn_at_before(m, load), two);
    sn_put_const(m, sn_at_after(m, sn_stmt_get(m, loop)->last), SN_I8, -1);
    body_is(m, "  loop i in 8 {\n    %0 = const.f32 2.0\n    %1 = load x[i]\n    %2 = mul %1, %0\n    store y[i], %2\n"
               "    %3 = const.i8 -1\n  }\n");
    cr_assert(sn_kern_dead_code(m, m->kernels.at[0]));
    cr_assert(!sn_kern_dead_code(m, m->kernels.at[0]));
    end(m);
}

Test(loop, split_axis) {
    sn_module *m = begin();
    sn_axis outer, inner;
    sn_stmt_split_axis(m, build_scale(m, 8), 4, &outer, &inner);
    body_is(m, "  loop i in 2 {\n    loop i_1 in 4 {\n      %0 = load x[4*i + i_1]\n      %1 = const.f32 2.0\n"
               "      %2 = mul %0, %1\n      store y[4*i + i_1], %2\n    }\n  }\n");
    end(m);
}

Test(loop, split_reduce_yields_the_inner_results) {
    sn_module *m = parsed("buffer x: f32[8] input 0\n buffer y: f32[] output 0\n kernel @k(x, y) {\n"
                          "  %0 = reduce sum r in 8 { %1 = load x[r] yield %1 }\n  store y[0], %0 }\n");
    sn_axis outer, inner;
    sn_stmt t = sn_stmt_split_axis(m, first(m), 2, &outer, &inner);
    cr_assert_eq(sn_stmt_get(m, t)->op, SN_LOP_REDUCE);
    body_is(
        m,
        "  %0 = reduce sum r in 4 {\n    %1 = reduce sum r_1 in 2 {\n      %2 = load x[2*r + r_1]\n      yield %2\n    }\n"
        "    yield %1\n  }\n  store y[0], %0\n");
    end(m);
}

Test(loop, clone_has_its_own_axes_and_values) {
    sn_module *m =
        parsed("buffer x: i64[4] input 0\n buffer y: i64[4] output 0\n kernel @k(x, y) {\n  %c = const.i64 3\n"
               "  loop i in 4 { %0 = load x[i] %1 = load x[%0] %2 = add %1, %c store y[i], %2 }\n }\n");
    sn_stmt loop = next(m, first(m));
    sn_stmt copy = sn_stmt_clone(m, sn_at_after(m, loop), loop);
    cr_assert_neq(sn_stmt_get(m, copy)->axis.i, sn_stmt_get(m, loop)->axis.i);
    const char *body =
        "    %%%d = load x[%s]\n    %%%d = load x[%%%d]\n    %%%d = add %%%d, %%0\n    store y[%s], %%%d\n";
    char a[200], b[200], all[600];
    snprintf(a, sizeof a, body, 1, "i", 2, 1, 3, 2, "i", 3);
    snprintf(b, sizeof b, body, 4, "i_1", 5, 4, 6, 5, "i_1", 6);
    snprintf(all, sizeof all, "  %%0 = const.i64 3\n  loop i in 4 {\n%s  }\n  loop i_1 in 4 {\n%s  }\n", a, b);
    body_is(m, all);
    end(m);
}

Test(loop, replace_reaches_into_indices) {
    sn_module *m = parsed("buffer x: i64[4] input 0\n buffer y: i64[4] output 0\n kernel @k(x, y) {\n"
                          "  loop i in 4 { %0 = load x[i] %1 = load x[0] %2 = load x[%0 + 1] store y[i], %2 }\n }\n");
    sn_kern k = m->kernels.at[0];
    sn_stmt a = next(m, first(m)), b = next(m, a);
    sn_notes map = {.arena = &m->arena};
    sn_notes_set(&map, sn_stmt_get(m, a)->result.i, sn_stmt_get(m, b)->result.i);
    sn_val_replace_all(m, k, &map);
    cr_assert(sn_kern_dead_code(m, k));
    body_is(m, "  loop i in 4 {\n    %0 = load x[0]\n    %1 = load x[%0 + 1]\n    store y[i], %1\n  }\n");
    end(m);
}

Test(loop, subst_replaces_axes) {
    sn_module *m = begin();
    sn_stmt loop = build_scale(m, 8);
    sn_axis ax = sn_stmt_get(m, loop)->axis;
    sn_ix with = sn_ix_sub(m, sn_ix_const(m, 7), sn_ix_axis(m, ax));
    sn_stmt_subst(m, next(m, loop), &ax, &with, 1);
    body_is(
        m,
        "  loop i in 8 {\n    %0 = load x[7 - i]\n    %1 = const.f32 2.0\n    %2 = mul %0, %1\n    store y[i], %2\n  }\n");
    end(m);
}

Test(loop, cse_respects_regions_and_stores) {
    sn_module *m = parsed(
        "buffer x: f32[8] input 0\n buffer y: f32[8] output 0\n kernel @k(x, y) {\n"
        "  %a = load x[0]\n  %p = load y[0]\n"
        "  loop i in 8 { %b = load x[0] %q = load y[0] %r = load y[0] %s = add %b, %q %t = add %s, %r store y[i], %t }\n"
        "  loop j in 8 { %c = load x[0] %q = load y[0] %s = add %c, %q %u = add %s, %a store x[j], %u }\n"
        "  %d = load x[0]\n  %e = add %d, %p\n  store y[1], %e\n }\n");
    cr_assert(sn_kern_cse(m, m->kernels.at[0]));
    cr_assert(!sn_kern_cse(m, m->kernels.at[0]));
    body_is(
        m,
        "  %0 = load x[0]\n  %1 = load y[0]\n"
        "  loop i in 8 {\n    %2 = load y[0]\n    %3 = add %0, %2\n    %4 = add %3, %2\n    store y[i], %4\n  }\n"
        "  loop j in 8 {\n    %5 = load x[0]\n    %6 = load y[0]\n    %7 = add %5, %6\n    %8 = add %7, %0\n    store x[j], %8\n  }\n"
        "  %9 = load x[0]\n  %10 = add %9, %1\n  store y[1], %10\n");
    end(m);
}

Test(loop, dead_code_takes_reduces_loops_and_parameters) {
    sn_module *m = parsed("buffer x: f32[8] input 0\n buffer z: f32[8] input 1\n buffer y: f32[8] output 0\n"
                          "kernel @k(x, z, y) {\n  loop i in 8 {\n    %a = load x[i]\n    store y[i], %a\n"
                          "    if i in 4 { %d = reduce sum r in 8 { %b = load z[r] %c = add %b, %a yield %c } }\n  }\n"
                          "  %s = reduce sum r in 8 { %b = load x[r] store y[r], %b yield %b }\n }\n");
    cr_assert(sn_kern_dead_code(m, m->kernels.at[0]));
    body_is(m, "  loop i in 8 {\n    %0 = load x[i]\n    store y[i], %0\n  }\n"
               "  %1 = reduce sum r in 8 {\n    %2 = load x[r]\n    store y[r], %2\n    yield %2\n  }\n");
    cr_assert_eq(sn_kern_get(m, m->kernels.at[0])->params.n, 2);
    end(m);
}

Test(loop, launch_and_params) {
    sn_module *m = parsed(
        "buffer t: f32[N] temp\n buffer y: f32[64] output 0\n buffer x: f32[64] input 0\n"
        "kernel @k(t, y, x) scheduled {\n loop i in N : grid { loop j in 2 : grid {\n"
        "  loop b in 4 : block.y { %0 = reduce sum r in 32 : block.x { %1 = load x[r] yield %1 } store y[b], %0 store t[i], %0 } } } }\n");
    sn_launch l = sn_kern_launch(m, m->kernels.at[0]);
    sn_sym n = sn_sym_named(m, "N");
    cr_assert_eq(l.grid.i, sn_ix_scale(m, sn_ix_sym(m, n), 2).i);
    cr_assert(l.block_x == 32 && l.block_y == 4);
    sn_kern_collect_params(m, m->kernels.at[0]);
    const sn_buf_list *p = &sn_kern_get(m, m->kernels.at[0])->params;
    cr_assert(p->n == 3 && p->at[0].i == 3 && p->at[1].i == 1 && p->at[2].i == 2);
    sn_kern_remove(m, m->kernels.at[0]);
    cr_assert_eq(m->kernels.n, 0);
    end(m);
}

/* ---- invariants that no text can break ---- */

static void verify_fails(sn_module *m, const char *message) {
    cr_assert_eq(sn_loop_verify(m, "test"), SN_ERROR_VERIFY);
    cr_assert(strstr(env.message, message), "%s", env.message);
    end(m);
}

Test(loop, verify_results) {
    sn_module *m = begin();
    sn_stmt load = next(m, build_scale(m, 8));
    sn_val_get(m, sn_stmt_get(m, load)->result)->number = 1;
    verify_fails(m, "L15: result 0 does not point back");
}

Test(loop, verify_kernel_of_a_statement) {
    sn_module *m = begin();
    sn_stmt load = next(m, build_scale(m, 8));
    sn_stmt_get(m, load)->kern = sn_kern_new(m, "other");
    verify_fails(m, "L15");
}

Test(loop, verify_operand_dtype) {
    sn_module *m = begin();
    sn_stmt load = next(m, build_scale(m, 8));
    sn_val_get(m, sn_stmt_get(m, load)->result)->dtype = SN_F64;
    verify_fails(m, "L2");
}

Test(loop, verify_axis_of_two_loops) {
    sn_module *m = begin();
    sn_stmt loop = build_scale(m, 8);
    sn_put_loop(m, sn_at_after(m, loop), sn_stmt_get(m, loop)->axis, SN_AXIS_SEQ);
    verify_fails(m, "L4: the axis belongs to another loop too");
}

Test(loop, verify_reg_of_two_kernels) {
    sn_module *m =
        parsed("buffer y: f32[1] output 0\n"
               "kernel @a(y) { reg s: f32 private 1 size 1 %0 = const.f32 1 store s[0], %0 store y[0], %0 }\n"
               "kernel @b(y) { %0 = const.f32 1 store y[0], %0 }\n");
    sn_buf s = sn_buf_named(m, "s");
    SN_PUSH(&m->arena, &sn_kern_get(m, m->kernels.at[1])->locals, s);
    verify_fails(m, "L7: local to two kernels: 's'");
}

/* ---- hostile text ---- */

static void parse_fails(const char *text, const char *message) {
    sn_module *m = begin();
    cr_assert_neq(sn_module_parse(m, "t", text, strlen(text)), SN_OK, "%s", text);
    cr_assert(strstr(env.message, message), "%s", env.message);
    end(m);
}

#define X "buffer x: f32[4] output 0\n"

Test(loop, parse_errors) {
    parse_fails("buffer x: f33[4] temp", "t:1:11: expected an element type, found 'f33'");
    parse_fails("buffer x: f32[4] tmp", "t:1:18: expected input, output, temp, const or step, found 'tmp'");
    parse_fails("buffer x: f32[-4] temp", "t:1:15: a size is not negative");
    parse_fails("buffer x: f32[1,1,1,1,1,1,1,1,1] temp", "at most 8 dimensions");
    parse_fails("buffer x: f32[4611686018427387904, 4] temp", "overflows");
    parse_fails("buffer x: i8[2] const data [1, 128]", "128 does not fit in i8");
    parse_fails("buffer x: u64[2] const data [18446744073709551615, -1]", "-1 does not fit in u64");
    parse_fails("buffer x: i8[2] const data [1]", "const 'x' has 1 elements of data, which is not its size");
    parse_fails("buffer x: i8[2] temp align 3", "align is a power of two");
    parse_fails("buffer x.y: i8[2] temp", "a name may not contain '.'");
    parse_fails(X X, "buffer 'x' is declared twice");
    parse_fails("kernel @k(q) {", "t:1:11: unknown buffer 'q'");
    parse_fails(X "kernel @k(x, x) {", "parameter 'x' is named twice");
    parse_fails(X "kernel @k(x) schedule fast {", "unknown schedule class 'fast'");
    parse_fails(X "kernel @k(x) schedule none precision=f16 {", "precision: 'f16' is none of exact, high, tf32, bf16");
    parse_fails(X "kernel @k(x) schedule none precision=2 {", "precision: '2' is none of exact, high, tf32, bf16");
    parse_fails(X "kernel @k(x) {\n store y[0], %0 }", "t:3:8: 'y' is not a parameter or reg of kernel @k");
    parse_fails(X "kernel @k(x) {\n store x[0], %0 }", "t:3:14: unknown value %0");
    parse_fails(X "kernel @k(x) {\n store x[q], %0 }", "unknown name q");
    parse_fails(X "kernel @k(x) {\n %0 = frob %1 }", "t:3:7: unknown operation 'frob'");
    parse_fails(X "kernel @k(x) {\n %0 = store x[0] }", "unknown operation 'store'");
    parse_fails(X "kernel @k(x) {\n %0 = const 1 }", "const needs an element type");
    parse_fails(X "kernel @k(x) {\n %0 = load.f32 x[0] }", "load takes no element type");
    parse_fails(X "kernel @k(x) {\n %0 = const.f31 1 }", "unknown element type 'f31'");
    parse_fails(X "kernel @k(x) {\n %0 = const.u8 256 }", "256 does not fit in u8");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %1 = add %0 }", "expected ','");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %1 = exp %0, %0 }", "exp has 1 operands");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %1 = cast.i8 %0 %2 = add %0, %1 }",
                "operand 2 of add is i8, expected f32");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %1 = select %0, %0, %0 }",
                "operand 1 of select is f32, expected bool");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %1 = bitcast.i8 %0 }", "the sizes differ");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] if %0 else %0 }", "unknown value");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] store x[0], %0 if %0 }", "the mask is f32, expected bool");
    parse_fails(X "kernel @k(x) {\n %0 = load x[0] %0 = load x[1] }", "%0 is defined twice");
    parse_fails(X "kernel @k(x) {\n %0, %1 = load x[0] }", "load gives 1 results, 2 are named");
    parse_fails(X "kernel @k(x) {\n %0 = reduce avg r in 4 { } }", "unknown combiner 'avg'");
    parse_fails(X "kernel @k(x) {\n %0 = reduce sum r in 4 { } }", "does not end in a yield of 1 value");
    parse_fails(X "kernel @k(x) {\n loop i in 4 : wave { } }", "unknown axis kind 'wave'");
    parse_fails(X "kernel @k(x) {\n loop i in 4 {", "found the end of the text");
    parse_fails(X "kernel @k(x) {\n jump }", "expected a statement or '}', found 'jump'");
    parse_fails(X "kernel @a-b(x) {\n }", "expected '('");
}

Test(loop, nesting_is_bounded) {
    char text[8192] = X "kernel @k(x) { ";
    for (int i = 0; i < 300; i++) strcat(text, "loop i in 2 { ");
    parse_fails(text, "statements are nested more than 200 deep");
}

/* A kernel of thousands of statements: what is quadratic shows here. */
Test(loop, large_kernel, .timeout = 60) {
    sn_module *m = begin();
    sn_ix size = sn_ix_const(m, 4);
    sn_buf x = sn_buf_new(m, "x", SN_F32, SN_BUF_OUTPUT, &size, 1);
    sn_kern k = sn_kern_new(m, "k");
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_val v = sn_put_load(m, at, x, sn_ix_const(m, 0));
    for (int i = 0; i < 20000; i++) {
        sn_axis ax = sn_axis_new(m, "i", size);
        sn_cursor in = sn_at_end(k, sn_put_loop(m, at, ax, SN_AXIS_SEQ));
        sn_val c = sn_put_const(m, in, SN_F32, i), d = sn_put_const(m, in, SN_F32, i);
        sn_put_store(m, in, x, sn_ix_axis(m, ax),
                     sn_put_op2(m, in, SN_LOP_ADD, v, sn_put_op2(m, in, SN_LOP_ADD, c, d)));
        sn_put_op1(m, at, SN_LOP_EXP, v);
    }
    sn_kern_collect_params(m, k);
    cr_assert(sn_kern_cse(m, k) && sn_kern_dead_code(m, k));
    cr_assert_eq(sn_loop_verify(m, "test"), SN_OK, "%s", env.message);
    sn_text t;
    sn_text_init(&t, &env);
    sn_module_print(&t, m);
    sn_module *again = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(again, "again", t.s, t.n), SN_OK, "%s", env.message);
    sn_module_free(again);
    sn_text_free(&t);
    end(m);
}
