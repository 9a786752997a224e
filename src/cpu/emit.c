/* cpu_emit_c: the frame of the C text, and the order of the back end's steps.
 *
 *   plan_function   groups, kept values, order
 *   place_buffers   the scratch area
 *   emit_block      the text of one program
 *
 * The text begins with support files (src/cpu/support, embedded in the library): for a reader with those that it uses,
 * for a compiler with all, of which cc.c leaves what is used.
 */
#include "cpu/emit.h"
#include "tile/passes/instrument.h"

static const char text_cpu[] =
#include "nereid_cpu.h.inc"
    ;
static const char text_mathfn[] =
#include "mathfn.h.inc"
    ;
static const char text_vec[] =
#include "nereid_vec.h.inc"
    ;
static const char text_convert[] =
#include "nereid_convert.h.inc"
    ;
static const char text_mem[] =
#include "nereid_mem.h.inc"
    ;
static const char text_nest[] =
#include "nereid_nest.h.inc"
    ;
static const char text_math[] =
#include "nereid_math.h.inc"
    ;
static const char text_amx[] =
#include "nereid_amx.h.inc"
    ;
static const char text_dot[] =
#include "nereid_dot.h.inc"
    ;
static const char text_tile[] =
#include "nereid_tile.h.inc"
    ;
static const char text_atomic[] =
#include "nereid_atomic.h.inc"
    ;
static const char text_print[] =
#include "nereid_print.h.inc"
    ;

static const char text_span[] =
#include "span.h.inc"
#include "nereid_span.h.inc"
    ;

typedef struct Uses {
  Emit *e;
  bool math, scalar_math, dot, tile, atomic, print, vector;
  int wide, narrow;
} Uses;

/* Steps of a sort for each element. */
static int sort_steps(const Type *t) {
  int n = 0;
  while (INT64_C(1) << n < t->shape[t->rank - 1]) n++;
  return n * (n + 1) / 2;
}

static void note_use(Op *op, void *arg) {
  Uses *u = arg;
  bool vector = op->out_count && op->out[0]->type->rank > 0;
  u->vector |= vector;
  switch (op->code) {
    case OP_MATH: u->math = u->scalar_math = true; break;
    case OP_DOT: u->dot = true; break;
    case OP_SORT:
      u->tile = true;
      if (dtype_bits(type_dtype(op->out[0]->type)) == 64) u->wide += sort_steps(op->out[0]->type);
      else u->narrow += sort_steps(op->out[0]->type);
      break;
    case OP_HISTOGRAM: u->tile = true; break;
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: u->atomic = true; break;
    case OP_PRINT: u->print = true; break;
    case OP_REDUCE:
    case OP_SCAN:
    case OP_MAP: u->math |= true; break;
    default: break;
  }
  if (vector && (op_is_elementwise(op) || op->code == OP_LOAD) && !value_is_recomputable(u->e, op->out[0])) {
    Dtype d = type_dtype(op->out[0]->type);
    bool address = op->out[0]->type->ptr && index_of(u->e, op->out[0])->term_count == 0;
    if (d == DT_F64) u->wide += 2;
    else if (dtype_bits(d) == 64) u->wide += !address && !op->out[0]->type->ptr;
    else if (d != DT_I1) u->narrow++;
  }
}

static void write_program(Emit *e, const Func *f) {
  if (e->use == CPU_TEXT_READABLE)
    buf_printf(e->out, "\n/* One program of the kernel `%s`. */\n", f->name ? f->name : "kernel");
  buf_puts(
      e->out,
      "static int nd_program(const uint64_t *args, const int32_t program[3], const int32_t grid[3], int64_t scratch,\n"
      "                      const NereidHost *host, int far) {\n");
  e->indent = 1;
  for (int k = 0; k < f->body->arg_count; k++) write_argument(e, k, f->body->args[k]);
  if (f->instrument) emit_line(e, "uint64_t cursor[%d];", (int)(sizeof(InstrumentCursor) + 7) / 8);
  if (f->instrument) emit_line(e, "host->record(cursor, host->instrument, program, grid, 0u);");
  emit_block(e, f->body);
  if (f->instrument) emit_line(e, "host->record(cursor, host->instrument, program, grid, ~0u);");
  emit_line(e, "return 0;");
  buf_puts(e->out, "}\n");
}

/* What other kernels left in the scratch area is no operand of this one. */
static const char *forgets(Emit *e) {
  const char *t = "";
  for (int i = 0; i < e->memos.n; i++)
    t = emit_text(e, "%s  ((nd_gemm_memo *)((char *)scratch + %lld))->valid = 0;\n", t,
                  (long long)e->memos.at[i]->place);
  return t;
}

/* Stores past the caches are not ordered with what programs tell each other of them: atomics, and loops that wait. */
static void write_entry(Emit *e, bool hands_on) {
  buf_printf(e->out,
             "\n__attribute__((visibility(\"default\"))) const uint64_t nereid_scratch_bytes = %lld;\n"
             "__attribute__((visibility(\"default\"))) const uint64_t nereid_shares = %d;\n\n"
             "__attribute__((visibility(\"default\"))) int nereid_kernel(const uint64_t *args, const int32_t grid[3], "
             "int64_t begin, "
             "int64_t end,\n                  void *scratch, const NereidHost *host) {\n"
             "  const int far = %s;\n"
             "  int status = 0;\n"
             "  int32_t program[3] = {(int32_t)(begin %% grid[0]), (int32_t)(begin / grid[0] %% grid[1]),\n"
             "                        (int32_t)(begin / grid[0] / grid[1])};\n"
             "%s"
             "  for (int64_t at = begin; at < end && !status; at++) {\n"
             "    status = nd_program(args, program, grid, (int64_t)scratch, host, far);\n"
             "    if (++program[0] < grid[0]) continue;\n"
             "    program[0] = 0;\n"
             "    if (++program[1] < grid[1]) continue;\n"
             "    program[1] = 0;\n"
             "    program[2]++;\n"
             "  }\n"
             "  nd_far_end(far);\n"
             "  return status;\n"
             "}\n",
             (long long)(e->scratch + 64), e->memos.n > 0, hands_on ? "0" : "nd_far(host)", forgets(e));
}

/* Whether some tile is turned on its way from buffer to buffer. */
static bool copies_turned(Emit *e) {
  for (int i = 0; i < map_count(e->plans); i++) {
    const void *block;
    void *plan;
    map_entry(e->plans, i, &block, &plan);
    for (int k = 0; k < ((Plan *)plan)->n; k++)
      if (((Plan *)plan)->at[k].matrices) return true;
  }
  return false;
}

enum {
  NEEDS_MATHFN = 1,
  NEEDS_MATH = 2,
  NEEDS_DOT = 4,
  NEEDS_TILE = 8,
  NEEDS_ATOMIC = 16,
  NEEDS_PRINT = 32,
  NEEDS_SPAN = 64,
  NEEDS_ALL = 127,
  IS_WIDE = 128,
  IS_UNFUSED = 256,
};

/* In the order of the text; a file is there when `needs` is 0, or a bit of it
 * is wanted. */
static const struct {
  const char *text;
  unsigned needs;
} support_files[] = {
    {text_cpu, 0},
    {text_mathfn, NEEDS_MATHFN},
    {text_vec, 0},
    {text_convert, 0},
    {text_mem, 0},
    {text_nest, 0},
    {text_math, NEEDS_MATH},
    {text_amx, NEEDS_DOT},
    {text_dot, NEEDS_DOT},
    {text_tile, NEEDS_TILE},
    {text_atomic, NEEDS_ATOMIC},
    {text_print, NEEDS_PRINT},
    {text_span, NEEDS_SPAN},
};

void cpu_emit_support(unsigned support, Buf *out) {
  buf_puts(out, "/* A kernel written by Nereid. Compile with -O2 -fwrapv "
                "-fno-strict-aliasing. */\n");
  if (support & IS_WIDE) buf_puts(out, "#define ND_WIDE 1\n");
  if (support & IS_UNFUSED)
    buf_puts(out, "#if defined(__clang__)\n#pragma clang fp contract(off)\n#else\n"
                  "#pragma GCC optimize(\"fp-contract=off\")\n#endif\n");
  for (size_t i = 0; i < sizeof support_files / sizeof *support_files; i++)
    if (!support_files[i].needs || (support & support_files[i].needs)) buf_puts(out, support_files[i].text);
}

bool cpu_emit_body(Func *f, bool may_overlap, CpuTextUse use, unsigned *support, Buf *out) {
  Context *cx = f->cx;
  Emit *e = NEW(cx->arena, Emit);
  e->f = f;
  e->cx = cx;
  e->arena = cx->arena;
  e->info_count = f->value_count;
  e->info = NEW_N(cx->arena, Info, f->value_count + 1);
  e->provenance = provenance_create(cx->arena, f);
  e->plans = map_create(cx->arena, false);
  e->out = out;
  e->use = use;
  e->waits = tile_waits(f);
  e->arguments = may_overlap ? ARGS_MAY_OVERLAP : ARGS_DISJOINT;
  plan_function(e);
  place_buffers(e);
  Uses u = {.e = e};
  tile_walk(f->body, note_use, &u);
  write_program(e, f);
  write_entry(e, u.atomic || e->waits);
  write_apart(e);
  *support = (f->no_fusion ? IS_UNFUSED : 0) | (u.wide > u.narrow ? IS_WIDE : 0) |
             (u.scalar_math || u.math ? NEEDS_MATHFN : 0) | (u.math ? NEEDS_MATH : 0) | (u.dot ? NEEDS_DOT : 0) |
             (u.tile || copies_turned(e) ? NEEDS_TILE : 0) | (u.atomic ? NEEDS_ATOMIC : 0) |
             (u.print ? NEEDS_PRINT : 0) | (e->apart.n ? NEEDS_SPAN : 0) | (use == CPU_TEXT_COMPILED ? NEEDS_ALL : 0);
  return e->apart.n > 0;
}

bool cpu_emit_c(Func *f, bool may_overlap, CpuTextUse use, Buf *out, size_t *headers) {
  Buf body = {.arena = f->cx->arena};
  unsigned support;
  bool differs = cpu_emit_body(f, may_overlap, use, &support, &body);
  cpu_emit_support(support, out);
  if (headers) *headers = use == CPU_TEXT_COMPILED ? out->n : 0;
  buf_write(out, body.at, body.n);
  return differs;
}
