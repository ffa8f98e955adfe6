/* threads.c: one program, run by several threads at the same time. It is compiled once, and nothing changes it any more:
 * every thread has a run state for what its runs change, and a context for its tensors.
 */
#include <pthread.h>
#include <sinter/sinter.h>
#include <stdio.h>

enum { THREADS = 4, RUNS = 100, ROWS = 8, COLUMNS = 1000 };

typedef struct worker {
    pthread_t thread;
    sn_program *program; /* of all of them */
    int device, number;
    double sum; /* of what it computed: its result */
    char error[256];
} worker;

/* What is computed: softmax of rows. */
static sn_program *compile(sn_context *ctx) {
    sn_graph *g;
    sn_program *p;
    if (sn_graph_create(&g, ctx, "softmax")) return NULL;
    sn_output(g, "y", sn_softmax(g, sn_input(g, "x", SN_F32, SN_LIST(ROWS, COLUMNS)), 1));
    sn_compile(&p, g, NULL);
    sn_graph_destroy(g);
    return p;
}

/* false: the error is in the state, or in the context. */
static bool run_all(worker *w, sn_run_state *state, sn_tensor *x, sn_tensor *y) {
    static _Thread_local float data[ROWS * COLUMNS];
    for (int run = 0; run < RUNS; run++) {
        for (int k = 0; k < ROWS * COLUMNS; k++) data[k] = (float)((k * (w->number + 1) + run) % 7);
        if (sn_tensor_write(x, data, sizeof data) || sn_run_with(state, &x, &y, NULL) ||
            sn_tensor_read(data, y, sizeof data))
            return false;
        for (int k = 0; k < ROWS * COLUMNS; k++) w->sum += data[k];
    }
    return true;
}

static void *work(void *user) {
    worker *w = user;
    sn_context *ctx = NULL;
    sn_run_state *state = NULL;
    sn_tensor *x = NULL, *y = NULL;
    bool made = !sn_context_create(&ctx, NULL) && !sn_run_state_create(&state, w->program) &&
                !sn_tensor_create(&x, ctx, w->device, SN_F32, SN_LIST(ROWS, COLUMNS)) &&
                !sn_tensor_create(&y, ctx, w->device, SN_F32, SN_LIST(ROWS, COLUMNS));
    if (!made || !run_all(w, state, x, y))
        snprintf(w->error, sizeof w->error, "%s",
                 sn_run_state_status(state) ? sn_run_state_error(state) : sn_error(ctx));
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_run_state_destroy(state);
    sn_context_destroy(ctx);
    return NULL;
}

int main(void) {
    sn_context *ctx;
    sn_program_info info;
    static worker workers[THREADS];
    int started = 0, failed = 0;
    if (sn_context_create(&ctx, NULL)) return 1;
    sn_program *p = compile(ctx);
    if (!p) return fprintf(stderr, "%s\n", sn_error(ctx)), 1;
    sn_program_get_info(&info, p);

    for (; started < THREADS; started++) {
        worker *w = &workers[started];
        *w = (worker){.program = p, .device = info.device, .number = started};
        if (pthread_create(&w->thread, NULL, work, w)) break;
    }
    for (int k = 0; k < started; k++) {
        pthread_join(workers[k].thread, NULL);
        if (workers[k].error[0]) failed++, fprintf(stderr, "thread %d: %s\n", k, workers[k].error);
        else printf("thread %d: %d rows, which sum to %.3f\n", k, RUNS * ROWS, workers[k].sum);
    }
    sn_program_destroy(p);
    sn_context_destroy(ctx);
    return failed || started < THREADS;
}
