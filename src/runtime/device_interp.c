/* The interp device: tile IR as the front end made it, one program after another, or in turn
 * where they wait for each other, every access checked. */
#include <stdlib.h>
#include <unistd.h>

#include "runtime/instrument.h"

static nereid_status interp_open(nereid_device *d, const char *suffix, nereid_error **error) {
  if (suffix)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "device 'interp:%s': interp has one thread, and nothing stands after its name", suffix);
  d->threads = 1;
  d->state = interp_memory_create();
  return d->state ? NEREID_OK : error_out_of_memory(error);
}

static void interp_close(nereid_device *d) { interp_memory_destroy(d->state); }

static void interp_describe(nereid_device_info *out) {
  out->threads = 1;
  out->available = true;
  out->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  snprintf(out->description, sizeof out->description,
           "the checking interpreter: slow, finds accesses out of bounds, unwritten memory and races");
}

static void *interp_alloc(nereid_device *d, int64_t bytes) {
  return interp_memory_alloc(d->state, (size_t)bytes, NULL);
}
static void interp_free(nereid_device *d, void *p, int64_t bytes) { interp_memory_remove(d->state, p); }
static bool interp_attach(nereid_device *d, void *p, int64_t bytes, const char *name) {
  return interp_memory_add(d->state, p, (size_t)bytes, name);
}
static void interp_detach(nereid_device *d, void *p) { interp_memory_remove(d->state, p); }

static nereid_status interp_copy_in(nereid_device *d, void *to, const void *from, int64_t bytes, nereid_error **error) {
  memmove(to, from, (size_t)bytes);
  interp_memory_mark_written(d->state, to, (size_t)bytes);
  return NEREID_OK;
}

static nereid_status interp_copy_out(nereid_device *d, void *to, const void *from, int64_t bytes,
                                     nereid_error **error) {
  memmove(to, from, (size_t)bytes);
  return NEREID_OK;
}

static nereid_status interp_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  const nereid_options *o = l->options;
  nereid_limits limits = limits_of(o);
  InterpOptions options = {.programs = o->programs,
                           .program_count = o->program_count,
                           .check_races = o->check_races,
                           .allow_unwritten = o->allow_unwritten,
                           .print = o->print,
                           .print_arg = o->print_arg,
                           .memory = limits.memory_bytes,
                           .operations = limits.operations,
                           .instrument = o->instrument_buffer,
                           .step = l->step,
                           .step_arg = l->step_arg};
  if (launch_check_instrument(l, error)) return NEREID_BAD_ARGUMENT;
  InterpFault fault = {0};
  if (interp_run(launch_spec(l)->func, d->state, l->args, l->grid, &options, &fault)) return NEREID_OK;
  if (fault.out_of_memory) return error_out_of_memory(error);
  Buf message = {0};
  /* Of a tensor of one dim the message names the element as well as an index would. */
  int rank = fault.names_element && fault.rank == 1 ? 0 : fault.rank;
  fault_message(&message, fault.message, fault.names_program ? NULL : fault.program, rank, fault.index);
  nereid_status status = message.failed ? error_out_of_memory(error)
                                        : error_at(error, fault.over_limit ? NEREID_OVER_LIMIT : NEREID_KERNEL_FAULT,
                                                   fault.span, NULL, message.at);
  buf_destroy(&message);
  return status;
}

static nereid_status interp_synchronize(nereid_device *d, nereid_error **error) { return NEREID_OK; }

static void interp_compile(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase) {
  tile_instrument(func);
  tile_verify(func, "the front end");
  s->func = func;
  s->keeps_context = true;
}

static void interp_discard(LoadedKernel *k) {}

const DeviceKind device_interp = {
    .name = "interp",
    .open = interp_open,
    .close = interp_close,
    .describe = interp_describe,
    .alloc = interp_alloc,
    .free = interp_free,
    .attach = interp_attach,
    .detach = interp_detach,
    .copy_in = interp_copy_in,
    .copy_out = interp_copy_out,
    .discard = interp_discard,
    .launch = interp_launch,
    .synchronize = interp_synchronize,
};

const Compiler compiler_interp = {.kind = &device_interp, .finds_undefined = true, .compile = interp_compile};
