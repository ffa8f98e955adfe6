/* test_files.c: a file is there whole or not at all, and what was there before keeps what it had: its mode, its links, its place. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/files.h"

typedef struct fixture {
    char folder[64], path[512];
} fixture;

static void begin(fixture *f) {
    strcpy(f->folder, "/tmp/sinter-files-XXXXXX");
    cr_assert(mkdtemp(f->folder));
    umask(022);
}

static void end(fixture *f) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    cr_expect_eq(system(command), 0);
}

static const char *at(fixture *f, const char *name) {
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    return f->path;
}

static bool place(fixture *f, const char *name, const char *text, unsigned how) {
    const sn_file_part parts[] = {{text, 1}, {text + 1, strlen(text) - 1}};
    return sn_file_place(at(f, name), parts, 2, how);
}

static void expect_text(fixture *f, const char *name, const char *text) {
    char got[64] = "";
    int fd = open(at(f, name), O_RDONLY | O_NOFOLLOW);
    cr_assert(fd >= 0, "%s", name);
    cr_expect_geq(read(fd, got, sizeof got - 1), 0);
    close(fd);
    cr_expect_str_eq(got, text, "%s", name);
}

static void expect_mode(fixture *f, const char *name, mode_t mode) {
    struct stat st;
    cr_assert_eq(stat(at(f, name), &st), 0);
    cr_expect_eq(st.st_mode & 07777, mode, "%s: %o", name, st.st_mode);
}

/* No file on its way is left. */
static void expect_names(fixture *f, int n) {
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A %s | wc -l) = %d", f->folder, n);
    cr_expect_eq(system(command), 0);
}

static void link_to(fixture *f, const char *to, const char *name) { cr_assert_eq(symlink(to, at(f, name)), 0); }

Test(files, modes_stay) {
    fixture f;
    begin(&f);
    cr_assert(place(&f, "new", "one", SN_FILE_PUBLIC));
    expect_mode(&f, "new", 0644);
    cr_assert(place(&f, "own", "one", 0));
    expect_mode(&f, "own", 0600);
    static const mode_t modes[] = {0600, 0640, 0666, 0755};
    for (size_t k = 0; k < SN_COUNT(modes); k++) {
        cr_assert_eq(chmod(at(&f, "new"), modes[k]), 0);
        cr_assert(place(&f, "new", "other", SN_FILE_PUBLIC | SN_FILE_LASTS));
        expect_mode(&f, "new", modes[k]);
        expect_text(&f, "new", "other");
    }
    cr_assert_eq(chmod(at(&f, "own"), 0666), 0);
    cr_assert(place(&f, "own", "two", 0)); /* for the user alone, whatever was there */
    expect_mode(&f, "own", 0600);
    expect_names(&f, 2);
    end(&f);
}

Test(files, links_stay) {
    fixture f;
    struct stat st;
    begin(&f);
    cr_assert_eq(mkdir(at(&f, "there"), 0755), 0);
    link_to(&f, "there/file", "link"); /* seen from the link's folder, and of no file yet */
    link_to(&f, "../link", "there/back");
    for (int k = 0; k < 2; k++) {
        const char *text = k ? "second" : "first";
        cr_assert(place(&f, "there/back", text, SN_FILE_PUBLIC), "%s", strerror(errno));
        cr_expect(lstat(at(&f, "link"), &st) == 0 && S_ISLNK(st.st_mode));
        cr_expect(lstat(at(&f, "there/back"), &st) == 0 && S_ISLNK(st.st_mode));
        expect_text(&f, "there/file", text);
    }
    link_to(&f, "a", "b");
    link_to(&f, "b", "a");
    cr_expect(!place(&f, "a", "text", SN_FILE_PUBLIC) && errno == ELOOP);
    link_to(&f, "nowhere/file", "lost");
    cr_expect(!place(&f, "lost", "text", SN_FILE_PUBLIC) && errno == ENOENT);
    link_to(&f, "there", "folder");
    cr_expect(!place(&f, "folder", "text", SN_FILE_PUBLIC) && errno == EISDIR);
    expect_names(&f, 6);
    end(&f);
}

/* What /proc calls an open file that has no name any more leads to it, though its text does not. */
Test(files, files_without_a_name) {
    fixture f;
    char name[64], got[8] = "";
    begin(&f);
    int fd = open(at(&f, "file"), O_RDWR | O_CREAT, 0600);
    cr_assert(fd >= 0 && unlink(f.path) == 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    link_to(&f, name, "link");
    cr_expect(place(&f, "link", "text", SN_FILE_PUBLIC), "%s", strerror(errno));
    cr_expect_eq(pread(fd, got, sizeof got - 1, 0), 4);
    cr_expect_str_eq(got, "text");
    close(fd);
    expect_names(&f, 1);
    end(&f);
}

Test(files, folders_that_cannot_be_written) {
    enum { NOBODY = 65534 };
    fixture f;
    begin(&f);
    cr_assert(place(&f, "open", "what was there", SN_FILE_PUBLIC) && place(&f, "closed", "this", SN_FILE_PUBLIC));
    cr_assert(chmod(at(&f, "open"), 0666) == 0 && chmod(at(&f, "closed"), 0444) == 0 && chmod(f.folder, 0555) == 0);
    bool root = geteuid() == 0;
    if (root) cr_assert_eq(seteuid(NOBODY), 0); /* whom the mode binds */
    cr_expect(place(&f, "open", "new", SN_FILE_PUBLIC), "%s", strerror(errno));
    cr_expect(!place(&f, "open", "half", 0) && errno == EACCES); /* a reader would see half of it */
    cr_expect(!place(&f, "closed", "new", SN_FILE_PUBLIC) && errno == EACCES);
    cr_expect(!place(&f, "none", "new", SN_FILE_PUBLIC) && errno == EACCES);
    if (root) cr_assert_eq(seteuid(0), 0);
    expect_text(&f, "open", "new");
    expect_text(&f, "closed", "this");
    expect_mode(&f, "open", 0666);
    expect_names(&f, 2);
    cr_assert_eq(chmod(f.folder, 0777), 0); /* another's file: its owner stays */
    if (root) cr_assert_eq(seteuid(NOBODY), 0);
    cr_expect(place(&f, "open", "newer", SN_FILE_PUBLIC), "%s", strerror(errno));
    cr_expect(!place(&f, "closed", "newer", SN_FILE_PUBLIC) && errno == EACCES); /* though it could be another file */
    if (root) cr_assert_eq(seteuid(0), 0);
    struct stat st;
    cr_expect(stat(at(&f, "open"), &st) == 0 && st.st_uid == geteuid());
    expect_text(&f, "open", "newer");
    expect_names(&f, 2);
    end(&f);
}

Test(files, names_of_every_length) {
    fixture f;
    char name[257];
    begin(&f);
    for (size_t n = 90; n <= 256; n++) {
        memset(name, 'n', n);
        name[n] = 0;
        cr_expect_eq(place(&f, name, "text", SN_FILE_PUBLIC), n <= 255, "%zu: %s", n, strerror(errno));
        if (n > 255) cr_expect_eq(errno, ENAMETOOLONG);
    }
    expect_names(&f, 255 - 90 + 1);
    end(&f);
}
