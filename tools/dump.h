/* dump.h: what `sinter explain` leaves in files: stages of a compilation, and its times as a trace. */
#ifndef SN_TOOLS_DUMP_H
#define SN_TOOLS_DUMP_H

#include "tools/look.h"

typedef struct dump dump;
/* The folder, with what is in it made where it is missing. NULL: it cannot be, the reason is on standard error. */
dump *dump_open(const char *folder);
/* For look.pass: the module behind each pass that changed its text; the graphs of kernels around fusion. */
void dump_pass(void *user, const char *pass, const sn_module *m);
/* What is known at the end: kernels, PTX, wrapper, how to make it again. TOOL_FAILED where something could not be written. */
int dump_finish(dump *d, const look *l);
void dump_close(dump *d);

/* Phases and kernels as a trace for Perfetto and chrome://tracing. */
int dump_trace(const look *l, const char *path);

#endif
