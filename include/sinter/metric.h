/* metric.h: a row of a metric table, as callbacks see it. Included by sinter.h. */
#ifndef SINTER_METRIC_H
#define SINTER_METRIC_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sn_metric_kind { SN_METRIC_TEXT, SN_METRIC_INT, SN_METRIC_REAL } sn_metric_kind;

typedef struct sn_metric_value {
    const char *column;
    sn_metric_kind kind; /* which of the three it is; the others are NULL, 0 and 0 */
    bool known;          /* false: nobody knows; the value is NULL, 0 or 0 */
    const char *text;
    int64_t integer;
    double real;
} sn_metric_value;

/* Borrowed until the callback returns. */
typedef struct sn_metric_row {
    const char *table, *model; /* "kernel_metadata"; the option metrics_model, or the name of the graph */
    unsigned n;
    const sn_metric_value *values; /* in the order of the columns (`sinter list metrics`) */
} sn_metric_row;

#endif
