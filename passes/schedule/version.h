/* version.h: which schedules these are: what was timed with others says nothing about them. */
#ifndef SN_PASSES_SCHEDULE_VERSION_H
#define SN_PASSES_SCHEDULE_VERSION_H

#include "ir/base/text.h"

/* One more whenever a class binds a header, or code generation does it, so differently that an older timing misleads. What the tables
 * of schedules say is in the version anyway. */
enum { SN_SCHEDULES_VERSION = 3 };

/* "1.3f5a0c7e91d2b846": the number above and a digest of the tables; in the arena. */
const char *sn_schedules_version(sn_arena *a);

#endif
