/* whole.h: what the key of a whole program says of its maker. */
#ifndef SN_FRONTEND_WHOLE_H
#define SN_FRONTEND_WHOLE_H

/* Digest of all sources that a program depends on (cmake/Digest.cmake). */
extern const char sn_all_sources[];

#endif
