/* devices: what this machine can run kernels on. */
#include "cli.h"
#include <string.h>

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
  if (json) printf("[");
  for (int i = 0; i < n; i++) {
    if (json) {
      printf("%s{\"name\":\"%s\",\"available\":%s,\"threads\":%d,\"memory_bytes\":%ld,", i ? "," : "", info[i].name,
             info[i].available ? "true" : "false", info[i].threads, (long)info[i].memory_bytes);
      if (info[i].compute_capability)
        printf("\"compute_capability\":\"%d.%d\",\"multiprocessors\":%d,\"driver_version\":\"%d.%d\",",
               info[i].compute_capability / 10, info[i].compute_capability % 10, info[i].multiprocessors,
               info[i].driver_version / 1000, info[i].driver_version % 1000 / 10);
      printf("\"description\":");
      json_string(stdout, info[i].description);
      printf("}");
    } else {
      printf("%-8s %-4s %s\n", info[i].name, info[i].available ? "yes" : "no", info[i].description);
    }
  }
  if (json) printf("]\n");
  return 0;
}

const Verb verb_devices = {"devices", "devices [--json]", "lists the devices of this machine", devices,
                           "  --json  as JSON\n"};
