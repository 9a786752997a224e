/* triton.ops.matmul_perf_model, a module of older Tritons whose two functions files still name in prune_configs_by:
 * which configurations of a product C = A B are worth measuring, by arithmetic on an H100-like machine. Both are models
 * of our own with the same names, arguments and units; they rank, no more.
 *
 *     early_config_prune(configs, named_args)   drops tiles that do not fit shared memory, and splits of K where
 *                                               atomics lack the type; of configurations that
 *                                               differ in num_stages alone it keeps the two nearest to what hides a
 *                                                 load after the products
 *     estimate_matmul_time(...)                 milliseconds: the longer of products and loads, and the store of C
 */
#include "front/core.h"

#include <math.h>

enum { SHARED_BYTES = 227 << 10, LOAD_CYCLES = 700, MULTIPROCESSORS = 132 };
/* of fp16, a multiprocessor */
static const double clock_ghz = 1.7, dram_gbs = 3300, l2_gbs = 6000, flop_per_cycle = 4096;

static double number(const Py *v, double otherwise) { return v && py_is_number(v) ? py_as_double(v) : otherwise; }

static double setting(const Py *config, const char *name) {
  Py *kwargs = config->kind == PY_OBJECT ? map_get(config->object.fields, "kwargs") : NULL;
  Py *v = kwargs && kwargs->kind == PY_DICT ? py_dict_get_name(kwargs, name) : NULL;
  if (!v && config->kind == PY_OBJECT) v = map_get(config->object.fields, name);
  return number(v, 1);
}

static const Type *element_of(const Py *array) {
  Py *t = array && array->kind == PY_OBJECT ? map_get(array->object.fields, "dtype") : NULL;
  return t && t->kind == PY_TYPE ? t->type : NULL;
}

/* Products of a type, beside fp16's. */
static double rate(const Type *t) {
  int bits = t ? dtype_bits(t->dtype) : 16;
  return bits <= 8 ? 2 : bits == 16 ? 1 : bits == 32 ? 0.5 : 0.0625;
}

static bool same_but_stages(const Py *a, const Py *b) {
  static const char *const names[] = {"BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT_K", "num_warps"};
  for (int i = 0; i < 5; i++)
    if (setting(a, names[i]) != setting(b, names[i])) return false;
  return true;
}

static double stages_off(const Py *config, const Type *t) { /* how far from hiding a load */
  double products = 2 * setting(config, "BLOCK_M") * setting(config, "BLOCK_N") * setting(config, "BLOCK_K");
  return fabs(setting(config, "num_stages") - ceil(LOAD_CYCLES / (products / (flop_per_cycle * rate(t)))));
}

static Py *early_prune(Front *fr, const Call *c) {
  Py *configs = c->n > 0 ? host_iterate(fr, c->args[0]) : NULL, *named = c->n > 1 ? c->args[1] : NULL;
  const Type *a = named && named->kind == PY_DICT ? element_of(py_dict_get_name(named, "A")) : NULL;
  if (!configs || configs->kind == PY_UNKNOWN || !a) return py_unknown(fr, "early_config_prune without an array 'A'");
  Py *fit = py_list(fr, 0, NULL), *out = py_list(fr, 0, NULL);
  for (int i = 0; i < configs->tuple.n; i++) {
    Py *k = configs->tuple.at[i];
    double bytes = (setting(k, "BLOCK_M") + setting(k, "BLOCK_N")) * setting(k, "BLOCK_K") * setting(k, "num_stages") *
                   dtype_bytes(a->dtype);
    bool adds = a->dtype == DT_F16 || a->dtype == DT_F32;
    if (bytes <= SHARED_BYTES && (adds || setting(k, "SPLIT_K") == 1)) py_append(fr, fit, k);
  }
  for (int i = 0; i < fit->tuple.n; i++) {
    Py *k = fit->tuple.at[i];
    int nearer = 0;
    for (int j = 0; j < fit->tuple.n; j++) {
      double off = stages_off(fit->tuple.at[j], a), mine = stages_off(k, a);
      nearer += same_but_stages(fit->tuple.at[j], k) && (off < mine || (off == mine && j < i));
    }
    if (nearer < 2) py_append(fr, out, k);
  }
  return out;
}

static Py *keyword(const Call *c, const char *name) {
  for (int i = 0; i < c->kw_n; i++)
    if (!strcmp(c->kw_names[i], name)) return c->kw_values[i];
  return NULL;
}

static Py *estimate(Front *fr, const Call *c) {
  static const char *const names[] = {"M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"};
  double v[6], split = number(keyword(c, "SPLIT_K"), 1), warps = number(keyword(c, "num_warps"), 4),
               stages = number(keyword(c, "num_stages"), 3);
  for (int i = 0; i < 6; i++) {
    v[i] = number(keyword(c, names[i]), 0);
    if (v[i] < 1) return py_unknown(fr, "estimate_matmul_time without a number '%s'", names[i]);
  }
  const Type *a = element_of(keyword(c, "A")), *out = element_of(keyword(c, "C"));
  double bytes = a ? dtype_bytes(a->dtype) : 2, tiles_m = ceil(v[0] / v[3]), tiles_n = ceil(v[1] / v[4]),
         blocks = tiles_m * tiles_n * split;
  double waves = ceil(blocks / MULTIPROCESSORS), k = ceil(v[2] / (v[5] * split)) * v[5];
  double share = fmin(1, warps / 4) * fmin(1, v[3] * v[4] / (64.0 * 64)); /* small tiles do not fill the tensor cores */
  double compute = waves * 2 * v[3] * v[4] * k / (flop_per_cycle * rate(a) * share) / (clock_ghz * 1e6);
  double moved = blocks * (v[3] + v[4]) * k * bytes, least = (v[0] + v[1]) * v[2] * bytes;
  double busy = fmin(1, blocks / MULTIPROCESSORS) * (stages > 1 ? 1 : 0.6);
  double load = fmax(moved / (l2_gbs * busy), least / (dram_gbs * busy)) / 1e6;
  double store = v[0] * v[1] * (out ? dtype_bytes(out->dtype) : 2) * (split > 1 ? 2 * split : 1) / dram_gbs / 1e6;
  return py_float(fr, fmax(compute, load) + store);
}

Py *perf_model_call(Front *fr, const char *name, const Call *c) {
  if (!strcmp(name, "early_config_prune")) return early_prune(fr, c);
  if (!strcmp(name, "estimate_matmul_time")) return estimate(fr, c);
  return NULL;
}
