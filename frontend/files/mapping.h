/* mapping.h: a file's bytes, mapped into memory where that is possible. */
#ifndef SN_FRONTEND_FILES_MAPPING_H
#define SN_FRONTEND_FILES_MAPPING_H

#include "ir/base/base.h"

typedef struct sn_mapping {
    const char *data;
    size_t size;
    bool mapped; /* else the bytes are in an arena */
} sn_mapping;

/* What is no regular file (a pipe) is read into the arena. An empty file has data, and size 0. */
sn_status sn_mapping_open(sn_mapping *out, sn_env *env, sn_arena *arena, const char *path);
void sn_mapping_close(sn_mapping *map);

#endif
