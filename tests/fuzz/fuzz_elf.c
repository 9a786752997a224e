/* libFuzzer target of the symbols of ELF files and of perf maps: any file names an address, or none does. */
#define _GNU_SOURCE
#include "prof/prof.h"

#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(Symbols *s, uint64_t base) {
  static const uint64_t at[] = {0, 1, 0x40, 0x100, 0x1000, 0x1139, 0x2000, 0x7fffffff};
  char legible[80];
  for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
    const char *name = symbols_name(s, (uint32_t)getpid(), base + at[i]);
    CHECK(name && name[0]);
    CHECK(name_legible(name, 40, legible, sizeof legible) == legible);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Symbols *s = symbols_create();
  int fd = memfd_create("elf", 0);
  CHECK(s && fd >= 0 && write(fd, data, size) == (ssize_t)size);
  char path[60];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  symbols_add(s, (uint32_t)getpid(), path, 0x10000, 0x80000000, 0);
  ask(s, 0x10000);
  close(fd);

  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, size, f) == size);
  fclose(f);
  ask(s, 0x700000000000);
  unlink(path);
  symbols_free(s);
  return 0;
}
