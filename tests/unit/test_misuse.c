/* test_misuse.c: what programs get wrong, and what they are told: NULL, calls after an unchecked failure, sizes that are
 * calculated with, values of another graph, names that no port has, numbers at the ends of their types. That every function
 * stands anything is in test_sweep.c.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <string.h>

#include "include/sinter/sinter.h"

static sn_context *ctx, *other;
static sn_graph *g;

static void setup(void) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_context_create(&other, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
}

static void teardown(void) {
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    sn_context_destroy(other);
}

TestSuite(misuse, .init = setup, .fini = teardown);

#define EXPECT_ERROR(call, text)                                                                                       \
    do {                                                                                                               \
        cr_expect_eq((call), SN_ERROR_ARGUMENT, "%s", #call);                                                          \
        cr_expect(strstr(sn_error(ctx), (text)), "%s: \"%s\"", #call, sn_error(ctx));                                  \
    } while (0)
/* The same for builder functions, after which there is a new graph. */
#define EXPECT_FAILED(call, text)                                                                                      \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        cr_expect_neq(sn_graph_status(g), SN_OK, "%s", #call);                                                         \
        cr_expect(strstr(sn_graph_error(g), (text)), "%s: \"%s\"", #call, sn_graph_error(g));                          \
        sn_graph_destroy(g);                                                                                           \
        cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);                                                            \
    } while (0)

static sn_node input(sn_graph *graph) { return sn_input(graph, "x", SN_F32, SN_LIST(2, 3)); }

static sn_program *compile(void) {
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_node x = input(g), row = sn_input(g, "row", SN_F32, SN_LIST(3));
    sn_output(g, "sum", sn_add(g, x, row));
    sn_output(g, "product", sn_mul(g, x, row));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    return p;
}

/* ---- NULL ---- */

Test(misuse, the_argument_that_is_null_is_named) {
    sn_tensor *t;
    sn_weights *w;
    float data[6] = {0};
    sn_program *p = compile();
    cr_assert_eq(sn_tensor_create(&t, ctx, SN_CPU, SN_F32, SN_LIST(2, 3)), SN_OK);
    EXPECT_ERROR(sn_tensor_write(t, NULL, 24), "sn_tensor_write: data is NULL");
    EXPECT_ERROR(sn_tensor_read(NULL, t, 24), "sn_tensor_read: out is NULL");
    EXPECT_ERROR(sn_tensor_load(t, NULL, "w"), "sn_tensor_load: w is NULL");
    EXPECT_ERROR(sn_graph_create(NULL, ctx, "g"), "sn_graph_create: out is NULL");
    EXPECT_ERROR(sn_weights_open(&w, ctx, NULL), "sn_weights_open: path is NULL");
    EXPECT_ERROR(sn_graph_from_file(NULL, ctx, "f.sn"), "sn_graph_from_file: out is NULL");
    EXPECT_ERROR(sn_program_dump(NULL, p, NULL), "sn_program_dump: out is NULL");
    EXPECT_ERROR(sn_program_check(NULL, p, NULL, NULL, false), "sn_program_check: out is NULL");
    cr_expect_eq(sn_tensor_write(NULL, data, 24), SN_ERROR_ARGUMENT);
    sn_tensor_destroy(t);
    sn_program_destroy(p);
}

Test(misuse, builder_functions_name_it_too) {
    EXPECT_FAILED(sn_named(g, input(g), NULL), "sn_named: name is NULL");
    EXPECT_FAILED(sn_dim(g, NULL), "sn_dim: expression is NULL");
    EXPECT_FAILED(sn_reshape(g, input(g), 2, NULL), "reshape: shape is NULL, 2 numbers are announced");
    EXPECT_FAILED(sn_pad(g, input(g), NULL, NULL, 0), "pad: low is NULL");
    EXPECT_FAILED(sn_concat(g, 2, NULL, 0), "concat: the list of 2 operands is NULL");
    sn_node x = input(g);
    EXPECT_FAILED(sn_batch_norm_train(NULL, g, x, x, x, x, x, 0.1, 1e-5), "batch_norm_train: out is NULL");
    EXPECT_FAILED(sn_constant(g, SN_F32, NULL, SN_LIST(2)), "constant: data is NULL");
}

Test(misuse, a_program_that_checks_nothing_gets_failures) {
    sn_graph *none = (sn_graph *)&ctx;
    sn_program *p = (sn_program *)&ctx;
    sn_tensor *t = (sn_tensor *)&ctx;
    sn_program_info info;
    sn_port port;
    cr_expect_eq(sn_graph_create(&none, NULL, "g"), SN_ERROR_ARGUMENT);
    cr_assert_null(none);
    sn_node x = sn_input(none, "x", SN_F32, SN_LIST(sn_dim(none, "N")));
    cr_expect_eq(sn_add(none, x, x).id, 0);
    cr_expect_eq(sn_output(none, "y", x), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_graph_status(none), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_compile(&p, none, NULL), SN_ERROR_ARGUMENT);
    cr_assert_null(p);
    sn_program_get_info(&info, p);
    cr_expect(info.n_inputs == 0 && !info.runnable && !strcmp(info.target, ""));
    cr_expect_eq(sn_program_input(&port, p, 0), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_tensor_for_input(&t, p, 0), SN_ERROR_ARGUMENT);
    cr_assert_null(t);
    cr_expect_eq(sn_run(p, &t, &t, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_empty(sn_error(NULL));
    sn_program_destroy(p);
    sn_graph_destroy(none);
}

/* ---- graphs ---- */

Test(misuse, the_first_failure_of_a_graph_has_a_text) {
    cr_expect_str_empty(sn_graph_error(g));
    sn_node x = input(g);
    sn_softmax(g, x, 7);
    sn_graph_from_text(&(sn_graph *){NULL}, ctx, "text", "nothing", 7); /* another failure of the context */
    sn_softmax(g, x, 9);
    cr_expect(strstr(sn_graph_error(g), "softmax: axis 7"), "%s", sn_graph_error(g));
}

Test(misuse, values_of_other_graphs_are_refused) {
    sn_graph *sibling, *foreign;
    cr_assert_eq(sn_graph_create(&sibling, ctx, "g"), SN_OK);
    cr_assert_eq(sn_graph_create(&foreign, other, "g"), SN_OK);
    sn_node x = input(sibling), y = input(foreign);
    EXPECT_FAILED(sn_add(g, input(g), x), "add: operand 2 is not a value of this graph");
    EXPECT_FAILED(sn_add(g, y, input(g)), "add: operand 1 is not a value of this graph");
    EXPECT_FAILED(sn_reshape(g, x, SN_LIST(6)), "reshape: operand 1 is not a value of this graph");
    EXPECT_FAILED(sn_output(g, "y", y), "output y: what it gets is not a value of this graph");
    EXPECT_FAILED(sn_output_writes(g, "y", input(g), x), "output y: what it writes is not a value of this graph");
    EXPECT_FAILED(sn_named(g, x, "n"), "n is not a value of this graph");
    EXPECT_FAILED(sn_exp(g, (sn_node){0}), "(id 0: building it failed)");
    input(g); /* one of that number */
    cr_expect_eq(sn_node_dtype(g, x), SN_N_DTYPES);
    cr_expect_eq(sn_node_rank(g, y), 0);
    sn_graph_destroy(sibling);
    sn_graph_destroy(foreign);
}

Test(misuse, tensors_of_another_context_are_refused) {
    sn_program *p = compile();
    sn_tensor *foreign, *row, *out[2];
    cr_assert_eq(sn_tensor_create(&foreign, other, SN_CPU, SN_F32, SN_LIST(2, 3)), SN_OK);
    cr_assert_eq(sn_tensor_for_input(&row, p, 1), SN_OK);
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    EXPECT_ERROR(sn_run(p, (sn_tensor *[]){foreign, row}, out, NULL), "input x: the tensor belongs to another context");
    sn_tensor_destroy(foreign);
    sn_tensor_destroy(row);
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
}

/* ---- sizes ---- */

Test(misuse, sizes_are_not_calculated_with) {
    static const char *const advice = "write sn_dim(g, \"N + 1\")";
    sn_graph *sibling, *foreign;
    cr_assert_eq(sn_graph_create(&sibling, ctx, "g"), SN_OK);
    cr_assert_eq(sn_graph_create(&foreign, other, "g"), SN_OK);
    int64_t theirs[] = {sn_dim(sibling, "N"), sn_dim(foreign, "N")};
#define WITH_SIZES(call) EXPECT_FAILED((n = sn_dim(g, "N"), m = sn_dim(g, "M"), (call)), advice)
    int64_t n, m;
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n + 1)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n - 1)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(2 * n)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n / 2)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(-n)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n + m)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n - m)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(m - n)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST((int64_t)((uint64_t)n * (uint64_t)m))));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST((int64_t)((uint64_t)n * 1000))));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST((int)n)));
    WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST((unsigned)m, 4)));
    WITH_SIZES(sn_full(g, SN_F32, 1, SN_LIST(4, n + 1)));
    WITH_SIZES(sn_expand(g, input(g), SN_LIST(n + 1, 2, 3)));
    WITH_SIZES(sn_reshape(g, input(g), SN_LIST(n + 1, -1)));
    WITH_SIZES(sn_input_strided(g, "x", SN_F32, SN_LIST(n, 4), (int64_t[]){2 * n, 1}, 0));
    WITH_SIZES(sn_input_strided(g, "x", SN_F32, SN_LIST(n), NULL, n + 1));
    for (int k = 0; k < 2; k++) {
        EXPECT_FAILED(sn_input(g, "x", SN_F32, SN_LIST(theirs[k])), advice);
        WITH_SIZES(sn_input(g, "x", SN_F32, SN_LIST(n, theirs[k])));
    }
    EXPECT_FAILED(sn_slice(g, input(g), 0, 0, sn_dim(g, "N"), 1), "slice: stop is a size of sn_dim");
    EXPECT_FAILED(sn_permute(g, input(g), SN_LIST(sn_dim(g, "N"), 0)), "permute: perm is a size of sn_dim");
    sn_graph_destroy(sibling);
    sn_graph_destroy(foreign);
}

static void try_arithmetic(unsigned k, int64_t c, unsigned j) {
    enum { NAMES = 12 };
    int64_t n[NAMES];
    for (unsigned i = 0; i < NAMES; i++) n[i] = sn_dim(g, (char[]){(char)('A' + i), 0});
    const int64_t made[] = {n[k] + c,
                            n[k] - c,
                            (int64_t)((uint64_t)n[k] * (uint64_t)(c + 1)),
                            n[k] / (c + 1),
                            n[k] + n[c % NAMES],
                            n[k] - n[(k + 1 + c % (NAMES - 1)) % NAMES]};
    sn_input(g, "x", SN_F32, SN_LIST(made[j]));
    cr_expect_neq(sn_graph_status(g), SN_OK, "%u %u %lld", k, j, (long long)c);
    sn_graph_destroy(g);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
}

/* No sum, difference, multiple or quotient is taken for a number or for another size. */
Test(misuse, no_small_arithmetic_gives_a_size) {
    for (unsigned k = 0; k < 12; k++)
        for (int64_t c = 1; c <= 24; c++)
            for (unsigned j = 0; j < 6; j++) try_arithmetic(k, c, j);
}

Test(misuse, a_shape_gives_its_sizes_back) {
    int64_t n = sn_dim(g, "N"), shape[8];
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, 4));
    sn_node_shape(shape, g, x);
    cr_expect(shape[0] == n && shape[1] == 4);
    sn_node y = sn_input(g, "y", SN_F32, 2, shape);
    cr_expect(sn_add(g, x, y).id, "%s", sn_graph_error(g));
    cr_expect_eq(sn_dim(g, "N"), n);
    cr_expect_eq(sn_dim(g, "3 + 4"), 7);
}

/* ---- ports ---- */

Test(misuse, ports_are_counted_and_found) {
    sn_program *p = compile();
    unsigned k = 7;
    cr_expect(sn_graph_input_count(g) == 2 && sn_graph_output_count(g) == 2);
    cr_expect(sn_program_input_count(p) == 2 && sn_program_output_count(p) == 2);
    cr_expect(sn_program_find_input(&k, p, "row") == SN_OK && k == 1);
    cr_expect(sn_program_find_output(&k, p, "sum") == SN_OK && k == 0);
    cr_expect(sn_graph_find_input(&k, g, "x") == SN_OK && k == 0);
    cr_expect(sn_graph_find_output(&k, g, "product") == SN_OK && k == 1);
    EXPECT_ERROR(sn_program_find_input(&k, p, "rwo"), "program: no input rwo; nearest of its 2: row, x");
    cr_expect_eq(k, UINT_MAX);
    EXPECT_ERROR(sn_program_find_output(&k, p, "produkt"),
                 "program: no output produkt; nearest of its 2: product, sum");
    EXPECT_ERROR(sn_graph_find_input(&k, g, "X"), "graph g: no input X; nearest of its 2: x, row");
    EXPECT_ERROR(sn_program_find_input(&k, p, NULL), "sn_program_find_input: name is NULL");
    sn_graph_destroy(g);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    EXPECT_ERROR(sn_graph_find_output(&k, g, "y"), "graph g: no output y; there are none");
    sn_program_destroy(p);
}

/* ---- numbers ---- */

Test(misuse, lists_are_not_read_before_their_length_is_checked) {
    EXPECT_FAILED(sn_reshape(g, input(g), UINT_MAX, (int64_t[]){6}),
                  "reshape: shape has 4294967295 numbers; at most 8 axes");
    EXPECT_FAILED(sn_sum(g, input(g), 9, (int64_t[]){0}, false), "sum: axes has 9 numbers; at most 8 axes");
    EXPECT_FAILED(sn_concat(g, UINT_MAX, (sn_node[]){input(g)}, 0), "concat: 4294967295 operands; at most 65536");
    sn_tensor *t;
    EXPECT_ERROR(sn_tensor_create(&t, ctx, SN_CPU, SN_F32, UINT_MAX, (int64_t[]){2}), "rank 4294967295; at most 8");
    EXPECT_ERROR(sn_weights_save(ctx, "f", UINT_MAX, &(sn_weight_info){0}), "f: 4294967295 tensors; at most 2083333");
    EXPECT_ERROR(sn_weights_save(ctx, "f", 1, NULL), "f: 1 tensors announced, and tensors is NULL");
}

Test(misuse, sizes_of_options_do_not_cut_pointers) {
    sn_program *p;
    sn_compile_options o = {.struct_size = offsetof(sn_compile_options, device) + 4, .device = "cpu"};
    EXPECT_ERROR(sn_compile(&p, g, &o), "no outputs");
    sn_output(g, "y", input(g));
    EXPECT_ERROR(sn_compile(&p, g, &o), "sn_compile_options: struct_size is 12; set it to sizeof");
    o.struct_size = sizeof o + 8;
    EXPECT_ERROR(sn_compile(&p, g, &o), "sn_compile_options: struct_size is");
    o = (sn_compile_options){
        .struct_size = sizeof o, .device = "cpu", .dims = &(sn_dim_binding){"N", 1}, .n_dims = UINT_MAX};
    EXPECT_ERROR(sn_compile(&p, g, &o), "dims: 4294967295 are given; at most 65536");
}

Test(misuse, numbers_at_the_ends_of_their_types) {
    const int64_t low[] = {INT64_MIN, 0}, none[] = {0, 0};
    EXPECT_FAILED(sn_pad(g, input(g), low, none, 0), "pad: axis 0 gets too long or too short");
    EXPECT_FAILED(sn_constant(g, SN_F32, low, SN_LIST((int64_t)1 << 61)), "out of memory");
    sn_tensor *t;
    EXPECT_ERROR(sn_tensor_create_strided(&t, ctx, SN_CPU, SN_F32, SN_LIST(2), (int64_t[]){1}, INT64_MAX),
                 "out of the address space");
    EXPECT_ERROR(sn_tensor_create_strided(&t, ctx, SN_CPU, SN_F32, SN_LIST(0), (int64_t[]){1}, INT64_MAX),
                 "out of the address space");
    EXPECT_ERROR(sn_tensor_wrap(&t, ctx, 4711, &t, SN_F32, 0, NULL, NULL, 0),
                 "device 4711 is neither SN_CPU nor in 0 .. 15");
}

/* The flush buffer of SIZE_MAX bytes was 512 bytes less than nothing. */
Test(misuse, times_of_too_much) {
    sn_program *p = compile();
    sn_tensor *in[2], *out[2];
    double us[2];
    for (unsigned k = 0; k < 2; k++) {
        cr_assert_eq(sn_tensor_for_input(&in[k], p, k), SN_OK);
        cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    }
    cr_expect_eq(sn_program_time(us, 2, p, in, out, SIZE_MAX), SN_ERROR_MEMORY);
    cr_expect_eq(sn_program_time(us, 2, p, in, out, SIZE_MAX - 511), SN_ERROR_MEMORY);
    cr_expect_eq(sn_program_time(us, 2, p, in, out, 100), SN_OK, "%s", sn_error(ctx));
    EXPECT_ERROR(sn_program_time(us, UINT_MAX, p, in, out, 0), "4294967295 runs to be timed; at most 1048576");
    EXPECT_ERROR(sn_tensor_read(us, in[1], 8), "tensor: 8 bytes of room for the elements, f32[3] holds 12");
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(in[k]), sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
}

/* Elements at an odd address are copied when a program is loaded, and here there are none. */
Test(misuse, a_weight_without_elements_at_an_odd_address) {
    static const char bytes[8] = {0};
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_program *p;
    sn_node w = sn_weight(g, "w", SN_F32, bytes + 1, SN_LIST(0, 3));
    sn_output(g, "y", sn_sum(g, sn_exp(g, w), SN_LIST(0), false));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_program_destroy(p);
}

/* ---- ports of a graph, by number ---- */

Test(misuse, a_graph_tells_of_its_ports) {
    static const char text[] =
        "graph @g(%x: f32[N, 3], %t: f16[4, 2] strides [1, 4] offset 8, %s: f64[] = [2], %n: i64[2]) {\n"
        "  %y = neg %x\n  %m = add %n, 1\n  return y = %y, m = %m writes %n\n}\n";
    sn_context *ctx;
    sn_graph *g;
    sn_port p;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "g", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    int64_t n = sn_dim(g, "N");
    cr_assert_eq(sn_graph_input_port(&p, g, 0), SN_OK);
    cr_expect(!strcmp(p.name, "x") && p.dtype == SN_F32 && p.rank == 2 && p.shape[0] == n && p.shape[1] == 3);
    cr_expect(p.strides[0] == 3 && p.strides[1] == 1 && p.offset == 0 && p.writes == -1 && !p.optional && p.align == 4);
    cr_assert_eq(sn_graph_input_port(&p, g, 1), SN_OK);
    cr_expect(!strcmp(p.name, "t") && p.dtype == SN_F16 && p.strides[0] == 1 && p.strides[1] == 4 && p.offset == 8);
    cr_assert_eq(sn_graph_input_port(&p, g, 2), SN_OK);
    cr_expect(p.optional && p.rank == 0);
    cr_assert_eq(sn_graph_output_port(&p, g, 0), SN_OK);
    cr_expect(!strcmp(p.name, "y") && p.shape[0] == n && p.writes == -1);
    cr_assert_eq(sn_graph_output_port(&p, g, 1), SN_OK);
    cr_expect(!strcmp(p.name, "m") && p.dtype == SN_I64 && p.writes == 3);
    cr_expect_eq(sn_graph_input_port(&p, g, 4), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(ctx), "input 4: the graph has 4");
    cr_expect_eq(sn_graph_output_port(&p, g, 2), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(ctx), "output 2: the graph has 2");
    cr_expect_eq(sn_graph_output_port(&p, NULL, 0), SN_ERROR_ARGUMENT);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
