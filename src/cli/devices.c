/* devices: what this machine can run kernels on. */
#include "cli.h"

#include "base/json.h"
#include <string.h>

static void put_version(JsonWriter *w, const char *key, int major, int minor) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d", major, minor);
  json_put_text(w, key, text);
}

static void print_json(const nereid_device_info *info, int n) {
  JsonWriter w = {.file = stdout};
  json_begin_array(&w, NULL);
  for (const nereid_device_info *d = info; d < info + n; d++) {
    json_begin_object(&w, NULL);
    json_put_text(&w, "name", d->name);
    json_put_bool(&w, "available", d->available);
    json_put_int(&w, "threads", d->threads);
    json_put_int(&w, "memory_bytes", d->memory_bytes);
    if (d->compute_capability) {
      put_version(&w, "compute_capability", d->compute_capability / 10, d->compute_capability % 10);
      json_put_int(&w, "multiprocessors", d->multiprocessors);
      put_version(&w, "driver_version", d->driver_version / 1000, d->driver_version % 1000 / 10);
    }
    json_put_text(&w, "description", d->description);
    json_end_object(&w);
  }
  json_end_array(&w);
  printf("\n");
}

static int devices(int argc, char **argv) {
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) {
      json = true;
      continue;
    }
    if (argv[i][0] != '-') return usage_error(&verb_devices, "unknown word '%s'", argv[i]);
    int took = option_of_others(&verb_devices, argc - i, argv + i);
    if (took < 0) return 2;
    i += took - 1;
  }
  nereid_device_info info[16];
  int n = nereid_devices(info, 16);
  if (json) print_json(info, n);
  for (int i = 0; i < n && !json; i++)
    printf("%-8s %s%-4s%s %s\n", info[i].name, color(stdout, info[i].available ? COLOR_GOOD : COLOR_BAD),
           info[i].available ? "yes" : "no", color(stdout, COLOR_OFF), info[i].description);
  return 0;
}

const Verb verb_devices = {"devices", "devices [--json]", "lists the devices of this machine", devices,
                           "  --json  as JSON\n"};
