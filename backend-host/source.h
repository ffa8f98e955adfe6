/* source.h: what the files that print a program as C share: wrapper_c.c (its steps) and source.c (everything around them). */
#ifndef SN_BACKEND_HOST_SOURCE_H
#define SN_BACKEND_HOST_SOURCE_H

#include "backend-host/host_code.h"

typedef struct sn_source_writer {
    sn_text *t;
    sn_module *m;
    const sn_source *s;
    sn_arena scratch;
    sn_names used;         /* identifiers given out */
    const char *name;      /* of the program */
    const char **buf_name; /* by buffer id: how C refers to it; of a constant its number in self->constants */
    uint32_t *number;      /* by kernel id: position in m->kernels */
    uint32_t depth;        /* repeats and branches around the step */
    bool *needed;          /* by buffer id: some call or copy uses its place */
    int64_t *own;          /* by output: bytes into the memory of outputs on their way to an input; -1: not there */
} sn_source_writer;

/* The prepare part and runs as functions (wrapper_c.c). */
sn_status sn_source_steps(sn_source_writer *w);
/* Of a graph input or output, by its number: the buffer that stands for it, 0: none does. */
uint32_t sn_source_io_buffer(const sn_source_writer *w, sn_buf_scope scope, uint32_t io);
uint32_t sn_source_io_count(const sn_source_writer *w, sn_buf_scope scope);
/* Does an output write that input? */
bool sn_source_is_written(const sn_source_writer *w, uint32_t input);
/* The input that takes the output; -1: none. */
int sn_source_writes(const sn_source_writer *w, uint32_t output);
/* int f_run(struct f *self, ...) : parameters are numbered, or named like the buffers. */
void sn_source_run_signature(sn_source_writer *w, bool named);
/* Bytes that its storage starts at a multiple of. */
static inline uint32_t sn_source_align(const sn_buf_rec *b) {
    return b->align > sn_dtype_bytes(b->dtype) ? b->align : sn_dtype_bytes(b->dtype);
}
/* "f32[2, 3]" */
void sn_source_shape(sn_source_writer *w, const sn_buf_rec *b);
/* Text of a user inside a comment: it can end neither the comment nor the line, nor seem to open another one. */
void sn_source_comment(sn_text *t, const char *s);
/* Memory that kernel number k keeps between runs, as bytes into all of it; its size 0: none. */
uint64_t sn_source_kept(uint64_t *at, const sn_source_writer *w, uint32_t k);

#endif
