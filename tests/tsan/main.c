/* main.c: runs the tests with threads in one process and reports them as TAP, for the thread sanitizer (criterion.h). */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TESTS = 64 };

static struct {
    const char *name;
    void (*body)(void);
} tests[TESTS];
static int n_tests, number;
static bool failed;

void test_add(const char *name, void (*body)(void)) {
    if (n_tests == TESTS) abort();
    tests[n_tests].name = name;
    tests[n_tests++].body = body;
}

static void report(void) {
    printf("%s %d - %s\n", failed ? "not ok" : "ok", number + 1, tests[number].name);
    fflush(stdout);
}

void test_failed(bool fatal, const char *file, int line, const char *condition, const char *format, ...) {
    va_list args;
    failed = true;
    printf("# %s:%d: %s:", file, line, condition);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (!fatal) return;
    report();
    exit(1);
}

int main(void) {
    bool any = false;
    printf("1..%d\n", n_tests);
    for (number = 0; number < n_tests; number++) {
        failed = false;
        tests[number].body();
        any |= failed;
        report();
    }
    return any;
}
