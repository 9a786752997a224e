/* What library.c and scan.c share in writing work on kept tiles. */
#ifndef NEREID_CPU_LIBRARY_H
#define NEREID_CPU_LIBRARY_H

#include "cpu/emit.h"

enum { MAX_PARTS = 16 }; /* tensors that one scan takes at once */

Dtype kept(const Value *v); /* as it stands in memory */
/* the address of its first element, an int64_t */
const char *view_text(Emit *e, const View *v);
const char *element_at(Emit *e, const View *v, const char *at);      /* a pointer to element [at] */
void open_scope(Emit *e, const char *format, ...) PRINTF_LIKE(2, 3); /* `format {` */
void close_scope(Emit *e);
void emit_scan(Emit *e, Op *op);

#endif
