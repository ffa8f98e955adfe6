/* watched.h: what sn_run_watched shows of a run, and to whom. Included by sinter.h. */
#ifndef SINTER_WATCHED_H
#define SINTER_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

/* An argument of a kernel in a run: what the kernel is about to read, or what it has written. It is the window of a buffer that the
 * kernel touches; of one that is written in part, the rest is what was there before. */
typedef struct sn_watched {
    const char *kernel, *made_of; /* its name; which operations of the graph it does: "conv; add, maximum" */
    const char *from;             /* where these were built: "model.c:12" (sn_at), names of values; "": nobody says */
    unsigned call;                /* number of its call among those of the run, from 0 */
    const char *buffer;           /* name of the argument's buffer in the wrapper (sn_program_dump) */
    bool written;
    sn_dtype dtype;
    unsigned rank;
    int64_t shape[8];
    /* As they lie in memory: row-major, but for inputs that have strides of their own; where these leave gaps or repeat
     * elements, one axis of all that is stored. On the host, until the callback returns. */
    const void *elements;
    int64_t numel, nans, infinities;
    /* Of the other elements; 0 where there is none. deviation: root of the mean square */
    double least, most, mean, deviation;
} sn_watched;

typedef struct sn_watch_options {
    size_t struct_size;
    /* Called for each argument, in the order of the run. False: the run ends there, with SN_ERROR_ARGUMENT. NULL: nobody
     * is, for which stop_at is reason enough. */
    bool (*watch)(void *user, const sn_watched *what);
    void *user;
    const char *kernels; /* names of those that are watched: "k0,k3"; NULL: all */
    bool reads;          /* also what kernels are about to read */
    /* "nan" or "infinity" (and nan): the first kernel that writes one ends the run with SN_ERROR_MISMATCH, and the message
     * names it, the place, and whether what it read had one. Of a buffer that the kernel reads as well, elements
     * that it leaves as they were do not count. NULL: none does */
    const char *stop_at;
} sn_watch_options;

#endif
