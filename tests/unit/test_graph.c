/* test_graph.c: Graph IR: rules right and wrong, promotion, interning, text round trip, verifier, copy. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/loop.h"
#include "ir/module.h"

static sn_env env;

static sn_module *parse(const char *text) {
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    sn_module_parse(m, "t.sn", text, strlen(text));
    return m;
}

static sn_module *parse_ok(const char *text) {
    sn_module *m = parse(text);
    cr_assert_eq(env.status, SN_OK, "%s\nin %s", env.message, text);
    cr_assert_eq(sn_graph_verify(m, "test"), SN_OK, "%s", env.message);
    return m;
}

static void check_print(const sn_module *m, const char *want) {
    sn_text t;
    sn_text_init(&t, m->env);
    sn_graph_print(&t, m);
    cr_assert_str_eq(t.s, want);
    sn_text_free(&t);
}

/* Inputs that the one-line cases below use. */
#define INPUTS                                                                                                        \
    "%x: f32[4, 6], %y: f32[6], %z: f32[4, 1], %h: f16[4, 6], %bf: bf16[6], %i: i32[4, 6], %u: u8[6], %s8: i8[6], "   \
    "%l: i64[4, 6], %b: bool[4, 6], %n: f32[N, 256], %v: f32[255], %nn: f32[M, 256], %e: f32[2, 0], %r0: f32[], "     \
    "%a: f32[5, 4, 64], %w: f32[32, 16], %w64: f32[64, 8], %v64: f32[64], %q: f32[2, 16, 8, 8], %k: f32[32, 16, 3, 3], " \
    "%k5: f32[32, 8, 3, 3], %c: f32[16], %t: i64[4], %big: f32[4611686018427387904], %two: f32[2], "                   \
    "%r8: f32[1, 1, 1, 1, 1, 1, 1, 1], %i2: i64[3, 2], %i3: i64[2, 3], %t2: i64[2], %none: f32[0, 0], %t0: i64[0], %t3: i64[0, 3], %one: f32[1, 16], "                                            \
    "%u16: u16[4, 6], %u64: u64[4, 6], %v4: f32[4], %line: f32[3, 5, 2*N], %taps: f32[8, 5, 3], "                     \
    "%box: f16[1, 6, 4, 5, 6], %cube: f16[4, 6, 2, 3, 4]"

typedef struct rule_case {
    const char *op, *type;
} rule_case;

static const rule_case RIGHT[] = {
    {"exp %x", "f32[4, 6]"},
    {"neg %i", "i32[4, 6]"},
    {"not %b", "bool[4, 6]"},
    {"isnan %x", "bool[4, 6]"},
    {"add %x, %y", "f32[4, 6]"},
    {"add %x, %z", "f32[4, 6]"},
    {"add %x, %r0", "f32[4, 6]"},
    {"add %h, %r0", "f16[4, 6]"},
    {"mul %r0, %i", "f32[4, 6]"},
    {"add %h, %x", "f32[4, 6]"},
    {"add %h, %bf", "f32[4, 6]"},
    {"add %u, %s8", "i16[6]"},
    {"mul %i, %h", "f16[4, 6]"},
    {"add %n, %z", "error"},
    {"reshape %n shape=[N, 2, -1]", "f32[N, 2, 128]"},
    {"reshape %n shape=[-1, 64*N]", "f32[4, 64*N]"},
    {"reshape %n shape=[M, -1]", "error"},
    {"add %n, %n", "f32[N, 256]"},
    {"div %i, 2", "i32[4, 6]"},
    {"lt %x, 0.5", "bool[4, 6]"},
    {"eq %l, %i", "bool[4, 6]"},
    {"shl %i, 3", "i32[4, 6]"},
    {"and %b, %b", "bool[4, 6]"},
    {"where %b, %x, 0", "f32[4, 6]"},
    {"where %b, %i, %h", "f16[4, 6]"},
    {"cast %x dtype=bf16", "bf16[4, 6]"},
    {"clamp %x min=0", "f32[4, 6]"},
    {"clamp %i min=-1 max=7", "i32[4, 6]"},
    {"full value=1.5 dtype=f16 shape=[3, N]", "f16[3, N]"},
    {"constant dtype=i8 shape=[2] values=[-128, 127]", "i8[2]"},
    {"iota axis=-1 dtype=i64 shape=[2, 3]", "i64[2, 3]"},
    {"sum %b axes=[1]", "i64[4]"},
    {"sum %x axes=[-1] keepdim=true", "f32[4, 1]"},
    {"sum %e axes=[1]", "f32[2]"},
    {"index_select %none, %t axis=1", "f32[0, 4]"},
    {"index_select %e, %t0 axis=1", "f32[2, 0]"},
    {"gather %e, %t3 axis=1", "f32[0, 3]"},
    {"cross_entropy %none, %t0", "f32[]"},
    {"prod %u axes=[0]", "i64[]"},
    {"mean %n axes=[0, 1]", "f32[]"},
    {"amax %i axes=[0]", "i32[6]"},
    {"argmax %x axes=[1]", "i64[4]"},
    {"any %x axes=[1]", "bool[4]"},
    {"all %b axes=[0] keepdim=true", "bool[1, 6]"},
    {"var %x axes=[1] correction=0", "f32[4]"},
    {"cumsum %b axis=1", "i64[4, 6]"},
    {"cumprod %h axis=-1 exclusive=true", "f16[4, 6]"},
    {"cummax %i axis=0 reverse=true", "i32[4, 6]"},
    {"cummin %n axis=0", "f32[N, 256]"},
    {"reshape %x shape=[2, 12]", "f32[2, 12]"},
    {"reshape %x shape=[2, -1]", "f32[2, 12]"},
    {"reshape %n shape=[N, 2, 128]", "f32[N, 2, 128]"},
    {"reshape %n shape=[-1]", "f32[256*N]"},
    {"reshape %n shape=[256*N]", "f32[256*N]"},
    {"permute %a perm=[2, 0, -2]", "f32[64, 5, 4]"},
    {"expand %z shape=[3, 4, 6]", "f32[3, 4, 6]"},
    {"expand %z shape=[-1, 6]", "f32[4, 6]"},
    {"squeeze %z axes=[-1]", "f32[4]"},
    {"unsqueeze %y axes=[0, -1]", "f32[1, 6, 1]"},
    {"slice %x axis=1 start=1 stop=-1 step=2", "f32[4, 2]"},
    {"slice %x axis=1 start=5 stop=2", "f32[4, 0]"},
    {"slice %x axis=0 start=-100 stop=9223372036854775807", "f32[4, 6]"},
    {"slice %n axis=0 start=0 stop=9223372036854775807", "f32[N, 256]"},
    {"slice %n axis=0 start=1 stop=9223372036854775807", "f32[max(N - 1, 0), 256]"},
    {"slice %n axis=0 start=1 stop=-1", "f32[max(N - 2, 0), 256]"},
    {"slice %n axis=0 start=9223372036854775806 stop=-2",
     "f32[max(max(N - 2, 0) - min(N, 9223372036854775806), 0), 256]"},
    {"unfold %x axis=1 size=3", "f32[4, 4, 3]"},
    {"unfold %x axis=-2 size=2 step=2 dilation=[3]", "f32[1, 6, 2]"},
    {"unfold %n axis=0 size=3 step=2", "f32[((N + 1) div 2) - 1, 256, 3]"},
    {"flip %x axes=[0, 1]", "f32[4, 6]"},
    {"pad %x low=[1, 0] high=[0, -2] value=1", "f32[5, 4]"},
    {"concat %x, %x, %h axis=0", "f32[12, 6]"},
    {"concat %n, %nn axis=0", "f32[M + N, 256]"},
    {"gather %x, %l axis=1", "f32[4, 6]"},
    {"gather %x, %u64 axis=1", "f32[4, 6]"},
    {"sum %u64 axes=[0]", "i64[6]"},
    {"cumprod %u16 axis=0", "i64[4, 6]"},
    {"amax %u16 axes=[0]", "u16[6]"},
    {"add %u64, %l", "f64[4, 6]"},
    {"add %u16, %i", "i32[4, 6]"},
    {"add %u64, 18446744073709551615", "u64[4, 6]"},
    {"index_select %w, %i2 axis=0", "f32[3, 2, 16]"},
    {"scatter %x, %t, %x", "f32[4, 6]"},
    {"scatter %y, %t, %v4", "f32[6]"},
    {"scatter_max %i, %t, %i", "i32[4, 6]"},
    {"matmul %a, %w64", "f32[5, 4, 8]"},
    {"matmul %a, %v64", "f32[5, 4]"},
    {"matmul %v64, %w64", "f32[8]"},
    {"matmul %v64, %v64", "f32[]"},
    {"conv %q, %k", "f32[2, 32, 6, 6]"},
    {"conv %q, %k padding=[1, 1] stride=[2, 2]", "f32[2, 32, 4, 4]"},
    {"conv %q, %k padding=[1, 0, 2, 0] dilation=[1, 2]", "f32[2, 32, 9, 4]"},
    {"conv %q, %k5 groups=2", "f32[2, 32, 6, 6]"},
    {"conv %q, %k padding=[-1, 0, 1, -2]", "f32[2, 32, 6, 4]"},
    {"conv %q, %k input_dilation=[2, 3] stride=[1, 2]", "f32[2, 32, 13, 10]"},
    {"conv %line, %taps padding=[2] dilation=[3]", "f32[3, 8, 2*N - 2]"},
    {"conv %line, %taps input_dilation=[2]", "f32[3, 8, 4*N - 3]"},
    {"conv %box, %cube stride=[1, 2, 3] padding=[0, 1, 2]", "f16[1, 4, 3, 3, 3]"},
    {"relu %i", "i32[4, 6]"},
    {"gelu %x", "f32[4, 6]"},
    {"add %l, 9007199254740992", "i64[4, 6]"},
    {"add %l, 9223372036854775807", "i64[4, 6]"},
    {"add %l, -9223372036854775808", "i64[4, 6]"},
    {"add %u64, 18446744073709551615", "u64[4, 6]"},
    {"add %x, 9007199254740993", "f32[4, 6]"},
    {"add %h, -inf", "f16[4, 6]"},
    {"full value=65519 dtype=f16 shape=[]", "f16[]"},
    {"clamp %h max=100000", "f16[4, 6]"},
    {"softmax %x axis=-1", "f32[4, 6]"},
    {"logsumexp %x axes=[1]", "f32[4]"},
    {"layer_norm %x, %y, %y eps=1e-05", "f32[4, 6]"},
    {"rms_norm %x, %x eps=1e-05", "f32[4, 6]"},
    {"batch_norm %q, %c, %c, %c, %c eps=1e-05", "f32[2, 16, 8, 8]"},
    {"cross_entropy %x, %t", "f32[]"},
};

static const rule_case WRONG[] = {
    {"add %n, %v", "add: shapes [N, 256] and [255] do not broadcast (axis 1: 256 vs 255)"},
    {"add %n, %nn", "add: shapes [N, 256] and [M, 256] do not broadcast (axis 0: N vs M)"},
    {"exp %i", "exp: does not take i32; cast it to a float type first"},
    {"shl %x, %x", "shl: does not take f32"},
    {"and %x, %x", "and: does not take f32"},
    {"sub %b, %b", "sub: does not take bool"},
    {"and %u64, %l", "and: does not take f64"},
    {"add %x", "add: takes 2 operands, not 1"},
    {"full %x value=1 dtype=f32 shape=[]", "full: takes 0 operands, not 1"},
    {"where %x, %x, %x", "where: the condition is f32, not bool"},
    {"where 1, %x, %x", "where: a number needs a tensor beside it"},
    {"add 1, 2", "add: a number needs a tensor beside it"},
    {"exp 1", "exp: does not take a number as operand"},
    {"add %i, 2.5", "full: value 2.5 is not a value of i32"},
    {"full value=300 dtype=u8 shape=[]", "full: value 300 is not a value of u8"},
    {"full value=70000 dtype=f16 shape=[]", "full: value 70000 is beyond the largest value of f16"},
    {"full value=-1e300 dtype=f32 shape=[]", "is beyond the largest value of f32"},
    {"add %s8, 300", "full: value 300 is not a value of i8"},
    {"add %u, -1", "full: value -1 is not a value of u8"},
    {"add %h, 1e10", "full: value 10000000000 is beyond the largest value of f16"},
    {"add %l, 9007199254740993", "add: a number has 53 bits; write a constant"},
    {"add %u64, 18446744073709551614", "add: a number has 53 bits; write a constant"},
    {"add %l, - -1", "expected a number, found '-'"},
    {"clamp %x", "clamp: give min or max or both"},
    {"clamp %x min=nan", "clamp: a limit is nan"},
    {"clamp %i max=0.5", "clamp: max 0.5 is not a value of i32"},
    {"cast %x", "cast: attribute 'dtype' is missing"},
    {"cast %x dtype=f31", "expected a dtype, found 'f31'"},
    {"exp %x axis=1", "exp: takes no attribute 'axis'"},
    {"exp %x foo=1", "exp: there is no attribute 'foo'"},
    {"softmax %x axis=true", "softmax: attribute 'axis' takes an integer, not 'true'"},
    {"matmul %x, %x precision=f32", "matmul: precision: 'f32' is none of exact, high, tf32, bf16"},
    {"matmul %x, %x precision=1", "matmul: attribute 'precision' takes a word, not '1'"},
    {"exp %x precision=tf32", "exp: takes no attribute 'precision'"},
    {"sum %x axes=1", "sum: attribute 'axes' takes a list of integers, not '1'"},
    {"softmax %x axis=0 axis=0", "softmax: attribute 'axis' is given twice"},
    {"cumsum %x axis=2", "cumsum: axis 2 is not in -2 .. 1 (rank 2)"},
    {"cumsum %x axis=1 exclusive=2", "cumsum: attribute 'exclusive' takes true or false, not '2'"},
    {"softmax %x axis=2", "softmax: axis 2 is not in -2 .. 1 (rank 2)"},
    {"softmax %r0 axis=0", "softmax: axis 0 of a tensor without axes"},
    {"softmax %i axis=0", "softmax: does not take i32; cast it to a float type first"},
    {"mean %i axes=[0]", "mean: does not take i32; cast it to a float type first"},
    {"sum %x axes=[0, -2]", "sum: axis 0 is listed twice"},
    {"amax %e axes=[1]", "amax: axis 1 has no elements"},
    {"constant dtype=f32 shape=[3] values=[1, 2]", "constant: 2 values for the 3 elements of shape [3]"},
    {"constant dtype=i32 shape=[1] values=[1.5]", "constant: values are not integers for dtype i32"},
    {"constant dtype=u8 shape=[1] values=[-1]", "constant: value -1 is not a value of u8"},
    {"constant dtype=u16 shape=[1] values=[65536]", "constant: value 65536 is not a value of u16"},
    {"constant dtype=u32 shape=[1] values=[-1]", "constant: value -1 is not a value of u32"},
    {"constant dtype=u64 shape=[3] values=[1, -2, 3]", "constant: value -2 is not a value of u64"},
    {"constant values=[18446744073709551615, -1] dtype=u64 shape=[2]", "constant: value -1 is not a value of u64"},
    {"constant dtype=u64 shape=[1] values=[1.5]", "constant: values are not integers for dtype u64"},
    {"constant dtype=i64 shape=[1] values=[9223372036854775808]", "constant: values are not integers for dtype i64"},
    {"full value=65536 dtype=u16 shape=[]", "full: value 65536 is not a value of u16"},
    {"full value=4294967296 dtype=u32 shape=[]", "full: value 4294967296 is not a value of u32"},
    {"full value=-1 dtype=u64 shape=[]", "full: value -1 is not a value of u64"},
    {"full value=2e19 dtype=u64 shape=[]", "full: value 2e+19 is not a value of u64"},
    {"clamp %u64 min=-1", "clamp: min -1 is not a value of u64"},
    {"exp %u64", "exp: does not take u64; cast it to a float type first"},
    {"gather %x, %u16 axis=0", "gather: the index is u16, not i32, i64, u32 or u64"},
    {"constant dtype=f32 shape=[N] values=[1]", "constant: shape [N] must be constant"},
    {"full value=0 dtype=f32 shape=[4294967296, 4294967296]", "full: tensor has more than 2^62 elements"},
    {"full value=0 dtype=f32 shape=[0, 9223372036854775807]", "full: tensor has more than 2^62 elements"},
    {"full value=0 dtype=f32 shape=[-1]", "full: axis 0 has the negative size -1"},
    {"full value=0 dtype=f32 shape=[1, 1, 1, 1, 1, 1, 1, 1, 1]", "a tensor has at most 8 axes"},
    {"iota axis=0 dtype=bool shape=[2]", "iota: does not take bool"},
    {"reshape %x shape=[5, 5]", "reshape: shape [4, 6] has 24 elements, [5, 5] has 25"},
    {"reshape %x shape=[5, -1]", "reshape: cannot find the size -1: 24 elements in groups of 5"},
    {"reshape %x shape=[-1, -1]", "reshape: only one size can be -1"},
    {"permute %x perm=[0]", "permute: perm has 1 entries for 2 axes"},
    {"permute %x perm=[0, 0]", "permute: axis 0 is listed twice"},
    {"expand %x shape=[4, 7]", "expand: axis 1 has size 6 and cannot become 7"},
    {"expand %x shape=[6]", "expand: shape [4, 6] has more than 1 axes"},
    {"squeeze %x axes=[1]", "squeeze: axis 1 has size 6, not 1"},
    {"unsqueeze %r8 axes=[0]", "unsqueeze: the result would have 9 axes; a tensor has at most 8"},
    {"slice %x axis=0 start=0 stop=1 step=0", "slice: step is 0; it must be positive"},
    {"unfold %x axis=2 size=2", "unfold: axis 2 is not in -2 .. 1 (rank 2)"},
    {"unfold %x axis=1 size=7", "unfold: a window of 7 does not fit axis 1 of 6 elements"},
    {"unfold %x axis=1 size=0", "unfold: size 0 is not in 1 .. 2147483647"},
    {"unfold %x axis=1 size=2 step=0", "unfold: step 0 is not in 1 .. 2147483647"},
    {"unfold %x axis=1 size=2 dilation=[0]", "unfold: dilation 0 is not in 1 .. 2147483647"},
    {"unfold %x axis=1 size=2 dilation=[1, 1]", "unfold: dilation has 2 entries, not 1"},
    {"unfold %r8 axis=0 size=1", "unfold: the result would have 9 axes; a tensor has at most 8"},
    {"pad %x low=[1] high=[1]", "pad: low has 1 and high has 1 entries for 2 axes"},
    {"pad %x low=[-3, 0] high=[-3, 0]", "pad: axis 0 of size 4 loses 6 elements"},
    {"pad %x low=[9223372036854775807, 0] high=[1, 0]", "pad: axis 0 gets too long or too short"},
    {"pad %x low=[-9223372036854775808, 0] high=[0, 0]", "pad: axis 0 gets too long or too short"},
    {"pad %x low=[-9223372036854775808, 0] high=[9223372036854775807, 0]", "pad: axis 0 gets too long or too short"},
    {"concat %x, %y axis=0", "concat: shapes [4, 6] and [6] do not join along axis 0"},
    {"concat %big, %big axis=0", "concat: tensor has more than 2^62 elements"},
    {"concat axis=0", "concat: needs at least one operand"},
    {"gather %x, %x axis=0", "gather: the index is f32, not i32, i64, u32 or u64"},
    {"gather %z, %l axis=0", "gather: index of shape [4, 6] does not fit x of shape [4, 1] (axis 1: 6 vs 1)"},
    {"gather %e, %i2 axis=1", "gather: index of shape [3, 2] does not fit x of shape [2, 0] (axis 0: 3 vs 2)"},
    {"gather %e, %i3 axis=1",
     "gather: axis 1 of shape [2, 0] has no elements that the index of shape [2, 3] could choose from"},
    {"index_select %e, %t axis=1",
     "index_select: axis 1 of shape [2, 0] has no elements that the index of shape [4] could choose from"},
    {"cross_entropy %e, %t2", "cross_entropy: x of shape [2, 0] has no classes that the target could name"},
    {"scatter %r0, %t, %x", "scatter: x has no rows"},
    {"scatter %x, %l, %x", "scatter: the index is [4, 6], not a list"},
    {"scatter %x, %y, %x", "scatter: the index is f32, not i32, i64, u32 or u64"},
    {"scatter %x, %t, %h", "scatter: the updates are f16, x is f32; cast one of them"},
    {"scatter %x, %t, %z", "scatter: updates of shape [4, 1] are not 4 rows of x of shape [4, 6]"},
    {"scatter_sum %b, %t, %b", "scatter_sum: does not take bool"},
    {"matmul %a, %w", "matmul: inner sizes differ (64 vs 32)"},
    {"matmul %x, %r0", "matmul: operand 2 has no axes"},
    {"matmul %b, %b", "matmul: does not take bool"},
    {"matmul %x, %h", "matmul: operand 1 is f32 but operand 2 is f16; cast one of them"},
    {"conv %q, %x",
     "conv: takes x [N, C, S1..Sn] and weights [O, C/groups, K1..Kn] with 1 to 3 spatial axes, not [2, 16, 8, 8] and [4, 6]"},
    {"conv %q, %a",
     "conv: takes x [N, C, S1..Sn] and weights [O, C/groups, K1..Kn] with 1 to 3 spatial axes, not [2, 16, 8, 8] and [5, 4, 64]"},
    {"conv %q, %k5", "conv: the image has 16 channels but the weights take 8 in each of 1 group"},
    {"conv %q, %k dilation=[8, 8]", "conv: a window of 17 does not fit a padded image of 8 (axis 2)"},
    {"conv %q, %k stride=[0, 1]", "conv: stride 0 is not in 1 .. 2147483647"},
    {"conv %q, %k stride=[1]", "conv: stride has 1 entries, not 2"},
    {"conv %q, %k padding=[1, 1, 1]", "conv: padding has 3 entries, not 2 or 4 (all low ends, then all high ends)"},
    {"conv %q, %k padding=[1, -2147483648]", "conv: padding -2147483648 is not in -2147483647 .. 2147483647"},
    {"conv %q, %k padding=[-3, 0]", "conv: a window of 3 does not fit a padded image of 2 (axis 2)"},
    {"conv %q, %k dilation=[0, 1]", "conv: dilation 0 is not in 1 .. 2147483647"},
    {"conv %q, %k input_dilation=[1, 0]", "conv: input_dilation 0 is not in 1 .. 2147483647"},
    {"conv %q, %k input_dilation=[2]", "conv: input_dilation has 1 entries, not 2"},
    {"conv %q, %k groups=0", "conv: groups 0 is not in 1 .. 2147483647"},
    {"conv %q, %k schedule=\"nothing\"", "conv: schedule:1:1: unknown schedule class 'nothing'"},
    {"layer_norm %x, %y, %c eps=0", "layer_norm: bias has shape [16], weight has [6]"},
    {"layer_norm %x, %c, %c eps=0", "layer_norm: weight of shape [16] does not cover the last axes of [4, 6]"},
    {"batch_norm %q, %c, %c, %y, %c eps=0", "batch_norm: running mean has shape [6] for 16 channels"},
    {"batch_norm_train %one, %c, %c, %c, %c eps=0 momentum=0",
     "batch_norm_train: one element per channel has no variance"},
    {"cross_entropy %x, %x", "cross_entropy: the target is f32, not i64 or i32"},
    {"cross_entropy %x, %l", "cross_entropy: takes x [N, C] and target [N], not [4, 6] and [4, 6]"},
    {"sort %x axis=2", "sort: axis 2 is not in -2 .. 1 (rank 2)"},
    {"topk %x k=7 axis=1", "topk: k is 7, axis 1 has 6 elements"},
    {"topk %n k=-1 axis=0", "topk: k is -1, axis 0 has N elements"},
    {"random %x, %x dtype=f32 shape=[3]", "random: the seed is f32[4, 6], not i64[]"},
    {"random %t, %t dtype=bool shape=[3]", "random: does not take bool"},
    {"random_normal %t, %t dtype=i32 shape=[3]", "random_normal: does not take i32"},
    {"dropout %x, %t, %t p=2", "dropout: p is 2, not in 0 .. 1"},
    {"dropout %i, %t, %t p=0.5", "dropout: does not take i32; cast it to a float type first"},
    {"project %x index=0", "project: the operand (input) is not a tuple"},
    {"input", "input: inputs are declared in the graph's parameter list"},
    {"frobnicate %x", "unknown operation 'frobnicate'"},
    {"exp %nope", "unknown value %nope"},
};

Test(graph, right_rules) {
    char text[2048];
    for (size_t i = 0; i < SN_COUNT(RIGHT); i++) {
        snprintf(text, sizeof text, "graph @g(%s) {\n  %%res = %s\n  return out = %%res\n}\n", INPUTS, RIGHT[i].op);
        sn_module *m = parse(text);
        if (strcmp(RIGHT[i].type, "error") == 0) {
            cr_expect_neq(env.status, SN_OK, "%s", RIGHT[i].op);
        } else {
            cr_expect_eq(env.status, SN_OK, "%s: %s", RIGHT[i].op, env.message);
            cr_expect_eq(sn_graph_verify(m, "test"), SN_OK, "%s: %s", RIGHT[i].op, env.message);
            if (env.status == SN_OK)
                cr_expect_str_eq(sn_type_text(m, &sn_node_get(m, m->graph.outputs.at[0].node)->type), RIGHT[i].type,
                                 "%s", RIGHT[i].op);
        }
        sn_module_free(m);
    }
}

Test(graph, wrong_rules_say_what_is_wrong) {
    char text[2048];
    for (size_t i = 0; i < SN_COUNT(WRONG); i++) {
        snprintf(text, sizeof text, "graph @g(%s) {\n  %%res = %s\n  return out = %%res\n}\n", INPUTS, WRONG[i].op);
        sn_module *m = parse(text);
        cr_expect_neq(env.status, SN_OK, "%s", WRONG[i].op);
        cr_expect(strstr(env.message, WRONG[i].type), "%s:\n  %s\n  %s", WRONG[i].op, env.message, WRONG[i].type);
        cr_expect_eq(strncmp(env.message, "t.sn:2:", 7), 0, "%s", env.message);
        sn_module_free(m);
    }
}

Test(graph, sorts_are_pairs) {
    sn_module *m = parse("graph @g(%x: bf16[4, 6], %n: i8[N, 256]) {\n"
                         "  %s = sort %x axis=1 descending=true\n  %a = project %s index=0\n  %b = project %s index=1\n"
                         "  %t = topk %n k=300 axis=0\n  %c = project %t index=0\n  %d = project %t index=1\n"
                         "  %u = topk %x k=0 axis=-1\n  %e = project %u index=0\n"
                         "  return a = %a, b = %b, c = %c, d = %d, e = %e\n}\n");
    static const char *const want[] = {"bf16[4, 6]", "i64[4, 6]", "i8[300, 256]", "i64[300, 256]", "bf16[4, 0]"};
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    for (uint32_t k = 0; k < SN_COUNT(want); k++)
        cr_expect_str_eq(sn_type_text(m, &sn_node_get(m, m->graph.outputs.at[k].node)->type), want[k]);
    sn_module_free(m);
}

/* ---- tables ---- */

Test(graph, tables_follow_the_def_files) {
    cr_expect_str_eq(sn_ops[SN_OP_ADD].name, "add");
    cr_expect_eq(sn_ops[SN_OP_ADD].lop, SN_LOP_ADD);
    cr_expect_eq(sn_ops[SN_OP_AMAX].lop, SN_COMB_MAX);
    cr_expect_eq(sn_ops[SN_OP_WHERE].lop, SN_LOP_SELECT);
    cr_expect_eq(sn_ops[SN_OP_MEAN].lop, -1);
    cr_expect_eq(sn_ops[SN_OP_CONCAT].n_in, -1);
    cr_expect_eq(sn_attrs[SN_ATTR_SHAPE].kind, SN_KIND_SHAPE);
    cr_expect_eq(sn_attrs[SN_ATTR_PRECISION].kind, SN_KIND_WORD);
    cr_expect_str_eq(sn_attrs[SN_ATTR_PRECISION].words[SN_PRECISION_BF16], "bf16");
    for (int op = 0; op < SN_N_OPS; op++) {
        sn_op found;
        cr_expect(sn_op_from_name(&found, sn_ops[op].name) && (int)found == op, "%s", sn_ops[op].name);
    }
    sn_op none;
    cr_expect_not(sn_op_from_name(&none, "nothing"));
}

Test(graph, promotion_is_symmetric_and_pytorchs_or_else_numpys) {
    for (int a = 0; a < SN_N_DTYPES; a++)
        for (int b = 0; b < SN_N_DTYPES; b++)
            cr_expect_eq(sn_promote((sn_dtype)a, (sn_dtype)b), sn_promote((sn_dtype)b, (sn_dtype)a));
    cr_expect_eq(sn_promote(SN_BOOL, SN_U8), SN_U8);
    cr_expect_eq(sn_promote(SN_U8, SN_I8), SN_I16);
    cr_expect_eq(sn_promote(SN_I64, SN_F16), SN_F16);
    cr_expect_eq(sn_promote(SN_F16, SN_BF16), SN_F32);
    cr_expect_eq(sn_promote(SN_BF16, SN_F64), SN_F64);
    cr_expect_eq(sn_promote(SN_BOOL, SN_I8), SN_I8);
    cr_expect_eq(sn_promote(SN_U8, SN_I16), SN_I16);
    cr_expect_eq(sn_promote(SN_U64, SN_F16), SN_F16);
    cr_expect_eq(sn_promote(SN_U64, SN_BOOL), SN_U64);
    cr_expect_eq(sn_promote(SN_U8, SN_U16), SN_U16);
    cr_expect_eq(sn_promote(SN_U64, SN_U32), SN_U64);
    cr_expect_eq(sn_promote(SN_I16, SN_U16), SN_I32);
    cr_expect_eq(sn_promote(SN_U16, SN_I32), SN_I32);
    cr_expect_eq(sn_promote(SN_I8, SN_U32), SN_I64);
    cr_expect_eq(sn_promote(SN_I64, SN_U32), SN_I64);
    cr_expect_eq(sn_promote(SN_I64, SN_U64), SN_F64);
}

/* torch.result_type(tensor, scalar tensor): a row for the dtype of the tensor, a column for that of the scalar, both
 * in this order. What PyTorch computes for each pair; of u16, u32 and u64 it has no sums. */
static const sn_dtype TORCH[] = {SN_BOOL, SN_U8, SN_I8, SN_I16, SN_I32, SN_I64, SN_F16, SN_BF16, SN_F32, SN_F64};
static const char *const WITH_SCALAR[] = {
    "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64",           /* bool */
    "u8 u8 u8 u8 u8 u8 f16 bf16 f32 f64",                /* u8 */
    "i8 i8 i8 i8 i8 i8 f16 bf16 f32 f64",                /* i8 */
    "i16 i16 i16 i16 i16 i16 f16 bf16 f32 f64",          /* i16 */
    "i32 i32 i32 i32 i32 i32 f16 bf16 f32 f64",          /* i32 */
    "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64",          /* i64 */
    "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16",           /* f16 */
    "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16", /* bf16 */
    "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32",           /* f32 */
    "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",           /* f64 */
};

/* The dtype that `where` and a comparison give x and y. */
static void expect_common(sn_module *m, sn_nd condition, sn_nd x, sn_nd y, const char *want) {
    sn_nd both[] = {x, y}, three[] = {condition, x, y};
    sn_nd chosen = sn_graph_node(m, SN_OP_WHERE, three, 3, NULL, 0),
          equal = sn_graph_node(m, SN_OP_EQ, both, 2, NULL, 0);
    cr_assert(chosen.i && equal.i, "%s", m->env->message);
    cr_expect_str_eq(sn_dtypes[sn_node_get(m, chosen)->type.dtype].name, want);
    for (uint32_t k = 0; k < 2; k++) {
        const sn_type *operand = &sn_node_get(m, sn_node_get(m, equal)->in[k])->type;
        cr_expect_str_eq(sn_dtypes[operand->dtype].name, want);
        cr_expect_eq(operand->rank, sn_node_get(m, both[k])->type.rank, "a cast alone");
    }
}

Test(graph, scalars_are_as_weak_as_pytorchs) {
    enum { COUNT = sizeof TORCH / sizeof *TORCH };
    sn_module *m = parse("graph @g(%b: bool[3]) { return b = %b }");
    sn_nd tensor[COUNT], scalar[COUNT], condition = m->graph.inputs.at[0].node;
    char name[16];
    for (uint32_t k = 0; k < COUNT; k++) {
        sn_type type = {.dtype = TORCH[k], .rank = 1, .shape = {sn_ix_const(m, 3)}}, number = {.dtype = TORCH[k]};
        snprintf(name, sizeof name, "t%u", k);
        tensor[k] = sn_graph_input_new(m, sn_strdup(&m->arena, name), &type, NULL, (sn_ix){0});
        snprintf(name, sizeof name, "s%u", k);
        scalar[k] = sn_graph_input_new(m, sn_strdup(&m->arena, name), &number, NULL, (sn_ix){0});
    }
    for (uint32_t row = 0; row < COUNT; row++) {
        const char *at = WITH_SCALAR[row];
        for (uint32_t column = 0; column < COUNT; column++, at += strcspn(at, " "), at += *at == ' ') {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
            expect_common(m, condition, tensor[row], scalar[column], name);
            expect_common(m, condition, scalar[column], tensor[row], name);
            const char *strong = sn_dtypes[sn_promote(TORCH[row], TORCH[column])].name;
            expect_common(m, condition, scalar[row], scalar[column], strong);
            expect_common(m, condition, tensor[row], tensor[column], strong);
        }
        cr_expect_str_eq(at, "");
    }
    sn_module_free(m);
}

/* ---- interning ---- */

Test(graph, equal_operations_are_one_node) {
    sn_module *m = parse_ok("graph @g(%x: f32[4, 6], %y: f32[4, 6]) {\n"
                            "  %a = add %x, %y\n  %b = add %x, %y\n  %c = add %y, %x\n"
                            "  %d = sum %x axes=[1, 0]\n  %e = sum %x axes=[0, -1]\n"
                            "  %f = add %x, 1.0\n  %g = add %x, 1\n"
                            "  %h = slice %x axis=0 start=0 stop=4 step=4\n"
                            "  %i = slice %x axis=0 start=0 stop=4 step=9223372036854775807\n"
                            "  return a = %a, b = %b, c = %c, d = %d, e = %e, f = %f, g = %g, h = %h, i = %i\n}");
    sn_graph_output *o = m->graph.outputs.at;
    cr_expect(sn_nd_eq(o[0].node, o[1].node));
    cr_expect_not(sn_nd_eq(o[0].node, o[2].node));
    cr_expect(sn_nd_eq(o[3].node, o[4].node));
    cr_expect(sn_nd_eq(o[5].node, o[6].node));
    cr_expect(sn_nd_eq(o[7].node, o[8].node));
    sn_module_free(m);
}

/* A list of no elements is the same whether it came as floats, as integers, or not at all. */
Test(graph, constants_without_elements_are_one_node) {
    static const double f[1] = {0};
    static const int64_t i[1] = {0};
    sn_module *m = parse_ok("graph @g(%x: f32[0]) { return x = %x }");
    sn_ix none = sn_ix_const(m, 0);
    for (sn_dtype t = 0; t < SN_N_DTYPES; t++) {
        sn_attr attrs[] = {
            {.id = SN_ATTR_DTYPE, .i = t}, {.id = SN_ATTR_SHAPE, .shape = {&none, 1}}, {.id = SN_ATTR_VALUES}};
        sn_nd x = sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, 3);
        cr_assert(x.i);
        attrs[2].numbers.f = f;
        cr_expect(sn_nd_eq(sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, 3), x));
        attrs[2].numbers.i = i;
        cr_expect(sn_nd_eq(sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, 3), x));
    }
    sn_module_free(m);
}

Test(graph, interning_survives_growth) {
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    sn_graph_init(m, "g");
    sn_type t = {.dtype = SN_F32};
    sn_nd x = sn_graph_input_new(m, "x", &t, NULL, (sn_ix){0}), first[300], node;
    for (int i = 0; i < 300; i++) first[i] = sn_graph_binary(m, SN_OP_ADD, x, sn_graph_scalar(m, SN_F32, i));
    for (int i = 0; i < 300; i++) {
        node = sn_graph_binary(m, SN_OP_ADD, x, sn_graph_scalar(m, SN_F32, i));
        cr_expect(sn_nd_eq(node, first[i]));
    }
    /* 0 and -0 are different constants, every nan is the same. */
    cr_expect_not(sn_nd_eq(sn_graph_scalar(m, SN_F32, 0.0), sn_graph_scalar(m, SN_F32, -0.0)));
    cr_expect(sn_nd_eq(sn_graph_scalar(m, SN_F32, NAN), sn_graph_scalar(m, SN_F32, -(double)NAN)));
    cr_expect_eq(env.status, SN_OK, "%s", env.message);
    sn_module_free(m);
}

Test(graph, shorthands) {
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    sn_graph_init(m, "g");
    sn_type t = {.dtype = SN_F16, .rank = 2, .shape = {sn_ix_const(m, 2), sn_ix_const(m, 3)}};
    sn_nd x = sn_graph_input_new(m, "x", &t, NULL, (sn_ix){0});
    cr_expect(sn_nd_eq(sn_graph_cast(m, x, SN_F16), x));
    sn_nd c = sn_graph_cast(m, x, SN_F32);
    sn_nd s = sn_graph_reduce(m, SN_OP_SUM, c, (int64_t[]){-1}, 1, true);
    cr_expect_str_eq(sn_type_text(m, &sn_node_get(m, s)->type), "f32[2, 1]");
    cr_expect_eq(sn_node_axes_mask(m, s), 2u);
    cr_expect_eq(sn_node_int(m, s, SN_ATTR_KEEPDIM, 0), 1);
    sn_nd u = sn_graph_unsqueeze(m, sn_graph_permute(m, c, (int64_t[]){1, 0}, 2), (int64_t[]){0}, 1);
    cr_expect_str_eq(sn_type_text(m, &sn_node_get(m, u)->type), "f32[1, 3, 2]");
    sn_nd e = sn_graph_expand(m, s, t.shape, 2);
    cr_expect(sn_ix_eq(sn_type_numel(m, &sn_node_get(m, e)->type), sn_ix_const(m, 6)));
    cr_expect_eq(sn_graph_unary(m, SN_OP_EXP, (sn_nd){0}).i, 0u);
    cr_expect_str_eq(env.message, "exp: operand 1 is missing");
    sn_module_free(m);
}

/* ---- text ---- */

Test(graph, text_round_trip) {
    static const char *const texts[] = {
        "graph @g(%x: f32[8192, 1024], %w: f32[N] strides [2] offset 4) {\n"
        "  %m = amax %x axes=[1] keepdim=true : f32[8192, 1]\n"
        "  %d = sub %x, %m : f32[8192, 1024]\n"
        "  %0 = exp %w : f32[N]\n"
        "  %1 = full dtype=f32 shape=[N, 2] value=-inf : f32[N, 2]\n"
        "  return y = %d, z = %0, f = %1\n"
        "}\n",
        "graph @bn(%x: f32[2, 32, 6, 6], %w: f32[32], %b: f32[32], %rm: f32[32], %rv: f32[32]) {\n"
        "  %t = batch_norm_train %x, %w, %b, %rm, %rv eps=1e-05 momentum=0.1 : f32[2, 32, 6, 6] tuple 5\n"
        "  %y = project %t index=0 : f32[2, 32, 6, 6]\n"
        "  %0 = project %t index=1 : f32[32]\n"
        "  return y = %y, rm = %0 writes %rm\n"
        "}\n",
        "graph @c() {\n"
        "  %0 = constant dtype=f64 shape=[2, 2] values=[1.0, -2.5, inf, nan] : f64[2, 2]\n"
        "  %1 = constant dtype=i64 shape=[1] values=[-9223372036854775808] : i64[1]\n"
        "  %2 = constant dtype=bool shape=[0] values=[] : bool[0]\n"
        "  return a = %0, b = %1, c = %2\n"
        "}\n",
    };
    for (size_t i = 0; i < SN_COUNT(texts); i++) {
        sn_module *m = parse_ok(texts[i]);
        check_print(m, texts[i]);
        sn_module_free(m);
    }
}

Test(graph, printed_names_are_unique_and_casts_visible) {
    sn_module *m = parse_ok("graph @g(%x: f16[4], %y: f32[4]) {\n"
                            "  %7 = add %x, %y\n  %dead = exp %x\n  %q = mul %7, 2\n  return o = %q\n}\n");
    sn_graph_name(m, (sn_nd){3}, "x"); /* the cast: the hint is taken by the input */
    check_print(m, "graph @g(%x: f16[4], %y: f32[4]) {\n"
                   "  %x_1 = cast %x dtype=f32 : f32[4]\n"
                   "  %0 = add %x_1, %y : f32[4]\n"
                   "  %1 = full dtype=f32 shape=[] value=2.0 : f32[]\n"
                   "  %q = mul %0, %1 : f32[4]\n"
                   "  return o = %q\n"
                   "}\n");
    sn_module_free(m);
}

Test(graph, table_is_aligned) {
    sn_module *m = parse_ok("graph @g(%x: f32[4, 6]) {\n  %s = softmax %x axis=1\n  return y = %s\n}\n");
    sn_text t;
    sn_text_init(&t, &env);
    sn_graph_print_table(&t, m);
    cr_expect_str_eq(t.s, "id  op       operands  attributes  type\n"
                          "%x  input                          f32[4, 6]\n"
                          "%s  softmax  %x        axis=1      f32[4, 6]\n"
                          "y   output   %s                    f32[4, 6]\n");
    sn_text_free(&t);
    sn_module_free(m);
}

static const rule_case BAD_TEXT[] = {
    {"graph g() {}", "t.sn:1:7: expected an @name, found 'g'"},
    {"graph @g(%x: f32[2], %x: f32[2]) { return y = %x }", "t.sn:1:22: two inputs are named x"},
    {"graph @g(%x: f32[-2]) { return y = %x }", "t.sn:1:10: input x: axis 0 has the negative size -2"},
    {"graph @g(%x: f32[2] strides [1, 1]) { return y = %x }", "t.sn:1:29: 2 strides for 1 axes"},
    {"graph @g(%x: f32[2] strides [-1]) { return y = %x }", "t.sn:1:10: input x: strides reach before the start"},
    {"graph @g(%x: f32[3] strides [4611686018427387904]) { return y = %x }", "input x: strides reach beyond 2^62"},
    {"graph @g(%x: f32[2]) { %y = exp %x : f32[3] return y = %y }", "t.sn:1:38: exp: the result is f32[2], not f32[3]"},
    {"graph @g(%x: f32[2]) { %y = exp %x : f32[2] tuple 2 return y = %y }", "exp: gives 1 result, not 2"},
    {"graph @g(%x: f32[2]) { %x = exp %x return y = %x }", "t.sn:1:24: %x is defined twice"},
    {"graph @g(%x: f32[2]) { %y = exp %x }", "t.sn:1:36: expected 'return', found '}'"},
    {"graph @g(%x: f32[2]) { return y = %x, y = %x }", "t.sn:1:39: two outputs are named y"},
    {"graph @g(%x: f32[2]) { return y = %x writes %z }", "t.sn:1:45: %z is not an input"},
    {"graph @g(%x: f32[2], %z: f32[3]) { return y = %x writes %z }",
     "output y of type f32[2] cannot write input z of type f32[3]"},
    {"graph @g(%x: f32[2]) { return y = %x writes %x, z = %x writes %x }", "outputs y and z both write input x"},
    {"graph @g(%x: f32[2, 3]) { %t = var_mean %x axes=[0] return y = %t }", "output y is a tuple"},
    {"graph @g(%x: f32[2, 3]) { %t = var_mean %x axes=[0] %z = exp %t return y = %z }",
     "exp: operand 1 is a tuple (of var_mean); take a result of it with project"},
    {"graph @g(%x: f32[2, 3]) { %t = var_mean %x axes=[0] %z = project %t index=2 return y = %z }",
     "project: index 2 is not in 0 .. 1"},
    {"graph @g(%x: f32[2]) { return y = %x } graph @h() { return }", "a module holds one graph; @g came before"},
};

Test(graph, bad_text) {
    for (size_t i = 0; i < SN_COUNT(BAD_TEXT); i++) {
        sn_module *m = parse(BAD_TEXT[i].op);
        cr_expect_neq(env.status, SN_OK, "%s", BAD_TEXT[i].op);
        cr_expect(strstr(env.message, BAD_TEXT[i].type), "%s:\n  %s\n  %s", BAD_TEXT[i].op, env.message,
                  BAD_TEXT[i].type);
        sn_module_free(m);
    }
}

Test(graph, every_prefix_and_every_damaged_byte_parses_or_fails) {
    static const char text[] = "graph @g(%x: f32[8, N], %w: f32[N] strides [2] offset 4) {\n"
                               "  %m = amax %x axes=[1] keepdim=true : f32[8, 1]\n"
                               "  %d = sub %x, 2.5 : f32[8, N]\n"
                               "  %c = constant dtype=i8 shape=[2] values=[1, -2]\n"
                               "  %s = slice %d axis=0 start=1 stop=-1\n"
                               "  %t = var_mean %x axes=[0] : f32[N] tuple 2\n"
                               "  %p = project %t index=1\n"
                               "  return y = %s, p = %p, c = %c\n}\n";
    char damaged[sizeof text];
    for (size_t n = 0; n < sizeof text; n++) {
        sn_env_init(&env);
        sn_module *m = sn_module_new(&env);
        sn_module_parse(m, "t.sn", text, n);
        sn_module_free(m);
        for (const char *c = "0-],%=@"; *c; c++) {
            memcpy(damaged, text, sizeof text);
            damaged[n] = *c;
            sn_env_init(&env);
            m = sn_module_new(&env);
            if (sn_module_parse(m, "t.sn", damaged, sizeof text - 1) == SN_OK)
                cr_expect_eq(sn_graph_verify(m, "damaged"), SN_OK, "%s", env.message);
            sn_module_free(m);
        }
    }
}

Test(graph, names_that_text_cannot_hold_are_refused) {
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    sn_graph_init(m, "g");
    sn_type t = {.dtype = SN_F32};
    cr_expect_eq(sn_graph_input_new(m, "a b", &t, NULL, (sn_ix){0}).i, 0u);
    cr_expect(strstr(env.message, "input name 'a b' must be letters, digits"), "%s", env.message);
    sn_env_clear(&env);
    sn_nd x = sn_graph_input_new(m, "x", &t, NULL, (sn_ix){0});
    cr_expect_eq(sn_graph_output_new(m, "1st", x, -1), SN_ERROR_ARGUMENT);
    sn_env_clear(&env);
    sn_nd y = sn_graph_unary(m, SN_OP_EXP, x);
    sn_graph_name(m, y, "0/conv:1");
    cr_expect_str_eq(sn_node_get(m, y)->name, "_0_conv_1");
    sn_module_free(m);
}

/* ---- verifier ---- */

static sn_module *verified(void) {
    return parse_ok("graph @g(%x: f32[4, 6], %y: f32[4]) {\n"
                    "  %a = sum %x axes=[1] keepdim=false\n  %b = add %a, %y\n"
                    "  %t = var_mean %x axes=[1]\n  %v = project %t index=0\n"
                    "  return a = %b writes %y, v = %v\n}\n");
}

static void expect_broken(sn_module *m, const char *want) {
    cr_expect_eq(sn_graph_verify(m, "test"), SN_ERROR_VERIFY, "%s", want);
    cr_expect_eq(strncmp(env.message, "test: G", 7), 0, "%s", env.message);
    cr_expect(strstr(env.message, want), "%s\n%s", env.message, want);
    sn_module_free(m);
}

/* Node numbers of verified(): 1 x, 2 y, 3 sum, 4 add, 5 var_mean, 6 project. */
static sn_node_rec *node(sn_module *m, uint32_t i) { return sn_node_get(m, (sn_nd){i}); }

Test(graph, verifier_g1_operands) {
    sn_module *m = verified();
    ((sn_nd *)node(m, 3)->in)[0].i = 4;
    expect_broken(m, "G1: operand 1 of node 3 (sum) is node 4, which does not come before it");
    m = verified();
    node(m, 4)->n_in = 1;
    expect_broken(m, "G1: node 4 (add) has 1 operands");
    m = verified();
    node(m, 4)->op = SN_N_OPS;
    expect_broken(m, "G1: node 4 has the unknown operation");
}

Test(graph, verifier_g2_tuples) {
    sn_module *m = verified();
    node(m, 6)->op = SN_OP_EXP;
    expect_broken(m, "G2: operand 1 of node 6 (exp) is a tuple");
    m = verified();
    ((sn_nd *)node(m, 6)->in)[0].i = 3;
    expect_broken(m, "G2: operand 1 of node 6 (project) is not a tuple");
}

Test(graph, verifier_g3_attributes) {
    sn_module *m = verified();
    ((sn_attr *)node(m, 3)->attrs)[1].id = SN_ATTR_EPS;
    expect_broken(m, "G3: node 3: sum: takes no attribute 'eps'");
    m = verified();
    sn_attr *attrs = (sn_attr *)node(m, 3)->attrs, first = attrs[0];
    attrs[0] = attrs[1];
    attrs[1] = first;
    expect_broken(m, "G3: attributes of node 3 (sum) are not sorted");
    m = verified();
    ((int64_t *)node(m, 3)->attrs[0].ints.at)[0] = -1;
    expect_broken(m, "G3: attribute 'axes' of node 3 (sum) is not in canonical form");
    m = parse_ok("graph @g(%x: f32[2, 2]) { %y = matmul %x, %x precision=tf32 return y = %y }");
    ((sn_attr *)node(m, 2)->attrs)[0].i = SN_N_PRECISIONS;
    expect_broken(m, "G3: node 2: matmul: attribute 'precision' is no word of its list");
}

Test(graph, verifier_g4_types) {
    sn_module *m = verified();
    node(m, 4)->type.dtype = SN_F64;
    expect_broken(m, "G4: node 4 (add) has type f64[4] but gives f32[4]");
    m = verified();
    node(m, 4)->n_results = 2;
    expect_broken(m, "G4: node 4 (add) has 2 results but gives 1");
    m = verified();
    node(m, 1)->type.dtype = SN_I32;
    expect_broken(m, "G4: node 3");
}

Test(graph, verifier_g5_sizes) {
    sn_module *m = verified();
    node(m, 2)->type.shape[0] = sn_ix_axis(m, sn_axis_new(m, "i", sn_ix_const(m, 4)));
    expect_broken(m, "G5: node 2 (input)");
}

Test(graph, verifier_g6_inputs) {
    sn_module *m = verified();
    node(m, 2)->input = 0;
    expect_broken(m, "G6: node 2 (input) is not input number 0");
    m = verified();
    m->graph.inputs.at[1].name = "x";
    expect_broken(m, "G6: two inputs are named x");
    m = verified();
    m->graph.inputs.at[0].otherwise = (sn_graph_default){.f = (const double[3]){1, 2, 3}, .n = 3};
    expect_broken(m, "G6: the default of input x does not fit it");
}

Test(graph, verifier_g7_outputs) {
    sn_module *m = verified();
    m->graph.outputs.n = 0;
    expect_broken(m, "G7: graph @g has no output");
    m = verified();
    sn_graph_set_output(m, 1, (sn_nd){5});
    expect_broken(m, "G7: output v is a tuple");
    m = verified();
    sn_graph_set_output(m, 1, (sn_nd){99});
    expect_broken(m, "G7: output v has no node");
}

Test(graph, verifier_g8_writes) {
    sn_module *m = verified();
    m->graph.outputs.at[0].writes = 0;
    expect_broken(m, "G8: output a is f32[4] but writes input x, which is f32[4, 6]");
    m = verified();
    m->graph.outputs.at[1].writes = 1;
    expect_broken(m, "G8: outputs a and v both write input y");
}

Test(graph, verifier_g9_interning) {
    sn_module *m = parse_ok("graph @g(%x: f32[4]) {\n  %a = exp %x\n  %b = log %x\n  return a = %a, b = %b\n}\n");
    node(m, 3)->op = SN_OP_EXP;
    node(m, 3)->hash = node(m, 2)->hash;
    expect_broken(m, "G9: node 3 (exp) equals node 2");
}

/* ---- copy and liveness ---- */

Test(graph, copy_replaces_symbols) {
    sn_module *m = parse_ok("graph @g(%x: f32[N, M], %w: f32[N] strides [M]) {\n"
                            "  %r = reshape %x shape=[M*N]\n  %dead = exp %x\n"
                            "  %s = slice %x axis=0 start=1 stop=-1\n"
                            "  return r = %r, s = %s, w = %w\n}\n");
    sn_module *to = sn_module_new(&env);
    const char *names[] = {"N"};
    int64_t sizes[] = {8};
    cr_assert_eq(sn_graph_copy(to, m, names, sizes, 1), SN_OK, "%s", env.message);
    cr_expect_eq(sn_graph_verify(to, "copy"), SN_OK, "%s", env.message);
    check_print(to, "graph @g(%x: f32[8, M], %w: f32[8] strides [M]) {\n"
                    "  %r = reshape %x shape=[8*M] : f32[8*M]\n"
                    "  %s = slice %x axis=0 start=1 stop=7 : f32[6, M]\n"
                    "  return r = %r, s = %s, w = %w\n}\n");
    sn_module_free(to);
    sn_module_free(m);
}

Test(graph, copy_reports_sizes_that_do_not_fit) {
    sn_module *m = parse_ok("graph @g(%x: f32[N, 3]) {\n  %a = amax %x axes=[0]\n  return a = %a\n}\n");
    sn_module *to = sn_module_new(&env);
    cr_expect_neq(sn_graph_copy(to, m, (const char *[]){"N"}, (int64_t[]){0}, 1), SN_OK);
    cr_expect_str_eq(env.message, "amax: axis 0 has no elements");
    sn_env_clear(&env);
    cr_expect_eq(sn_graph_copy(to, m, (const char *[]){"N"}, (int64_t[]){-1}, 1), SN_ERROR_ARGUMENT);
    sn_module_free(to);
    sn_module_free(m);
}

Test(graph, live_nodes) {
    sn_module *m = parse_ok("graph @g(%x: f32[4], %u: f32[4]) {\n  %a = exp %x\n  %d = log %u\n  return a = %a\n}\n");
    uint8_t live[8] = {0};
    sn_graph_live(m, live);
    cr_expect(live[1] && !live[2] && live[3] && !live[4] && !live[0]);
    sn_module_free(m);
}
