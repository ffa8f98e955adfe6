/* c_names.h: names of a graph as identifiers of C source. */
#ifndef SN_BACKEND_HOST_C_NAMES_H
#define SN_BACKEND_HOST_C_NAMES_H

#include "ir/base/text.h"

/* prefix + name, with _ for what an identifier has not, that nothing else in `used` has; it is put there. */
const char *sn_c_identifier(sn_names *used, sn_arena *arena, const char *prefix, const char *name);
/* Of a program, which stands alone in `struct NAME`: a keyword, a name of the texts or a leading digit gets a prefix. */
const char *sn_c_program_name(sn_names *used, sn_arena *arena, const char *name);

#endif
