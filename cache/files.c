/* files.c: folders that are made where they are missing, and files that are there whole or not at all.
 *
 *     FOLDER/NAME.part-1234-7   written by process 1234, then moved to
 *     FOLDER/NAME
 *
 * (FOLDER/.part-1234-7 where NAME is so long that the file system may take no longer one).
 * So whoever finds the first name knows whether somebody still works on it. Nothing here fails: what went wrong is in
 * errno. Takes no memory.
 */
#include "cache/files.h"

#include <errno.h>
#include <fcntl.h>
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

/* Owner, group and mode of the file that it is to take the place of. A file system without modes has none to lose. */
static bool make_like(int fd, const struct stat *old) {
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    bool same = st.st_uid == old->st_uid && st.st_gid == old->st_gid;
    if (!same && fchown(fd, old->st_uid, old->st_gid) != 0) return false;
    (void)fchmod(fd, old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
    return true;
}

static bool write_and_close(int fd, const struct stat *like, const sn_file_part *parts, uint32_t n, unsigned how) {
    bool good = (!like || make_like(fd, like)) && write_parts(fd, parts, n, how);
    int why = errno;
    if (close(fd) != 0 && good) good = false, why = errno;
    errno = why;
    return good;
}

static bool write_in_place(const char *path, const sn_file_part *parts, uint32_t n, unsigned how) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return fd >= 0 && write_and_close(fd, NULL, parts, n, how);
}

/* The name that the links at the end of `path` lead to, whether there is a file or not. realpath wants one. */
static bool behind_links(char out[SN_PATH_MOST], const char *path) {
    enum { LINKS_MOST = 40 };
    char to[SN_PATH_MOST];
    if (snprintf(out, SN_PATH_MOST, "%s", path) >= SN_PATH_MOST) return errno = ENAMETOOLONG, false;
    for (int k = 0; k < LINKS_MOST; k++) {
        ssize_t n = readlink(out, to, sizeof to - 1);
        if (n < 0) return true; /* no link; what else is wrong opening a file says */
        const char *slash = strrchr(out, '/');
        size_t folder = to[0] == '/' || !slash ? 0 : (size_t)(slash + 1 - out);
        if (folder + (size_t)n >= SN_PATH_MOST) return errno = ENAMETOOLONG, false;
        memcpy(out + folder, to, (size_t)n);
        out[folder + (size_t)n] = 0;
    }
    return errno = ELOOP, false;
}

/* A file beside `path` that did not exist; its name in `name`. -1: errno says why. A long name and the mark would be too much for one. */
static int open_beside(char name[SN_PATH_MOST], const char *path, mode_t mode) {
    enum { NAME_MOST = 100 };
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0, length = strlen(path);
    if (length - folder > NAME_MOST) length = folder;
    for (unsigned k = 0;; k++) {
        if (snprintf(name, SN_PATH_MOST, "%.*s%s%ld-%u", (int)length, path, part_mark, (long)getpid(), k) >=
            SN_PATH_MOST)
            return errno = ENAMETOOLONG, -1;
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
}

/* `old`: the file that is there, if the new one is to be like it; until it is, it is the user's own. */
static bool write_beside(const char *path, const struct stat *old, const sn_file_part *parts, uint32_t n,
                         unsigned how) {
    enum { ALL = 0666, OWN = 0600 };
    char beside[SN_PATH_MOST];
    int fd = open_beside(beside, path, !old && (how & SN_FILE_PUBLIC) ? ALL : OWN);
    if (fd < 0) return false;
    if (write_and_close(fd, old, parts, n, how) && rename(beside, path) == 0) return true;
    int why = errno;
    unlink(beside);
    errno = why;
    return false;
}

/* The folder, or who owns the file, does not let another take its place. */
static bool is_forbidden(int why) { return why == EACCES || why == EPERM || why == EROFS || why == EBUSY; }

bool sn_file_place(const char *path, const sn_file_part *parts, uint32_t n, unsigned how) {
    char to[SN_PATH_MOST];
    struct stat old, found;
    bool exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode)) return errno = EISDIR, false;
    if (exists && !S_ISREG(old.st_mode)) return write_in_place(path, parts, n, 0);
    bool like_old = exists && (how & SN_FILE_PUBLIC);
    if (like_old && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return false; /* the folder alone might let it go */
    if (!behind_links(to, path)) return false;
    /* A link in /proc to an open file has a text that leads elsewhere once the file is moved or deleted. */
    if (exists && (stat(to, &found) != 0 || found.st_dev != old.st_dev || found.st_ino != old.st_ino))
        return write_in_place(path, parts, n, how);
    if (write_beside(to, like_old ? &old : NULL, parts, n, how)) return true;
    return like_old && is_forbidden(errno) && write_in_place(to, parts, n, how);
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
