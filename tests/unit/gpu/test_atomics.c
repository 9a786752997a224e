/* Every atomic operation that the language has, in every type, order, scope and shape, masked or not, its old value
 * used or not: what is printed must be an instruction that PTX has. Each line is looked up in the table below, taken
 * from the PTX ISA's pages of atom and red; and where there is a ptxas, it assembles all of it, one kernel a target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/gpu.h"

#include <cmocka.h>

/* ---- what there is ---- */

/* PTX ISA, "Parallel Synchronization and Communication Instructions: atom" and "red": operation, types, the least
 * architecture, for red and atom, or one of them alone. Vectors are of global memory and without .noftz's absence. */
typedef struct Form {
  const char *op, *types;
  int sm;
  bool red, atom;
} Form;
static const Form forms[] = {
    {"and or xor", "b32 b64", 60, true, true},
    {"exch", "b32 b64", 60, false, true},
    {"cas", "b32 b64", 60, false, true},
    {"cas", "b16", 70, false, true},
    {"add", "u32 s32 u64 f32 f64", 60, true, true},
    {"min max", "u32 s32 u64 s64", 60, true, true},
    {"add.noftz", "f16x2 f16", 70, true, true},
    {"add.noftz", "bf16x2 bf16", 90, true, true},
    {"add.v2 add.v4", "f32", 90, true, true},
    {"add.noftz.v2 add.noftz.v4 min.noftz.v2 min.noftz.v4 max.noftz.v2 max.noftz.v4", "f16 bf16 f16x2 bf16x2", 90, true,
     true},
    {"add.noftz.v8 min.noftz.v8 max.noftz.v8", "f16 bf16", 90, true, true},
};
static const char red_sems[] = "relaxed release", atom_sems[] = "relaxed acquire release acq_rel",
                  scopes[] = "cta gpu sys";

static bool is_one_of(const char *words, const char *word, size_t n) {
  for (const char *s = words; *s;) {
    size_t length = strcspn(s, " ");
    if (length == n && !memcmp(s, word, n)) return true;
    s += length;
    s += *s == ' ';
  }
  return false;
}

/* "red.global.relaxed.gpu.add.noftz.f16 [...]": up to the blank. */
static bool exists(const char *name, size_t n, int sm) {
  const char *part[12];
  size_t length[12];
  int count = 0;
  for (size_t at = 0; at < n && count < 12; count++) {
    part[count] = name + at;
    for (length[count] = 0; at + length[count] < n && name[at + length[count]] != '.'; length[count]++) {}
    at += length[count] + 1;
  }
  if (count < 6) return false;
  bool red = is_one_of("red", part[0], length[0]);
  const char *op = part[4], *type = part[count - 1];
  size_t op_length = (size_t)(type - 1 - op), type_length = length[count - 1];
  if (!is_one_of("global", part[1], length[1])) return false;
  if (!is_one_of(red ? red_sems : atom_sems, part[2], length[2]) || !is_one_of(scopes, part[3], length[3]))
    return false;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (is_one_of(forms[i].op, op, op_length) && is_one_of(forms[i].types, type, type_length) && sm >= forms[i].sm &&
        (red ? forms[i].red : forms[i].atom))
      return true;
  return false;
}

/* ---- what the language has ---- */

typedef struct Kind {
  const char *name, *types;
} Kind;
static const Kind kinds[] = {
    {"add", "i32 u32 i64 u64 f16 bf16 f32 f64"},
    {"max", "i32 u32 i64 u64 f32 f64"},
    {"min", "i32 u32 i64 u64 f32 f64"},
    {"and", "i32 u32 i64 u64"},
    {"or", "i32 u32 i64 u64"},
    {"xor", "i32 u32 i64 u64"},
    {"xchg", "i32 u32 i64 u64 f32 f64 *f32"},
    {"cas", "i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 *f32"},
};
static const char *const all_types[] = {"i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "*f32"};
static const char *const sem_names[] = {"acq_rel", "acquire", "release", "relaxed"};
static const char *const scope_names[] = {"gpu", "cta", "sys"};
enum { TYPES = sizeof all_types / sizeof *all_types, KINDS = sizeof kinds / sizeof *kinds };

/* One kernel of everything in one shape: scalars (elements 0), tensors that each thread holds its own of, or tensors
 * with copies. An argument a type; %pt is its pointers, %vt its values (loaded, or constants), %ot where old values go.
 */
static void write_kernel(Buf *out, int number, int elements, bool masked, bool used, bool orders, bool constant) {
  char shape[16] = "";
  int count = 0;
  if (elements) snprintf(shape, sizeof shape, "[%d]", elements);
  buf_printf(out, "kernel @k%d(%%n: i32", number);
  for (int t = 0; t < TYPES; t++) buf_printf(out, ", %%a%d: *%s {divisible=16}", t, all_types[t]);
  buf_puts(out, ") {\n");
  if (elements) {
    buf_printf(out, "  %%i = arange {start=0, end=%d} : i32%s\n  %%ns = splat %%n : i32%s\n", elements, shape, shape);
    buf_printf(out, "  %%m = cmp %%i, %%ns {pred=lt} : i1%s\n", shape);
  } else {
    buf_puts(out, "  %i = const {value=0} : i32\n  %m = cmp %i, %n {pred=lt} : i1\n");
  }
  for (int t = 0; t < TYPES; t++) {
    const char *type = all_types[t];
    char base[16] = "%a";
    snprintf(base, sizeof base, "%%a%d", t);
    if (elements) {
      buf_printf(out, "  %%s%d = splat %%a%d : *%s%s\n", t, t, type, shape);
      snprintf(base, sizeof base, "%%s%d", t);
    }
    buf_printf(out, "  %%p%d = addptr %s, %%i : *%s%s\n", t, base, type, shape);
    if (constant && *type != '*')
      buf_printf(out, "  %%v%d = const {value=%s} : %s%s\n", t, strchr(type, 'f') ? "1.0" : "1", type, shape);
    else buf_printf(out, "  %%v%d = load %%p%d : %s%s\n", t, t, type, shape);
  }
  for (int k = 0; k < KINDS; k++)
    for (int t = 0; t < TYPES; t++)
      for (int v = 0; v < 12; v++) {
        bool cas = !strcmp(kinds[k].name, "cas");
        const char *sem = sem_names[v / 3], *scope = scope_names[v % 3];
        if (!is_one_of(kinds[k].types, all_types[t], strlen(all_types[t])) || (cas && masked)) continue;
        if (!orders && strcmp(sem, "relaxed")) continue;
        int id = count++;
        buf_printf(out, "  %%r%d = %s %%p%d, %%v%d", id, cas ? "atomic_cas" : "atomic_rmw", t, t);
        if (cas) buf_printf(out, ", %%v%d {", t);
        else buf_printf(out, "%s {kind=%s, ", masked ? ", %m" : "", kinds[k].name);
        buf_printf(out, "sem=%s, scope=%s} : %s%s\n", sem, scope, all_types[t], shape);
        if (used) buf_printf(out, "  store %%p%d, %%r%d\n", t, id);
      }
  buf_puts(out, "}\n");
}

/* ---- the test ---- */

/* Looks up each atomic. `names` gets them, or (known) must have them. */
static void check_lines(Context *cx, const char *ptx, const GpuTarget *target, Map *names, bool known) {
  for (const char *line = ptx; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    const char *s = line + strspn(line, " \t");
    if (*s == '@') s += strcspn(s, " "), s += strspn(s, " ");
    if (strncmp(s, "red.", 4) && strncmp(s, "atom.", 5)) continue;
    char name[100];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s, " \n"), s);
    if (!exists(name, strlen(name), target->sm)) fail_msg("%s has no %s", target->name, name);
    if (known) assert_true(map_has(names, name));
    else map_put(names, arena_strdup(cx->arena, name), names);
  }
}

static void compile(Context *cx, Buf *ptx, const GpuTarget *target, int number, bool orders) {
  static const int shapes[] = {0, 16, 128, 512}; /* 16: with copies; 512: vectors */
  Buf ir = {0};
  write_kernel(&ir, number, shapes[number % 16 / 4], number & 1, number & 2, orders, number >= 16);
  Func *f = tile_parse(cx, source_from_text(cx, "k.tile", ir.at, ir.n));
  buf_destroy(&ir);
  tile_optimize(f, NULL, NULL, true);
  gpu_print_ptx(ptx, gpu_compile(f, &(GpuOptions){.target = target, .verify = true}), target, false);
}

/* As gpu_ptxas looks for it; NULL: there is none. */
static const char *find_ptxas(void) {
  static const char usual[] = "/usr/local/cuda/bin/ptxas";
  const char *chosen = getenv("NEREID_PTXAS");
  if (chosen && *chosen) return strcmp(chosen, "none") ? chosen : NULL;
  if (!system("command -v ptxas >/dev/null 2>&1")) return "ptxas";
  return access(usual, X_OK) ? NULL : usual;
}

/* Nothing is optimised: only whether it takes the text is asked. */
static void assemble(const Buf *text, const GpuTarget *target) {
  char path[] = "/tmp/nereid-atomics-XXXXXX", command[2000];
  int file = mkstemp(path);
  assert_true(file >= 0 && write(file, text->at, text->n) == (ssize_t)text->n);
  close(file);
  snprintf(command, sizeof command, "'%s' -O0 -arch %s -o /dev/null %s", find_ptxas(), target->name, path);
  int status = system(command);
  if (status) fail_msg("%s: status %d", command, status);
  unlink(path);
}

/* A target's kernels in one module: ptxas takes longer to start than for any of them. What the others are printed as is
 * among what these have: masks are guards, and atomics of tensors have no order, whatever `sem` says. */
static void check_target(const GpuTarget *target) {
  enum { KERNELS = 32, ASSEMBLED = 9 }; /* from 16 on with constants */
  static const int assembled[ASSEMBLED] = {6,  0,  2,  12, 14,
                                           16, 18, 24, 26}; /* the first one declares shared memory, for all */
  Context *cx = context_create();
  Buf module = {0}, message = {0};
  if (context_try(cx)) {
    Map *names = map_create(cx->arena, true);
    for (int i = 0; i < ASSEMBLED; i++) {
      Buf ptx = {0};
      compile(cx, &ptx, target, assembled[i], assembled[i] < 4);
      check_lines(cx, ptx.at, target, names, false);
      buf_puts(&module, i ? strstr(ptx.at, ".visible .entry") : ptx.at);
      buf_destroy(&ptx);
    }
    for (int number = 0; number < KERNELS; number++) {
      Buf ptx = {0};
      compile(cx, &ptx, target, number, true);
      check_lines(cx, ptx.at, target, names, true);
      buf_destroy(&ptx);
    }
    assert_true(map_count(names) > 200);
    if (find_ptxas()) assemble(&module, target);
    context_end_try(cx);
  } else {
    diags_print(&message, cx, false);
    fail_msg("%s: %s", target->name, message.at);
  }
  buf_destroy(&module);
  buf_destroy(&message);
  context_destroy(cx);
}

static void test_all(void **state) {
  Context *cx = context_create();
  if (!find_ptxas()) print_message("no ptxas here: instructions are looked up in the table alone\n");
  context_destroy(cx);
  for (const GpuTarget *t = gpu_targets; t->name; t++) check_target(t);
}

/* Whether the verifier of lane IR lets such an atomic pass; then it must have an instruction, on the newest target. */
static bool verified(LaneKind k, int rmw, int n, bool used) {
  static const char *const names[] = {"add", "max", "min", "and", "or", "xor", "xchg", "cas"};
  const GpuTarget *target = gpu_target_find("sm_100a");
  const char *type = lane_kind_info[lane_bits_kind(lane_kind_info[k].type)].name;
  Context *cx = context_create();
  Buf text = {0}, ptx = {0};
  volatile bool passes = false;
  buf_printf(&text, "kernel @k(%%w: b64, %%x: %s) {\n", type);
  for (int i = 0; i < n && used; i++) buf_printf(&text, "%s%%r%d", i ? ", " : "", i);
  buf_printf(&text, "%satom.%s %%w", used ? " = " : "", lane_kind_info[k].name);
  for (int i = 0; i < n + (rmw == RMW_CAS); i++) buf_puts(&text, ", %x");
  buf_printf(&text, " {global %s relaxed gpu}", names[rmw]);
  for (int i = 0; i < n && used; i++) buf_printf(&text, "%s%s", i ? ", " : " : ", type);
  buf_puts(&text, "\n}\n");
  if (context_try(cx)) {
    LaneFunc *f = lane_parse(cx, source_from_text(cx, "k.lane", text.at, text.n));
    lane_verify(f, NULL);
    gpu_print_ptx(&ptx, f, target, false);
    context_end_try(cx);
    passes = true;
  }
  if (passes) check_lines(cx, ptx.at, target, map_create(cx->arena, true), false);
  buf_destroy(&text);
  buf_destroy(&ptx);
  context_destroy(cx);
  return passes;
}

static void test_verified(void **state) {
  int count[2] = {0};
  for (int k = 0; k < LK_COUNT; k++)
    for (int rmw = 0; rmw <= RMW_CAS; rmw++)
      for (int n = 1; n <= 8; n *= 2)
        for (int used = 0; used < 2; used++) count[verified((LaneKind)k, rmw, n, used)]++;
  assert_true(count[true] > 60 && count[false] > 100);
}

/* The table itself: what the manual has and has not. */
static void test_table(void **state) {
  static const struct {
    const char *name;
    int sm;
    bool exists;
  } rows[] = {
      {"red.global.relaxed.gpu.add.f32", 80, true},        {"red.global.acquire.gpu.add.f32", 80, false},
      {"red.global.relaxed.gpu.exch.b32", 80, false},      {"red.global.relaxed.gpu.add.s64", 80, false},
      {"atom.global.acq_rel.sys.cas.b16", 80, true},       {"red.global.release.cta.min.u64", 80, true},
      {"red.global.relaxed.gpu.add.bf16", 90, false},      {"red.global.relaxed.gpu.add.noftz.bf16", 80, false},
      {"red.global.relaxed.gpu.add.noftz.bf16", 90, true}, {"atom.global.relaxed.gpu.max.f32", 90, false},
      {"atom.global.relaxed.gpu.add.v4.f32", 90, true},    {"atom.global.relaxed.gpu.and.u32", 90, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (exists(rows[i].name, strlen(rows[i].name), rows[i].sm) != rows[i].exists) fail_msg("%s", rows[i].name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_verified),
                                     cmocka_unit_test(test_all)};
  return cmocka_run_group_tests_name("atomics", tests, NULL, NULL);
}
