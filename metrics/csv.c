/* csv.c: rows of metric tables in files, which several processes may append to at the same time.
 *
 *     FOLDER/metric_graph_stats.csv:    model,graph,target,nodes,..
 *                                       resnet50,main,sm_90a,176,..
 *
 * A file is there with its header or not at all: it is made beside its place and linked there, whoever comes first. A row is
 * one write to a file that is open for appending, so that rows of others stand before it or behind it, never inside. A
 * row that a full disk has cut is ended by whoever comes next. A file with other columns, of another version, is left
 * alone. Cells are quoted as RFC 4180 says. Nothing here fails a compilation: the first thing that goes wrong is a line
 * for its log, and that table is not written on. Files are opened for each log, and closed with it.
 */
#include "metrics/metrics.h"

#include "cache/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MOST = 4096 };

/* ---- texts ---- */

/* Ends of lines become spaces: a row is a line. */
static void put_quoted(sn_text *out, const char *cell) {
    bool quoted = cell[strcspn(cell, ",\"\r\n")] != 0;
    if (quoted) sn_text_put(out, "\"");
    for (; *cell; cell++) {
        if (*cell == '"') sn_text_put(out, "\"");
        sn_text_putn(out, *cell == '\n' || *cell == '\r' ? " " : cell, 1);
    }
    if (quoted) sn_text_put(out, "\"");
}

static void put_header(sn_text *out, const sn_metric_table *t) {
    sn_text_put(out, "model");
    for (uint32_t k = 0; k < t->n; k++) sn_text_printf(out, ",%s", t->columns[k].name);
    sn_text_put(out, "\n");
}

static void put_row(sn_text *out, sn_text *cell, const sn_metric_table *t, const void *row, const char *model) {
    put_quoted(out, model);
    for (uint32_t k = 0; k < t->n; k++) {
        sn_text_clear(cell);
        sn_metric_cell(cell, &t->columns[k], row);
        sn_text_put(out, ",");
        put_quoted(out, cell->s);
    }
    sn_text_put(out, "\n");
}

/* ---- files ---- */

typedef struct file {
    const sn_metric_table *table;
    char path[PATH_MOST];
    sn_text header, row, cell;
    int fd;
} file;

static bool path_of(char *out, const char *folder, const sn_metric_table *t) {
    return snprintf(out, PATH_MOST, "%s/metric_%s.csv", folder, t->name) < PATH_MOST;
}

static bool write_all(int fd, const char *s, size_t n) {
    ssize_t done;
    do done = write(fd, s, n);
    while (done < 0 && errno == EINTR);
    if (done >= 0 && (size_t)done < n) errno = ENOSPC;
    return done == (ssize_t)n;
}

/* A new file with the header alone, linked to its place (replace: put there, whatever is there). */
static bool place_header(const file *f, bool replace) {
    char part[PATH_MOST + 64]; /* of this process and this thread alone */
    snprintf(part, sizeof part, "%s.part-%ld-%llx", f->path, (long)getpid(), (unsigned long long)(uintptr_t)f);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    bool good = write_all(fd, f->header.s, f->header.n);
    close(fd);
    if (good) good = replace ? rename(part, f->path) == 0 : link(part, f->path) == 0 || errno == EEXIST;
    int why = errno;
    unlink(part);
    errno = why;
    return good;
}

/* Does the file begin with this version's header? */
static bool has_header(const file *f) {
    char *head = sn_heap_alloc(f->header.env, f->header.n);
    bool same = pread(f->fd, head, f->header.n, 0) == (ssize_t)f->header.n && !memcmp(head, f->header.s, f->header.n);
    sn_heap_free(f->header.env, head, f->header.n);
    return same;
}

/* What ends the last row: "" unless it was cut, maybe inside quotes. */
static const char *end_of_cut(const file *f) {
    char tail[8192];
    struct stat st;
    if (fstat(f->fd, &st) != 0) return "";
    off_t from = st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0;
    ssize_t n = pread(f->fd, tail, sizeof tail, from);
    if (n <= 0 || tail[n - 1] == '\n') return "";
    bool open = false;
    for (ssize_t k = n - 1; k >= 0 && tail[k] != '\n'; k--) open ^= tail[k] == '"';
    return open ? "\"\n" : "\n";
}

/* ---- a log ---- */

static const char *trouble(const sn_metric_log *log, const file *f, const char *why) {
    return sn_strf(log->arena, "metrics: %s: %s; not written", f->path, why);
}

static const char *append_rows(file *f, const sn_metric_log *log, sn_metric table, const char *model) {
    if (!has_header(f)) return trouble(log, f, "it has other columns, of another version");
    const char *end = end_of_cut(f);
    for (uint32_t k = 0; k < log->rows[table].n; k++) {
        sn_text_clear(&f->row);
        sn_text_put(&f->row, end);
        put_row(&f->row, &f->cell, f->table, log->rows[table].at[k], model);
        if (!write_all(f->fd, f->row.s, f->row.n)) return trouble(log, f, strerror(errno));
        end = "";
    }
    return NULL;
}

static const char *write_table(file *f, const sn_metric_log *log, sn_metric table, const char *folder,
                               const char *model) {
    if (!path_of(f->path, folder, f->table)) return sn_strf(log->arena, "metrics: the name of the folder is too long");
    f->fd = open(f->path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (f->fd < 0 && errno == ENOENT && sn_folder_make(folder) && place_header(f, false))
        f->fd = open(f->path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (f->fd < 0) return trouble(log, f, strerror(errno));
    const char *why = append_rows(f, log, table, model);
    close(f->fd);
    return why;
}

static void open_texts(file *f, sn_env *env) {
    sn_text_init(&f->header, env);
    sn_text_init(&f->row, env);
    sn_text_init(&f->cell, env);
    put_header(&f->header, f->table);
}

static void close_texts(file *f) {
    sn_text_free(&f->header);
    sn_text_free(&f->row);
    sn_text_free(&f->cell);
}

void sn_metric_write(const char **warning, const sn_metric_log *log, const char *folder, const char *model) {
    *warning = NULL;
    for (int t = 0; t < SN_N_METRICS; t++) {
        if (!log->rows[t].n) continue;
        file f = {.table = &sn_metric_tables[t]};
        open_texts(&f, log->arena->env);
        const char *why = write_table(&f, log, (sn_metric)t, folder, model);
        if (!*warning) *warning = why;
        close_texts(&f);
    }
}

sn_status sn_metric_empty(sn_env *env, sn_arena *arena, const char *folder, uint32_t tables) {
    sn_status status =
        sn_folder_make(folder) ? SN_OK : sn_fail(env, SN_ERROR_FILE, "metrics: %s: %s", folder, strerror(errno));
    for (int t = 0; t < SN_N_METRICS && status == SN_OK; t++) {
        file *f = SN_NEW(arena, file);
        f->table = &sn_metric_tables[t];
        if (!(tables >> t & 1)) continue;
        open_texts(f, env);
        if (!path_of(f->path, folder, f->table))
            status = sn_fail(env, SN_ERROR_FILE, "metrics: the name of the folder is too long");
        else if (!place_header(f, true))
            status = sn_fail(env, SN_ERROR_FILE, "metrics: %s: %s", f->path, strerror(errno));
        close_texts(f);
    }
    return status;
}
