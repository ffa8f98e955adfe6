/* mutate.c: texts of modules with mistakes in them, at every stage.
 *
 *     mutate COUNT FIRST FILE...        texts number FIRST .. FIRST + COUNT-1
 *
 * A number decides everything, as long as the list of files is the same: which file, through which passes it goes before
 * it is printed, and what is changed in that text. The text is read and verified; what is accepted goes through the
 * evaluator and the checker of races, any stretch of a pipeline, code generation for sm_90 and for the host, and is run
 * on the CPU. Each may refuse it with one line; nothing may crash or hang. Under the sanitizers nothing may be reported
 * either. Inputs and outputs lie directly in front of a page that cannot be touched, since nothing watches generated
 * code.
 *
 * A number that fails is on standard error before the program ends; `mutate 1 NUMBER FILE...` repeats it, and with
 * MUTATE_SHOW set prints the text.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend-nvptx/ptx.h"
#include "frontend/frontend.h"
#include "passes/runner.h"

enum { MAX_ELEMENTS = 1 << 16, MAX_WORK = 1 << 20, MAX_TEXT = 1 << 16, PAGE = 4096, SECONDS = 60 };

static unsigned long current; /* for the last words */

static void on_signal(int number) {
    char words[96];
    int n = snprintf(words, sizeof words, "mutate: text number %lu: signal %d\n", current, number);
    if (write(STDERR_FILENO, words, (size_t)n) < 0) _exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

static void fail(const char *what, const char *message) {
    fprintf(stderr, "mutate: text number %lu: %s: %s\n", current, what, message);
    exit(1);
}

/* ---- chance ---- */

typedef struct chance {
    uint64_t state;
} chance;

static size_t below(chance *c, size_t n) { return n ? sn_draw(&c->state) % n : 0; }

/* ---- one text ---- */

typedef struct tally {
    unsigned long read, accepted, evaluated, passed, emitted, ran;
} tally;

typedef struct job {
    sn_context *ctx;
    chance c;
    char text[MAX_TEXT];
    size_t size;
    char pipeline[512];
    bool is_gpu;
    tally *t;
} job;

static const char *pipeline_of(const job *j) { return j->is_gpu ? sn_pipeline_gpu : sn_pipeline_host; }

/* Names number `from` .. `to` of the list. */
static void stretch(char *out, size_t size, const char *list, size_t from, size_t to) {
    size_t k = 0, used = 0;
    out[0] = 0;
    for (const char *s = list + strspn(list, ", \n"); *s; k++) {
        size_t n = strcspn(s, ", \n");
        if (k >= from && k <= to && used + n + 2 < size)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? "," : "", (int)n, s);
        s += n;
        s += strspn(s, ", \n");
    }
}

static void choose_target(sn_target *out, sn_context *ctx, bool is_gpu) {
    if (!is_gpu) sn_target_host(out, 2);
    else if (sn_target_named(out, &ctx->env, "sm_90") != SN_OK) fail("sm_90", sn_error(ctx));
}

/* Through the first passes of a pipeline, where that is possible: the text of a later stage. */
static sn_status lower(sn_context *ctx, void *args) {
    job *j = args;
    char passes[512];
    sn_target target;
    choose_target(&target, ctx, j->is_gpu);
    stretch(passes, sizeof passes, pipeline_of(j), 0, below(&j->c, 30));
    sn_module *m = sn_module_new(&ctx->env);
    SN_TRY(sn_module_parse(m, "seed", j->text, j->size));
    SN_TRY(sn_passes_run(&m, &target, &(sn_pass_options){.pipeline = passes, .verify = SN_VERIFY_ENDS}));
    sn_text t;
    sn_text_init(&t, &ctx->env);
    sn_module_print(&t, m);
    if (t.n < MAX_TEXT) memcpy(j->text, t.s, j->size = t.n);
    return SN_ERROR_ARGUMENT; /* so that the guard gives all of it back */
}

/* ---- mistakes ---- */

typedef struct word {
    size_t at, n;
} word;

static bool is_word(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || strchr("_.%@", ch);
}

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* A word of the text, a number or not. */
static word find_word(job *j, bool number) {
    for (int k = 0; k < 200 && j->size; k++) {
        size_t at = below(&j->c, j->size), n = 0;
        while (at > 0 && is_word(j->text[at - 1])) at--;
        while (at + n < j->size && j->text[at + n] && is_word(j->text[at + n])) n++;
        if (n && is_digit(j->text[at]) == number) return (word){at, n};
    }
    return (word){0, 0};
}

static void put(job *j, word w, const char *with, size_t n) {
    char copy[MAX_TEXT / 16];
    if (n > sizeof copy || j->size - w.n + n >= MAX_TEXT) return;
    memcpy(copy, with, n); /* it may be a piece of the text */
    memmove(j->text + w.at + n, j->text + w.at + w.n, j->size - w.at - w.n);
    memcpy(j->text + w.at, copy, n);
    j->size += n - w.n;
}

static void change_number(job *j) {
    static const char *const numbers[] = {"0",          "1",
                                          "2",          "3",
                                          "4",          "5",
                                          "7",          "8",
                                          "9",          "15",
                                          "16",         "17",
                                          "31",         "32",
                                          "33",         "63",
                                          "64",         "65",
                                          "100",        "127",
                                          "128",        "256",
                                          "1000",       "1024",
                                          "4096",       "65536",
                                          "2147483647", "2147483648",
                                          "4294967296", "4611686018427387904",
                                          "-1",         "-2",
                                          "-8",         "9223372036854775807"};
    word w = find_word(j, true);
    char text[32];
    if (!w.n) return;
    if (below(&j->c, 2)) {
        const char *with = numbers[below(&j->c, SN_COUNT(numbers))];
        put(j, w, with, strlen(with));
        return;
    }
    unsigned long long x = strtoull(j->text + w.at, NULL, 10);
    x = below(&j->c, 2) ? x + 1 : x ? x - 1 : 2;
    put(j, w, text, (size_t)snprintf(text, sizeof text, "%llu", x));
}

static void change_word(job *j) {
    static const char *const words[] = {
        "f32",    "f16",     "i64",      "i8",   "bool", "u64",   "seq",   "grid", "cluster", "block.x",
        "vector", "unroll",  "reg",      "sum",  "max",  "min",   "div",   "mod",  "if",      "argmax",
        "select", "barrier", "prefetch", "in",   "loop", "mul",   "store", "size", "input",   "output",
        "temp",   "reuse",   "call",     "free", "copy", "alloc", "add"};
    word w = find_word(j, false), from = find_word(j, false);
    const char *with = words[below(&j->c, SN_COUNT(words))];
    if (!w.n || !from.n) return;
    if (below(&j->c, 3)) put(j, w, j->text + from.at, from.n);
    else put(j, w, with, strlen(with));
}

static word find_line(job *j) {
    size_t at = below(&j->c, j->size), n = 0;
    while (at > 0 && j->text[at - 1] != '\n') at--;
    while (at + n < j->size && j->text[at + n] != '\n') n++;
    return (word){at, n + (at + n < j->size)};
}

/* Leave a line out, put it in twice, or put it elsewhere. */
static void change_line(job *j) {
    word from = find_line(j), to = find_line(j);
    size_t how = below(&j->c, 3);
    if (how) put(j, (word){to.at, how == 1 ? to.n : 0}, j->text + from.at, from.n);
    else put(j, from, "", 0);
}

static void mutate(job *j) {
    for (size_t n = 1 + below(&j->c, 3); n-- > 0;) {
        size_t how = below(&j->c, 8);
        if (how < 4) change_number(j);
        else if (how < 7) change_word(j);
        else change_line(j);
    }
    j->text[j->size] = 0;
}

/* ---- small enough to run ---- */

static int64_t region_work(const sn_module *m, sn_stmt first) {
    int64_t work = 0;
    for (sn_stmt s = first; s.i && work <= MAX_WORK; s = sn_stmt_get(m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t inside = 1 + region_work(m, r->first), n = 1;
        if (r->axis.i && !sn_ix_is_const(m, sn_axis_get(m, r->axis)->extent, &n)) return INT64_MAX / 2;
        if (n > MAX_WORK || inside > MAX_WORK) return INT64_MAX / 2;
        work += inside * n;
    }
    return work;
}

static bool small(const sn_module *m) {
    int64_t work = 0, size;
    for (uint32_t i = 1; i < m->bufs.count; i++)
        if (!sn_ix_is_const(m, sn_buf_get(m, (sn_buf){i})->size, &size) || size > MAX_ELEMENTS) return false;
    for (uint32_t i = 0; i < m->kernels.n && work <= MAX_WORK; i++)
        work += region_work(m, sn_kern_get(m, m->kernels.at[i])->first);
    return work <= MAX_WORK;
}

/* ---- what is done with it ---- */

static sn_module *read_module(job *j) {
    sn_module *m = sn_module_new(&j->ctx->env);
    sn_status status = sn_module_parse(m, "mutated", j->text, j->size);
    return status == SN_OK && sn_module_verify(m, "mutated") == SN_OK ? m : NULL;
}

static sn_status evaluate(sn_context *ctx, void *args) {
    job *j = args;
    sn_module *m = read_module(j);
    if (!m) return ctx->env.status;
    j->t->accepted++;
    if (!m->kernels.n || !small(m)) return SN_ERROR_ARGUMENT;
    void **memory = SN_NEWN(&ctx->scratch, void *, m->bufs.count);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        bool given = b->scope == SN_BUF_INPUT || b->scope == SN_BUF_OUTPUT;
        if (given) memory[i] = sn_zalloc(&ctx->scratch, (size_t)sn_ix_value(m, b->size) * sn_dtype_bytes(b->dtype) + 1);
    }
    j->t->evaluated++;
    SN_TRY((below(&j->c, 2) ? sn_loop_check : sn_loop_eval)(m, memory, &ctx->scratch));
    return SN_ERROR_ARGUMENT;
}

static sn_status pass(sn_context *ctx, void *args) {
    job *j = args;
    sn_target target;
    choose_target(&target, ctx, j->is_gpu);
    sn_module *m = read_module(j);
    if (!m) return ctx->env.status;
    SN_TRY(sn_passes_run(&m, &target, &(sn_pass_options){.pipeline = j->pipeline, .verify = SN_VERIFY_EACH}));
    j->t->passed++;
    return SN_ERROR_ARGUMENT;
}

/* Storage whose last byte, up to what 16 divides, is in front of a page that cannot be touched. */
typedef struct fenced {
    char *map;
    size_t size;
} fenced;

static sn_status fence(sn_tensor **out, fenced *f, job *j, const sn_port *port) {
    int64_t last = port->offset;
    for (unsigned k = 0; k < port->rank; k++) last += (port->shape[k] - 1) * port->strides[k];
    size_t bytes = ((size_t)(last + 1) * sn_dtype_bytes(port->dtype) + 15) / 16 * 16, pages = (bytes + PAGE - 1) / PAGE;
    f->size = (pages + 2) * PAGE;
    f->map = mmap(NULL, f->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED) fail("mmap", "no memory");
    if (pages && mprotect(f->map + PAGE, pages * PAGE, PROT_READ | PROT_WRITE)) fail("mprotect", "no memory");
    char *data = f->map + PAGE + pages * PAGE - bytes;
    for (size_t k = 0; k < bytes; k += 3) data[k] = (char)sn_draw(&j->c.state);
    return sn_tensor_wrap(out, j->ctx, SN_CPU, data, port->dtype, port->rank, port->shape, port->strides, port->offset);
}

enum { MAX_PORTS = 32 };

static void run(job *j, sn_program *p) {
    sn_tensor *tensors[2 * MAX_PORTS] = {0}, **outputs = tensors + MAX_PORTS;
    fenced fences[2 * MAX_PORTS] = {{0}};
    sn_status status = p->n_inputs < MAX_PORTS && p->n_outputs < MAX_PORTS ? SN_OK : SN_ERROR_ARGUMENT;
    for (unsigned k = 0; k < p->n_inputs && status == SN_OK; k++)
        status = fence(&tensors[k], &fences[k], j, &p->inputs[k]);
    for (unsigned k = 0; k < p->n_outputs && status == SN_OK; k++)
        if (p->outputs[k].writes < 0) status = fence(&outputs[k], &fences[MAX_PORTS + k], j, &p->outputs[k]);
    if (status == SN_OK) status = sn_run(p, tensors, outputs, NULL);
    j->t->ran += status == SN_OK;
    for (unsigned k = 0; k < 2 * MAX_PORTS; k++) {
        sn_tensor_destroy(tensors[k]);
        if (fences[k].map) munmap(fences[k].map, fences[k].size);
    }
}

static void compile(job *j) {
    sn_graph *g = NULL;
    sn_program *p = NULL;
    char *text = NULL;
    const char *whole = below(&j->c, 2) ? NULL : j->pipeline;
    if (sn_graph_from_text(&g, j->ctx, "mutated", j->text, j->size) != SN_OK) return;
    sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90", .pipeline = whole};
    if (small(g->m) && sn_graph_emit(&text, g, &o, "ptx") == SN_OK) j->t->emitted++;
    sn_free(j->ctx, text);
    o = (sn_compile_options){.struct_size = sizeof o, .device = "cpu", .threads = 2, .pipeline = whole};
    if (j->is_gpu) o.cpu_schedule = "gpu";
    if (small(g->m) && sn_compile(&p, g, &o) == SN_OK && small(p->m)) run(j, p);
    sn_program_destroy(p);
    sn_graph_destroy(g);
}

static void one_line(const sn_context *ctx, sn_status status) {
    if (status == SN_OK || (status == SN_ERROR_ARGUMENT && !sn_error(ctx)[0])) return;
    if (!sn_error(ctx)[0] || strchr(sn_error(ctx), '\n')) fail("not one line", sn_error(ctx));
}

static void try_number(tally *t, sn_context *ctx, unsigned long number, char **files, int n) {
    job *j = calloc(1, sizeof *j);
    if (!j) fail("calloc", "no memory");
    current = number;
    *j = (job){.ctx = ctx, .c = {number * 0x2545f4914f6cdd1du + 1}, .t = t};
    const char *path = files[below(&j->c, (size_t)n)];
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot open", path);
    j->size = fread(j->text, 1, MAX_TEXT - 1, file);
    fclose(file);
    j->is_gpu = below(&j->c, 2);
    if (below(&j->c, 4)) sn_guarded(ctx, lower, j);
    mutate(j);
    if (getenv("MUTATE_SHOW")) printf("# %s\n%s", path, j->text), fflush(stdout);
    size_t from = below(&j->c, 20);
    stretch(j->pipeline, sizeof j->pipeline, pipeline_of(j), from, from + below(&j->c, 20));
    alarm(SECONDS);
    t->read++;
    unsigned long accepted = t->accepted;
    one_line(ctx, sn_guarded(ctx, evaluate, j));
    if (t->accepted > accepted) {
        one_line(ctx, sn_guarded(ctx, pass, j));
        compile(j);
    }
    alarm(0);
    free(j);
}

int main(int argc, char **argv) {
    tally t = {0};
    sn_context *ctx = NULL;
    if (argc < 4) return fputs("usage: mutate COUNT FIRST FILE...\n", stderr), 2;
    unsigned long count = strtoul(argv[1], NULL, 10), first = strtoul(argv[2], NULL, 10);
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGALRM};
    for (size_t k = 0; k < SN_COUNT(signals); k++) signal(signals[k], on_signal);
    for (unsigned long k = 0; k < count; k++) {
        if (!ctx && sn_context_create(&ctx, NULL) != SN_OK) fail("context", "none");
        try_number(&t, ctx, first + k, argv + 3, argc - 3);
        if (k % 256 == 255) sn_context_destroy(ctx), ctx = NULL;
    }
    sn_context_destroy(ctx);
    printf("%lu texts: %lu accepted, %lu evaluated, %lu through passes, %lu emitted, %lu run\n", t.read, t.accepted,
           t.evaluated, t.passed, t.emitted, t.ran);
    return 0;
}
