/* What an instruction is written with: its guard and mnemonic, registers and constants (ptx.h). */
#include "gpu/ptx/ptx.h"

static const char *const type_names[] = {"pred", "b16", "b32", "b64"};
static const char *const prefixes[] = {"%p", "%h", "%r", "%rd"};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static char *digits(uint64_t v, char *end) {
  *--end = 0;
  do *--end = (char)('0' + v % 10);
  while (v /= 10);
  return end;
}

void ptx_put_int(Ptx *p, int64_t v) { put(p, ptx_int(v).s); }

Arg ptx_text(const char *s) {
  Arg a;
  snprintf(a.s, sizeof a.s, "%s", s);
  return a;
}

Arg ptx_int(int64_t v) {
  Arg a;
  char text[24], *at = digits(v < 0 ? -(uint64_t)v : (uint64_t)v, text + sizeof text);
  if (v < 0) *--at = '-';
  memcpy(a.s, at, (size_t)(text + sizeof text - at));
  return a;
}

Arg ptx_numbered(const char *prefix, int number) {
  Arg a;
  char text[16], *at = digits((uint64_t)number, text + sizeof text);
  size_t n = strlen(prefix);
  memcpy(a.s, prefix, n);
  memcpy(a.s + n, at, (size_t)(text + sizeof text - at));
  return a;
}

static Arg hex(const char *prefix, uint64_t v, int width) {
  Arg a;
  size_t n = strlen(prefix);
  memcpy(a.s, prefix, n);
  for (int i = 0; i < width; i++) a.s[n + (size_t)i] = "0123456789ABCDEF"[v >> 4 * (width - 1 - i) & 15];
  a.s[n + (size_t)width] = 0;
  return a;
}

void ptx_open(Ptx *p, const LaneOp *op, const char *mnemonic) {
  put(p, "\t");
  if (op && op->guard) {
    Arg guard = ptx_reg(p, op->guard);
    put(p, op->guard_not ? "@!" : "@");
    put(p, guard.s);
    put(p, " ");
  }
  put(p, mnemonic);
}

void ptx_args(Ptx *p, int n, const Arg *args) {
  for (int i = 0; i < n; i++) {
    put(p, i ? ", " : " ");
    put(p, args[i].s);
  }
  put(p, ";\n");
}

/* ---- registers and constants ------------------------------------------------------------------------------------- */

const char *ptx_type_name(LaneType t) { return type_names[t]; }
const char *ptx_prefix(LaneType t) { return prefixes[t]; }

bool ptx_const(const LaneValue *v, uint64_t *bits) {
  if (!v->def || v->def->code != LANE_CONST) return false;
  *bits = (uint64_t)v->def->imm;
  return true;
}

const LaneValue *ptx_value(const Ptx *p, const LaneValue *v) {
  while (p->same[v->id]) v = p->same[v->id];
  return v;
}

Arg ptx_fresh(Ptx *p, LaneType t) { return ptx_numbered(prefixes[t], ++p->count[t]); }

void ptx_move(Ptx *p, LaneType t, const LaneOp *guard, Arg to, Arg from) {
  ptx_open(p, guard, "mov.");
  put(p, type_names[t]);
  ptx_args_of(p, to, from);
}

static Arg immediate(LaneKind k, uint64_t bits) {
  switch (k) {
    case LK_F32: return hex("0f", (uint32_t)bits, 8);
    case LK_F64: return hex("0d", bits, 16);
    case LK_PRED: return ptx_int(bits & 1);
    case LK_B32: return (uint32_t)bits < 65536 ? ptx_int((int64_t)(uint32_t)bits) : hex("0x", (uint32_t)bits, 8);
    case LK_B64: return bits < 65536 ? ptx_int((int64_t)bits) : hex("0x", bits, 16);
    case LK_U32: return ptx_int((uint32_t)bits);
    case LK_S64: return ptx_int((int64_t)bits);
    case LK_U64: return bits >> 63 ? hex("0x", bits, 16) : ptx_int((int64_t)bits);
    default: return lane_kind_info[k].type == LT_B16 ? hex("0x", (uint16_t)bits, 4) : ptx_int((int32_t)bits);
  }
}

/* Set at the kernel's beginning, so that every use has it. */
Arg ptx_const_reg(Ptx *p, LaneType t, uint64_t bits) {
  Arg r = ptx_fresh(p, t);
  Buf *before = p->out;
  p->out = &p->entry;
  ptx_move(p, t, NULL, r, immediate(lane_bits_kind(t), bits));
  p->out = before;
  return r;
}

Arg ptx_reg(Ptx *p, const LaneValue *v) {
  v = ptx_value(p, v);
  int *number = &p->number[v->id];
  uint64_t bits;
  if (!*number) {
    if (ptx_const(v, &bits)) ptx_const_reg(p, v->type, bits), *number = p->count[v->type];
    else *number = ++p->count[v->type];
  }
  return ptx_numbered(prefixes[v->type], *number);
}

Arg ptx_arg(Ptx *p, const LaneValue *v, LaneKind k) {
  uint64_t bits;
  v = ptx_value(p, v);
  bool takes_immediates = lane_kind_info[k].type != LT_B16 && k != LK_F16X2 && k != LK_BF16X2;
  if (k == LK_B16) takes_immediates = true;
  if (takes_immediates && ptx_const(v, &bits)) return immediate(k, bits);
  return ptx_reg(p, v);
}
