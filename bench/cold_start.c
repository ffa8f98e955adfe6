/* cold_start.c: how long a process takes to its first result, with libsinter-rt alone: milliseconds since it was started, by phase.
 *
 *     sinter compile resnet50.sn --target=sm_90a,host -o resnet50.snb
 *     cold_start resnet50.snb [cuda|cpu]
 *
 * The process starts itself again with the time of that in an argument, so that what the system takes to load it counts. Inputs are
 * zeroes; on CUDA their memory is the driver's, of which two functions are looked up. What the driver itself takes to start (cuInit, the
 * context) is a line of its own, since no program can make it shorter.
 */
#include <sinter/rt.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ALIGN = 256 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- memory of the host, or of the device ---- */

typedef struct driver {
    int (*get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*set)(void *context);
    int (*alloc)(unsigned long long *p, size_t size);
    int (*clear)(unsigned long long to, unsigned char byte, size_t size);
    int (*sync)(void);
} driver;

static int open_driver(driver *d) {
    static const char *const names[] = {"cuDeviceGet",   "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2",
                                        "cuMemsetD8_v2", "cuCtxSynchronize"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *symbols[sizeof names / sizeof *names];
    int device;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!library || !(symbols[i] = dlsym(library, names[i]))) return 1;
    memcpy(d, symbols, sizeof *d);
    return d->get(&device, 0) || d->retain(&context, device) || d->set(context);
}

static void *storage(const driver *d, size_t size) {
    unsigned long long p = 0;
    if (!d) {
        void *at = aligned_alloc(ALIGN, size / ALIGN * ALIGN + ALIGN);
        return at ? memset(at, 0, size) : NULL;
    }
    return d->alloc(&p, size + 1) || d->clear(p, 0, size) ? NULL : (void *)(uintptr_t)p;
}

/* ---- the program ---- */

static int make_buffers(void **inputs, void **outputs, const sn_rt_program *p, const driver *d) {
    sn_rt_port port;
    for (unsigned k = 0; k < sn_rt_input_count(p); k++)
        if (k >= MOST || sn_rt_input(&port, p, k) != SN_OK || !(inputs[k] = storage(d, port.bytes))) return 1;
    for (unsigned k = 0; k < sn_rt_output_count(p); k++) {
        if (k >= MOST || sn_rt_output(&port, p, k) != SN_OK) return 1;
        if (port.writes < 0 && !(outputs[k] = storage(d, port.bytes))) return 1;
    }
    return 0;
}

static void print(const char *what, double ms) { printf("%-28s %8.2f ms\n", what, ms); }

static int fail(const char *why) { return fprintf(stderr, "cold_start: %s\n", why), 1; }

static int run(const char *path, const char *device, double started) {
    sn_rt *rt;
    sn_rt_program *p;
    sn_rt_state *st;
    sn_rt_times t;
    driver d;
    void *inputs[MOST] = {NULL}, *outputs[MOST] = {NULL};
    sn_rt_options options = {.struct_size = sizeof options, .device = device};
    double main_at = now_ms();
    if (sn_rt_create(&rt) != SN_OK) return fail("out of memory");
    if (sn_rt_load(&p, rt, path, &options) != SN_OK) return fail(sn_rt_error(rt));
    double loaded = now_ms();
    const int on_device = sn_rt_device(p) >= 0;
    if (on_device && open_driver(&d)) return fail("the driver gives no memory");
    if (make_buffers(inputs, outputs, p, on_device ? &d : NULL)) return fail("no memory for inputs and outputs");
    double ready = now_ms();
    if (sn_rt_state_create(&st, p) != SN_OK) return fail("out of memory");
    if (sn_rt_run(st, (const void *const *)inputs, outputs, NULL) != SN_OK) return fail(sn_rt_state_error(st));
    if (on_device && d.sync()) return fail("the run failed");
    double first = now_ms();
    if (sn_rt_run(st, (const void *const *)inputs, outputs, NULL) != SN_OK) return fail(sn_rt_state_error(st));
    if (on_device) d.sync();
    double second = now_ms();
    sn_rt_load_times(&t, p);
    printf("%s, %s\n", path, sn_rt_target(p));
    print("process to main", main_at - started);
    print("map and read fields", 1e-3 * t.read_us);
    print("CUDA starts", 1e-3 * t.device_us);
    print("checksums", 1e-3 * t.verify_us);
    print("constants to the device", 1e-3 * t.upload_us);
    print("modules", 1e-3 * t.modules_us);
    print("what constants decide", 1e-3 * t.prepare_us);
    print("rest of loading",
          loaded - main_at -
              1e-3 * (t.read_us + t.device_us + t.verify_us + t.upload_us + t.modules_us + t.prepare_us));
    print("memory of the caller", ready - loaded);
    print("first run", first - ready);
    print("first result", first - started);
    print("... without CUDA's start", first - started - 1e-3 * t.device_us);
    print("(a second run)", second - first);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 || argc == 3) {
        char stamp[64];
        snprintf(stamp, sizeof stamp, "%.6f", now_ms());
        execl("/proc/self/exe", argv[0], argv[1], argc == 3 ? argv[2] : "auto", stamp, (char *)NULL);
        return fail("cannot start itself");
    }
    if (argc != 4) return fail("usage: cold_start IMAGE [auto|cuda|cpu]");
    return run(argv[1], argv[2], atof(argv[3]));
}
