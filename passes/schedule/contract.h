/* contract.h: what contract.c, which chooses, and contract_bind.c, which binds, know of a matrix product on a GPU. */
#ifndef SN_PASSES_SCHEDULE_CONTRACT_H
#define SN_PASSES_SCHEDULE_CONTRACT_H

#include "ir/loop/box.h"
#include "ir/loop/mma.h"
#include "passes/schedule/contraction.h"
#include "passes/schedule/schedules.h"

typedef struct sn_contract {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_contraction c;
    sn_mma mma;
    uint32_t n_terms; /* bfloat16 terms that operands of f32 are taken apart into: contract_terms.c; 0: none */
} sn_contract;

/* Is the kernel a product that the class can do on this target? */
bool sn_contract_find(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k);

/* Headers that agree with the pinned one, the best by the model first (contract_tiles.c). */
void sn_contract_tiles(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned);
/* The same for a product of no more columns than an instruction has rows (contract_narrow.c). */
void sn_contract_narrow(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned);
/* Is the operand contiguous across the sum rather than along it? */
bool sn_contract_across(const sn_contract *ct, uint32_t operand);
/* Can boxes bring its operands, by tiles of that header? */
bool sn_contract_fits(const char **why_not, const sn_contract *ct, const sn_sched *sc);

#endif
