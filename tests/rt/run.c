/* run.c: a program of rt.h alone, linked with libsinter-rt alone: run an image on inputs from .npy files and compare its outputs,
 * bit for bit, with others.
 *
 *     rt-run [--cuda|--cpu|--memory|--graphs=WORD] [--debug=WORDS] [--debug-kernels=NAMES] [--debug-dir=DIR] IMAGE in:NAME=FILE.npy ...
 *            out:NAME=FILE.npy ...
 *
 * Prints one line an output. Exit code 0: all are equal.
 */
#include <sinter/rt.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, HEAD = 10 };

typedef struct {
    char *data; /* of the file */
    size_t size, at;
} file;

static bool read_file(file *out, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    size_t room = ((size_t)size + 4096) / 4096 * 4096;
    *out = (file){aligned_alloc(4096, room), (size_t)size, 0};
    bool good = out->data && fread(out->data, 1, out->size, f) == out->size;
    fclose(f);
    return good;
}

/* The elements begin behind the header, whose length stands in bytes 8 and 9. */
static bool read_npy(file *out, const char *path) {
    if (!read_file(out, path) || out->size < HEAD || memcmp(out->data, "\x93NUMPY", 6) != 0) return false;
    const unsigned char *length = (const unsigned char *)out->data + 8;
    out->at = HEAD + length[0] + 256u * length[1];
    return out->at <= out->size;
}

static const char *path_of(int n, char **given, const char *kind, const char *name) {
    size_t before = strlen(kind), length = strlen(name);
    for (int i = 0; i < n; i++) {
        if (strncmp(given[i], kind, before) != 0 || strncmp(given[i] + before, name, length) != 0) continue;
        if (given[i][before + length] == '=') return given[i] + before + length + 1;
    }
    return NULL;
}

static int fail(const char *what, const char *why) { return fprintf(stderr, "rt-run: %s: %s\n", what, why), 1; }

/* Storage of an address that is aligned as no port asks for more. */
/* Zeroes: a driver that runs no kernel leaves what is there, which the option debug says. */
static void *storage(size_t bytes) {
    size_t size = (bytes + 511) / 256 * 256;
    void *at = aligned_alloc(256, size);
    return at ? memset(at, 0, size) : NULL;
}

/* Row-major elements to where the port has them, or back; false: there are not as many. */
static bool spread(char *storage_at, char *dense, size_t dense_size, const sn_rt_port *p, bool back) {
    int64_t n = 1, at[8] = {0};
    for (unsigned k = 0; k < p->rank; k++) n *= p->shape[k];
    size_t size = n ? dense_size / (size_t)n : 0;
    if (n && (size == 0 || size > 8 || size * (size_t)n != dense_size)) return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = p->offset;
        for (unsigned k = 0; k < p->rank; k++) place += at[k] * p->strides[k];
        char *there = storage_at + place * (int64_t)size, *here = dense + i * (int64_t)size;
        memcpy(back ? here : there, back ? there : here, size);
        for (unsigned k = p->rank; k-- > 0 && ++at[k] == p->shape[k];) at[k] = 0;
    }
    return true;
}

typedef struct {
    void *inputs[MOST], *outputs[MOST];
} buffers;

static int make_inputs(buffers *b, const sn_rt_program *p, int n, char **given) {
    for (unsigned k = 0; k < sn_rt_input_count(p); k++) {
        sn_rt_port port;
        file f;
        sn_rt_input(&port, p, k);
        const char *path = path_of(n, given, "in:", port.name);
        if (!path) return fail(port.name, "no file is given");
        if (!read_npy(&f, path)) return fail(path, "cannot be read");
        b->inputs[k] = storage(port.bytes);
        if (!spread(b->inputs[k], f.data + f.at, f.size - f.at, &port, false))
            return fail(path, "has not as many bytes as the input");
        free(f.data);
    }
    for (unsigned k = 0; k < sn_rt_output_count(p); k++) {
        sn_rt_port port;
        sn_rt_output(&port, p, k);
        b->outputs[k] = port.writes < 0 ? storage(port.bytes) : NULL;
    }
    return 0;
}

static int compare(const buffers *b, const sn_rt_program *p, int n, char **given) {
    int code = 0;
    for (unsigned k = 0; k < sn_rt_output_count(p); k++) {
        sn_rt_port port;
        file f;
        sn_rt_output(&port, p, k);
        const char *path = path_of(n, given, "out:", port.name);
        if (!path) continue;
        if (!read_npy(&f, path)) return fail(path, "cannot be read");
        char *got = malloc(f.size + 1);
        void *from = port.writes < 0 ? b->outputs[k] : b->inputs[port.writes];
        size_t size = f.size - f.at;
        if (port.writes >= 0) sn_rt_input(&port, p, (unsigned)port.writes);
        bool equal = spread(from, got, size, &port, true) && !memcmp(got, f.data + f.at, size);
        printf("%s: %zu bytes %s\n", port.name, size, equal ? "equal" : "DIFFER");
        if (!equal) code = 1;
        free(got);
        free(f.data);
    }
    return code;
}

static int run(sn_rt_program *p, int n, char **given) {
    buffers b = {{0}, {0}};
    sn_rt_state *st;
    if (sn_rt_input_count(p) > MOST || sn_rt_output_count(p) > MOST) return fail("image", "too many inputs or outputs");
    int code = make_inputs(&b, p, n, given);
    if (code == 0 && sn_rt_state_create(&st, p) == SN_OK) {
        if (sn_rt_run(st, (const void *const *)b.inputs, b.outputs, NULL) != SN_OK)
            code = fail("run", sn_rt_state_error(st));
        if (code == 0) code = compare(&b, p, n, given);
        sn_rt_state_destroy(st);
    }
    for (unsigned k = 0; k < MOST; k++) free(b.inputs[k]), free(b.outputs[k]);
    return code;
}

static void on_log(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "rt-run: %s", text);
}

int main(int argc, char **argv) {
    sn_rt *rt;
    sn_rt_program *p;
    sn_rt_options options = {.struct_size = sizeof options, .log = on_log};
    file image = {0};
    bool memory = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "--cuda")) options.device = "cuda";
        if (!strcmp(argv[at], "--cpu")) options.device = "cpu";
        if (!strcmp(argv[at], "--memory")) memory = true;
        if (!strncmp(argv[at], "--debug=", 8)) options.debug = argv[at] + 8;
        if (!strncmp(argv[at], "--debug-kernels=", 16)) options.debug_kernels = argv[at] + 16;
        if (!strncmp(argv[at], "--debug-dir=", 12)) options.debug_dir = argv[at] + 12;
        if (!strncmp(argv[at], "--graphs=", 9)) options.graphs = argv[at] + 9;
    }
    if (at >= argc)
        return fail("usage", "rt-run [--cuda|--cpu|--memory] IMAGE in:NAME=FILE.npy ... out:NAME=FILE.npy ...");
    if (sn_rt_create(&rt) != SN_OK) return fail("sn_rt_create", "failed");
    if (memory && !read_file(&image, argv[at])) return fail(argv[at], "cannot be read");
    sn_status status =
        memory ? sn_rt_load_memory(&p, rt, image.data, image.size, &options) : sn_rt_load(&p, rt, argv[at], &options);
    int code = status == SN_OK ? run(p, argc - at - 1, argv + at + 1) : fail("load", sn_rt_error(rt));
    sn_rt_program_destroy(p);
    sn_rt_destroy(rt);
    free(image.data);
    return code;
}
