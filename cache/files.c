/* files.c: folders that are made where they are missing, and files that are there whole or not at all.
 *
 *     FOLDER/NAME.part-1234-7   written by process 1234, then moved to
 *     FOLDER/NAME
 *
 * So whoever finds the first name knows whether somebody still works on it. Nothing here fails: what went wrong is in
 * errno. Takes no memory.
 */
#include "cache/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char part_mark[] = ".part-";

bool sn_folder_make(const char *path) {
    char part[SN_PATH_MOST];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) return errno = ENAMETOOLONG, false;
    for (char *s = part + 1; part[0] && *s; s++) {
        if (*s != '/') continue;
        *s = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return false;
        *s = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

static bool write_part(int fd, const sn_file_part *part) {
    const char *at = part->at;
    for (size_t left = part->size; left;) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += n, left -= (size_t)n;
    }
    return true;
}

static bool write_parts(int fd, const sn_file_part *parts, uint32_t n, unsigned how) {
    for (uint32_t i = 0; i < n; i++)
        if (!write_part(fd, &parts[i])) return false;
    return !(how & SN_FILE_LASTS) || fsync(fd) == 0;
}

/* Is it something that is neither a file nor a folder? */
static bool is_special(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Into what is there: nothing may take the place of a device. */
static bool write_through(const char *path, const sn_file_part *parts, uint32_t n) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = write_parts(fd, parts, n, 0);
    int why = errno;
    if (close(fd) != 0 && good) good = false, why = errno;
    errno = why;
    return good;
}

/* A file beside `path` that did not exist; its name in `name`. -1: errno says why. */
static int open_beside(char name[SN_PATH_MOST], const char *path, unsigned how) {
    enum { ALL = 0666, OWN = 0600 };
    for (unsigned k = 0;; k++) {
        if (snprintf(name, SN_PATH_MOST, "%s%s%ld-%u", path, part_mark, (long)getpid(), k) >= SN_PATH_MOST)
            return errno = ENAMETOOLONG, -1;
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, how & SN_FILE_PUBLIC ? ALL : OWN);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
}

bool sn_file_place(const char *path, const sn_file_part *parts, uint32_t n, unsigned how) {
    char beside[SN_PATH_MOST], behind_links[PATH_MAX];
    if (is_special(path)) return write_through(path, parts, n);
    if (realpath(path, behind_links)) path = behind_links;
    int fd = open_beside(beside, path, how);
    if (fd < 0) return false;
    bool good = write_parts(fd, parts, n, how);
    int why = errno;
    if (close(fd) != 0 && good) good = false, why = errno;
    if (good && rename(beside, path) != 0) good = false, why = errno;
    if (!good) unlink(beside);
    errno = why;
    return good;
}

bool sn_file_is_part(size_t *length, const char *name) {
    const char *mark = strstr(name, part_mark);
    *length = mark ? (size_t)(mark - name) : strlen(name);
    return mark != NULL;
}

/* A number may be that of another process by now, or of one on another machine: what is a day old is left, too. */
bool sn_file_part_is_left(const char *name, int64_t age_seconds) {
    enum { DAY = 24 * 60 * 60 };
    const char *mark = strstr(name, part_mark);
    long process = mark ? strtol(mark + strlen(part_mark), NULL, 10) : 0;
    if (process <= 0) return mark != NULL;
    return age_seconds > DAY || (kill((pid_t)process, 0) != 0 && errno == ESRCH);
}
