/* sched.h: how a kernel is mapped. Written by the pass `schedule`, printed in the kernel's header; one that stands there
 * before `schedule` runs is obeyed. A node of a graph may carry one for the kernel that it becomes.
 */
#ifndef SN_IR_LOOP_SCHED_H
#define SN_IR_LOOP_SCHED_H

#include "ir/base/precision.h"
#include "ir/base/text.h"

typedef enum sn_sched_class {
    SN_SCHED_NONE,
#define SN_SCHED_CLASS(ID, name, fields, doc) SN_SCHED_##ID,
#include "ir/base/sched_classes.def"
#undef SN_SCHED_CLASS
    SN_N_SCHED_CLASSES
} sn_sched_class;

typedef enum sn_sched_field {
#define SN_SCHED_FIELD(name, type, doc) SN_SCHED_FIELD_##name,
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
    SN_N_SCHED_FIELDS
} sn_sched_field;

typedef uint32_t sn_sched_COUNT;
typedef bool sn_sched_FLAG;
#define sn_sched_WORD(list) sn_##list

/* A class, and a member for each row of sched_fields.def: block_x, block_y, vector ... */
typedef struct sn_sched {
    sn_sched_class cls;
#define SN_SCHED_FIELD(name, type, doc) sn_sched_##type name;
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
} sn_sched;

extern const char *const sn_sched_class_names[SN_N_SCHED_CLASSES]; /* "none" "element" "inner" ... */
typedef struct sn_sched_class_info {
    uint32_t fields; /* that the class reads: bit 1 << sn_sched_field */
    const char *doc;
} sn_sched_class_info;
extern const sn_sched_class_info sn_sched_classes[SN_N_SCHED_CLASSES];

typedef struct sn_sched_field_info {
    const char *name, *doc;
    bool is_flag;
    const char *const *words; /* WORD: NULL at the end */
} sn_sched_field_info;
extern const sn_sched_field_info sn_sched_fields[SN_N_SCHED_FIELDS];

uint32_t sn_sched_get(const sn_sched *s, sn_sched_field field);
void sn_sched_set(sn_sched *s, sn_sched_field field, uint32_t value);

/* Nothing is chosen. */
bool sn_sched_is_open(const sn_sched *s);
bool sn_sched_eq(const sn_sched *a, const sn_sched *b);

/* What tells schedules of one kernel apart, in a word: "persistent", "shared", "cluster", "team" (where a row is kept), "looped" (it is read
 * again), or the class. */
const char *sn_sched_kind(const sn_sched *s);

/* What stands behind the word `schedule`: "inner block_x=32 vector=4". */
void sn_sched_print(sn_text *t, const sn_sched *s);
/* The reverse: from the name of the class up to what is no field. */
sn_status sn_sched_parse(sn_sched *out, sn_lex *lx);
/* From a text that has nothing else; `what` names it in messages. */
sn_status sn_sched_read(sn_sched *out, sn_env *env, const char *what, const char *text);

static inline uint32_t sn_sched_cluster(const sn_sched *s) { return s->cluster ? s->cluster : 1; }

#endif
