/* replace.h: kernels that somebody has edited, in the place of those that the compiler made (replace.c). */
#ifndef SN_FRONTEND_REPLACE_H
#define SN_FRONTEND_REPLACE_H

#include "frontend/frontend.h"

/* Behind the passes: reads what s->replace_kernels names; kernels of text are checked, unless they are large, and take their places. loads:
 * the program will be loaded where it can be. */
sn_status sn_replace_kernels(sn_program *p, const sn_settings *s, bool loads);
/* Behind code generation: PTX takes the place of generated PTX. */
void sn_replace_code(sn_program *p);
/* When the program is loaded: those that had to run are checked. */
sn_status sn_replace_check(sn_program *p, sn_graph *g, const sn_settings *s);
/* Gives back what the originals were kept in; also when something has failed. */
void sn_replace_end(sn_program *p);

#endif
