/* mapping.c: files mapped into memory, read only. A file must not be made shorter while it is mapped. */
#include "frontend/files/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/context/context.h"

static sn_status read_file(sn_mapping *out, sn_env *env, sn_arena *arena, const char *path) {
    char *data;
    SN_TRY(sn_file_read(&data, &out->size, env, arena, path));
    out->data = data;
    return SN_OK;
}

sn_status sn_mapping_open(sn_mapping *out, sn_env *env, sn_arena *arena, const char *path) {
    struct stat st;
    *out = (sn_mapping){0};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return read_file(out, env, arena, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return sn_fail(env, SN_ERROR_FILE, "cannot open %s: %s", path, strerror(errno));
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    if (map == MAP_FAILED) return sn_fail(env, SN_ERROR_FILE, "cannot map %s: %s", path, strerror(why));
    *out = (sn_mapping){map, (size_t)st.st_size, true};
    return SN_OK;
}

void sn_mapping_close(sn_mapping *map) {
    if (map->mapped) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (sn_mapping){0};
}
