/* test_ptxas.c: cubins by a child process: a script stands in for ptxas and is told by the text what to do; what goes wrong is noted
 * once and leaves the others alone; nothing stays open; the real one makes cubins that are read.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/assemble.h"
#include "runtime/cubin.h"
#include "runtime/image.h"

enum { MOST = 40 };

/* The second word of a text is what happens to it. */
static const char script[] =
    "#!/bin/sh\n"
    "[ \"$1 $2\" = '-arch=sm_90a -o' ] || exit 9\n"
    "echo x >> \"${0%/*}/runs\"\n"
    "read slashes word < \"$4\"\n"
    "case $word in\n"
    "good) { printf '\\177ELF'; cat \"$4\"; } > \"$3\";;\n"
    "refused) echo 'ptxas k, line 1; fatal : no such thing' >&2; echo 'ptxas fatal' >&2; exit 1;;\n"
    "late) echo 'good so far' > \"$3\"; exit 255;;\n"
    "crash) kill -SEGV $$;;\n"
    "silent) exit 3;;\n"
    "nothing) ;;\n"
    "new) echo \"ptxas k, line 2; fatal : Unsupported .version 9.9; current version is '9.0'\" >&2; exit 1;;\n"
    "esac\n";

typedef struct fixture {
    sn_env env;
    sn_arena arena;
    sn_pool *pool;
    char folder[64], path[96];
    sn_ptxas x;
    sn_assembly jobs[MOST];
    uint32_t n;
} fixture;

static void begin(fixture *f, uint32_t threads) {
    *f = (fixture){.folder = "/tmp/sinter-ptxas-XXXXXX"};
    sn_env_init(&f->env);
    sn_arena_init(&f->arena, &f->env);
    f->pool = sn_pool_new(&f->env, threads);
    cr_assert(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/ptxas", f->folder);
    FILE *file = fopen(f->path, "w");
    cr_assert(file && fputs(script, file) >= 0 && fclose(file) == 0 && chmod(f->path, 0700) == 0);
    sn_ptxas_find(&f->x, &f->arena, f->path, "");
}

static void end(fixture *f) {
    char command[128];
    sn_pool_free(f->pool);
    sn_arena_free(&f->arena);
    cr_expect_eq(f->env.bytes_now, 0);
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    cr_expect_eq(system(command), 0);
}

static void add(fixture *f, const char *word, const char *version) {
    sn_assembly *job = &f->jobs[f->n];
    job->name = sn_strf(&f->arena, "k%u", f->n++);
    job->ptx = sn_strf(&f->arena, "// %s\n.version %s\n.target sm_90a\n", word, version);
    job->ptx_size = strlen(job->ptx);
    job->whole = true;
    sn_assembly_arch(job->arch, sizeof job->arch, job->ptx, 90);
}

static void again(fixture *f) {
    for (uint32_t i = 0; i < f->n; i++) f->jobs[i].cubin = NULL, f->jobs[i].left_out = false;
}

static unsigned runs(const fixture *f) {
    char path[96];
    struct stat st;
    snprintf(path, sizeof path, "%s/runs", f->folder);
    return stat(path, &st) == 0 ? (unsigned)st.st_size / 2 : 0;
}

static bool is_good(const sn_assembly *job) {
    return job->cubin && job->cubin_size == 4 + job->ptx_size && !memcmp(job->cubin, "\177ELF", 4) &&
           !memcmp((char *)job->cubin + 4, job->ptx, job->ptx_size);
}

static unsigned open_files(void) {
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    cr_assert(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

Test(ptxas, several_at_a_time_leave_nothing_open) {
    fixture f;
    begin(&f, 4);
    for (int i = 0; i < MOST - 1; i++) add(&f, i == 7 ? "refused" : i == 9 ? "crash" : "good", "8.0");
    f.jobs[3].left_out = true;
    unsigned before = open_files();
    sn_ptxas_assemble(&f.x, f.jobs, f.n, f.pool, &f.arena);
    cr_expect_eq(open_files(), before);
    for (uint32_t i = 0; i < f.n; i++)
        cr_expect(i == 3 || i == 7 || i == 9 ? !f.jobs[i].cubin : is_good(&f.jobs[i]), "%u", i);
    cr_expect_eq(runs(&f), MOST - 2);
    cr_expect(strstr(f.x.note, "makes no cubin of kernel k7: ptxas k, line 1; fatal : no such thing; ptxas fatal"),
              "%s", f.x.note);
    end(&f);
}

Test(ptxas, what_goes_wrong_is_one_line) {
    static const struct {
        const char *word, *why;
    } cases[] = {
        {"refused", "kernel k0: ptxas k, line 1; fatal : no such thing; ptxas fatal; the driver assembles instead"},
        {"late", "kernel k0: it ended with status 255 and says nothing; the driver"},
        {"crash", "kernel k0: it ended by signal 11; the driver"},
        {"silent", "kernel k0: it ended with status 3 and says nothing; the driver"},
        {"nothing", "kernel k0: it wrote no cubin; the driver"}};
    for (size_t c = 0; c < SN_COUNT(cases); c++) {
        fixture f;
        begin(&f, 1);
        add(&f, cases[c].word, "8.0");
        add(&f, "good", "8.0");
        sn_ptxas_assemble(&f.x, f.jobs, f.n, f.pool, &f.arena);
        cr_expect(!f.jobs[0].cubin && is_good(&f.jobs[1]), "%s", cases[c].word);
        cr_expect(strstr(f.x.note, cases[c].why), "%s: %s", cases[c].word, f.x.note);
        cr_expect_null(strchr(f.x.note, '\n'));
        end(&f);
    }
}

/* Texts as new as one that was not known are not tried, older ones are. */
Test(ptxas, too_old_for_the_text) {
    fixture f;
    begin(&f, 1);
    add(&f, "good", "8.0");
    for (int i = 0; i < 5; i++) add(&f, "new", "9.9");
    add(&f, "good", "9.8");
    sn_ptxas_assemble(&f.x, f.jobs, f.n, f.pool, &f.arena);
    cr_expect_eq(runs(&f), 3);
    cr_expect(is_good(&f.jobs[0]) && is_good(&f.jobs[6]) && !f.jobs[1].cubin && !f.jobs[5].cubin);
    cr_expect(
        strstr(f.x.note, "kernel k1: ptxas k, line 2; fatal : Unsupported .version 9.9; current version is '9.0'"),
        "%s", f.x.note);
    end(&f);
}

/* A script that nothing can run is no reason to try it for each kernel. */
Test(ptxas, cannot_be_run) {
    fixture f;
    begin(&f, 1);
    FILE *file = fopen(f.path, "w");
    cr_assert(file && fputs("#!/no/such/shell\n", file) >= 0 && fclose(file) == 0);
    add(&f, "good", "8.0");
    add(&f, "good", "8.0");
    sn_ptxas_assemble(&f.x, f.jobs, f.n, f.pool, &f.arena);
    cr_expect(!f.jobs[0].cubin && !f.jobs[1].cubin);
    cr_expect(strstr(f.x.note, "kernel k0: posix_spawn: No such file or directory; the driver"), "%s", f.x.note);
    end(&f);
}

/* Hosts that have no standard input, or that want to know nothing of their children. */
Test(ptxas, hosts_of_all_kinds) {
    fixture f;
    begin(&f, 1);
    add(&f, "good", "8.0");
    signal(SIGCHLD, SIG_IGN);
    close(STDIN_FILENO);
    sn_ptxas_assemble(&f.x, f.jobs, f.n, f.pool, &f.arena);
    cr_expect(is_good(&f.jobs[0]), "%s", f.x.note);
    signal(SIGCHLD, SIG_DFL);
    end(&f);
}

Test(ptxas, is_found) {
    fixture f;
    sn_ptxas x;
    begin(&f, 1);
    const char *folders = sn_strf(&f.arena, ":/no/such/folder::%s:/usr/bin", f.folder);
    sn_ptxas_find(&x, &f.arena, NULL, folders);
    cr_expect_str_eq(x.path, f.path);
    cr_expect(!x.named);
    cr_assert_eq(chmod(f.path, 0600), 0); /* no program */
    sn_ptxas_find(&x, &f.arena, NULL, f.folder);
    cr_expect(!x.path || strcmp(x.path, f.path) != 0);
    sn_ptxas_find(&x, &f.arena, "./elsewhere", folders);
    cr_expect(x.named && !strcmp(x.path, "./elsewhere"));
    end(&f);
}

/* Who makes what, and what is remembered: of a file with another time nothing is. */
Test(ptxas, cubins_are_kept) {
    fixture f;
    begin(&f, 2);
    const char *folder = sn_strf(&f.arena, "%s/cache", f.folder);
    static const struct {
        unsigned runs, hits;
        bool touched;
    } rounds[] = {{3, 0, false}, {4, 2, false}, {7, 0, true}};
    add(&f, "good", "8.0");
    add(&f, "good", "8.1");
    add(&f, "refused", "8.0"); /* is tried again in the next round */
    for (size_t r = 0; r < SN_COUNT(rounds); r++) {
        sn_cache *c = sn_cache_open(&f.arena, folder, 1 << 20);
        if (rounds[r].touched) cr_assert_eq(system(sn_strf(&f.arena, "touch -d 2001-01-01 %s", f.path)), 0);
        again(&f);
        sn_cubins_make(f.jobs, f.n, &(sn_cubins){.cache = c, .ptxas = &f.x}, NULL, f.pool, &f.arena);
        cr_expect(is_good(&f.jobs[0]) && is_good(&f.jobs[1]) && !f.jobs[2].cubin);
        cr_expect(runs(&f) == rounds[r].runs && c->hits == rounds[r].hits, "round %zu: %u runs, %u hits", r, runs(&f),
                  c->hits);
    }
    again(&f);
    sn_cubins_make(f.jobs, f.n, NULL, NULL, f.pool, &f.arena); /* for nobody: the driver is quicker */
    cr_expect(!f.jobs[0].cubin && runs(&f) == 7);
    end(&f);
}

/* Only who named a file is told that there is none; an image without cubins tells everybody. */
Test(ptxas, is_missed) {
    fixture f;
    begin(&f, 1);
    sn_image_kernel k = {
        .launch = {.name = "k0", .ptx = ".version 8.0\n.target sm_90a\n", .ptx_size = 28, .whole = true}};
    sn_image_part part = {.target = "sm_90a", .sm = 90, .kernels = &k, .n_kernels = 1};
    sn_ptxas none = {0}, named = {.path = "/no/such/ptxas", .named = true};
    add(&f, "good", "8.0");
    sn_cubins_make(f.jobs, 1, &(sn_cubins){.ptxas = &none}, NULL, f.pool, &f.arena);
    cr_expect_str_eq(none.note, "");
    sn_cubins_make(f.jobs, 1, &(sn_cubins){.ptxas = &named}, NULL, f.pool, &f.arena);
    cr_expect_str_eq(named.note, "ptxas: /no/such/ptxas cannot be run; the driver assembles instead");
    sn_image_assemble(&part, &(sn_cubins){.ptxas = &none}, &f.env, &f.arena);
    cr_expect_str_eq(none.note,
                     "ptxas: none in PATH, CUDA_HOME/bin and /usr/local/cuda*/bin; 1 kernel for sm_90a has no "
                     "cubin: whoever loads it has the driver assemble it");
    cr_expect(!k.launch.cubin && !k.launch.cubin_size);
    end(&f);
}

/* Warps with registers of their own, which nvJitLink would ignore. */
Test(ptxas, the_real_one) {
    static const char text[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                               ".visible .entry k0(.param .u64 p)\n.maxntid 256, 1, 1\n.minnctapersm 1\n{\n"
                               ".reg .b64 %rd<2>;\nsetmaxnreg.inc.sync.aligned.u32 240;\n"
                               "ld.param.u64 %rd1, [p];\nst.global.u64 [%rd1], %rd1;\nret;\n}\n";
    fixture f;
    sn_cubin_figures figures;
    const char *path = getenv("PATH");
    begin(&f, 1);
    sn_image_kernel k = {.launch = {.name = "k0", .ptx = text, .ptx_size = sizeof text - 1, .whole = true}};
    sn_image_part part = {.target = "sm_90a", .sm = 90, .kernels = &k, .n_kernels = 1};
    sn_ptxas_find(&f.x, &f.arena, NULL, path ? path : "");
    if (!f.x.path) cr_skip_test("no ptxas here");
    sn_image_assemble(&part, &(sn_cubins){.ptxas = &f.x}, &f.env, &f.arena);
    cr_expect_str_eq(f.x.note, "");
    cr_assert(k.launch.cubin && sn_cubin_read(&figures, k.launch.cubin, k.launch.cubin_size, "k0"));
    cr_expect(figures.registers >= 24 && !figures.stack, "%u", figures.registers);
    end(&f);
}
