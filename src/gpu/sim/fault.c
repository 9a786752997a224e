/* What ends a simulated launch: a message, with the operation, the program and the thread that it is about. */
#include "gpu/sim/sim_plan.h"

bool sim_fault(SimRun *r, const LaneOp *op, int thread, const char *format, ...) {
  LaneSimFault *f = r->fault;
  if (r->stopped) return false; /* for a fault that has been told */
  va_list ap;
  va_start(ap, format);
  vsnprintf(f->message, sizeof f->message, format, ap);
  va_end(ap);
  f->span = op ? op->span : NULL;
  memcpy(f->program, r->program, sizeof f->program);
  f->thread = thread;
  return false;
}
