/* What device_print and device_assert of a GPU's kernel left, made into lines and an error.
 *
 * A kernel appends records to a GpuDiag (gpu/gpu.h) as its threads come by: site, program, element, values. Here they
 * get the form that every device prints:
 *
 *     pid (x, y, z) idx (i, j) prefix: (operand 1) value
 *
 * Threads come by in any order; people want to read the lines in the order in which one program after another would
 * print them. So records are sorted: by program; then by the statement as it was reached (its n-th time, where it
 * stands in a loop: the n-th record of one element belongs to that), earlier ones first as far as the buffer tells;
 * then by operand and element.
 *
 * Sites point into a compilation that is gone by the time of a launch, so what is needed of them is kept apart.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "rt/rt.h"

void diag_sites_free(DiagSites *s) {
  if (!s) return;
  for (int i = 0; i < s->count; i++) {
    free(s->site[i].types);
    free(s->site[i].text);
    free(s->site[i].place);
    free(s->site[i].path);
  }
  free(s);
}

void diag_clear(GpuDiag *d, size_t bytes) {
  memset(d, 0, bytes);
  d->capacity = (uint32_t)((bytes - sizeof *d) / sizeof d->words[0]);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct Record {
  const DiagSite *site;
  const uint32_t *words; /* after the site's number */
  uint32_t number;       /* in the buffer */
  uint32_t turn;         /* how many records of this program, site and element came before */
  uint32_t first;        /* the least number of the records of this program, site and turn */
} Record;

static int32_t program_of(const Record *r, int axis) { return (int32_t)r->words[axis]; }

static int by_program(const Record *a, const Record *b) {
  for (int axis = 2; axis >= 0; axis--)
    if (program_of(a, axis) != program_of(b, axis)) return program_of(a, axis) < program_of(b, axis) ? -1 : 1;
  return 0;
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_element(const void *x, const void *y) {
  const Record *a = x, *b = y;
  int c = by_program(a, b);
  if (!c) c = compare((uintptr_t)a->site, (uintptr_t)b->site);
  if (!c) c = compare(a->words[3], b->words[3]);
  return c ? c : compare(a->number, b->number);
}

static int by_turn(const void *x, const void *y) {
  const Record *a = x, *b = y;
  int c = by_program(a, b);
  if (!c) c = compare((uintptr_t)a->site, (uintptr_t)b->site);
  if (!c) c = compare(a->turn, b->turn);
  return c ? c : compare(a->number, b->number);
}

static int by_time(const void *x, const void *y) {
  const Record *a = x, *b = y;
  int c = by_program(a, b);
  if (!c) c = compare(a->first, b->first);
  return c ? c : compare(a->words[3], b->words[3]);
}

static bool same(const Record *a, const Record *b) { return a->site == b->site && !by_program(a, b); }

/* As the comment above says; quick where it is one site in no loop, too. */
static void order(Record *r, size_t n) {
  qsort(r, n, sizeof *r, by_element);
  for (size_t i = 1; i < n; i++)
    if (same(&r[i], &r[i - 1]) && r[i].words[3] == r[i - 1].words[3]) r[i].turn = r[i - 1].turn + 1;
  qsort(r, n, sizeof *r, by_turn);
  for (size_t i = 0; i < n; i++)
    r[i].first = i && same(&r[i], &r[i - 1]) && r[i].turn == r[i - 1].turn ? r[i - 1].first : r[i].number;
  qsort(r, n, sizeof *r, by_time);
}

/* How many whole records there are; out may be NULL. */
static size_t read_records(const DiagSites *s, const GpuDiag *d, Record *out) {
  uint32_t n = d->used < d->capacity ? d->used : d->capacity;
  size_t count = 0;
  for (uint32_t at = 0; at < n && d->words[at];) {
    uint32_t number = d->words[at] - 1;
    if (!s || number >= (uint32_t)s->count) break; /* never by our kernels: somebody else wrote there */
    const DiagSite *site = &s->site[number];
    uint32_t size = GPU_RECORD_WORDS + 2 * (uint32_t)(site->is_assert ? 0 : site->value_count);
    if (size > n - at) break;
    if (out) out[count] = (Record){.site = site, .words = &d->words[at + 1], .number = at};
    count++;
    at += size;
  }
  return count;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void put_index(Buf *b, const Type *t, uint32_t element) {
  buf_puts(b, "(");
  int32_t index[MAX_RANK];
  int rank = t ? t->rank : 0;
  for (int d = rank - 1; d >= 0; d--) {
    index[d] = (int32_t)(element % (uint32_t)t->shape[d]);
    element /= (uint32_t)t->shape[d];
  }
  for (int d = 0; d < rank; d++) buf_printf(b, "%s%*d", d ? ", " : "", type_print_width(t, d), index[d]);
  buf_puts(b, ")");
}

static void put_value(Buf *b, const Type *t, const uint32_t *words, bool hex) {
  uint64_t bits = words[0] | (uint64_t)words[1] << 32;
  int bytes = t->ptr ? 8 : dtype_bytes(t->dtype);
  if (bytes < 8) bits &= ((uint64_t)1 << 8 * bytes) - 1;
  if (t->dtype == DT_I1 && !t->ptr) bits &= 1;
  if (t->ptr) buf_printf(b, "0x%" PRIx64, bits);
  else if (hex) buf_printf(b, "0x%0*" PRIx64, t->dtype == DT_I1 ? 1 : 2 * bytes, bits);
  else if (dtype_is_float(t->dtype)) buf_printf(b, "%f", dtype_load_float(t->dtype, &bits));
  else if (dtype_is_signed(t->dtype)) buf_printf(b, "%" PRId64, scalar_load(t->dtype, &bits).i);
  else buf_printf(b, "%" PRIu64, bits);
}

static void emit(Buf *b, const nereid_options *o) {
  if (!b->at || b->failed) return;
  if (o->print) o->print(o->print_arg, b->at);
  else fprintf(stderr, "%s\n", b->at);
}

/* The lines of the records [r, r + n), which are of one statement's turn: operand by operand. A record of no element is
 * left by one of `threads` threads for all of them. */
static void print_turn(Buf *b, const Record *r, size_t n, int threads, const nereid_options *o) {
  const DiagSite *site = r->site;
  if (!o->print_threads || threads < 1) threads = 1;
  for (int k = 0; k < (site->value_count ? site->value_count : 1); k++)
    for (size_t i = 0; i < n; i++) {
      b->n = 0;
      buf_printf(b, "pid (%d, %d, %d)", program_of(&r[i], 0), program_of(&r[i], 1), program_of(&r[i], 2));
      if (site->value_count) {
        buf_puts(b, " idx ");
        put_index(b, &site->types[k], r[i].words[3]);
      }
      buf_puts(b, site->text);
      if (site->value_count > 1) buf_printf(b, "(operand %d) ", k);
      if (site->value_count) put_value(b, &site->types[k], r[i].words + 4 + 2 * k, site->hex);
      bool has_element = site->value_count && site->types[k].rank;
      for (int t = 0; t < (has_element ? 1 : threads); t++) emit(b, o);
      if (!site->value_count) break; /* without operands it is one line */
    }
}

static nereid_status assert_error(const Record *r, nereid_error **error) {
  const DiagSite *site = r->site;
  int32_t program[3] = {program_of(r, 0), program_of(r, 1), program_of(r, 2)}, index[MAX_RANK];
  const Type *t = site->type_count ? &site->types[0] : NULL;
  uint32_t element = r->words[3];
  int rank = t ? t->rank : 0;
  for (int d = rank - 1; d >= 0; d--) {
    index[d] = (int32_t)(element % (uint32_t)t->shape[d]);
    element /= (uint32_t)t->shape[d];
  }
  Buf what = {0}, message = {0};
  buf_printf(&what, "assertion failed%s%s", *site->text ? ": " : "", site->text);
  if (!what.failed) fault_message(&message, what.at, program, rank, index);
  nereid_status status;
  if (what.failed || message.failed) status = error_out_of_memory(error);
  else if (site->place)
    status = assert_location_error(error, NEREID_KERNEL_FAULT, site->place, message.at, site->path, site->line,
                                   site->column);
  else status = error_set(error, NEREID_KERNEL_FAULT, NULL, "%s", message.at);
  buf_destroy(&what);
  buf_destroy(&message);
  return status;
}

nereid_status diag_report(const DiagSites *s, const GpuDiag *d, const char *kernel, const nereid_options *o,
                          nereid_error **error) {
  if (!d->used && !d->failed) return NEREID_OK;
  size_t n = read_records(s, d, NULL);
  Record *r = calloc(n + 1, sizeof *r);
  if (!r) return error_out_of_memory(error);
  read_records(s, d, r);
  order(r, n);
  Buf b = {0};
  const Record *failed = NULL;
  for (size_t i = 0, k; i < n; i = k) {
    for (k = i + 1; k < n && same(&r[k], &r[i]) && r[k].turn == r[i].turn;) k++;
    if (!r[i].site->is_assert) print_turn(&b, r + i, k - i, s->threads, o);
    else if (!failed) failed = &r[i];
  }
  if (d->used > d->capacity) {
    b.n = 0;
    buf_printf(&b, "device_print: the buffer of %u bytes was full, so that lines of kernel '%s' are missing",
               4 * d->capacity, kernel);
    emit(&b, o);
  }
  nereid_status status = b.failed ? error_out_of_memory(error) : NEREID_OK;
  buf_destroy(&b);
  if (!status && failed) status = assert_error(failed, error);
  else if (!status && d->failed)
    status = error_set(error, NEREID_KERNEL_FAULT,
                       "print less in the same launch, so that the assertion's place can be kept",
                       "an assertion failed in kernel '%s'", kernel);
  free(r);
  return status;
}
