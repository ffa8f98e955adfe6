/* multi.h: kernels with several schedules (sn_kern_rec.alternative_of): who has the choice, and what becomes of it. */
#ifndef SN_FRONTEND_MULTI_H
#define SN_FRONTEND_MULTI_H

#include "frontend/frontend.h"

/* "off", "reductions", "all", and behind a comma a word of sn_sched_kind, which is taken then where a kernel has it. */
sn_status sn_multi_read(sn_multi_kernel *out, const char **forced, sn_env *env, const char *text);
/* After the passes: what is forced, or on record, is settled, and the others are gone. What is left is chosen when the program is
 * loaded; source: there will be no loading, the first stays. */
sn_status sn_multi_settle(sn_program *p, const sn_settings *s, bool source);
/* After loading: what was chosen goes on record and into the program's info. */
void sn_multi_record(sn_program *p, const sn_settings *s);

#endif
