/* codegen_kernels.h: scheduled kernels for test_codegen.c, one feature each. Every one runs on the CPU against the
 * evaluator; each that has a grid also becomes PTX. Shapes are small so that the evaluator stays quick.
 */
#ifndef SN_TESTS_UNIT_CODEGEN_KERNELS_H
#define SN_TESTS_UNIT_CODEGEN_KERNELS_H

typedef struct codegen_kernel {
    const char *name, *text;
} codegen_kernel;

static const codegen_kernel KERNELS[] = {
    {"vector access of 16 bytes",
     "buffer x: f32[4096] input 0 align 16  buffer y: f32[4096] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 8 : grid { loop t in 128 : block.x { loop v in 4 : vector {\n"
     "  %0 = load x[512*b + 4*t + v]  %1 = exp %0  store y[512*b + 4*t + v], %1 } } } }"},
    {"bf16: eight lanes, two pieces of f32",
     "buffer x: bf16[4096] input 0 align 16  buffer w: f32[4096] input 1 align 16  buffer y: bf16[4096] output 0 align 16\n"
     "kernel @k(x, w, y) scheduled { loop b in 4 : grid { loop t in 128 : block.x { loop v in 8 : vector {\n"
     "  %0 = load x[1024*b + 8*t + v]  %1 = cast.f32 %0  %2 = load w[1024*b + 8*t + v]  %3 = add %1, %2  %4 = tanh %3\n"
     "  %5 = cast.bf16 %4  store y[1024*b + 8*t + v], %5 } } } }"},
    {"bf16 arithmetic without casts",
     "buffer x: bf16[64] input 0 align 16  buffer y: bf16[64] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 1 : grid { loop t in 32 : block.x { loop v in 2 : vector {\n"
     "  %0 = load x[2*t + v]  %1 = mul %0, %0  %2 = add %1, %0  store y[2*t + v], %2 } } } }"},
    {"lanes that walk a stride, lanes that share an element",
     "buffer x: f32[32, 64] input 0 align 16  buffer w: f32[64] input 1 align 16  buffer y: f32[64, 32] output 0 align 16\n"
     "kernel @k(x, w, y) scheduled { loop b in 64 : grid { loop t in 8 : block.x { loop v in 4 : vector {\n"
     "  %0 = load x[64*(4*t + v) + b]  %1 = load w[b]  %2 = mul %0, %1  store y[32*b + 4*t + v], %2 } } } }"},
    {"flip: negative coefficients",
     "buffer x: f32[64] input 0 align 16  buffer y: f32[64] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 2 : grid { loop t in 8 : block.x { loop v in 4 : vector {\n"
     "  %0 = load x[63 - 32*b - 4*t - v]  store y[32*b + 4*t + v], %0 } } } }"},
    {"division and remainder of an index",
     "buffer x: i32[60] input 0 align 16  buffer y: i64[60] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 5 : grid { loop t in 12 : block.x {\n"
     "  %0 = load x[((12*b + t) div 5) + 12*((12*b + t) mod 5)]  %1 = index.i64 ((12*b + t) mod 7) - ((3 - t) div 4) + ((3 - t) mod 8)\n"
     "  %2 = cast.i64 %0  %3 = add %1, %2  store y[12*b + t], %3 } } }"},
    {"tail: the test agrees for all lanes",
     "buffer x: f32[1000] input 0 align 16  buffer y: f32[1000] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 2 : grid { loop t in 128 : block.x { if 512*b + 4*t in 1000 { loop v in 4 : vector {\n"
     "  %0 = load x[512*b + 4*t + v]  %1 = sigmoid %0  store y[512*b + 4*t + v], %1 } } } } }"},
    {"tail: lanes disagree",
     "buffer x: f32[999] input 0 align 16  buffer y: f32[999] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 2 : grid { loop t in 128 : block.x { loop v in 4 : vector {\n"
     "  %c = in 512*b + 4*t + v, 999  %z = const.f32 1.5  %0 = load x[512*b + 4*t + v] if %c else %z  %1 = neg %0\n"
     "  store y[512*b + 4*t + v], %1 if %c } } } }"},
    {"a vector axis that must be written out",
     "buffer x: f32[999] input 0 align 16  buffer y: f32[999] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 2 : grid { loop t in 128 : block.x { loop v in 4 : vector { if 512*b + 4*t + v in 999 {\n"
     "  %0 = load x[512*b + 4*t + v]  %1 = abs %0  store y[512*b + 4*t + v], %1 } } } } }"},
    {"padding: a masked load with a shifted index",
     "buffer x: f32[30] input 0 align 16  buffer y: f32[40] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 1 : grid { loop t in 40 : block.x {\n"
     "  %c = in t - 5, 30  %z = const.f32 0  %0 = load x[t - 5] if %c else %z  store y[t], %0 } } }"},
    {"gather: an index from memory",
     "buffer p: i64[64] input 0 align 16  buffer x: f32[32, 64] input 1 align 16  buffer y: f32[64, 64] output 0 align 16\n"
     "kernel @k(p, x, y) scheduled { loop b in 64 : grid { %0 = load p[b]  %s = const.i64 31  %i = and %0, %s\n"
     "  loop t in 16 : block.x { loop v in 4 : vector { %1 = load x[64*%i + 4*t + v]  store y[64*b + 4*t + v], %1 } } } }"},
    {"gather: one index a lane",
     "buffer p: i32[64] input 0 align 16  buffer x: f32[32] input 1 align 16  buffer y: f32[64] output 0 align 16\n"
     "kernel @k(p, x, y) scheduled { loop b in 1 : grid { loop t in 16 : block.x { loop v in 4 : vector {\n"
     "  %0 = load p[4*t + v]  %s = const.i32 31  %i = and %0, %s  %1 = load x[%i]  store y[4*t + v], %1 } } } }"},
    {"bool and i8",
     "buffer x: i8[256] input 0 align 16  buffer c: bool[256] input 1 align 16  buffer y: i8[256] output 0 align 16\n"
     "buffer d: bool[256] output 1 align 16\n"
     "kernel @k(x, c, y, d) scheduled { loop b in 2 : grid { loop t in 8 : block.x { loop v in 16 : vector {\n"
     "  %0 = load x[128*b + 16*t + v]  %1 = load c[128*b + 16*t + v]  %2 = neg %0  %3 = select %1, %0, %2\n"
     "  store y[128*b + 16*t + v], %3  %4 = lt %0, %3  %5 = or %4, %1  store d[128*b + 16*t + v], %5 } } } }"},
    {"f64",
     "buffer x: f64[512] input 0 align 16  buffer y: f64[512] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 4 : grid { loop t in 64 : block.x { loop v in 2 : vector {\n"
     "  %0 = load x[128*b + 2*t + v]  %1 = exp %0  %2 = sin %1  %3 = erf %2  store y[128*b + 2*t + v], %3 } } } }"},
    {"the long expansions",
     "buffer x: f32[256] input 0 align 16  buffer y: f32[256] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop b in 4 : grid { loop t in 64 : block.x {\n"
     "  %0 = load x[64*b + t]  %1 = abs %0  %2 = pow %1, %0  %3 = rem %2, %0  %4 = cos %3  %5 = log1p %1  %6 = expm1 %4\n"
     "  %7 = floordiv %6, %1  %8 = log2 %1  %9 = add %7, %8  %10 = add %9, %5  store y[64*b + t], %10 } } }"},
    {"softmax of a resident row, 8 warps",
     "buffer x: f32[6, 1024] input 0 align 16  buffer y: f32[6, 1024] output 0 align 16\n"
     "kernel @k(x, y) scheduled { reg s: f32 private 4 size 1024 loop i in 6 : grid {\n"
     "  %0 = reduce max r in 256 : block.x { %1 = reduce max v in 4 : vector { %2 = load x[1024*i + 4*r + v]\n"
     "    store s[4*r + v], %2 yield %2 } yield %1 }\n"
     "  %3 = reduce sum r in 256 : block.x { %4 = reduce sum v in 4 : vector { %5 = load s[4*r + v] %6 = sub %5, %0\n"
     "    %7 = exp %6 store s[4*r + v], %7 yield %7 } yield %4 }\n"
     "  loop r in 256 : block.x { loop v in 4 : vector { %8 = load s[4*r + v] %9 = div %8, %3\n"
     "    store y[1024*i + 4*r + v], %9 } } } }"},
    {"rows of 8 threads, four rows a block, written-out vectors",
     "buffer x: f32[16, 64] input 0 align 16  buffer y: f32[16] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 4 : grid { loop j in 4 : block.y { %0 = reduce sum r in 8 : block.x {\n"
     "  %1 = reduce sum u in 2 : unroll { %2 = reduce sum v in 4 : vector { %3 = load x[256*i + 64*j + 32*u + 4*r + v]\n"
     "  yield %3 } yield %2 } yield %1 } store y[4*i + j], %0 } } }"},
    {"rows of 48 threads (no power of two), two rows a block",
     "buffer x: f32[8, 96] input 0 align 16  buffer y: f32[8] output 0 align 16  buffer z: i64[8] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 4 : grid { loop j in 2 : block.y { %0, %1 = reduce argmax r in 48 : block.x {\n"
     "  %2, %3 = reduce argmax v in 2 : vector { %4 = load x[192*i + 96*j + 2*r + v] %5 = index.i64 2*r + v yield %4, %5 }\n"
     "  yield %2, %3 } store y[2*i + j], %0 store z[2*i + j], %1 } } }"},
    {"rows of 96 threads, several combiners",
     "buffer x: f32[4, 96] input 0 align 16  buffer y: f32[4] output 0 align 16  buffer z: f32[4] output 1 align 16\n"
     "buffer w: bool[4] output 2 align 16\n"
     "kernel @k(x, y, z, w) scheduled { loop i in 4 : grid { %0, %1, %2 = reduce (sum, max, any) r in 96 : block.x {\n"
     "  %3 = load x[96*i + r] %4 = isnan %3 yield %3, %3, %4 } store y[i], %0 store z[i], %1 store w[i], %2 } }"},
    {"1024 threads",
     "buffer x: i32[2, 1024] input 0 align 16  buffer y: i64[2] output 0 align 16  buffer z: i32[2, 1024] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 2 : grid { %0 = reduce sum r in 1024 : block.x { %1 = load x[1024*i + r] %2 = cast.i64 %1\n"
     "  yield %2 } store y[i], %0 loop r in 1024 : block.x { %3 = cast.i32 %0 %4 = load x[1024*i + r] %5 = xor %3, %4\n"
     "  store z[1024*i + r], %5 } } }"},
    {"a looped row: sequential steps around lanes",
     "buffer x: bf16[3, 4096] input 0 align 16  buffer y: f32[3] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 3 : grid { %0 = reduce sum r in 64 : block.x { %1 = reduce sum q in 8 {\n"
     "  %2 = reduce sum v in 8 : vector { %3 = load x[4096*i + 512*q + 8*r + v] %4 = cast.f32 %3 yield %4 } yield %2 }\n"
     "  yield %1 } store y[i], %0 } }"},
    {"an exchange in a loop: shared slots are used again",
     "buffer x: f32[40, 128] input 0 align 16  buffer y: f32[40] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop q in 20 { %0 = reduce max r in 128 : block.x { %1 = load x[2560*i + 128*q + r]\n"
     "  yield %1 } store y[20*i + q], %0 } } }"},
    {"two exchanges in a loop",
     "buffer x: f32[40, 128] input 0 align 16  buffer y: f32[40] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop q in 20 { %0 = reduce max r in 128 : block.x { %1 = load x[2560*i + 128*q + r]\n"
     "  yield %1 } %2 = reduce sum r in 128 : block.x { %3 = load x[2560*i + 128*q + r] %4 = sub %3, %0 yield %4 }\n"
     "  store y[20*i + q], %2 } } }"},
    {"columns: lanes own them, block.y shares the rows",
     "buffer x: f32[128, 256] input 0 align 16  buffer y: f32[256] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop t in 32 : block.x { loop v in 4 : vector {\n"
     "  %0 = reduce sum j in 8 : block.y { %1 = reduce sum q in 4 { %2 = reduce sum u in 4 : unroll {\n"
     "    %3 = load x[256*(32*q + 8*u + j) + 128*i + 4*t + v] yield %3 } yield %2 } yield %1 }\n"
     "  store y[128*i + 4*t + v], %0 } } } }"},
    {"columns: 32 rows of threads, three states, position of the smallest",
     "buffer x: f32[64, 32] input 0 align 16  buffer y: f32[32] output 0 align 16  buffer p: i64[32] output 1 align 16\n"
     "buffer s: f32[32] output 2 align 16\n"
     "kernel @k(x, y, p, s) scheduled { loop i in 1 : grid { loop t in 8 : block.x { loop v in 4 : vector {\n"
     "  %0, %1, %2 = reduce (argmin, sum) j in 32 : block.y { %3, %4, %5 = reduce (argmin, sum) q in 2 : unroll {\n"
     "    %6 = load x[32*(32*q + j) + 4*t + v] %7 = index.i64 32*q + j yield %6, %7, %6 } yield %3, %4, %5 }\n"
     "  store y[4*t + v], %0 store p[4*t + v], %1 store s[4*t + v], %2 } } } }"},
    {"columns: states that fill shared memory go in parts",
     "buffer x: f64[64, 128] input 0 align 16  buffer y: f64[128] output 0 align 16  buffer p: i64[128] output 1 align 16\n"
     "kernel @k(x, y, p) scheduled { loop i in 1 : grid { loop t in 32 : block.x { loop v in 4 : vector {\n"
     "  %0, %1 = reduce argmax j in 32 : block.y { %3, %4 = reduce argmax q in 2 : unroll {\n"
     "    %6 = load x[128*(32*q + j) + 4*t + v] %7 = index.i64 32*q + j yield %6, %7 } yield %3, %4 }\n"
     "  store y[4*t + v], %0 store p[4*t + v], %1 } } } }"},
    {"five rows of threads",
     "buffer x: f32[20, 64] input 0 align 16  buffer y: f32[64] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 1 : grid { loop t in 64 : block.x { %0 = reduce prod j in 5 : block.y {\n"
     "  %1 = reduce prod q in 4 { %2 = load x[64*(5*q + j) + t] yield %2 } yield %1 } store y[t], %0 } } }"},
    {"both axes of a block",
     "buffer x: f32[4, 512] input 0 align 16  buffer y: f32[4] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 4 : grid { %0 = reduce sum j in 8 : block.y { %1 = reduce sum r in 64 : block.x {\n"
     "  %2 = load x[512*i + 64*j + r] yield %2 } yield %1 } store y[i], %0 } }"},
    {"memory between threads: stored by one, loaded by another",
     "buffer x: f32[4, 128] input 0 align 16  buffer t: f32[4, 128] temp align 256  buffer y: f32[4, 128] output 0 align 16\n"
     "kernel @k(x, t, y) scheduled { loop i in 4 : grid { loop r in 128 : block.x { %0 = load x[128*i + r] %1 = exp2 %0 store t[128*i + r], %1 }\n"
     "  loop r in 128 : block.x { %2 = load t[128*i + 127 - r] store y[128*i + r], %2 } } }"},
    {"two grid axes, a sequential loop with a written-out one",
     "buffer x: f32[3, 5, 64] input 0 align 16  buffer y: f32[3, 5] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 3 : grid { loop j in 5 : grid { %0 = reduce sum r in 16 { %1 = reduce sum u in 4 : unroll {\n"
     "  %2 = load x[320*i + 64*j + 4*r + u] yield %2 } yield %1 } store y[5*i + j], %0 } } }"},
    {"lanes of three",
     "buffer x: f32[96] input 0 align 16  buffer y: f32[32] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 1 : grid { loop t in 32 : block.x { %0 = reduce sum v in 3 : vector {\n"
     "  %1 = load x[3*t + v] yield %1 } store y[t], %0 } } }"},
    {"segments that are alike: bounds, strides and trip counts from a table",
     "buffer a: f32[40, 100] input 0 align 16  buffer b: f32[12, 64] input 1 align 16  buffer c: f32[5, 1000] input 2 align 16\n"
     "buffer x: f32[40] output 0 align 16  buffer y: f32[12] output 1 align 16  buffer z: f32[5] output 2 align 16\n"
     "kernel @k(a, b, c, x, y, z) scheduled {\n"
     "  loop g in 2 : grid { loop t in 32 : block.x { if 32*g + t in 40 { %0 = reduce sum r in 100 {\n"
     "    %1 = load a[3200*g + 100*t + r] yield %1 } store x[32*g + t], %0 } } }\n"
     "  loop g in 1 : grid { loop t in 32 : block.x { if 32*g + t in 12 { %0 = reduce sum r in 64 {\n"
     "    %1 = load b[2048*g + 64*t + r] yield %1 } store y[32*g + t], %0 } } }\n"
     "  loop g in 1 : grid { loop t in 32 : block.x { if 32*g + t in 5 { %0 = reduce sum r in 1000 {\n"
     "    %1 = load c[32000*g + 1000*t + r] yield %1 } store z[32*g + t], %0 } } } }"},
    {"segments that are alike: divisions by numbers from a table, vectors, an empty segment",
     "buffer a: f32[8, 64] input 0 align 16  buffer b: f32[4, 256] input 1 align 16  buffer w: f32[512] input 2 align 16\n"
     "buffer x: f32[64, 8] output 0 align 16  buffer y: f32[256, 4] output 1 align 16  buffer e: f32[0] output 2 align 16\n"
     "kernel @k(a, b, w, x, y, e) scheduled {\n"
     "  loop g in 4 : grid { loop t in 32 : block.x { loop v in 4 : vector { %1 = load w[128*g + 4*t + v]\n"
     "    %0 = load a[64*((128*g + 4*t + v) mod 8) + ((128*g + 4*t + v) div 8)] %2 = mul %0, %1 store x[128*g + 4*t + v], %2 } } }\n"
     "  loop g in 0 : grid { loop t in 32 : block.x { loop v in 4 : vector { %1 = load w[128*g + 4*t + v]\n"
     "    store e[128*g + 4*t + v], %1 } } }\n"
     "  loop g in 8 : grid { loop t in 32 : block.x { loop v in 4 : vector { %1 = load w[(128*g + 4*t + v) mod 512]\n"
     "    %0 = load b[256*((128*g + 4*t + v) mod 4) + ((128*g + 4*t + v) div 4)] %2 = mul %0, %1 store y[128*g + 4*t + v], %2 } } } }"},
    {"segments of two kinds in turn, reductions over the block, registers, two grid axes",
     "buffer a: f32[6, 128] input 0 align 16  buffer b: f32[2, 128] input 1 align 16  buffer c: i32[3, 4] input 2 align 16\n"
     "buffer x: f32[6, 128] output 0 align 16  buffer y: f32[2, 128] output 1 align 16  buffer z: i32[3, 4] output 2 align 16\n"
     "kernel @k(a, b, c, x, y, z) scheduled { reg p: f32 private 1 size 128 reg q: f32 private 1 size 128\n"
     "  loop g in 6 : grid { loop t in 128 : block.x { %0 = load a[128*g + t] store p[t], %0 }\n"
     "    %1 = reduce sum t in 128 : block.x { %2 = load p[t] yield %2 }\n"
     "    loop t in 128 : block.x { %3 = load p[t] %4 = sub %3, %1 store x[128*g + t], %4 } }\n"
     "  loop i in 3 : grid { loop j in 4 : grid { %0 = load c[4*i + j] %1 = neg %0 store z[4*i + j], %1 } }\n"
     "  loop g in 2 : grid { loop t in 128 : block.x { %0 = load b[128*g + t] store q[t], %0 }\n"
     "    %1 = reduce sum t in 128 : block.x { %2 = load q[t] yield %2 }\n"
     "    loop t in 128 : block.x { %3 = load q[t] %4 = sub %3, %1 store y[128*g + t], %4 } } }"},
    {"segments with gathers and offsets that differ, also below zero",
     "buffer i: i64[64] input 0 align 16  buffer x: f32[32, 64] input 1 align 16  buffer w: f32[100, 32] input 2 align 16\n"
     "buffer y: f32[64, 64] output 0 align 16  buffer z: f32[64, 32] output 1 align 16\n"
     "kernel @k(i, x, w, y, z) scheduled {\n"
     "  loop b in 64 : grid { %0 = load i[b] %s = const.i64 31 %j = and %0, %s loop t in 32 : block.x {\n"
     "    %c = in t - 3, 64 %o = const.f32 1 %1 = load x[64*%j + t - 3] if %c else %o store y[64*b + t], %1 } }\n"
     "  loop b in 64 : grid { %0 = load i[b] %s = const.i64 31 %j = and %0, %s loop t in 32 : block.x {\n"
     "    %c = in t + 5, 32 %o = const.f32 1 %1 = load w[32*%j + t + 5] if %c else %o store z[32*b + t], %1 } } }"},
    {"prefix: 8 warps, written-out steps",
     "buffer x: i32[6, 2048] input 0 align 16  buffer y: i32[6, 2048] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 6 : grid { loop u in 2 : unroll { loop t in 256 : block.x { loop v in 4 : vector {\n"
     "  %0 = load x[2048*i + 1024*u + 4*t + v] %1 = accum sum %0 over 1024*u + 4*t + v store y[2048*i + 1024*u + 4*t + v], %1\n"
     "} } } } }"},
    {"prefix: 32 warps, a sequential loop of steps, i64",
     "buffer x: i64[2, 3072] input 0 align 16  buffer y: i64[2, 3072] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop q in 3 { loop t in 1024 : block.x {\n"
     "  %0 = load x[3072*i + 1024*q + t] %1 = accum sum %0 over 1024*q + t exclusive store y[3072*i + 1024*q + t], %1 } } } }"},
    {"prefix: two warps a row, four rows",
     "buffer x: f64[8, 64] input 0 align 16  buffer y: f64[8, 64] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop j in 4 : block.y { loop t in 64 : block.x {\n"
     "  %0 = load x[256*i + 64*j + t] %1 = accum max %0 over t store y[256*i + 64*j + t], %1 } } } }"},
    {"prefix: rows of eight threads, bool",
     "buffer x: bool[6, 128] input 0 align 16  buffer y: bool[6, 128] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop j in 3 : block.y { loop u in 4 : unroll { loop t in 8 : block.x {\n"
     "  loop v in 4 : vector { %0 = load x[384*i + 128*j + 32*u + 4*t + v] %1 = accum any %0 over 32*u + 4*t + v exclusive\n"
     "  store y[384*i + 128*j + 32*u + 4*t + v], %1 } } } } } }"},
    {"prefix: columns, lanes with a state each, and one that they share",
     "buffer x: f32[24, 256] input 0 align 16  buffer w: f32[24] input 1 align 16  buffer y: f32[24, 256] output 0 align 16\n"
     "kernel @k(x, w, y) scheduled { loop i in 2 : grid { loop t in 32 : block.x { loop v in 4 : vector { loop q in 6 { loop u in 4 : unroll {\n"
     "  %0 = load x[1024*q + 256*u + 128*i + 4*t + v] %1 = accum sum %0 over 4*q + u %2 = load w[4*q + u]\n"
     "  %3 = accum max %2 over 4*q + u exclusive %4 = const.f32 0 %5 = max %3, %4 %6 = add %1, %5\n"
     "  store y[1024*q + 256*u + 128*i + 4*t + v], %6 } } } } } }"},
    {"prefix: one element, and lanes alone",
     "buffer x: f32[64] input 0 align 16  buffer y: f32[64] output 0 align 16\n"
     "kernel @k(x, y) scheduled { loop i in 2 : grid { loop t in 8 : block.x { loop v in 4 : vector {\n"
     "  %0 = load x[32*i + 4*t + v] %1 = accum min %0 over v %2 = accum sum %1 over 0 store y[32*i + 4*t + v], %2 } } } }"},
    {"posted: sums of all blocks before, lanes with masks, and the block before",
     "buffer x: f32[512] input 0 align 16  buffer y: f32[512] output 0 align 16\n"
     "kernel @k(x, y) scheduled { posted p: f32 size 4  posted q: bf16 size 4 loop g in 4 : grid {\n"
     "  %0 = reduce sum t in 32 : block.x { %1 = reduce sum v in 4 : vector { %2 = load x[128*g + 4*t + v] yield %2 } yield %1 }\n"
     "  store p[g], %0 %b = cast.bf16 %0 store q[g], %b\n"
     "  %3 = reduce sum t in 32 : block.x { %4 = reduce sum v in 4 : vector { %5 = const.f32 0 %6 = in 4*t + v, g\n"
     "  %7 = load p[4*t + v] if %6 else %5 yield %7 } yield %4 }\n"
     "  %8 = const.bf16 1 %9 = in g - 1, 4 %10 = load q[g - 1] if %9 else %8 %11 = cast.f32 %10 %12 = add %3, %11\n"
     "  loop t in 32 : block.x { loop v in 4 : vector { %13 = load x[128*g + 4*t + v] %14 = add %13, %12\n"
     "  store y[128*g + 4*t + v], %14 } } } }"},
    {"posted: elements of 64 bits and of one, every thread's own, backwards",
     "buffer x: f64[256] input 0 align 16  buffer y: f64[256] output 0 align 16\n"
     "kernel @k(x, y) scheduled { posted p: f64 size 256  posted b: bool size 256 loop g in 4 : grid { loop t in 32 : block.x {\n"
     "  loop v in 2 : vector { %0 = load x[64*g + 2*t + v] store p[64*g + 2*t + v], %0 %z = const.f64 0 %1 = gt %0, %z\n"
     "  store b[64*g + 2*t + v], %1 } } loop t in 32 : block.x { loop v in 2 : vector { %z = const.f64 0.5 %n = const.bool false\n"
     "  %2 = in g - 1, 4 %3 = load p[64*g - 1 - 2*t - v] if %2 else %z %4 = load b[64*g - 1 - 2*t - v] if %2 else %n\n"
     "  %5 = neg %3 %6 = select %4, %3, %5 store y[64*g + 2*t + v], %6 } } } }"},
    {"sumexp: lanes, written-out and sequential steps, 48 threads",
     "buffer x: bf16[3, 3072] input 0 align 16  buffer y: f32[3] output 0 align 16  buffer z: f32[3] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 3 : grid { %0, %1 = reduce sumexp r in 48 : block.x {\n"
     "  %2, %3 = reduce sumexp q in 2 { %4, %5 = reduce sumexp u in 4 : unroll { %6, %7 = reduce sumexp v in 8 : vector {\n"
     "    %8 = load x[3072*i + 1536*q + 384*u + 8*r + v] %9 = cast.f32 %8 %10 = const.f32 1 yield %9, %10 } yield %6, %7 }\n"
     "  yield %4, %5 } yield %2, %3 } store y[i], %0 store z[i], %1 } }"},
    {"sumexp of halves with weights, a warp",
     "buffer x: f16[3, 96] input 0 align 16  buffer w: f16[96] input 1 align 16  buffer y: f16[3] output 0 align 16\n"
     "buffer z: f16[3] output 1 align 16\n"
     "kernel @k(x, w, y, z) scheduled { loop i in 3 : grid { %0, %1 = reduce sumexp r in 32 : block.x {\n"
     "  %2, %3 = reduce sumexp v in 3 : vector { %4 = load x[96*i + 3*r + v] %5 = load w[3*r + v] yield %4, %5 }\n"
     "  yield %2, %3 } store y[i], %0 store z[i], %1 } }"},
    {"sumexp beside other combiners, 4 warps",
     "buffer x: f32[2, 512] input 0 align 16  buffer y: f32[2] output 0 align 16  buffer z: f32[2] output 1 align 16\n"
     "buffer s: f32[2] output 2 align 16  buffer p: i64[2] output 3 align 16\n"
     "kernel @k(x, y, z, s, p) scheduled { loop i in 2 : grid {\n"
     "  %0, %1, %2, %3, %4 = reduce (sum, sumexp, argmax) r in 128 : block.x {\n"
     "  %5, %6, %7, %8, %9 = reduce (sum, sumexp, argmax) v in 4 : unroll { %x = load x[512*i + 4*r + v] %w = const.f32 2\n"
     "    %p = index.i64 4*r + v yield %x, %x, %w, %x, %p } yield %5, %6, %7, %8, %9 }\n"
     "  store s[i], %0 store y[i], %1 store z[i], %2 store p[i], %4 } }"},
    {"columns: sumexp, one row a thread: the weight is the same in all lanes",
     "buffer x: f32[32, 32] input 0 align 16  buffer y: f32[32] output 0 align 16  buffer z: f32[32] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 1 : grid { loop t in 8 : block.x { loop v in 4 : vector {\n"
     "  %0, %1 = reduce sumexp j in 32 : block.y { %2 = load x[32*j + 4*t + v] %3 = const.f32 1 yield %2, %3 }\n"
     "  store y[4*t + v], %0 store z[4*t + v], %1 } } } }"},
    {"columns: sumexp of f64 goes in parts",
     "buffer x: f64[32, 128] input 0 align 16  buffer y: f64[128] output 0 align 16  buffer z: f64[128] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 1 : grid { loop t in 32 : block.x { loop v in 4 : vector {\n"
     "  %0, %1 = reduce sumexp j in 16 : block.y { %3, %4 = reduce sumexp q in 2 { %6 = load x[128*(16*q + j) + 4*t + v]\n"
     "    %7 = const.f64 1 yield %6, %7 } yield %3, %4 } store y[4*t + v], %0 store z[4*t + v], %1 } } } }"},
    {"moments: lanes, written-out and sequential steps, 48 threads",
     "buffer x: f32[3, 3072] input 0 align 16  buffer y: f32[3] output 0 align 16  buffer z: f32[3] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 3 : grid { %0, %1, %2 = reduce moments r in 48 : block.x {\n"
     "  %3, %4, %5 = reduce moments q in 2 { %6, %7, %8 = reduce moments u in 4 : unroll { %9, %10, %11 = reduce moments v in 8 : vector {\n"
     "    %12 = load x[3072*i + 1536*q + 384*u + 8*r + v] %13 = const.f32 0 %14 = const.f32 1 yield %12, %13, %14 } yield %9, %10, %11 }\n"
     "  yield %6, %7, %8 } yield %3, %4, %5 } store y[i], %0 store z[i], %1 } }"},
    {"columns: moments beside a sum go in parts",
     "buffer x: f32[32, 64] input 0 align 16  buffer y: f32[64] output 0 align 16  buffer z: f32[64] output 1 align 16\n"
     "kernel @k(x, y, z) scheduled { loop i in 1 : grid { loop t in 16 : block.x { loop v in 4 : vector {\n"
     "  %0, %1, %2, %3 = reduce (sum, moments) j in 32 : block.y { %4 = load x[64*j + 4*t + v] %5 = const.f32 0 %6 = const.f32 1\n"
     "    yield %4, %4, %5, %6 } store y[4*t + v], %0 store z[4*t + v], %2 } } } }"},
    {"not scheduled",
     "buffer x: f32[7, 13] input 0 align 16  buffer y: f32[7] output 0 align 16\n"
     "kernel @k(x, y) { loop i in 7 { %0 = reduce max r in 13 { %1 = load x[13*i + r] yield %1 } store y[i], %0 } }"},
};

#endif
