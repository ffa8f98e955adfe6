/* files.h: folders that are made where they are missing, and files that are there whole or not at all. */
#ifndef SN_CACHE_FILES_H
#define SN_CACHE_FILES_H

#include "ir/base/base.h"

enum { SN_PATH_MOST = 4096 };

/* Bytes of a file, one after the other. */
typedef struct sn_file_part {
    const void *at;
    size_t size;
} sn_file_part;

/* The folder and those above it. False: errno says why. */
bool sn_folder_make(const char *path);
/* LASTS: on the disk before it is moved. PUBLIC: for whom the process's mask lets, as files that programs make; else for the user alone. */
enum { SN_FILE_LASTS = 1, SN_FILE_PUBLIC = 2 };

/* Write the parts to a file of this process's own beside `path` and move it there: a reader finds all of it or nothing,
 * of two writers the later one stays. A link to a file stays, also where the file is still missing, and a device or a pipe is written
 * where it is. False: errno says why, and nothing is left.
 *
 * A public file that is there keeps its owner, group and mode, and stays where the process may not write it. Where these cannot be kept, or the folder lets no other file take
 * its place, what may be written is written where it is: readers may then find a part of it, and a failure leaves one.
 *
 * Other hard links to the file keep what was there before. A process that is killed leaves its own file, named
 * NAME.part-PROCESS-NUMBER; the cache deletes such files in its folder, elsewhere the user does. */
bool sn_file_place(const char *path, const sn_file_part *parts, uint32_t n, unsigned how);
/* Is it the name of such a file on its way to `length` characters of a name, and is its writer gone? */
bool sn_file_is_part(size_t *length, const char *name);
bool sn_file_part_is_left(const char *name, int64_t age_seconds);

#endif
