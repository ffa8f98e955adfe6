/* records.c: what timing found, remembered on disk: a file for each product, device, versions and list of choices.
 *
 *     FOLDER/3f5a0c7e91d2b846.json
 *     {"product": "graph @product(...", "device": "NVIDIA H200, ...", "versions": "...", "choices": "",
 *      "choice": "decompose_k parts=112", "us": 4.1, "trials": [{"choice": "plain", "us": 12.6}, ...]}
 *
 * The name is a hash of what the file is about, and the file says it again: one that was copied from elsewhere, or that
 * shares the hash, does not count. It is written beside its place and moved there, so that a reader finds all of it or
 * nothing; of two writers the later one stays. Nothing here fails: a file that is cut off, a folder that cannot be
 * written and a full disk are lines for the caller, the first of which is kept. Relies on jansson, whose memory is not
 * that of the environment: it ends before anything is allocated there.
 */
#include "tune/tune.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/files.h"
#include "passes/schedule/version.h"

enum { PATH_MOST = SN_PATH_MOST, CHOICE_MOST = 256 };

static void warn(sn_record_place *place, const char *format, ...) SN_PRINTF(2, 3);
static void warn(sn_record_place *place, const char *format, ...) {
    va_list args;
    if (place->warning[0]) return;
    va_start(args, format);
    vsnprintf(place->warning, sizeof place->warning, format, args);
    va_end(args);
}

static uint64_t hash_text(uint64_t h, const char *s) {
    for (; *s; s++) h = sn_hash(h, (unsigned char)*s);
    return sn_hash(h, 256);
}

static uint64_t name_of(const sn_record_place *place, const char *product) {
    uint64_t h = hash_text(hash_text(0, product), place->device);
    return hash_text(hash_text(h, place->versions), place->choices);
}

static bool path_of(char *out, const sn_record_place *place, const char *product) {
    unsigned long long name = name_of(place, product);
    return snprintf(out, PATH_MOST, "%s/%016llx.json", place->folder, name) < PATH_MOST;
}

const char *sn_record_schedules(sn_arena *arena) { return sn_schedules_version(arena); }

/* ---- the folder ---- */

static int by_name(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* "3f5a0c7e91d2b846.json" */
static bool read_name(uint64_t *out, const char *file) {
    char *end;
    *out = strtoull(file, &end, 16);
    return end == file + 16 && !strcmp(end, ".json");
}

uint32_t sn_record_list(sn_record_place *place, sn_arena *arena) {
    SN_VEC(uint64_t) names = {0};
    DIR *folder = place->folder ? opendir(place->folder) : NULL;
    if (!folder && place->folder && errno != ENOENT && errno != ENOTDIR)
        return warn(place, "records in %s: %s; not used", place->folder, strerror(errno)), 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        uint64_t name;
        if (read_name(&name, e->d_name)) SN_PUSH(arena, &names, name);
    }
    if (folder) closedir(folder);
    if (names.n) qsort(names.at, names.n, sizeof *names.at, by_name);
    place->listed = true;
    place->names = names.at;
    place->n_names = names.n;
    return names.n;
}

static bool may_be_there(const sn_record_place *place, const char *product) {
    uint64_t name = name_of(place, product);
    if (!place->listed) return true;
    return place->n_names && bsearch(&name, place->names, place->n_names, sizeof name, by_name);
}

/* ---- reading ---- */

static bool field_is(const json_t *o, const char *name, const char *value) {
    const char *text = json_string_value(json_object_get(o, name));
    return text && !strcmp(text, value);
}

/* The choice of a record that is whole; why it does not count otherwise. */
static const char *read_record(char *choice, double *us, const json_t *o, const sn_record_place *place,
                               const char *product) {
    const char *text = json_string_value(json_object_get(o, "choice"));
    const json_t *time = json_object_get(o, "us");
    if (!json_is_object(o) || !text || strlen(text) >= CHOICE_MOST || !json_is_number(time)) return "is no record";
    if (!field_is(o, "device", place->device) || !field_is(o, "versions", place->versions))
        return "was made with another device or other versions";
    if (!field_is(o, "product", product) || !field_is(o, "choices", place->choices)) return "is of another product";
    if (sn_choice_kind_of(text) == SN_N_CHOICE_KINDS) return "has a choice that is not known";
    strcpy(choice, text);
    *us = json_number_value(time);
    return NULL;
}

const char *sn_record_find(double *us, sn_record_place *place, const char *product, sn_arena *arena) {
    char path[PATH_MOST], choice[CHOICE_MOST] = "";
    if (!place->folder || !may_be_there(place, product) || !path_of(path, place, product)) return NULL;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        if (errno != ENOENT && errno != ENOTDIR) warn(place, "record %s: %s; not used", path, strerror(errno));
        return NULL;
    }
    json_t *o = json_loadf(file, 0, NULL);
    fclose(file);
    const char *why = o ? read_record(choice, us, o, place, product) : "is cut off or damaged";
    json_decref(o);
    if (why) warn(place, "record %s %s; not used", path, why);
    return why ? NULL : sn_strdup(arena, choice);
}

/* ---- writing ---- */

static json_t *trial_json(const sn_trial *t) {
    json_t *o = json_pack("{s:s, s:s}", "choice", t->choice, "fate", sn_trial_fate_names[t->fate]);
    if (t->fate == SN_TRIAL_TIMED) json_object_set_new(o, "us", json_real(t->us));
    return o;
}

/* free it; NULL: memory ran out, or a text is not UTF-8. */
static char *record_text(const sn_record_place *place, const char *product, const sn_trial_list *trials,
                         uint32_t best) {
    json_t *all = json_array();
    for (uint32_t k = 0; k < trials->n; k++) json_array_append_new(all, trial_json(&trials->at[k]));
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:o}", "product", product, "device", place->device,
                          "versions", place->versions, "choices", place->choices, "choice", trials->at[best].choice,
                          "us", trials->at[best].us, "trials", all);
    char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
    json_decref(o);
    return text;
}

void sn_record_save(sn_record_place *place, const char *product, const sn_trial_list *trials, uint32_t best) {
    char path[PATH_MOST];
    if (place->nowhere) warn(place, "records: XDG_CACHE_HOME and HOME name no folder; not kept");
    if (!place->folder || !path_of(path, place, product)) return;
    char *text = record_text(place, product, trials, best);
    const sn_file_part parts[] = {{text, text ? strlen(text) : 0}, {"\n", 1}};
    if (!text) warn(place, "record %s: out of memory; not kept", path);
    else if (!sn_folder_make(place->folder) || !sn_file_place(path, parts, SN_COUNT(parts), SN_FILE_LASTS))
        warn(place, "record %s: %s; not kept", path, strerror(errno));
    free(text);
}
