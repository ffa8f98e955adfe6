/* sched.c: the tables of schedules: names of classes and fields, and a field by its number. */
#include "ir/loop/sched.h"

const char *const sn_sched_class_names[SN_N_SCHED_CLASSES] = {
    "none",
#define SN_SCHED_CLASS(ID, name, fields, doc) name,
#include "ir/loop/sched_classes.def"
#undef SN_SCHED_CLASS
};

#define F(name) | 1u << SN_SCHED_FIELD_##name
#define SN_SCHED_CLASS(ID, name, fields, doc) [SN_SCHED_##ID] = {0 fields F(split) F(min_blocks), doc},
const sn_sched_class_info sn_sched_classes[SN_N_SCHED_CLASSES] = {
    [SN_SCHED_NONE] = {(1u << SN_N_SCHED_FIELDS) - 1, "to be chosen"},
#include "ir/loop/sched_classes.def"
};
#undef SN_SCHED_CLASS
#undef F

enum { COUNT, FLAG };
const sn_sched_field_info sn_sched_fields[SN_N_SCHED_FIELDS] = {
#define SN_SCHED_FIELD(name, type, doc) {#name, doc, type == FLAG},
#include "ir/loop/sched_fields.def"
#undef SN_SCHED_FIELD
};

uint32_t sn_sched_get(const sn_sched *s, sn_sched_field field) {
    switch (field) {
#define SN_SCHED_FIELD(name, type, doc) case SN_SCHED_FIELD_##name: return s->name;
#include "ir/loop/sched_fields.def"
#undef SN_SCHED_FIELD
    case SN_N_SCHED_FIELDS: break;
    }
    return 0;
}

void sn_sched_set(sn_sched *s, sn_sched_field field, uint32_t value) {
    switch (field) {
#define SN_SCHED_FIELD(name, type, doc) case SN_SCHED_FIELD_##name: s->name = (sn_sched_##type)value; break;
#include "ir/loop/sched_fields.def"
#undef SN_SCHED_FIELD
    case SN_N_SCHED_FIELDS: break;
    }
}
