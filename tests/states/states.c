/* states.c: one program from eight threads at the same time, on a GPU where there is one: the bits are those of sn_run. Then two
 * programs in a row on one stream, of which the second reads what the first one writes: its kernels load inputs before they wait for each
 * other, but never before the first program has ended.
 *
 * The programs have kernels that blocks of one launch share memory in: a last block, posted elements. Each thread has a run
 * state, a context for its tensors, and on CUDA a stream (the driver's stream of the thread). Needs sinter.h alone, so
 * that it can be carried to a machine with a GPU. The last line counts: "N passed, N failed, N skipped".
 *
 *     states [--device=cpu|cuda] [--rounds=N]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { THREADS = 8, RUNS_BEFORE_A_LOOK = 5 };
#define STREAM_OF_THREAD ((void *)2) /* CU_STREAM_PER_THREAD */

static const struct {
    const char *name, *text;
} cases[] = {
    {"rows", "graph @f(%x: f32[2048, 1024]) {\n  %y = softmax %x axis=1\n  return y = %y\n}\n"},
    {"last block", "graph @f(%x: f32[8192, 256]) {\n  %y = sum %x axes=[0]\n  return y = %y\n}\n"},
    {"last block of all", "graph @f(%x: f32[2048, 1024]) {\n  %y = sum %x axes=[0, 1]\n  return y = %y\n}\n"},
    {"posted", "graph @f(%x: f32[2097152]) {\n  %y = cumsum %x axis=0\n  return y = %y\n}\n"},
    {"workspace",
     "graph @f(%x: f32[2048, 1024]) {\n  %s = softmax %x axis=1\n  %y = softmax %s axis=0\n  return y = %y\n}\n"},
};

typedef struct crowd {
    sn_program *p;
    int device, rounds;
    sn_port in, out;
    size_t in_bytes, out_bytes;
} crowd;

typedef struct member {
    pthread_t thread;
    const crowd *c;
    int number;
    void *want; /* out_bytes */
    char failed[256];
} member;

static size_t bytes_of(const sn_port *port) {
    size_t bytes = sizeof(float);
    for (unsigned k = 0; k < port->rank; k++) bytes *= (size_t)port->shape[k];
    return bytes;
}

static void fill(float *x, size_t bytes, int number) {
    for (size_t k = 0; k < bytes / sizeof *x; k++) x[k] = (float)((k * 7 + (size_t)number * 13) % 101) / 64 - 0.5f;
}

static int fail(member *m, const char *what, const char *why) {
    snprintf(m->failed, sizeof m->failed, "%s: %.200s", what, why);
    return 1;
}

static int make_tensors(sn_tensor **x, sn_tensor **y, sn_context *ctx, const crowd *c, int number) {
    float *data = malloc(c->in_bytes);
    if (!data) return 1;
    fill(data, c->in_bytes, number);
    int bad = sn_tensor_create(x, ctx, c->device, SN_F32, c->in.rank, c->in.shape) ||
              sn_tensor_create(y, ctx, c->device, SN_F32, c->out.rank, c->out.shape) ||
              sn_tensor_write(*x, data, c->in_bytes) || sn_device_sync(ctx, c->device, NULL);
    free(data);
    return bad;
}

static int run_rounds(member *m, sn_context *ctx, sn_run_state *st, sn_tensor *x, sn_tensor *y, void *got) {
    const crowd *c = m->c;
    for (int round = 0; round < c->rounds; round++) {
        for (int k = 0; k < RUNS_BEFORE_A_LOOK; k++)
            if (sn_run_with(st, &x, &y, STREAM_OF_THREAD)) return fail(m, "run", sn_run_state_error(st));
        if (sn_device_sync(ctx, c->device, STREAM_OF_THREAD) || sn_tensor_read(got, y, c->out_bytes))
            return fail(m, "reading", sn_error(ctx));
        if (memcmp(got, m->want, c->out_bytes)) return fail(m, "result", "other bits than those of sn_run");
    }
    return 0;
}

static void *work(void *user) {
    member *m = user;
    sn_context *ctx = NULL;
    sn_run_state *st = NULL;
    sn_tensor *x = NULL, *y = NULL;
    void *got = malloc(m->c->out_bytes);
    if (!got || sn_context_create(&ctx, NULL) || sn_run_state_create(&st, m->c->p)) fail(m, "start", "no memory");
    else if (make_tensors(&x, &y, ctx, m->c, m->number)) fail(m, "tensors", sn_error(ctx));
    else run_rounds(m, ctx, st, x, y, got);
    sn_run_state_destroy(st);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_context_destroy(ctx);
    free(got);
    return NULL;
}

/* What sn_run makes of the input of each thread. */
static int find_wants(member *members, sn_context *ctx, const crowd *c) {
    for (int k = 0; k < THREADS; k++) {
        sn_tensor *x = NULL, *y = NULL;
        members[k] = (member){.c = c, .number = k, .want = malloc(c->out_bytes)};
        int bad = !members[k].want || make_tensors(&x, &y, ctx, c, k) || sn_run(c->p, &x, &y, NULL) ||
                  sn_tensor_read(members[k].want, y, c->out_bytes);
        sn_tensor_destroy(x);
        sn_tensor_destroy(y);
        if (bad) return 1;
    }
    return 0;
}

static int run_threads(member *members) {
    int started = 0, failed = 0;
    while (started < THREADS && !pthread_create(&members[started].thread, NULL, work, &members[started])) started++;
    for (int k = 0; k < started; k++) {
        pthread_join(members[k].thread, NULL);
        if (!members[k].failed[0]) continue;
        printf("  thread %d: %s\n", k, members[k].failed);
        failed = 1;
    }
    return failed || started < THREADS;
}

static int run_case(sn_context *ctx, const char *text, const char *device, int rounds) {
    sn_graph *g;
    crowd c = {.rounds = rounds};
    sn_program_info info;
    member members[THREADS] = {{0}};
    sn_compile_options o = {.struct_size = sizeof o, .device = device};
    if (sn_graph_from_text(&g, ctx, "f", text, strlen(text))) return 1;
    sn_compile(&c.p, g, &o);
    sn_graph_destroy(g);
    if (!c.p || sn_program_input(&c.in, c.p, 0) || sn_program_output(&c.out, c.p, 0)) return 1;
    sn_program_get_info(&info, c.p);
    c.device = info.device;
    c.in_bytes = bytes_of(&c.in);
    c.out_bytes = bytes_of(&c.out);
    int bad = find_wants(members, ctx, &c) || run_threads(members);
    for (int k = 0; k < THREADS; k++) free(members[k].want);
    sn_program_destroy(c.p);
    return bad;
}

/* ---- programs in a row ---- */

enum { SIZE = 1024 };
static const char maker[] =
    "graph @maker(%x: f32[1024, 1024]) {\n  %s = softmax %x axis=0\n  %w = cumsum %s axis=1\n  return w = %w\n}\n";
/* A row of a state: plan removes the copy of the state, so that the product, which loads w early, is what a run begins with. */
static const char reader[] =
    "graph @reader(%c: f32[4, 1024], %place: i64[1], %q: f32[1, 1024], %w: f32[1024, 1024]) {\n"
    "  %h = matmul %q, %w\n  %c2 = scatter %c, %place, %h\n  return c2 = %c2 writes %c\n}\n";

typedef struct row {
    sn_context *ctx;
    int device;
    sn_program *maker, *reader;
    sn_tensor *x[2], *q, *w, *place, *c[2];
} row;

static int compile(sn_program **out, sn_context *ctx, const char *text, const char *device) {
    sn_graph *g;
    sn_compile_options o = {.struct_size = sizeof o, .device = device, .graphs = "off"};
    if (sn_graph_from_text(&g, ctx, "row", text, strlen(text))) return 1;
    int bad = sn_compile(out, g, &o);
    sn_graph_destroy(g);
    return bad;
}

static int filled(sn_tensor **out, const row *r, unsigned rank, const int64_t *shape, int number) {
    size_t bytes = sizeof(float);
    for (unsigned k = 0; k < rank; k++) bytes *= (size_t)shape[k];
    float *data = malloc(bytes);
    if (!data) return 1;
    fill(data, bytes, number);
    int bad = sn_tensor_create(out, r->ctx, r->device, SN_F32, rank, shape) || sn_tensor_write(*out, data, bytes);
    free(data);
    return bad;
}

static int make_row(row *r, const char *device) {
    static const int64_t square[] = {SIZE, SIZE}, line[] = {1, SIZE}, state[] = {4, SIZE}, one[] = {1}, first = 0;
    sn_program_info info;
    if (compile(&r->maker, r->ctx, maker, device) || compile(&r->reader, r->ctx, reader, device)) return 1;
    sn_program_get_info(&info, r->reader);
    r->device = info.device;
    int bad = filled(&r->q, r, 2, line, 1) || filled(&r->w, r, 2, square, 2) ||
              sn_tensor_create(&r->place, r->ctx, r->device, SN_I64, 1, one) ||
              sn_tensor_write(r->place, &first, sizeof first);
    for (int k = 0; k < 2 && !bad; k++) bad = filled(&r->x[k], r, 2, square, 3 + k) || filled(&r->c[k], r, 2, state, 5);
    return bad || sn_device_sync(r->ctx, r->device, NULL);
}

static int run_both(row *r, int k) {
    sn_tensor *in[] = {r->c[k], r->place, r->q, r->w}, *out[] = {NULL};
    return sn_run(r->maker, &r->x[k], &r->w, NULL) || sn_run(r->reader, in, out, NULL);
}

static int run_row(sn_context *ctx, const char *device, int rounds) {
    row r = {.ctx = ctx};
    static float want[2][4 * SIZE], got[4 * SIZE];
    int bad = make_row(&r, device);
    for (int k = 0; k < 2 && !bad; k++)
        bad = run_both(&r, k) || sn_device_sync(ctx, r.device, NULL) || sn_tensor_read(want[k], r.c[k], sizeof got);
    for (int i = 0; i < rounds && !bad; i++) {
        for (int run = 0; run < 2 * RUNS_BEFORE_A_LOOK && !bad; run++) bad = run_both(&r, run % 2);
        for (int k = 0; k < 2 && !bad; k++)
            bad = sn_device_sync(ctx, r.device, NULL) || sn_tensor_read(got, r.c[k], sizeof got) ||
                  memcmp(got, want[k], sizeof got);
    }
    sn_tensor *all[] = {r.x[0], r.x[1], r.q, r.w, r.place, r.c[0], r.c[1]};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) sn_tensor_destroy(all[k]);
    sn_program_destroy(r.maker);
    sn_program_destroy(r.reader);
    return bad;
}

static int report(sn_context *ctx, const char *name, int bad) {
    printf("%s %s%s%s\n", bad ? "FAILED" : "ok    ", name, *sn_error(ctx) ? ": " : "", sn_error(ctx));
    sn_context_destroy(ctx);
    return bad != 0;
}

int main(int argc, char **argv) {
    const char *device = NULL;
    int rounds = 20, passed = 0, failed = 0;
    for (int k = 1; k < argc; k++) {
        if (!strncmp(argv[k], "--device=", 9)) device = argv[k] + 9;
        else if (!strncmp(argv[k], "--rounds=", 9)) rounds = atoi(argv[k] + 9);
        else return fprintf(stderr, "usage: states [--device=cpu|cuda] [--rounds=N]\n"), 2;
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sn_context *ctx;
        if (sn_context_create(&ctx, NULL)) return 1;
        report(ctx, cases[k].name, run_case(ctx, cases[k].text, device, rounds)) ? failed++ : passed++;
    }
    sn_context *ctx;
    if (sn_context_create(&ctx, NULL)) return 1;
    report(ctx, "programs in a row", run_row(ctx, device, rounds)) ? failed++ : passed++;
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
