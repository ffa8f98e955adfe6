/* access.h: what load.c and store.c have in common (access.c). Others load and store by statements (gen.h). */
#ifndef SN_CODEGEN_LLVM_ACCESS_H
#define SN_CODEGEN_LLVM_ACCESS_H

#include "codegen-llvm/gen.h"

typedef struct sn_gen_access {
    sn_buf_rec *b;
    sn_buf id;
    LLVMTypeRef elem; /* storage type */
    sn_ix e;          /* resolved offset */
    sn_stmt region;   /* that it stands in; none: the kernel */
    uint32_t piece;   /* lanes of one vector access; 1: lane by lane; 0: the same for all lanes */
    int64_t step;     /* elements from one lane to the next, where that is a number */
    bool reversed;    /* later lanes lie at lower addresses */
    bool once;        /* nobody reads again what it loads */
    bool summed;      /* inside of a reduction */
} sn_gen_access;

sn_gen_access sn_gen_access_of(sn_gen *g, const sn_stmt_rec *s);

/* ---- addresses ---- */
lv sn_gen_element(sn_gen *g, LLVMTypeRef elem, lv base, lv offset);
/* Of the element at e. The variable part of the offset first, so that neighbours share it and differ in a constant that the
 * instruction holds. */
lv sn_gen_address(sn_gen *g, const sn_gen_access *a, sn_ix e);
/* The offset e in that lane. */
sn_ix sn_gen_at_lane(sn_gen *g, sn_ix e, uint32_t lane);
/* Offset of the lowest element of lanes i .. i + piece-1. */
sn_ix sn_gen_at_piece(sn_gen *g, const sn_gen_access *a, uint32_t i, uint32_t piece);
/* Of an instruction for `piece` lanes, in bytes. */
uint32_t sn_gen_alignment(const sn_gen_access *a, uint32_t piece, bool gpu);

/* ---- what a statement accesses ---- */
bool sn_gen_is_posted(const sn_gen *g, const sn_gen_access *a);
/* Does an offset contain values that differ between lanes? */
bool sn_gen_values_vary(sn_gen *g, sn_ix e);
/* Have all values in it been translated? */
bool sn_gen_values_known(sn_gen *g, sn_ix e);
/* Elements with constant numbers, from *first on, of a reg buffer? */
bool sn_gen_are_registers(sn_gen *g, const sn_gen_access *a, sn_ix e, uint32_t lanes, int64_t *first);
/* Does the CPU take such elements by vectors of all lanes (apart.c)? Where these are registers, none is needed. */
bool sn_gen_lies_apart(const sn_gen *g, const sn_gen_access *a);
/* What was loaded of halves that stay the words that they are; anything else as it is. */
lv sn_gen_as_words(sn_gen *g, const sn_gen_access *a, lv x);

/* ---- masks ---- */
enum { SN_GEN_NO_INTERVAL = 1 << 16 };
/* How many tests that lanes may answer differently a mask is made of; each holds for an interval of lanes, or
 * SN_GEN_NO_INTERVAL and more. */
uint32_t sn_gen_lane_tests(sn_gen *g, sn_val mask);
/* Are the lanes that hold an interval, so that the first and the last one tell whether all do? */
bool sn_gen_is_interval(sn_gen *g, const sn_gen_access *a, sn_val mask);
/* Has the CPU an instruction that accesses only the lanes that hold? It: loads, or stores x where there is one. */
bool sn_gen_takes_masks(const sn_gen *g, const sn_gen_access *a);
lv sn_gen_access_masked(sn_gen *g, const sn_gen_access *a, lv x, sn_val mask_id, lv mask);

#endif
