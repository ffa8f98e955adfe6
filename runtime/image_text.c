/* image_text.c: an image as text, for people: what `sinter image show` prints. Everything but the bytes of code and constants,
 * whose sizes it says. Relies on an image that was checked.
 */
#include "runtime/image.h"

static void put_sizes(sn_text *t, const int64_t *at, uint32_t n) {
    sn_text_put(t, "[");
    for (uint32_t k = 0; k < n; k++) sn_text_printf(t, "%s%lld", k ? ", " : "", (long long)at[k]);
    sn_text_put(t, "]");
}

static void put_port(sn_text *t, const char *what, uint32_t number, const sn_image_port *p) {
    sn_text_printf(t, "  %s %u %s: %s", what, number, p->name, sn_dtypes[p->dtype].name);
    put_sizes(t, p->shape, p->rank);
    sn_text_put(t, " strides ");
    put_sizes(t, p->strides, p->rank);
    if (p->offset) sn_text_printf(t, " offset %lld", (long long)p->offset);
    sn_text_printf(t, " align %u", p->align);
    if (p->writes >= 0) sn_text_printf(t, " writes %d", p->writes);
    if (p->otherwise.size) sn_text_put(t, " optional");
    if (p->own_offset >= 0) sn_text_printf(t, " own %lld", (long long)p->own_offset);
    sn_text_put(t, "\n");
}

static void put_const(sn_text *t, uint32_t number, const sn_image_const *c, const sn_image *image) {
    sn_text_printf(t, "const %u %s: %s", number, c->name, sn_dtypes[c->dtype].name);
    put_sizes(t, c->shape, c->rank);
    if (c->given) sn_text_put(t, " given when it is loaded\n");
    else if (c->file) sn_text_printf(t, " tensor %s of %s\n", c->tensor, image->files[c->file - 1]);
    else sn_text_printf(t, " %llu bytes\n", (unsigned long long)c->data.size);
}

static void put_buf(sn_text *t, const sn_image_buf *b) {
    sn_text_printf(t, "  buffer %s: %s[%lld] %s", b->name, sn_dtypes[b->dtype].name, (long long)b->elements,
                   sn_buf_scope_names[b->scope]);
    if (b->scope != SN_BUF_TEMP && b->scope != SN_BUF_STEP) sn_text_printf(t, " %u", b->io);
    sn_text_printf(t, " align %u\n", b->align);
}

static void put_formals(sn_text *t, const sn_image_kernel *k) {
    sn_text_put(t, "    (");
    for (uint32_t i = 0; i < k->n_formals; i++) {
        const sn_image_formal *f = &k->formals[i];
        sn_text_printf(t, "%s%s%s%s", i ? ", " : "", sn_role_names[f->role], f->role ? " " : "",
                       sn_dtypes[f->dtype].name);
        put_sizes(t, f->shape, f->rank);
    }
    sn_text_put(t, ")\n");
}

static void put_map(sn_text *t, const sn_tensor_map *m) {
    int64_t box[SN_MAP_RANK];
    for (uint32_t k = 0; k < m->rank; k++) box[k] = m->box[k];
    sn_text_printf(t, "    tensor map of parameter %u at %lld: %s", m->param, (long long)m->offset,
                   sn_dtypes[m->dtype].name);
    put_sizes(t, m->dims, m->rank);
    sn_text_put(t, " strides ");
    put_sizes(t, m->strides, m->rank - 1);
    sn_text_put(t, " box ");
    put_sizes(t, box, m->rank);
    sn_text_printf(t, " swizzle %u%s%s\n", m->swizzle, m->pixels ? " pixels" : "", m->tf32 ? " tf32" : "");
}

static void put_kernel(sn_text *t, const sn_image_part *p, const sn_image_kernel *k) {
    const sn_rt_kernel *l = &k->launch;
    sn_text_printf(t, "  kernel %s: grid %lld block %u x %u", l->name, (long long)l->grid, l->block_x, l->block_y);
    if (l->cluster > 1) sn_text_printf(t, " cluster %u", l->cluster);
    if (l->together) sn_text_put(t, " at once");
    if (l->shared_bytes) sn_text_printf(t, " shared %u", l->shared_bytes);
    if (l->kept_bytes) sn_text_printf(t, " kept %zu", l->kept_bytes);
    if (l->param_block) sn_text_put(t, " parameters in one");
    if (l->alternative_of) sn_text_printf(t, " alternative of %s", p->kernels[l->alternative_of - 1].launch.name);
    if (k->library) sn_text_put(t, " by a library");
    else if (p->sm) sn_text_printf(t, " ptx %zu cubin %zu bytes", l->ptx_size, l->cubin_size);
    else sn_text_printf(t, " at %llu", (unsigned long long)k->entry);
    sn_text_printf(t, "%s%s\n", *k->note ? ": " : "", k->note);
    if (*k->schedule) sn_text_printf(t, "    schedule %s\n", k->schedule);
    put_formals(t, k);
    for (uint32_t i = 0; i < l->n_maps; i++) put_map(t, &k->maps[i]);
}

static void put_step(sn_text *t, const sn_image_part *p, const sn_image_step *s) {
    sn_text_printf(t, "    %s ", sn_step_names[s->kind]);
    if (s->kind == SN_STEP_CALL) {
        sn_text_printf(t, "%s(", p->kernels[s->kernel].launch.name);
        for (uint32_t i = 0; i < s->n_args; i++) {
            sn_text_printf(t, "%s%s", i ? ", " : "", p->bufs[s->args[i].buf].name);
            if (s->args[i].offset) sn_text_printf(t, " + %lld", (long long)s->args[i].offset);
        }
        sn_text_put(t, ")\n");
        return;
    }
    if (!sn_image_step_is_alone(s->kind)) sn_text_put(t, p->bufs[s->buf].name);
    if (s->kind == SN_STEP_REPEAT) sn_text_printf(t, "%lld steps", (long long)s->size);
    if (sn_image_step_has_from(s->kind)) sn_text_printf(t, " from %s", p->bufs[s->from].name);
    if (s->kind == SN_STEP_ALLOC || s->kind == SN_STEP_WINDOW) sn_text_printf(t, " at %lld", (long long)s->offset);
    if (s->kind == SN_STEP_WINDOW) sn_text_printf(t, " by %lld", (long long)s->size);
    if (s->kind == SN_STEP_ALLOC || s->kind == SN_STEP_COPY) sn_text_printf(t, " bytes %lld", (long long)s->size);
    sn_text_put(t, "\n");
}

static void put_steps(sn_text *t, const sn_image_part *p) {
    if (p->n_prepare) sn_text_put(t, "  when it is loaded\n");
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (i == p->n_prepare) sn_text_put(t, "  in each run\n");
        put_step(t, p, &p->steps[i]);
    }
}

static void put_part(sn_text *t, const sn_image_part *p) {
    sn_text_printf(t, "target %s: %s %s%s, workspace %lld, prepared %lld\n", p->target, p->machine, p->cpu,
                   p->only ? " only" : "", (long long)p->workspace, (long long)p->prepared);
    if (!p->sm) {
        sn_text_printf(t, "  code %llu bytes, %u addresses, needs", (unsigned long long)p->code.size, p->n_slots);
        for (uint64_t bits = p->features; bits; bits &= bits - 1) sn_text_printf(t, " %s", sn_image_feature_name(bits));
        sn_text_put(t, "\n");
    }
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].import) sn_text_printf(t, "  calls %s\n", p->slots[i].import);
    for (uint32_t i = 0; i < p->n_inputs; i++) put_port(t, "input", i, &p->inputs[i]);
    for (uint32_t i = 0; i < p->n_outputs; i++) put_port(t, "output", i, &p->outputs[i]);
    for (uint32_t i = 0; i < p->n_bufs; i++) put_buf(t, &p->bufs[i]);
    for (uint32_t i = 0; i < p->n_kernels; i++) put_kernel(t, p, &p->kernels[i]);
    put_steps(t, p);
}

void sn_image_print(sn_text *t, const sn_image *image) {
    sn_text_printf(t, "image %s made by Sinter %s, format %d\n", image->name, image->maker, SN_IMAGE_VERSION);
    for (uint32_t i = 0; i < image->n_consts; i++) put_const(t, i, &image->consts[i], image);
    for (uint32_t i = 0; i < image->n_parts; i++) put_part(t, &image->parts[i]);
}
