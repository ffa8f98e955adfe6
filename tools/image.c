/* image.c: `sinter image`: what is in an image, as text. Runs nothing of it. */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "usage: sinter image show|verify FILE\n"
                           "  show          everything but the bytes of code and constants\n"
                           "  verify        compare all checksums, those of constants in files of their own too\n";

typedef struct image_args {
    const char *path;
    bool show;
} image_args;

bool tool_is_image(const char *path) {
    char first[8];
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (f) fclose(f);
    return sn_image_is(first, n);
}

static sn_status match_weights(sn_context *ctx, void *user) {
    tool_weights *w = user;
    sn_image_bytes file;
    sn_image *image;
    SN_TRY(sn_image_map(&file, &ctx->env, w->image));
    sn_status status = sn_image_read(&image, &ctx->env, &ctx->scratch, w->image, file);
    for (unsigned k = 0; k < w->n && status == SN_OK;) {
        uint32_t i = 0;
        while (i < image->n_consts && strcmp(image->consts[i].name, w->at[k].name)) i++;
        if (i == image->n_consts) w->at[k] = w->at[--w->n];
        else k++;
    }
    sn_image_unmap(&file);
    return status;
}

sn_status tool_image_weights(tool_weights *w, sn_context *ctx) {
    if (!w->file) return SN_OK;
    SN_TRY(sn_weights_open(&w->open, ctx, w->file));
    unsigned n = sn_weights_count(w->open);
    w->at = calloc(n + 1, sizeof *w->at);
    if (!w->at) return SN_ERROR_MEMORY;
    for (; w->n < n; w->n++) SN_TRY(sn_weights_get(&w->at[w->n], w->open, w->n));
    return sn_guarded(ctx, match_weights, w);
}

static sn_status run_image(sn_context *ctx, void *user) {
    const image_args *a = user;
    sn_image_bytes file;
    sn_image *image = NULL;
    sn_text t;
    SN_TRY(sn_image_map(&file, &ctx->env, a->path));
    sn_text_init(&t, &ctx->env);
    sn_status status = sn_image_read(&image, &ctx->env, &ctx->scratch, a->path, file);
    if (status == SN_OK && !a->show)
        status = sn_image_open_files(image, &ctx->env, &ctx->scratch, a->path, NULL, NULL, 0);
    if (status == SN_OK) status = sn_image_verify(&ctx->env, image, NULL, 0);
    if (status == SN_OK && a->show) sn_image_print(&t, image);
    if (status == SN_OK) fputs(a->show ? t.s : "ok\n", stdout);
    sn_text_free(&t);
    sn_image_close_files(image);
    sn_image_unmap(&file);
    return status;
}

int tool_image(sn_context *ctx, int argc, char **argv) {
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'h') return fputs(help, stdout), TOOL_OK;
        return TOOL_USAGE;
    }
    const char *what = argc - optind == 2 ? argv[optind] : "";
    if (strcmp(what, "show") && strcmp(what, "verify")) return tool_misuse("image: show FILE or verify FILE is wanted");
    image_args a = {argv[optind + 1], !strcmp(what, "show")};
    return sn_guarded(ctx, run_image, &a) == SN_OK ? TOOL_OK : tool_fail(ctx);
}
