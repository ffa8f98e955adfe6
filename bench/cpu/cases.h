/* cases.h: the cases of bench/cpu, as a graph and in plain C.
 *
 * cases.def has a row a case. graphs.c builds its graph, of one size n; plain.c does the same in C, over the graph's inputs
 * and outputs in their order. Other sizes are constants, known to both.
 */
#ifndef SINTER_BENCH_CPU_CASES_H
#define SINTER_BENCH_CPU_CASES_H

#include <sinter/sinter.h>

enum { MAX_PORTS = 8, DIMS = 16, CENTRES = 32, PIXELS = 784, HIDDEN = 512, CLASSES = 10 };
enum { BINS = 256, SEGMENTS = 1000, WIDTH = 8, NEWTON_STEPS = 8, STATES = 4 };
enum { DIRECTIONS = 9, DISPARITIES = 32, REACH_OF_WINDOW = 2 };
enum { FEATURES = 64, FOUND = 10, PATH_STEPS = 64, MAP = 256, RAY_STEPS = 64, HASH_BINS = 4096, FILTER_STEPS = 256 };
enum { MEASURED = 2, EDGES = 8, TREES = 64, LEVELS = 6, SPLITS = (1 << LEVELS) - 1, TESTED = 32, BLUR = 11 };
enum { PRICES = 256, HEADS = 8, HEAD = 64, SIGNAL = 1024, MEDIAN_OF = 5, AROUND = 8 };
enum { FILTERS = 64, TAPS = 3, ZERO_POINT = 3, ZERO_OF_WEIGHTS = 128 };

#define HEAT_RATE     0.1
#define SOFTENING     1e-2
#define INTEREST      0.03
#define LEARNING_RATE 0.1
#define REACH         0.2
#define RELAXATION    0.6
#define CUT_OFF       0.3
#define SEEDS         0.98
#define FAR           1e6
#define FLAT          0.41421356
#define REGULARISED   1e-3
#define GRAVITY       9.8
#define STEP_OF_WATER 0.01
#define COUPLING      0.44
#define FULL_CELL     0.98
#define DAMPING       0.85
#define SCALE         0.0002
#define SIGHT         0.2
#define CLOSE         0.05

/* Of a lattice: where each of its populations goes to, rows and columns, and its weight in 36. */
static const int directions[DIRECTIONS][3] = {{0, 0, 16}, {0, 1, 4},  {1, 0, 4},   {0, -1, 4}, {-1, 0, 4},
                                              {1, 1, 1},  {1, -1, 1}, {-1, -1, 1}, {-1, 1, 1}};

/* What both sides compute with: weights of a blur, which add up to 1; cos and -sin of pi k / m. */
void blur_weights(float *out);
void roots_of_one(float *cosine, float *sine, int64_t m);

typedef void bench_build(sn_graph *g, int64_t n);
typedef void bench_plain(void *const *out, const void *const *in, int64_t n, int threads);

#define BENCH_CASE(name, plain, small, large, low, high, bound, doc)                                                   \
    bench_build build_##name;                                                                                          \
    bench_plain plain_##plain;
#include "bench/cpu/cases.def"
#undef BENCH_CASE

#endif
