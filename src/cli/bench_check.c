/* bench_check: results are checked in the run that times them.
 *
 * Before it is timed each case runs once, on data that no case has touched, and what it wrote is fetched: the arrays
 * whose bytes changed, by name. A case after --vs must have written what the first one wrote (--beside: another
 * computation, which is timed alone), and with --check ARG=REF all cases what REF says: a file, or the first case's
 * launches on another device. Under --triton each case's Triton kernel must have written what ours wrote.
 *
 * A result may differ by what rounding in its type explains, relative to itself or to the largest of its array: the
 * variants of a kernel add up in different orders.
 */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void outputs_free(Outputs *o) {
  for (int i = 0; i < o->n; i++) free(o->at[i].array.data);
  *o = (Outputs){0};
}

/* "out" and "out_ptr" are one name: CUDA C has no habit of the latter. */
static size_t bare(const char *name) {
  size_t n = strlen(name);
  return n > 4 && !strcmp(name + n - 4, "_ptr") ? n - 4 : n;
}
static const Output *output_named(const Outputs *o, const char *name) {
  for (int i = 0; i < o->n; i++)
    if (bare(o->at[i].name) == bare(name) && !strncmp(o->at[i].name, name, bare(name))) return &o->at[i];
  return NULL;
}

/* ---- running and fetching ---------------------------------------------------------------------------------------- */

int case_run(Case *c, nereid_device *d) {
  nereid_error *err = NULL;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < c->count && !status; i++)
    status = nereid_run(c->functions[i], NULL, c->bench[i].grid, c->bench[i].args, c->bench[i].arg_count, &err);
  if (!status) status = nereid_synchronize(d, &err);
  return status ? report_error(err) : 0;
}

/* The arrays that c's launches changed, each by the name that the last launch which has it gives it. `fetch` gets an
 * array's bytes. */
int case_outputs(const Case *c, Outputs *out, int (*fetch)(void *arg, const LaunchArg *owner, void *to), void *arg) {
  const LaunchArg *seen[MAX_OUTPUTS];
  int status = 0, count = 0;
  *out = (Outputs){0};
  for (int i = 0; i < c->count; i++) {
    nereid_function_info info = {0};
    if (c->functions[i]) nereid_function_get_info(c->functions[i], &info);
    if (info.tf32_chain > out->tf32_chain) out->tf32_chain = info.tf32_chain;
  }
  for (int i = c->count - 1; i >= 0 && !status; i--)
    for (int k = 0; k < c->launches[i].arg_count && !status; k++) {
      const LaunchArg *a = &c->launches[i].args[k], *owner = a->shared ? a->shared : a;
      bool known = !a->is_array || output_named(out, a->name) != NULL;
      for (int j = 0; j < count && !known; j++) known = seen[j] == owner;
      if (known || count == MAX_OUTPUTS || !owner->array.data) continue;
      seen[count++] = owner;
      void *now = malloc((size_t)owner->array.bytes + 64);
      if (!now) return report_error(NULL);
      status = fetch(arg, owner, now);
      if (status || !memcmp(now, owner->array.data, (size_t)owner->array.bytes)) {
        free(now);
        continue;
      }
      Output *o = &out->at[out->n++];
      *o = (Output){a->name, owner->array};
      o->array.data = now;
    }
  return status;
}

static int fetch_ours(void *arg, const LaunchArg *owner, void *to) {
  nereid_error *err = NULL;
  return nereid_copy_to_host(arg, to, owner->device_pointer, owner->array.bytes, &err) ? report_error(err) : 0;
}

int case_check_run(Case *c, nereid_device *d, Outputs *out) {
  int status = case_run(c, d);
  return status ? status : case_outputs(c, out, fetch_ours, d);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool is_dense(const Array *a) { return array_count(a) * (int64_t)nereid_dtype_bytes(a->dtype) == a->bytes; }

/* Whether all of two large arrays of f32 agree, found quickly: what does not pass here is looked at one by one. */
static bool agree_f32(const float *got, const float *want, int64_t n, float rtol, float atol, double *worst) {
  float most = 0;
  bool good = true;
  for (int64_t i = 0; i < n; i++) {
    float error = fabsf(got[i] - want[i]);
    good &= error <= atol + rtol * fabsf(want[i]);
    most = error > most ? error : most;
  }
  *worst = most;
  return good;
}

static void compare(Verdict *v, const Output *got, const Output *want, const char *of, int tf32_chain, double rtol,
                    double atol) {
  const Array *a = &got->array, *b = &want->array;
  if (array_count(a) != array_count(b)) {
    v->state = VERDICT_DIFFERS;
    snprintf(v->text, sizeof v->text, "%s has %lld elements, %s's %lld", got->name, (long long)array_count(a), of,
             (long long)array_count(b));
    return;
  }
  double usual = fmax(dtype_tolerance(a->dtype), dtype_tolerance(b->dtype));
  if (usual > 0) usual = fmax(usual, tf32_chain * TF32_TOLERANCE);
  double r = rtol >= 0 ? rtol : usual, t = atol >= 0 ? atol : r * array_largest(b), worst = 0;
  bool quick = a->dtype == NEREID_F32 && b->dtype == NEREID_F32 && is_dense(a) && is_dense(b);
  if (quick && agree_f32(a->data, b->data, array_count(a), (float)r, (float)t, &worst)) {
    v->worst = fmax(v->worst, worst);
    return;
  }
  Difference d = array_compare(a, b, r, t);
  v->worst = fmax(v->worst, d.max_abs_error);
  if (!d.mismatches) return;
  v->state = VERDICT_DIFFERS;
  snprintf(v->text, sizeof v->text,
           "%s: %lld of %lld elements differ from %s's; worst at %lld: %.9g instead of %.9g (rtol %.2g, atol %.2g)",
           got->name, (long long)d.mismatches, (long long)d.count, of, (long long)d.worst_at, d.worst_got, d.worst_want,
           r, t);
}

Verdict outputs_compare(const Outputs *got, const Outputs *want, const char *of, double rtol, double atol) {
  Verdict v = {.state = VERDICT_AGREES};
  int compared = 0;
  for (int i = 0; i < want->n && v.state == VERDICT_AGREES; i++) {
    const Output *w = &want->at[i], *g = output_named(got, w->name);
    if (!g && got->n == 1 && want->n == 1) g = &got->at[0];
    if (!g) continue;
    compare(&v, g, w, of, got->tf32_chain > want->tf32_chain ? got->tf32_chain : want->tf32_chain, rtol, atol);
    compared++;
  }
  if (!compared && want->n)
    v.state = VERDICT_DIFFERS,
    snprintf(v.text, sizeof v.text, "it did not write '%s', as %s did", want->at[0].name, of);
  if (!want->n) v.state = got->n ? VERDICT_DIFFERS : VERDICT_NONE; /* NONE: neither changed anything */
  if (!want->n && got->n)
    snprintf(v.text, sizeof v.text, "it wrote '%s', which %s left as it was", got->at[0].name, of);
  return v;
}

/* ---- --check ARG=REF --------------------------------------------------------------------------------------------- */

/* What REF says of ARG, for the first case of the plan: an array of a file, or of the same launches elsewhere. */
static int reference(const Check *check, const Plan *p, const Words *variables, Outputs *out) {
  nereid_error *err = NULL;
  if (check->value[0] == '@') {
    Output *o = &out->at[out->n];
    *o = (Output){.name = check->name};
    if (array_read_npy(&o->array, check->value + 1, &err)) return report_error(err);
    return out->n++, 0;
  }
  nereid_device *d = NULL;
  if (nereid_device_open(check->value, &d, &err)) return report_error(err);
  Case *c = calloc(1, sizeof *c);
  Outputs all = {0};
  int status = c ? 0 : report_error(NULL);
  if (!status) c->keep_inputs = true, status = case_open(c, d, p, 0, variables);
  if (!status) status = case_check_run(c, d, &all);
  Output *found = (Output *)output_named(&all, check->name);
  if (!status && !found)
    status =
        usage_error(p->verb, "--check %s=%s: the first kernel writes no array of that name", check->name, check->value);
  if (!status) out->at[out->n++] = (Output){check->name, found->array}, found->array.data = NULL;
  outputs_free(&all);
  if (c) case_close(c, d);
  free(c);
  nereid_device_close(d);
  return status;
}

int check_references(const Checks *checks, const Plan *p, const Words *variables, Outputs *out) {
  int status = 0;
  for (int i = 0; i < checks->n && !status; i++) status = reference(&checks->at[i], p, variables, out);
  return status;
}
