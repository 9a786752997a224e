/* lane IR -> PTX text: the module, the kernel's frame, and which file prints which operation. ptx.h says how values
 * become registers. The forms of instructions and what each target takes are those of the PTX
 * ISA 9.0, tried with its assembler.
 *
 *     .version 8.1
 *     .target sm_90a
 *     .address_size 64
 *     .extern .shared .align 16 .b8 $shared[];
 *     .visible .entry add_kernel(
 *     	.param .u64 .ptr .global .align 16 p0,
 *     	.param .u32 p1)
 *     .reqntid 128
 *     {
 *     	.reg .b32 %r<9>;
 *     	ld.param.b64 %rd1, [p0];
 *     	mov.b32 %r1, %tid.x;
 *     	...
 *
 * The body is printed first, since only then the numbers of registers are known.
 */
#include "gpu/ptx/ptx.h"

/* ---- places in the source ---------------------------------------------------------------------------------------- */

static int source_number(Ptx *p, const Source *s) {
  for (int i = 0; i < p->sources.n; i++)
    if (p->sources.at[i] == s) return i + 1;
  vec_push(p->cx->arena, &p->sources, s);
  return p->sources.n;
}

/* PTX is ASCII, comments too. */
static char printable(char c) { return c >= 0x20 && c < 0x7f ? c : c == '\t' ? ' ' : '?'; }

/* ".loc 1 14 4 // x = tl.load(...)" where the line changes. */
static void put_line(Ptx *p, const Span *span) {
  if (!span || !span->source || span->line < 1) return;
  if (p->span && p->span->source == span->source && p->span->line == span->line) return;
  p->span = span;
  const Source *s = span->source;
  put(p, "\t.loc ");
  ptx_put_int(p, source_number(p, s));
  put(p, " ");
  ptx_put_int(p, span->line);
  put(p, " ");
  ptx_put_int(p, span->col + 1);
  if (span->line <= s->line_count) {
    const char *text = s->text + s->line_start[span->line - 1];
    text += strspn(text, " \t");
    put(p, " // ");
    for (size_t i = 0; text[i] && !strchr("\r\n", text[i]) && i < 120; i++) buf_putc(p->out, printable(text[i]));
  }
  put(p, "\n");
}

/* ---- operations that need no file of their own ------------------------------------------------------------------- */

static bool is_map(const LaneFunc *f, int param) { return param >= f->param_count - f->maps; }

static void ptx_param(Ptx *p, const LaneValue *to, int i) {
  if (is_map(p->f, i)) {
    ptx_map_param(p, to, i);
    return;
  }
  const Type *t = p->f->param_types[i];
  Arg r = ptx_reg(p, to), from = ptx_numbered("[p", i);
  strcat(from.s, "]");
  if (to->type == LT_PRED) {
    Arg byte = ptx_fresh(p, LT_B32);
    ptx_open(p, NULL, "ld.param.u8");
    ptx_args_of(p, byte, from);
    ptx_open(p, NULL, "setp.ne.b32");
    ptx_args_of(p, r, byte, ptx_int(0));
    return;
  }
  LaneKind k = t ? lane_kind_of(t) : LK_U64;
  ptx_open(p, NULL, "ld.param.");
  put(p, lane_kind_info[k].bits < 32 && to->type == LT_B32 ? lane_kind_info[k].name : ptx_type_name(to->type));
  ptx_args_of(p, r, from);
}

static void ptx_special(Ptx *p, const LaneOp *op) {
  if (op->special >= SP_CLUSTER_RANK && p->target->sm < 90)
    diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no clusters", p->target->name);
  ptx_open(p, NULL, "mov.");
  put(p, ptx_type_name(op->out[0]->type));
  Arg name = ptx_text("%");
  strcat(name.s, op->special == SP_LANE ? "laneid" : lane_special_names[op->special]);
  ptx_args_of(p, ptx_reg(p, op->out[0]), name);
}

static void ptx_shared(Ptx *p, const LaneOp *op) {
  int offset = p->f->buffers.at[op->buffer].offset;
  Arg at = offset ? ptx_numbered("$shared+", offset) : ptx_text("$shared");
  ptx_move(p, LT_B32, NULL, ptx_reg(p, op->out[0]), at);
}

static void ptx_pack(Ptx *p, const LaneOp *op) {
  Arg low = ptx_reg(p, op->in[0]), high = ptx_reg(p, op->in[1]), to = ptx_reg(p, op->out[0]);
  ptx_open(p, NULL, "mov.");
  put(p, ptx_type_name(op->out[0]->type));
  put(p, " ");
  put(p, to.s);
  put(p, ", {");
  put(p, low.s);
  put(p, ", ");
  put(p, high.s);
  put(p, "};\n");
}

static void ptx_unpack(Ptx *p, const LaneOp *op) {
  Arg from = ptx_reg(p, op->in[0]), low = ptx_reg(p, op->out[0]), high = ptx_reg(p, op->out[1]);
  ptx_open(p, NULL, "mov.");
  put(p, ptx_type_name(op->in[0]->type));
  put(p, " {");
  put(p, low.s);
  put(p, ", ");
  put(p, high.s);
  put(p, "}, ");
  put(p, from.s);
  put(p, ";\n");
}

static void print_param(Ptx *p, const LaneOp *op) { ptx_param(p, op->out[0], (int)op->imm); }

static void print_move(Ptx *p, const LaneOp *op) {
  ptx_move(p, op->out[0]->type, NULL, ptx_reg(p, op->out[0]), ptx_arg(p, op->in[0], lane_bits_kind(op->in[0]->type)));
}

static void print_wait_group(Ptx *p, const LaneOp *op) {
  ptx_open(p, NULL, "cp.async.wait_group");
  ptx_args_of(p, ptx_int(op->imm));
}

static void print_exit(Ptx *p, const LaneOp *op) {
  ptx_open(p, op, "exit");
  ptx_args(p, 0, NULL);
}

static void print_trap(Ptx *p, const LaneOp *op) {
  ptx_open(p, op, "trap");
  ptx_args(p, 0, NULL);
}

static void print_nothing(Ptx *p, const LaneOp *op) {}

/* What prints an operation: a text of its own, or a function; arithmetic where there is neither. */
static const struct Printer {
  void (*print)(Ptx *p, const LaneOp *op);
  const char *text;
} printers[LANE_COUNT] = {
    [LANE_PARAM] = {print_param},
    [LANE_SPECIAL] = {ptx_special},
    [LANE_SHARED] = {ptx_shared},
    [LANE_SHARED_READ] = {print_nothing},
    [LANE_PACK] = {ptx_pack},
    [LANE_UNPACK] = {ptx_unpack},
    [LANE_MOVE] = {print_move},
    [LANE_SETP] = {ptx_setp},
    [LANE_SELECT] = {ptx_select},
    [LANE_CVT] = {ptx_cvt},
    [LANE_CVT2] = {ptx_cvt2},
    [LANE_CVT1X2] = {ptx_cvt1x2},
    [LANE_LD] = {ptx_load},
    [LANE_ST] = {ptx_store},
    [LANE_ATOM] = {ptx_atomic},
    [LANE_SHFL] = {ptx_shuffle},
    [LANE_VOTE] = {ptx_vote},
    [LANE_REDUX] = {ptx_redux},
    [LANE_LDMATRIX] = {ptx_ldmatrix},
    [LANE_STMATRIX] = {ptx_stmatrix},
    [LANE_MMA] = {ptx_mma},
    [LANE_WGMMA] = {ptx_wgmma},
    [LANE_WGMMA_WAIT] = {ptx_wgmma_wait},
    [LANE_WGMMA_FENCE] = {.text = "wgmma.fence.sync.aligned"},
    [LANE_WGMMA_COMMIT] = {.text = "wgmma.commit_group.sync.aligned"},
    [LANE_FENCE_PROXY] = {.text = "fence.proxy.async.shared::cta"},
    [LANE_CP_ASYNC] = {ptx_cp_async},
    [LANE_CP_COMMIT] = {.text = "cp.async.commit_group"},
    [LANE_CP_WAIT] = {print_wait_group},
    [LANE_MBAR_INIT] = {ptx_mbar},
    [LANE_MBAR_ARRIVE] = {ptx_mbar},
    [LANE_MBAR_EXPECT] = {ptx_mbar},
    [LANE_MBAR_WAIT] = {ptx_mbar},
    [LANE_TENSOR_LOAD] = {ptx_tensor},
    [LANE_TENSOR_STORE] = {ptx_tensor},
    [LANE_TENSOR_RED] = {ptx_tensor},
    [LANE_FENCE_MBAR] = {ptx_bulk},
    [LANE_BULK_COMMIT] = {ptx_bulk},
    [LANE_BULK_WAIT] = {ptx_bulk},
    [LANE_PREFETCH_MAP] = {ptx_bulk},
    [LANE_ELECT] = {ptx_bulk},
    [LANE_SETMAXNREG] = {ptx_bulk},
    [LANE_TMEM_MMA] = {ptx_tmem},
    [LANE_TMEM_COMMIT] = {ptx_tmem},
    [LANE_TMEM_ALLOC] = {ptx_tmem},
    [LANE_TMEM_RELINQUISH] = {ptx_tmem},
    [LANE_TMEM_DEALLOC] = {ptx_tmem},
    [LANE_TMEM_LD] = {ptx_tmem},
    [LANE_TMEM_ST] = {ptx_tmem},
    [LANE_TMEM_WAIT_LD] = {ptx_tmem},
    [LANE_TMEM_WAIT_ST] = {ptx_tmem},
    [LANE_TMEM_FENCE_BEFORE] = {ptx_tmem},
    [LANE_TMEM_FENCE_AFTER] = {ptx_tmem},
    [LANE_BARRIER] = {ptx_barrier},
    [LANE_BARRIER_ARRIVE] = {ptx_barrier},
    [LANE_CLUSTER_BARRIER] = {ptx_bulk},
    [LANE_FENCE] = {ptx_fence},
    [LANE_GRID_WAIT] = {.text = "griddepcontrol.wait"},
    [LANE_FOR] = {ptx_for},
    [LANE_WHILE] = {ptx_while},
    [LANE_IF] = {ptx_if},
    [LANE_EXIT] = {print_exit},
    [LANE_TRAP] = {print_trap},
    [LANE_RECORD_OPEN] = {ptx_record},
    [LANE_RECORD] = {ptx_record},
    [LANE_RECORD_CLOSE] = {ptx_record},
    [LANE_ASM] = {ptx_asm},
};

static void print_op(Ptx *p, const LaneOp *op) {
  if (op->code == LANE_CONST) return;
  if (p->lines) put_line(p, op->span);
  const struct Printer *printer = &printers[op->code];
  if (printer->text) put(p, "\t"), put(p, printer->text), put(p, ";\n");
  else if (printer->print) printer->print(p, op);
  else ptx_arith(p, op);
  p->tensor_products += op->code == LANE_MMA || op->code == LANE_WGMMA || op->code == LANE_TMEM_MMA;
  p->in_tmem |= op->code == LANE_TMEM_MMA;
  p->loads += op->code == LANE_LD && op->space == SPACE_GLOBAL;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

/* Letters, digits and _ stay; a first digit cannot be, in Python either. Opcodes may be names: the assembler tells them
 * apart by place. */
const char *gpu_entry_name(Context *cx, const LaneFunc *f) {
  char *name = arena_strdup(cx->arena, f->name);
  for (char *c = name; *c; c++)
    if (!strchr("_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *c)) *c = '_';
  return name;
}

static const char *param_type(const Type *t) {
  if (!t || t->ptr) return "u64";
  switch (dtype_bits(t->dtype)) {
    case 1:
    case 8: return "u8";
    case 16: return "u16";
    case 32: return "u32";
    default: return "u64";
  }
}

static void put_params(Buf *out, const LaneFunc *f) {
  for (int i = 0; i < f->param_count; i++) {
    const Type *t = f->param_types[i];
    if (is_map(f, i)) {
      buf_printf(out, "%s\n\t.param .align 64 .b8 p%d[128]", i ? "," : "", i);
      continue;
    }
    buf_printf(out, "%s\n\t.param .%s ", i ? "," : "", param_type(t));
    if (t && t->ptr) buf_printf(out, ".ptr .global .align %d ", f->param_divisible[i] >= 16 ? 16 : 1);
    buf_printf(out, "p%d", i);
  }
}

static void put_text(Buf *out, const Buf *text) { buf_write(out, text->at ? text->at : "", text->n); }

static void put_path(Buf *out, const char *path) {
  for (; *path; path++) {
    if (*path == '"' || *path == '\\') buf_putc(out, '\\');
    buf_putc(out, printable(*path));
  }
}

/* How many blocks have so many registers a thread, or what the kernel needs at once if that is more, and at most so
 * many warps. */
static int blocks_with(const Ptx *p, int registers, int warps) {
  int needed = lane_pressure(p->f), most = warps / p->f->num_warps;
  if (registers < needed) registers = needed;
  int fit = GPU_REGISTERS / (32 * p->f->num_warps) / registers, blocks = most < fit ? most : fit;
  return blocks ? blocks : 1;
}

/* The assembler has as many threads resident as there can be, and gives each so few registers (32) that its loads wait
 * for each other two by two. Half of the threads with 16 loads under way keep memory busier: of a sum over rows of odd
 * length, by 4 bytes, 2048 threads have 16 KiB under way on a multiprocessor, and 1280 have 80; what memory takes in
 * its latency is 30. What the kernel does beside needs its registers, too. */
static int blocks_of_stream(const Ptx *p) { return blocks_with(p, p->streamed, p->target->machine.max_warps / 2); }

/* Of a large tile that is loaded in each iteration, beside the rest: as many blocks as make `resident_warps`, or as its
 * registers allow. */
static int blocks_of_tile(const Ptx *p) { return blocks_with(p, p->tile_streamed, p->target->budgets->resident_warps); }

/* Left alone, ptxas takes as few registers as it can, and puts loads one after the other, each waited for, where they
 * could be under way together. Told how many blocks are to be resident it takes what registers those leave. Of products
 * that load into registers: as many blocks as make the target's `resident_warps`, fewer where that leaves too few
 * registers; 0: it is left alone. */
enum { LEAST_RESIDENT = 3 }; /* blocks: one waits at a barrier, one for memory, one works */

static int bound_blocks(const Ptx *p) {
  const LaneFunc *f = p->f;
  int most = p->target->budgets->resident_warps / f->num_warps;
  if (!p->tensor_products || p->in_tmem || !p->loads || f->max_registers) return 0;
  if (most < LEAST_RESIDENT) most = LEAST_RESIDENT;
  int blocks = gpu_occupancy(p->target, 0, f->shared_bytes, f->num_warps).blocks, needed = lane_pressure(f);
  if (blocks > most) blocks = most;
  while (blocks > 1 && needed > GPU_REGISTERS / (32 * f->num_warps * blocks)) blocks--;
  return blocks;
}

static void put_bounds(Buf *out, Ptx *p) {
  const LaneFunc *f = p->f;
  p->said.threads = 32 * f->num_warps;
  p->said.pressure = lane_pressure(f);
  buf_printf(out, ".reqntid %d\n", p->said.threads);
  if (f->max_registers) buf_printf(out, ".maxnreg %d\n", f->max_registers);
  int known = p->one_block ? 1 : p->streamed && !p->tensor_products ? blocks_of_stream(p) : 0;
  if (!known && p->tile_streamed && !p->tensor_products && !f->max_registers) known = blocks_of_tile(p);
  if (known) {
    buf_printf(out, ".minnctapersm %d\n", known);
    return;
  }
  p->said.bounds_end = out->n;
  int blocks = bound_blocks(p);
  if (blocks) buf_printf(out, ".minnctapersm %d\n", blocks);
  p->said.bound = out->n - p->said.bounds_end;
}

static void put_module(Buf *out, Ptx *p) {
  const LaneFunc *f = p->f;
  buf_printf(out, ".version %s\n.target %s\n.address_size 64\n", p->version, p->target->name);
  for (int i = 0; i < p->sources.n; i++) {
    buf_printf(out, ".file %d \"", i + 1);
    put_path(out, p->sources.at[i]->path);
    buf_puts(out, "\"\n");
  }
  if (f->buffers.n) {
    int align = 16;
    for (int i = 0; i < f->buffers.n; i++)
      if (f->buffers.at[i].align > align) align = f->buffers.at[i].align;
    buf_printf(out, ".extern .shared .align %d .b8 $shared[];\n", align);
  }
  buf_printf(out, ".visible .entry %s(", gpu_entry_name(f->cx, f));
  put_params(out, f);
  buf_puts(out, ")\n");
  put_bounds(out, p);
  buf_puts(out, "{\n");
  for (int i = 0; i < 4; i++)
    if (p->count[i])
      buf_printf(out, "\t.reg .%s %s<%d>;\n", ptx_type_name((LaneType)i), ptx_prefix((LaneType)i), p->count[i] + 1);
  if (p->records) ptx_record_registers(out);
  put_text(out, &p->entry);
  put_text(out, &p->body);
  buf_puts(out, "\tret;\n}\n");
  if (p->entry.failed || p->body.failed) out->failed = true;
}

GpuPtx gpu_print_ptx(Buf *out, const LaneFunc *f, const GpuTarget *t, bool lines) {
  Ptx *p = NEW(f->cx->arena, Ptx);
  *p = (Ptx){.cx = f->cx, .f = f, .target = t, .version = t->ptx_version, .lines = lines, .print_op = print_op};
  p->number = NEW_N(f->cx->arena, int, f->value_count + 1);
  p->same = NEW_N(f->cx->arena, const LaneValue *, f->value_count + 1);
  volatile bool done = false;
  if (context_try(f->cx)) {
    ptx_share(p);
    p->out = &p->entry;
    for (int i = 0; i < f->param_count; i++) ptx_param(p, f->params[i], i);
    p->out = &p->body;
    ptx_block(p, f->body);
    put_module(out, p);
    if (p->tensor_products) p->said.room = gpu_occupancy(t, 0, f->shared_bytes, f->num_warps).blocks;
    p->said.has_lines = p->sources.n > 0;
    p->said.is_product = p->sums >= t->budgets->many_sums && p->barriers && !p->shuffles;
    context_end_try(f->cx);
    done = true;
  }
  buf_destroy(&p->entry);
  buf_destroy(&p->body);
  if (!done) diag_fail_now(f->cx);
  return p->said;
}
