/* version.c: the version of schedules, for records of timings: a number that people raise, and a digest of the tables that decide
 * schedules (classes, fields, who binds them, constants, costs), so that nobody has to think of it when a row changes.
 */
#include "passes/schedule/version.h"

static const char *const ROWS[] = {
#define SN_SCHED_CLASS(ID, name, fields, doc) "class " name " " #fields,
#include "ir/base/sched_classes.def"
#undef SN_SCHED_CLASS
#define SN_SCHED_FIELD(name, type, doc) "field " #name " " #type,
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
#define SN_SCHEDULE(name, CLASS) "binds " #name " " #CLASS,
#include "passes/schedule/base/schedules.def"
#undef SN_SCHEDULE
#define SN_CONSTANT(NAME, value, unit, ORIGIN, doc) "constant " #NAME " " #value,
#include "passes/base/constants.def"
#include "passes/schedule/base/constants.def"
#undef SN_CONSTANT
#define SN_COST(LOP, full, half, special) "cost " #LOP " " #full " " #half " " #special,
#include "passes/base/costs.def"
#undef SN_COST
};

const char *sn_schedules_version(sn_arena *a) {
    uint64_t h = 0;
    for (size_t i = 0; i < SN_COUNT(ROWS); i++)
        for (const char *s = ROWS[i]; *s; s++) h = sn_hash(h, (unsigned char)*s);
    return sn_strf(a, "%d.%016llx", SN_SCHEDULES_VERSION, (unsigned long long)h);
}
