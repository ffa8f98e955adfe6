/* zip_file.h: zip archives for the tests, written with libzip: members stored or deflated. */
#ifndef SN_TESTS_UNIT_ZIP_FILE_H
#define SN_TESTS_UNIT_ZIP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <zip.h>

typedef struct zip_member {
    const char *name;
    const void *data;
    size_t size;
    bool deflated;
} zip_member;

/* false: the archive could not be written. */
static inline bool zip_file_write(const char *path, const zip_member *members, unsigned n) {
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    bool good = zip != NULL;
    for (unsigned k = 0; good && k < n; k++) {
        zip_source_t *source = zip_source_buffer(zip, members[k].data, members[k].size, 0);
        zip_int64_t at = source ? zip_file_add(zip, members[k].name, source, 0) : -1;
        good = at >= 0 &&
               !zip_set_file_compression(zip, (zip_uint64_t)at, members[k].deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    return good && zip_close(zip) == 0;
}

#endif
