/* tune_kernels.c: schedules of the kernels of a program: by timing, once products are decided, or from records.
 *
 * By timing: tune/kernels.c says which, tune.c does each. Memory is that of one kernel's arguments, with its results a second time: the
 * program itself is never loaded. Without tuning the pass `schedule` asks for each kernel itself, so that no pass runs twice: the folder is
 * listed once, and what is on record there is a look at a file for each kernel that differs.
 */
#include "frontend/tune.h"

static bool may_choose(const sn_tuner *t) {
    const char *unused;
    return sn_choice_allowed(sn_choice_find(&unused, SN_OP_MATMUL, "schedule"), t->s->passes.choosing.allowed);
}

static sn_status find_all(sn_kernel_list *out, sn_tuner *t, const char *behind) {
    sn_program *p = t->p;
    sn_module *m = NULL;
    const sn_kernels_how how = {
        .target = &p->target,
        .library = sn_program_library(p),
        .choosing = {.allowed = t->s->passes.choosing.allowed, .at = t->decisions.at, .n = t->decisions.n},
        .before = sn_passes_before(&t->ctx->scratch, t->pipeline, "schedule"),
        .behind = behind,
        .products = sn_tuner_has(p, SN_OP_MATMUL) || sn_tuner_has(p, SN_OP_CONV)};
    sn_status status = sn_source_copy(&m, &t->ctx->env, p->source);
    if (status == SN_OK) status = sn_kernels_list(out, m, &how, &t->ctx->scratch);
    sn_module_free(m);
    return status;
}

sn_status sn_tuner_kernels(sn_tuner *t) {
    const char *behind = sn_passes_from(&t->ctx->scratch, t->pipeline, "schedule");
    sn_kernel_list all = {0};
    if (!behind || !may_choose(t)) return SN_OK;
    SN_TRY(find_all(&all, t, behind));
    t->left = all.n;
    for (uint32_t k = 0; k < all.n; k++) {
        const sn_kernel_subject *x = &all.at[k];
        SN_TRY(sn_tuner_decide(t, &(sn_subject){x->key, x->title, x->bytes, behind, x->trials}));
    }
    return SN_OK;
}

/* ---- records, without tuning ---- */

typedef struct asker {
    sn_program *p;
    sn_names asked;               /* key -> 1 + position of what was found */
    SN_VEC(const char *) answers; /* NULL: there is nothing */
} asker;

/* Equal kernels are asked about once. */
static const char *ask(void *user, const char *key) {
    asker *a = user;
    sn_arena *arena = &a->p->arena;
    uint32_t at = sn_names_get(&a->asked, key);
    double us;
    if (!at) {
        SN_PUSH(arena, &a->answers, sn_record_find(&us, a->p->records, key, arena));
        at = a->answers.n;
        sn_names_put(&a->asked, sn_strdup(arena, key), at);
    }
    const char *answer = a->answers.at[at - 1];
    a->p->n_records_used += answer != NULL;
    return answer;
}

/* Nobody makes the text of a kernel for a folder that has no records. */
void sn_program_ask_records(sn_program *p, const sn_record_place *place) {
    p->records = SN_NEW(&p->arena, sn_record_place);
    *p->records = *place;
    p->records->warning[0] = 0; /* said by whoever it happened to */
    if (!sn_record_list(p->records, &p->arena)) return;
    asker *a = SN_NEW(&p->arena, asker);
    *a = (asker){.p = p};
    sn_names_init(&a->asked, &p->arena);
    p->choosing.ask = ask;
    p->choosing.ask_user = a;
}

void sn_program_say_records(const sn_program *p, const sn_settings *s) {
    const char *warning = p->records ? p->records->warning : "";
    if (warning[0] && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", warning));
}
