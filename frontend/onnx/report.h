/* report.h: what of a model cannot be imported, for people, for tables and as one error. */
#ifndef SN_FRONTEND_ONNX_REPORT_H
#define SN_FRONTEND_ONNX_REPORT_H

#include "frontend/onnx/import.h"

/* One failure that names all problems, most frequent first, as far as a message holds. */
sn_status sn_onnx_problems_fail(sn_onnx *im, const char *what);
/* A line for each operator, opset and reason; csv: a header and one row each. */
void sn_onnx_report_put(sn_text *t, const sn_onnx *im, const char *what, bool csv);

#endif
