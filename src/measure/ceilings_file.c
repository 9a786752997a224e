/* Ceilings kept: one text file a device in the cache folder, a line a figure, which a person can read and any program
 * of ours finds.
 *
 *     nereid ceilings 1
 *     device cuda:0
 *     description NVIDIA H200, compute capability 9.0, ...
 *     level L2 52428800 5500 4100 4600       holds bytes; read, write, copy in GB/s
 *     size 2097152 5100 4000 4300
 *     rate 60000 f32                         GFLOP/s
 *     point f16 4 2.68e8 2.1e5               type, operations an element, elements, ns
 *
 * The name holds a hash of the device's description, so that ceilings of another machine that shares the folder, or of
 * this one with another driver or compiler, are not taken for this one's. It is written whole or not at all.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "measure/ceilings.h"

enum { NAME_BYTES = 64 };

static bool name_of(const char *device, const char *description, char out[NAME_BYTES]) {
  char hash[33];
  Buf key = {0};
  buf_printf(&key, "%s\n%s", device, description);
  bool good = key.at && !key.failed;
  if (good) hash_hex(key.at, key.n, hash);
  if (good) snprintf(out, NAME_BYTES, "ceilings-%.15s-%.12s.txt", device, hash);
  char *colon = good ? strchr(out, ':') : NULL; /* of "cuda:0": one file a kind and description */
  if (colon) snprintf(colon, (size_t)(out + NAME_BYTES - colon), "-%.12s.txt", hash);
  buf_destroy(&key);
  return good;
}

nereid_status nereid_ceilings_save(const nereid_ceilings *c, nereid_error **error) {
  if (!c) return error_null(error, "nereid_ceilings_save", "the ceilings");
  Buf b = {0};
  void *numbers = plain_numbers();
  buf_printf(&b, "nereid ceilings 1\ndevice %s\ndescription %s\ndate %s\nquick %d\nblas %s\nlaunch %.9g %.9g\n",
             c->device, c->description, c->date, c->quick, c->blas, c->launch_ns, c->replay_ns);
  for (int i = 0; i < c->level_count; i++) {
    const nereid_bandwidth *l = &c->levels[i];
    buf_printf(&b, "level %s %.17g %.6g %.6g %.6g\n", l->name, l->bytes, l->read, l->write, l->copy);
  }
  for (int i = 0; i < c->size_count; i++)
    buf_printf(&b, "size %.17g %.6g %.6g %.6g\n", c->sizes[i].bytes, c->sizes[i].read, c->sizes[i].write,
               c->sizes[i].copy);
  for (int i = 0; i < NEREID_RATE_COUNT; i++)
    if (c->rates[i] > 0) buf_printf(&b, "rate %.6g %s\n", c->rates[i], nereid_rate_name((nereid_rate)i));
  for (int i = 0; i < c->point_count; i++) {
    const nereid_roofline_point *p = &c->points[i];
    buf_printf(&b, "point %s %d %.9g %.9g\n", nereid_dtype_name(p->dtype), p->operations, p->elements, p->ns);
  }
  host_numbers(numbers);
  buf_puts(&b, "end\n");
  char name[NAME_BYTES];
  nereid_status status = NEREID_OK;
  if (b.failed || !name_of(c->device, c->description, name)) status = error_out_of_memory(error);
  else if (!store_keep(".", name, NULL, b.at, b.n))
    status = error_set(error, NEREID_BAD_FILE, "set NEREID_CACHE_DIR to a folder that can be written",
                       "the ceilings cannot be kept in the cache's folder: %s", strerror(errno));
  buf_destroy(&b);
  return status;
}

static bool read_line(nereid_ceilings *c, const char *line, bool *whole) {
  char word[16], rest[300] = "";
  nereid_bandwidth b = {0};
  nereid_roofline_point p = {0};
  int quick, at = 0;
  double v;
  if (sscanf(line, "%15s %n", word, &at) < 1) return true;
  if (!strcmp(word, "end")) return *whole = true;
  snprintf(rest, sizeof rest, "%s", line + at);
  if (!strcmp(word, "device")) return snprintf(c->device, sizeof c->device, "%.31s", rest), true;
  if (!strcmp(word, "description")) return snprintf(c->description, sizeof c->description, "%.255s", rest), true;
  if (!strcmp(word, "date")) return snprintf(c->date, sizeof c->date, "%.23s", rest), true;
  if (!strcmp(word, "blas")) return snprintf(c->blas, sizeof c->blas, "%.159s", rest), true;
  if (!strcmp(word, "quick")) return sscanf(rest, "%d", &quick) == 1 && (c->quick = quick, true);
  if (!strcmp(word, "launch")) return sscanf(rest, "%lf %lf", &c->launch_ns, &c->replay_ns) == 2;
  if (!strcmp(word, "level")) {
    if (c->level_count == NEREID_MAX_LEVELS ||
        sscanf(rest, "%11s %lf %lf %lf %lf", b.name, &b.bytes, &b.read, &b.write, &b.copy) != 5)
      return false;
    return c->levels[c->level_count++] = b, true;
  }
  if (!strcmp(word, "size")) {
    if (c->size_count == NEREID_MAX_SIZES ||
        sscanf(rest, "%lf %lf %lf %lf", &b.bytes, &b.read, &b.write, &b.copy) != 4 || !(b.bytes > 0))
      return false;
    return c->sizes[c->size_count++] = b, true;
  }
  if (!strcmp(word, "point")) {
    char type[8];
    if (c->point_count == NEREID_MAX_POINTS ||
        sscanf(rest, "%7s %d %lf %lf", type, &p.operations, &p.elements, &p.ns) != 4 ||
        !nereid_dtype_parse(type, &p.dtype))
      return false;
    return c->points[c->point_count++] = p, p.ns > 0;
  }
  if (!strcmp(word, "rate") && sscanf(rest, "%lf %n", &v, &at) == 1) {
    for (int i = 0; i < NEREID_RATE_COUNT; i++)
      if (!strcmp(rest + at, nereid_rate_name((nereid_rate)i))) return c->rates[i] = v, true;
  }
  return false;
}

static bool read_all(nereid_ceilings *c, char *text) {
  static const char first[] = "nereid ceilings 1\n";
  bool whole = false;
  if (!text || strncmp(text, first, sizeof first - 1)) return false;
  void *numbers = plain_numbers();
  bool good = true;
  for (char *line = text + sizeof first - 1; good && line && *line && !whole;) {
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    good = read_line(c, line, &whole);
    line = end ? end + 1 : NULL;
  }
  host_numbers(numbers);
  if (!good) return false;
  for (int i = 1; i < c->size_count; i++)
    if (c->sizes[i].bytes <= c->sizes[i - 1].bytes) return false;
  return whole && c->size_count && c->level_count;
}

nereid_status nereid_ceilings_load(nereid_device *d, nereid_ceilings *out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_ceilings_load", "the device");
  if (!out) return error_null(error, "nereid_ceilings_load", "out");
  nereid_ceilings *c = calloc(1, sizeof *c);
  char device[32], description[256];
  ceilings_identify(d, device, description);
  char name[NAME_BYTES];
  Buf text = {0};
  bool there = name_of(device, description, name) && store_find(".", name, NULL, &text),
       good = c && there && !text.failed && read_all(c, text.at);
  if (good && (strcmp(c->device, device) || strcmp(c->description, description))) good = false;
  if (good) *out = *c;
  nereid_status status = NEREID_OK;
  static const char hint[] = "`nereid roofline` measures and keeps them (--device as here); from C, "
                             "nereid_ceilings_measure and nereid_ceilings_save";
  if (!c) status = error_out_of_memory(error);
  else if (!good && there)
    status = error_set(error, NEREID_BAD_FILE, hint,
                       "the ceilings of %s in the cache's %s are damaged, or of another version", device, name);
  else if (!good) status = error_set(error, NEREID_BAD_FILE, hint, "the ceilings of %s are not known", device);
  buf_destroy(&text);
  free(c);
  return status;
}
