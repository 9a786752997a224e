/* Under which ceiling a launch stands: the roofline model with a ceiling for each resource.
 *
 * Every resource alone would need a time for what the launch asks of it (nereid_cost) at the rate that was measured
 * (nereid_ceilings):
 *
 *     memory       distinct bytes, at the bandwidth of working sets of that size and that mix of reads and writes
 *     requests     bytes that the programs ask for, at the nearest cache's bandwidth
 *     arithmetic   of each type, of exp and its like, of quotients, of dots by operand
 *     launch       what a launch of nothing takes
 *
 * The launch can be no faster than the slowest of them; that one bounds it. If it explains less than half of the time,
 * none does: what is left is latency, waiting that too little work in flight covers.
 *
 * An instruction that only adds or multiplies takes the place of a multiply-add, which counts as two operations: so a
 * kernel of products alone comes to half of the multiply-adds' ceiling. On a GPU a product and a sum that follow each
 * other become one instruction, so of the two only the more frequent counts; on a CPU both do.
 */
#include <math.h>

#include "measure/ceilings.h"

static double per(double amount, double rate) { return amount > 0 && rate > 0 ? amount / rate : 0; }

/* GB/s for `read` and `written` bytes: between those of reading, copying and writing alone, by time a byte. */
static double mixed(const nereid_bandwidth *b, double read, double written) {
  double share = read + written > 0 ? written / (read + written) : 0;
  double r = b->read, w = b->write, c = b->copy;
  if (!w && !c) return r; /* a GPU's L1, which writes go past */
  double ns = share < 0.5 ? (1 - 2 * share) / r + 2 * share / c : (2 - 2 * share) / c + (2 * share - 1) / w;
  return r > 0 && w > 0 && c > 0 ? 1 / ns : 0;
}

/* Between the two sizes around it, on a logarithmic scale. */
static double bandwidth_at(const nereid_ceilings *c, double bytes, double read, double written) {
  const nereid_bandwidth *s = c->sizes;
  int n = c->size_count;
  if (!n) return 0;
  if (bytes <= s[0].bytes) return mixed(&s[0], read, written);
  for (int i = 1; i < n; i++) {
    if (bytes > s[i].bytes) continue;
    double at = log(bytes / s[i - 1].bytes) / log(s[i].bytes / s[i - 1].bytes);
    return mixed(&s[i - 1], read, written) * (1 - at) + mixed(&s[i], read, written) * at;
  }
  return mixed(&s[n - 1], read, written);
}

static const nereid_bandwidth *level_of(const nereid_ceilings *c, double bytes) {
  for (int i = 0; i < c->level_count; i++)
    if (c->levels[i].copy > 0 && (!c->levels[i].bytes || bytes <= c->levels[i].bytes)) return &c->levels[i];
  return c->level_count ? &c->levels[c->level_count - 1] : NULL;
}

static void times_of_arithmetic(const nereid_ceilings *c, const nereid_cost *k, bool gpu, double ns,
                                double out[NEREID_RATE_COUNT]) {
  for (int i = 0; i < 4; i++) {
    const nereid_typed_cost *t = &k->typed[i];
    /* measured as a product and a sum, not fused */
    bool converted = !gpu && (i == NEREID_RATE_F16 || i == NEREID_RATE_BF16);
    double single = gpu ? fmax((double)t->add, (double)t->mul) : (double)t->add + (double)t->mul;
    out[i] = per((converted ? 1 : 2) * single + 2 * (double)t->fma, c->rates[i]);
  }
  for (int i = 0; i < 7; i++) {
    int rate = NEREID_RATE_DOT_F64 + i, plain = i == 0 ? NEREID_RATE_F64 : NEREID_RATE_F32;
    double best = c->rates[rate];
    if (i < 3 && c->rates[plain] > best) best = c->rates[plain];
    out[rate] = per(2 * (double)k->dots[i], best);
  }
  out[NEREID_RATE_EXP] = per((double)k->transcendental, c->rates[NEREID_RATE_EXP]);
  out[NEREID_RATE_DIV] = per((double)k->div, c->rates[NEREID_RATE_DIV]);
  /* Compilers do away with many operations on addresses that the count has: it is an upper bound, of no use when it
   * exceeds the time. */
  out[NEREID_RATE_I32] = per((double)k->integer, c->rates[NEREID_RATE_I32]);
  if (out[NEREID_RATE_I32] > ns) out[NEREID_RATE_I32] = 0;
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

static void put(nereid_bound *b, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(nereid_bound *b, const char *format, ...) {
  size_t n = strlen(b->text);
  va_list ap;
  va_start(ap, format);
  vsnprintf(b->text + n, sizeof b->text - n, format, ap);
  va_end(ap);
}

static void put_amount(nereid_bound *b, double v, const char *unit) { /* 134217728 "B" -> "134 MB" */
  static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (v >= 999.5 && p < 5) v /= 1000, p++;
  put(b, "%.*f %s%s", v < 9.995 && v > 0 && p ? 2 : v < 99.95 && p ? 1 : 0, v, prefixes[p], unit);
}

static void put_ns(nereid_bound *b, double ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = 0;
  while (ns >= 999.5 && u < 3) ns /= 1000, u++;
  put(b, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[u]);
}

static void put_percent(nereid_bound *b, double share) { put(b, share < 0.0995 ? "%.1f%%" : "%.0f%%", 100 * share); }

/* "f32 arithmetic", "products of matrices (f16)" */
static void put_rate(nereid_bound *b, nereid_rate r) {
  const char *name = nereid_rate_name(r);
  if (r == NEREID_RATE_EXP) put(b, "special functions (exp and the like)");
  else if (r == NEREID_RATE_DIV) put(b, "division");
  else if (r == NEREID_RATE_I32) put(b, "integer arithmetic");
  else if (!strncmp(name, "dot ", 4)) put(b, "products of matrices (%s)", name + 4);
  else put(b, "%s arithmetic", name);
}

static void say(nereid_bound *b, const nereid_ceilings *c, const nereid_cost *k, double ns, int rate, bool cold) {
  double memory = b->memory_ns;
  bool gpu = !strncmp(c->device, "cuda", 4);
  switch (b->kind) {
    case NEREID_BOUND_MEMORY:
      put(b, "bound by %s%s: ", !strcmp(b->level, "memory") ? "memory bandwidth" : "the bandwidth of ",
          !strcmp(b->level, "memory") ? "" : b->level);
      put_amount(b, b->working_set, "B"), put(b, " that lie in %s%s, moved at ", b->level, cold ? " (cold)" : "");
      put_amount(b, b->working_set / ns * 1e9, "B/s"), put(b, ", "), put_percent(b, b->share), put(b, " of the "),
          put_amount(b, b->bandwidth * 1e9, "B/s");
      put(b, " that it gives.");
      break;
    case NEREID_BOUND_REQUESTS:
      put(b, "bound by the bandwidth of %s: the programs ask for ", c->levels[0].name);
      put_amount(b, (double)k->load_bytes + (double)k->store_bytes, "B"),
          put(b, ", %.1f times what there is, at ", ((double)k->load_bytes + (double)k->store_bytes) / b->working_set);
      put_percent(b, b->share), put(b, " of what it gives.");
      break;
    case NEREID_BOUND_ARITHMETIC:
      put(b, "bound by "), put_rate(b, (nereid_rate)rate), put(b, ": "), put_percent(b, b->share),
          put(b, " of its ceiling");
      if (rate <= NEREID_RATE_BF16 && k->typed[rate].fma == 0 && !gpu)
        put(b, " (sums and products, each in the place of a multiply-add)");
      put(b, ".");
      break;
    case NEREID_BOUND_LAUNCH:
      put(b, "bound by the launch: a launch of nothing takes "), put_ns(b, b->launch_ns), put(b, " of its "),
          put_ns(b, ns);
      put(b, ". More work a launch, several kernels in one, or a graph would help.");
      break;
    case NEREID_BOUND_LATENCY:
      put(b, "bound by none of them, so by latency: the nearest, %s, explains ", b->name[0] ? b->name : "memory"),
          put_percent(b, b->share), put(b, " of the time.");
      if (k->programs < 32)
        put(b, " %lld program%s cannot keep the machine busy.", (long long)k->programs, k->programs == 1 ? "" : "s");
      else put(b, " Too little is in flight, the work is uneven, or it goes into what is not counted.");
  }
  /* what comes next */
  double rest = 0;
  int next = -1;
  for (int i = 0; i < NEREID_RATE_COUNT; i++)
    if ((b->kind != NEREID_BOUND_ARITHMETIC || i != rate) && b->rate_ns[i] > rest && i != NEREID_RATE_I32)
      rest = b->rate_ns[i], next = i;
  if (b->share > 1.05) {
    put(b, " That is more than was measured: the machine was busy then, or is faster now; measure the ceilings anew.");
  } else if (b->kind == NEREID_BOUND_MEMORY && next >= 0) {
    size_t begin = strlen(b->text) + 1;
    put(b, " "), put_rate(b, (nereid_rate)next);
    if (b->text[begin] >= 'a' && nereid_rate_name((nereid_rate)next)[0] != b->text[begin])
      b->text[begin] -= 'a' - 'A'; /* of a word, not of "f32" */
    put(b, " would allow %.*f times the speed.", ns / rest < 9.95 ? 1 : 0, ns / rest);
  } else if (b->kind == NEREID_BOUND_ARITHMETIC && memory > 0) {
    put(b, " %s would allow %.*f times the speed.", !strcmp(b->level, "memory") ? "Memory" : b->level,
        ns / memory < 9.95 ? 1 : 0, ns / memory);
  }
  if (k->at_least) put(b, " (Not all could be counted: at least so much.)");
}

nereid_status nereid_bound_of(const nereid_ceilings *c, const nereid_cost *k, double ns, bool cold, bool replayed,
                              nereid_bound *out, nereid_error **error) {
  if (!c || !k || !out) return error_null(error, "nereid_bound_of", !c ? "the ceilings" : !k ? "the cost" : "out");
  if (!(ns > 0)) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_bound_of: a launch cannot take %g ns", ns);
  bool gpu = !strncmp(c->device, "cuda", 4);
  nereid_bound *b = out;
  *b = (nereid_bound){.kind = NEREID_BOUND_LATENCY};
  double read = (double)k->load_distinct, written = (double)k->store_distinct;
  b->working_set = read + written;
  const nereid_bandwidth *level = level_of(c, cold ? INFINITY : b->working_set);
  if (level && b->working_set > 0) {
    snprintf(b->level, sizeof b->level, "%s", level->name);
    b->bandwidth = cold ? mixed(level, read, written) : bandwidth_at(c, b->working_set, read, written);
    b->memory_ns = per(b->working_set, b->bandwidth);
  }
  if (c->level_count && k->load_bytes + k->store_bytes > 0)
    b->requests_ns = per((double)k->load_bytes + (double)k->store_bytes,
                         mixed(&c->levels[0], (double)k->load_bytes, (double)k->store_bytes));
  b->launch_ns = replayed && c->replay_ns > 0 ? c->replay_ns : c->launch_ns;
  times_of_arithmetic(c, k, gpu, ns, b->rate_ns);
  int rate = 0;
  for (int i = 1; i < NEREID_RATE_COUNT; i++)
    if (b->rate_ns[i] * (i == NEREID_RATE_I32 ? 0.67 : 1) > b->rate_ns[rate]) rate = i;
  struct {
    nereid_bound_kind kind;
    double ns;
    const char *name;
  } all[] = {{NEREID_BOUND_MEMORY, b->memory_ns, *b->level ? b->level : "memory"},
             {NEREID_BOUND_REQUESTS, b->requests_ns * 0.999, c->level_count ? c->levels[0].name : ""},
             {NEREID_BOUND_ARITHMETIC, b->rate_ns[rate], nereid_rate_name((nereid_rate)rate)}};
  int most = 0;
  for (int i = 1; i < 3; i++)
    if (all[i].ns > all[most].ns) most = i;
  b->share = all[most].ns / ns, b->least_ns = all[most].ns;
  snprintf(b->name, sizeof b->name, "%s", all[most].name);
  if (b->share >= 0.5) b->kind = all[most].kind;
  else if (b->launch_ns >= 0.4 * ns && b->launch_ns > all[most].ns)
    b->kind = NEREID_BOUND_LAUNCH, b->share = fmin(b->launch_ns / ns, 1), b->least_ns = b->launch_ns,
    snprintf(b->name, sizeof b->name, "launch");
  say(b, c, k, ns, rate, cold);
  if (b->kind == NEREID_BOUND_LATENCY) snprintf(b->name, sizeof b->name, "latency");
  return NEREID_OK;
}
