/* symbols: which function an address of a sample lies in.
 *
 *     address ─ modules of its process ─▶ file, file offset ─ program headers ─▶ address in the file ─ .symtab or
 *             .dynsym ─▶ function
 *
 * A function's name is taken only if its size covers the address: what a stripped library keeps to itself is
 * "[libfoo.so]", not the exported function that happens to stand before it. Of a stripped library the distribution's
 * debug file is used where it is installed
 * (/usr/lib/debug/.build-id/ab/cdef.debug).
 *
 * Code that no file holds comes from a just-in-time compiler. CPython (PYTHONPERFSUPPORT) and others write where it is
 * to /tmp/perf-PID.map, a line "start size name" each, in hexadecimal; Python's functions are "py::name:file" there.
 *
 * Files are mapped and never believed: every offset is checked against the file's size.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prof/prof.h"

typedef struct Function {
  uint64_t start, end;
  const char *name;
} Function;

typedef struct Image { /* a file that modules are of, or a perf map */
  const uint8_t *bytes;
  size_t size;
  const Elf64_Phdr *segments;
  int segment_count;
  VEC(Function) functions; /* sorted by start */
  const char *unknown;     /* "[libfoo.so]" */
} Image;

typedef struct Module {
  uint32_t process;
  uint64_t base, end, offset;
  Image *image;
} Module;

struct Symbols {
  Arena *arena;
  Map *images; /* path -> Image */
  VEC(Module) modules;
  Map *names; /* what was asked for already: process and address -> name */
};

/* ---- ELF --------------------------------------------------------------------------------------------------------- */

/* NULL: not within the file, or not aligned */
static const void *part(const Image *m, uint64_t offset, uint64_t count, size_t each) {
  if (offset > m->size || (each && count > (m->size - offset) / each) || offset % 8 % (each % 8 ? 1 : 8)) return NULL;
  return m->bytes + offset;
}

static const int64_t MOST_IMAGE = 8LL << 30, MOST_PERF_MAP = 1LL << 30;

static bool map_file(Image *m, const char *path) {
  int64_t size;
  int fd = file_open(path, MOST_IMAGE, &size);
  if (fd < 0) return false;
  void *at = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (at == MAP_FAILED) return false;
  m->bytes = at, m->size = (size_t)size;
  return true;
}

static const Elf64_Ehdr *elf_header(const Image *m) {
  const Elf64_Ehdr *h = part(m, 0, 1, sizeof *h);
  bool good = h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
              h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_phentsize == sizeof(Elf64_Phdr) &&
              (!h->e_shnum || h->e_shentsize == sizeof(Elf64_Shdr));
  return good ? h : NULL;
}

static int by_start(const void *a, const void *b) {
  const Function *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->end != y->end ? (x->end < y->end ? -1 : 1) : strcmp(x->name, y->name);
}

/* The functions of one symbol table of the file; false: it has none of this type. */
static bool add_functions(Symbols *s, Image *to, const Image *from, uint32_t type) {
  const Elf64_Ehdr *h = elf_header(from);
  const Elf64_Shdr *sections = h ? part(from, h->e_shoff, h->e_shnum, sizeof *sections) : NULL;
  for (int i = 0; sections && i < h->e_shnum; i++) {
    if (sections[i].sh_type != type || sections[i].sh_entsize != sizeof(Elf64_Sym) || sections[i].sh_link >= h->e_shnum)
      continue;
    const Elf64_Shdr *names = &sections[sections[i].sh_link];
    uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const Elf64_Sym *symbols = part(from, sections[i].sh_offset, count, sizeof *symbols);
    const char *text = part(from, names->sh_offset, names->sh_size, 1);
    if (!symbols || !text || names->sh_type != SHT_STRTAB || !names->sh_size || text[names->sh_size - 1]) continue;
    for (uint64_t j = 0; j < count; j++) {
      const Elf64_Sym *f = &symbols[j];
      int kind = ELF64_ST_TYPE(f->st_info);
      if ((kind != STT_FUNC && kind != STT_GNU_IFUNC) || !f->st_value || !f->st_shndx || f->st_name >= names->sh_size ||
          !text[f->st_name])
        continue;
      vec_push(s->arena, &to->functions, (Function){f->st_value, f->st_value + f->st_size, text + f->st_name});
    }
    return true;
  }
  return false;
}

/* "/usr/lib/debug/.build-id/ab/cdef.debug" of a file with a build id. */
static bool debug_path(const Image *m, char out[256]) {
  for (int i = 0; i < m->segment_count; i++) {
    const Elf64_Phdr *p = &m->segments[i];
    if (p->p_type != PT_NOTE) continue;
    const uint8_t *at = part(m, p->p_offset, p->p_filesz, 1), *end = at ? at + p->p_filesz : NULL;
    while (at && end - at >= 12) {
      uint32_t n[3]; /* bytes of the name, bytes of the content, type */
      memcpy(n, at, sizeof n);
      uint64_t name = (n[0] + 3ull) & ~3ull, content = (n[1] + 3ull) & ~3ull;
      if (name + content > (uint64_t)(end - at) - 12) break;
      if (n[2] == NT_GNU_BUILD_ID && n[0] == 4 && !memcmp(at + 12, "GNU", 4) && n[1] >= 4 && n[1] <= 64) {
        int length = snprintf(out, 256, "/usr/lib/debug/.build-id/%02x/", at[12 + name]);
        for (uint32_t j = 1; j < n[1]; j++)
          length += snprintf(out + length, 256 - (size_t)length, "%02x", at[12 + name + j]);
        snprintf(out + length, 256 - (size_t)length, ".debug");
        return true;
      }
      at += 12 + name + content;
    }
  }
  return false;
}

static void load_elf(Symbols *s, Image *m, const char *path) {
  const Elf64_Ehdr *h = map_file(m, path) ? elf_header(m) : NULL;
  if (!h) return;
  m->segments = part(m, h->e_phoff, h->e_phnum, sizeof *m->segments);
  m->segment_count = m->segments ? h->e_phnum : 0;
  char other[256];
  if (!add_functions(s, m, m, SHT_SYMTAB)) {
    Image *debug = debug_path(m, other) ? NEW(s->arena, Image) : NULL;
    if (debug && map_file(debug, other)) {
      map_put(s->images, arena_strdup(s->arena, other), debug);
      add_functions(s, m, debug, SHT_SYMTAB);
    }
    add_functions(s, m, m, SHT_DYNSYM);
  }
  if (m->functions.n) qsort(m->functions.at, (size_t)m->functions.n, sizeof *m->functions.at, by_start);
}

/* ---- perf maps --------------------------------------------------------------------------------------------------- */

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void load_perf_map(Symbols *s, Image *m, const char *path) {
  FILE *f = file_open_stream(path, MOST_PERF_MAP);
  if (!f) return;
  char *line = NULL;
  size_t cap = 0;
  while (getline(&line, &cap, f) > 0) {
    unsigned long long start, size;
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%llx %llx %n", &start, &size, &at) < 2 || !at || !line[at]) continue;
    const char *name = line + at, *colon = strrchr(name, ':');
    bool is_python = !strncmp(name, "py::", 4) && colon > name + 4;
    name = is_python
               ? arena_printf(s->arena, "python: %.*s (%s)", (int)(colon - name - 4), name + 4, file_name(colon + 1))
               : arena_strdup(s->arena, name);
    if (name) vec_push(s->arena, &m->functions, (Function){start, start + size, name});
  }
  free(line);
  fclose(f);
  if (m->functions.n) qsort(m->functions.at, (size_t)m->functions.n, sizeof *m->functions.at, by_start);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

Symbols *symbols_create(void) {
  Symbols *s = calloc(1, sizeof *s);
  if (s && (s->arena = arena_create(NULL)) && (s->images = map_create(s->arena, true))) return s;
  symbols_free(s);
  return NULL;
}

void symbols_free(Symbols *s) {
  if (!s) return;
  for (int i = 0; s->images && i < map_count(s->images); i++) {
    const void *key;
    void *value;
    map_entry(s->images, i, &key, &value);
    Image *m = value;
    if (m->bytes) munmap((void *)m->bytes, m->size);
  }
  if (s->arena) arena_destroy(s->arena);
  free(s);
}

static Image *image_of(Symbols *s, const char *path, void (*load)(Symbols *s, Image *m, const char *path)) {
  Image *m = map_get(s->images, path);
  if (m || !(m = NEW(s->arena, Image))) return m;
  m->unknown = path[0] == '/' ? arena_printf(s->arena, "[%s]", file_name(path)) : arena_strdup(s->arena, path);
  map_put(s->images, arena_strdup(s->arena, path), m);
  if (path[0] == '/') load(s, m, path);
  return m;
}

void symbols_add(Symbols *s, uint32_t process, const char *path, uint64_t base, uint64_t size, uint64_t offset) {
  Image *m = image_of(s, path, load_elf);
  if (m) vec_push(s->arena, &s->modules, (Module){process, base, base + size, offset, m});
  if (s->names && map_count(s->names)) s->names = NULL;
}

/* The function around an address; of several with one start the largest. Sizes of 0 (written by hand) reach to the
 * next. */
static const char *function_at(const Image *m, uint64_t address) {
  int low = 0, high = m->functions.n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (m->functions.at[middle].start <= address) low = middle + 1;
    else high = middle;
  }
  for (int i = low - 1; i >= 0 && i >= low - 4; i--) {
    const Function *f = &m->functions.at[i];
    if (address < f->end || (f->end == f->start && i == low - 1)) return f->name;
  }
  return NULL;
}

static bool covers(const Module *m, uint32_t process, uint64_t address) {
  return m->process == process && address >= m->base && address < m->end;
}

static const char *name_in(const Module *at, uint64_t address) {
  const Image *m = at->image;
  uint64_t offset = address - at->base + at->offset;
  for (int i = 0; i < m->segment_count; i++) {
    const Elf64_Phdr *p = &m->segments[i];
    if (p->p_type != PT_LOAD || offset < p->p_offset || offset - p->p_offset >= p->p_filesz) continue;
    const char *name = function_at(m, offset - p->p_offset + p->p_vaddr);
    return name ? name : m->unknown;
  }
  return m->unknown;
}

static const char *find_name(Symbols *s, uint32_t process, uint64_t address) {
  for (int i = s->modules.n - 1; i >= 0; i--) /* what was mapped last is there now */
    if (covers(&s->modules.at[i], process, address)) return name_in(&s->modules.at[i], address);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%u.map", process);
  Image *m = image_of(s, path, load_perf_map);
  const char *name = m ? function_at(m, address) : NULL;
  return name ? name : "[unknown]";
}

const char *symbols_name(Symbols *s, uint32_t process, uint64_t address) {
  const void *key = (const void *)(uintptr_t)(address ^ (uint64_t)process << 47); /* addresses of programs end there */
  if (!s->names && !(s->names = map_create(s->arena, false))) return "[unknown]";
  const char *name = map_get(s->names, key);
  if (name) return name;
  name = find_name(s, process, address);
  map_put(s->names, key, (void *)name);
  return name;
}
