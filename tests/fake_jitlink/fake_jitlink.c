/* fake_jitlink.c: nvJitLink for tests: a cubin is the architecture and the text, a text that begins with "no" is refused. A test
 * opens it first: it has the name of the real one, which is then found to be there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct link {
    char arch[32];
    char *cubin;
    size_t size;
} link;

unsigned fake_jitlink_minor;          /* of its version */
_Atomic unsigned fake_jitlink_linked; /* texts */

enum { REFUSED = 4 };

int nvJitLinkVersion(unsigned *major, unsigned *minor) {
    *major = 13;
    *minor = fake_jitlink_minor;
    return 0;
}

int nvJitLinkCreate(void **out, unsigned n, const char **options) {
    link *l = calloc(1, sizeof *l);
    if (n) snprintf(l->arch, sizeof l->arch, "%s", options[0]);
    *out = l;
    return 0;
}

int nvJitLinkDestroy(void **at) {
    link *l = *at;
    free(l->cubin);
    free(l);
    *at = NULL;
    return 0;
}

int nvJitLinkAddData(void *at, int kind, const void *data, size_t size, const char *name) {
    link *l = at;
    (void)kind;
    (void)name;
    fake_jitlink_linked++;
    if (!strncmp(data, "no", 2)) return REFUSED;
    l->size = strlen(l->arch) + size;
    l->cubin = malloc(l->size + 1);
    memcpy(l->cubin, l->arch, strlen(l->arch));
    memcpy(l->cubin + strlen(l->arch), data, size);
    return 0;
}

int nvJitLinkComplete(void *at) {
    (void)at;
    return 0;
}

int nvJitLinkGetLinkedCubinSize(void *at, size_t *size) {
    *size = ((link *)at)->size;
    return 0;
}

int nvJitLinkGetLinkedCubin(void *at, void *cubin) {
    memcpy(cubin, ((link *)at)->cubin, ((link *)at)->size);
    return 0;
}

static const char log_text[] = "it begins with no";

int nvJitLinkGetErrorLogSize(void *at, size_t *size) {
    (void)at;
    *size = sizeof log_text;
    return 0;
}

int nvJitLinkGetErrorLog(void *at, char *log) {
    (void)at;
    memcpy(log, log_text, sizeof log_text);
    return 0;
}
