/* no_library.c: a machine without libraries of matrix products, for tests: loaded in front of a program (LD_PRELOAD), it lets
 * dlopen find none of them, whatever is installed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlopen(const char *name, int flags) {
    static const char *const hidden[] = {"blas", "blis", "mkl"};
    void *(*real)(const char *, int);
    for (size_t i = 0; name && i < sizeof hidden / sizeof *hidden; i++)
        if (strstr(name, hidden[i])) return NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(name, flags);
}
