/* unwind: a stack, from within a signal's handler, that can be in any state.
 *
 * The rules are those that exceptions use: .eh_frame, found by address through its sorted index (.eh_frame_hdr), which
 * glibc from 2.35 on hands out without a lock (_dl_find_object). For each frame:
 *
 *     address ─▶ FDE ─▶ its little program, run up to the address ─▶ rules: where the caller's registers are
 *             ─▶ the caller
 *
 * (DWARF 5, section 6.4; the Linux Standard Base says how .eh_frame differs.) libgcc's unwinder follows the same rules
 * but believes the stack; this one reads nothing of it without having asked the kernel, page by page, whether it can be
 * read: a damaged stack ends the walk, not the program.
 *
 * Code that was made at run time has no rules. CPython's trampolines, which are there to be seen in stacks, are undone
 * by reading what is left of them to execute (add to sp, pop, ret); for other code the frame pointer is tried.
 */
#define _GNU_SOURCE
#include "prof/record/unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 35)
#define HAS_FIND_OBJECT
#endif
#endif
#ifndef HAS_FIND_OBJECT
struct dl_find_object {
  void *dlfo_map_start, *dlfo_map_end, *dlfo_eh_frame;
};
int _dl_find_object(void *address, struct dl_find_object *out);
#endif
#pragma weak _dl_find_object /* without it, frame pointers are all there is */

#if defined(__x86_64__)
enum { REGISTERS = 17, SP = 7, FP = 6, LINK = 16 }; /* DWARF's numbers; LINK: the column of the return address */
#elif defined(__aarch64__)
enum { REGISTERS = 33, SP = 31, FP = 29, LINK = 30 };
#else
enum { REGISTERS = 1, SP = 0, FP = 0, LINK = 0 };
#endif
enum { PAGES = 8, STATES = 4, EXPRESSION_STACK = 16 };

typedef struct Walk {
  uint64_t registers[REGISTERS];
  uint64_t pc;
  bool exact;            /* pc is an instruction's, not a return address */
  uint64_t pages[PAGES]; /* that were found to be readable */
  int page_count;
} Walk;

/* ---- memory that may not be there -------------------------------------------------------------------------------- */

static bool readable(Walk *w, uint64_t address) {
  uint64_t page = address & ~UINT64_C(4095);
  for (int i = 0; i < PAGES; i++)
    if (i < w->page_count && w->pages[i] == page) return true;
  /* A call that fails in any case (there is no such `how`), but first copies a mask from there: EFAULT, or EINVAL. */
  if (!page || syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno == EFAULT) return false;
  w->pages[w->page_count < PAGES ? w->page_count++ : (int)(page >> 12 & (PAGES - 1))] = page;
  return true;
}

/* A walk reads between variables: AddressSanitizer is not to watch. */
__attribute__((no_sanitize("address"))) static bool load(Walk *w, uint64_t address, uint64_t *value) {
  if (address & 7 || !readable(w, address)) return false;
  *value = *(const volatile uint64_t *)(uintptr_t)address;
  return true;
}

/* ---- reading .eh_frame ------------------------------------------------------------------------------------------- */

typedef struct Reader {
  const uint8_t *at, *end;
  bool bad;
} Reader;

static bool take(Reader *r, void *out, size_t n) {
  if ((size_t)(r->end - r->at) < n) r->bad = true, r->at = r->end, memset(out, 0, n);
  else memcpy(out, r->at, n), r->at += n;
  return !r->bad;
}
static uint8_t take8(Reader *r) {
  uint8_t v;
  return take(r, &v, 1), v;
}
static uint16_t take16(Reader *r) {
  uint16_t v;
  return take(r, &v, 2), v;
}
static uint32_t take32(Reader *r) {
  uint32_t v;
  return take(r, &v, 4), v;
}
static uint64_t take64(Reader *r) {
  uint64_t v;
  return take(r, &v, 8), v;
}
static uint64_t take_leb(Reader *r, bool is_signed) {
  uint64_t v = 0;
  int shift = 0;
  uint8_t byte;
  do {
    byte = take8(r);
    if (shift < 64) v |= (uint64_t)(byte & 127) << shift;
    shift += 7;
  } while (byte & 128 && !r->bad);
  if (is_signed && shift < 64 && byte & 64) v |= ~UINT64_C(0) << shift;
  return v;
}
static uint64_t unsigned_leb(Reader *r) { return take_leb(r, false); }
static int64_t signed_leb(Reader *r) { return (int64_t)take_leb(r, true); }

/* DW_EH_PE: the low four bits say the size, the next three what it is relative to. */
static uint64_t take_pointer(Reader *r, uint8_t encoding) {
  uint64_t here = (uint64_t)(uintptr_t)r->at, v;
  switch (encoding & 15) {
    case 0:
    case 4:
    case 12: v = take64(r); break;
    case 1: v = unsigned_leb(r); break;
    case 2: v = take16(r); break;
    case 3: v = take32(r); break;
    case 9: v = (uint64_t)signed_leb(r); break;
    case 10: v = (uint64_t)(int16_t)take16(r); break;
    case 11: v = (uint64_t)(int32_t)take32(r); break;
    default: return r->bad = true, 0;
  }
  return (encoding & 0x70) == 0x10 ? v + here : v;
}

typedef struct Entry { /* an FDE with its CIE */
  uint64_t start, size, code_step;
  int64_t data_step;
  uint64_t link; /* column of the return address */
  bool is_signal;
  Reader common, own; /* instructions */
} Entry;

/* The content of the CIE or FDE at an address within the object's mapping. */
static bool open_entry(const struct dl_find_object *o, uint64_t at, Reader *r) {
  uint64_t low = (uint64_t)(uintptr_t)o->dlfo_map_start, high = (uint64_t)(uintptr_t)o->dlfo_map_end;
  if (at < low || at + 8 > high || at & 3) return false;
  *r = (Reader){(const uint8_t *)(uintptr_t)at, (const uint8_t *)(uintptr_t)high, false};
  uint32_t length = take32(r);
  /* 0xffffffff: a 64-bit length, which no table of this size needs */
  if (length < 4 || length > high - at - 4) return false;
  r->end = r->at + length;
  return true;
}

static bool read_entry(const struct dl_find_object *o, uint64_t at, Entry *e) {
  Reader fde, cie;
  if (!open_entry(o, at, &fde)) return false;
  uint64_t here = (uint64_t)(uintptr_t)fde.at;
  uint32_t back = take32(&fde);
  if (!back || !open_entry(o, here - back, &cie) || take32(&cie)) return false;
  uint8_t version = take8(&cie), encoding = 0;
  const char *letters = (const char *)cie.at;
  while (take8(&cie)) {}
  if (cie.bad) return false; /* the letters do not end */
  if (version >= 4) take16(&cie);
  e->code_step = unsigned_leb(&cie), e->data_step = signed_leb(&cie);
  e->link = version == 1 ? take8(&cie) : unsigned_leb(&cie);
  e->is_signal = false;
  bool has_more = letters[0] == 'z';
  if (has_more) {
    uint64_t n = unsigned_leb(&cie);
    if (n > (uint64_t)(cie.end - cie.at)) return false;
    Reader more = {cie.at, cie.at + n, false};
    cie.at += n;
    for (const char *l = letters + 1; *l; l++) {
      if (*l == 'R') encoding = take8(&more);
      else if (*l == 'L') take8(&more);
      else if (*l == 'S') e->is_signal = true;
      else if (*l == 'P') {
        uint8_t p = take8(&more);
        take_pointer(&more, p);
      } else if (*l != 'B') break;
    }
  } else if (letters[0]) return false;
  e->start = take_pointer(&fde, encoding);
  e->size = take_pointer(&fde, encoding & 15);
  if (has_more) {
    uint64_t n = unsigned_leb(&fde);
    if (n > (uint64_t)(fde.end - fde.at)) return false;
    fde.at += n;
  }
  e->common = cie, e->own = fde;
  return !cie.bad && !fde.bad && e->link < REGISTERS;
}

static bool find_entry(uint64_t pc, Entry *e) {
  struct dl_find_object o;
  if (!_dl_find_object || _dl_find_object((void *)(uintptr_t)pc, &o) || !o.dlfo_eh_frame) return false;
  const uint8_t *header = o.dlfo_eh_frame;
  uint64_t base = (uint64_t)(uintptr_t)header, end = (uint64_t)(uintptr_t)o.dlfo_map_end;
  /* What every linker writes: rows of 4 bytes and 4 bytes, sorted, relative to the header. */
  if (end - base < 12 || header[0] != 1 || header[2] != 0x03 || header[3] != 0x3b) return false;
  Reader r = {header + 4, o.dlfo_map_end, false};
  take_pointer(&r, header[1]);
  uint32_t count = take32(&r);
  if (r.bad || !count || count > (uint64_t)(r.end - r.at) / 8) return false;
  const uint8_t *table = r.at;
  int32_t wanted = (int32_t)(int64_t)(pc - base), row[2];
  uint32_t low = 0, high = count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    memcpy(row, table + 8 * (size_t)middle, 8);
    if (row[0] <= wanted) low = middle;
    else high = middle;
  }
  memcpy(row, table + 8 * (size_t)low, 8);
  return row[0] <= wanted && read_entry(&o, base + (uint64_t)(int64_t)row[1], e) && pc - e->start < e->size;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

typedef enum { SAME, UNDEFINED, AT_OFFSET, IS_OFFSET, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION } RuleKind;
/* a block: its length, then its bytes */
typedef struct Rule {
  uint8_t kind;
  union {
    int64_t offset;
    const uint8_t *block;
  };
} Rule;
typedef struct Rules {
  Rule frame, of[REGISTERS];
  uint64_t frame_register;
} Rules;

static const uint8_t *take_block(Reader *r) {
  const uint8_t *at = r->at;
  uint64_t n = unsigned_leb(r);
  if (n > (uint64_t)(r->end - r->at)) r->bad = true, r->at = r->end;
  else r->at += n;
  return at;
}

static void set(Rules *rules, uint64_t number, RuleKind kind, int64_t offset) {
  if (number < REGISTERS) rules->of[number] = (Rule){(uint8_t)kind, {offset}};
}
static void set_block(Rules *rules, uint64_t number, RuleKind kind, const uint8_t *block) {
  if (number < REGISTERS) rules->of[number] = (Rule){.kind = (uint8_t)kind, .block = block};
}

/* An offset in an entry's units; whatever a damaged one says wraps. */
static int64_t scaled(uint64_t n, const Entry *e) { return (int64_t)(n * (uint64_t)e->data_step); }

/* Runs instructions up to pc. false: there is one that is not known. */
static bool run(Reader r, const Entry *e, uint64_t pc, Rules *rules, const Rules *initial) {
  Rules kept[STATES];
  int kept_count = 0;
  uint64_t at = e->start, number;
  while (r.at < r.end && !r.bad) {
    uint8_t op = take8(&r), low = op & 63;
    switch (op >> 6) {
      case 1: at += low * e->code_step; goto moved;
      case 2: set(rules, low, AT_OFFSET, scaled(unsigned_leb(&r), e)); continue;
      case 3:
        if (low < REGISTERS) rules->of[low] = initial->of[low];
        continue;
    }
    switch (op) {
      case 0x00: continue; /* nop */
      case 0x02: at += take8(&r) * e->code_step; goto moved;
      case 0x03: at += take16(&r) * e->code_step; goto moved;
      case 0x04: at += take32(&r) * e->code_step; goto moved;
      case 0x05: number = unsigned_leb(&r), set(rules, number, AT_OFFSET, scaled(unsigned_leb(&r), e)); continue;
      case 0x06:
        number = unsigned_leb(&r);
        if (number < REGISTERS) rules->of[number] = initial->of[number];
        continue;
      case 0x07: set(rules, unsigned_leb(&r), UNDEFINED, 0); continue;
      case 0x08: set(rules, unsigned_leb(&r), SAME, 0); continue;
      case 0x09: number = unsigned_leb(&r), set(rules, number, IN_REGISTER, (int64_t)unsigned_leb(&r)); continue;
      case 0x0a:
        if (kept_count == STATES) return false;
        kept[kept_count++] = *rules;
        continue; /* remember */
      case 0x0b:
        if (!kept_count) return false;
        *rules = kept[--kept_count];
        continue; /* restore */
      case 0x0c:
        rules->frame_register = unsigned_leb(&r), rules->frame = (Rule){IS_OFFSET, {(int64_t)unsigned_leb(&r)}};
        continue;
      case 0x0d: rules->frame_register = unsigned_leb(&r); continue;
      case 0x0e: rules->frame = (Rule){IS_OFFSET, {(int64_t)unsigned_leb(&r)}}; continue;
      case 0x0f: rules->frame = (Rule){.kind = IS_EXPRESSION, .block = take_block(&r)}; continue;
      case 0x10: number = unsigned_leb(&r), set_block(rules, number, AT_EXPRESSION, take_block(&r)); continue;
      case 0x11:
        number = unsigned_leb(&r), set(rules, number, AT_OFFSET, scaled((uint64_t)signed_leb(&r), e));
        continue;
      case 0x12:
        rules->frame_register = unsigned_leb(&r),
        rules->frame = (Rule){IS_OFFSET, {scaled((uint64_t)signed_leb(&r), e)}};
        continue;
      case 0x13: rules->frame = (Rule){IS_OFFSET, {scaled((uint64_t)signed_leb(&r), e)}}; continue;
      case 0x14: number = unsigned_leb(&r), set(rules, number, IS_OFFSET, scaled(unsigned_leb(&r), e)); continue;
      case 0x15:
        number = unsigned_leb(&r), set(rules, number, IS_OFFSET, scaled((uint64_t)signed_leb(&r), e));
        continue;
      case 0x16: number = unsigned_leb(&r), set_block(rules, number, IS_EXPRESSION, take_block(&r)); continue;
      /* of AArch64: return addresses are signed; they are stripped in any case */
      case 0x2d: continue;
      case 0x2e: unsigned_leb(&r); continue; /* bytes of arguments */
      default: return false;
    }
  moved:
    if (at > pc) break;
  }
  return !r.bad;
}

/* DWARF's stack machine, as far as PLTs and signal frames need it. */
static bool evaluate(Walk *w, const uint8_t *block, bool has_first, uint64_t first, uint64_t *result) {
  Reader r = {block, block + 16, false}; /* the length takes few bytes, and was checked when it was read */
  uint64_t n = unsigned_leb(&r), s[EXPRESSION_STACK], number;
  int d = 0;
  r.end = r.at + n;
  if (has_first) s[d++] = first;
  while (r.at < r.end && !r.bad) {
    uint8_t op = take8(&r);
    if (d == EXPRESSION_STACK) return false;
    if (op >= 0x30 && op <= 0x4f) {
      s[d++] = op - 0x30u;
      continue;
    }
    if ((op >= 0x70 && op <= 0x8f) || op == 0x92) { /* a register and an offset */
      number = op == 0x92 ? unsigned_leb(&r) : op - 0x70u;
      int64_t offset = signed_leb(&r);
      if (number >= REGISTERS) return false;
      s[d++] = (number == LINK && LINK == 16 ? w->pc : w->registers[number]) + (uint64_t)offset;
      continue;
    }
    switch (op) {
      case 0x03: s[d++] = take64(&r); continue;
      case 0x08: s[d++] = take8(&r); continue;
      case 0x09: s[d++] = (uint64_t)(int8_t)take8(&r); continue;
      case 0x0a: s[d++] = take16(&r); continue;
      case 0x0b: s[d++] = (uint64_t)(int16_t)take16(&r); continue;
      case 0x0c: s[d++] = take32(&r); continue;
      case 0x0d: s[d++] = (uint64_t)(int32_t)take32(&r); continue;
      case 0x10: s[d++] = unsigned_leb(&r); continue;
      case 0x11: s[d++] = (uint64_t)signed_leb(&r); continue;
    }
    if (d < 1) return false;
    switch (op) {
      case 0x06:
        if (!load(w, s[d - 1], &s[d - 1])) return false;
        continue;
      case 0x12: s[d] = s[d - 1], d++; continue;
      case 0x13: d--; continue;
      case 0x1f: s[d - 1] = -s[d - 1]; continue;
      case 0x23: s[d - 1] += unsigned_leb(&r); continue;
    }
    if (d < 2) return false;
    uint64_t b = s[--d], a = s[d - 1];
    switch (op) {
      case 0x16: s[d - 1] = b, s[d++] = a; continue;
      case 0x1a: s[d - 1] = a & b; continue;
      case 0x1c: s[d - 1] = a - b; continue;
      case 0x1e: s[d - 1] = a * b; continue;
      case 0x21: s[d - 1] = a | b; continue;
      case 0x22: s[d - 1] = a + b; continue;
      case 0x24: s[d - 1] = b < 64 ? a << b : 0; continue;
      case 0x25: s[d - 1] = b < 64 ? a >> b : 0; continue;
      case 0x29: s[d - 1] = a == b; continue;
      case 0x2a: s[d - 1] = (int64_t)a >= (int64_t)b; continue;
      case 0x2b: s[d - 1] = (int64_t)a > (int64_t)b; continue;
      case 0x2c: s[d - 1] = (int64_t)a <= (int64_t)b; continue;
      case 0x2d: s[d - 1] = (int64_t)a < (int64_t)b; continue;
      case 0x2e: s[d - 1] = a != b; continue;
      default: return false;
    }
  }
  if (r.bad || !d) return false;
  return *result = s[d - 1], true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bool step_by_rules(Walk *w, const Entry *e) {
  Rules initial = {0}, rules;
  if (!run(e->common, e, UINT64_MAX, &initial, &initial)) return false;
  rules = initial;
  if (!run(e->own, e, w->exact ? w->pc : w->pc - 1, &rules, &initial)) return false;
  uint64_t frame = 0, next[REGISTERS];
  if (rules.frame.kind == IS_EXPRESSION) {
    if (!evaluate(w, rules.frame.block, false, 0, &frame)) return false;
  } else if (rules.frame_register >= REGISTERS) return false;
  else frame = w->registers[rules.frame_register] + (uint64_t)rules.frame.offset;

  memcpy(next, w->registers, sizeof next);
  next[SP] = frame;
  for (int i = 0; i < REGISTERS; i++) {
    const Rule *rule = &rules.of[i];
    uint64_t at;
    bool good = true;
    switch ((RuleKind)rule->kind) {
      case SAME: break;
      case UNDEFINED: next[i] = 0; break;
      case AT_OFFSET: good = load(w, frame + (uint64_t)rule->offset, &next[i]); break;
      case IS_OFFSET: next[i] = frame + (uint64_t)rule->offset; break;
      case IN_REGISTER:
        good = (uint64_t)rule->offset < REGISTERS;
        if (good) next[i] = w->registers[rule->offset];
        break;
      case AT_EXPRESSION: good = evaluate(w, rule->block, true, frame, &at) && load(w, at, &next[i]); break;
      case IS_EXPRESSION: good = evaluate(w, rule->block, true, frame, &next[i]); break;
    }
    if (!good) return false;
  }
  /* a caller that has saved no return address is no caller */
  bool is_leaf = rules.of[e->link].kind == SAME && !w->exact;
  if (LINK == 16 ? rules.of[e->link].kind == SAME : is_leaf) return false;
  memcpy(w->registers, next, sizeof next);
  w->pc = next[e->link];
  w->exact = e->is_signal;
  return true;
}

/* Code without rules, by what it has left to do: "add $8, %rsp; ret", "pop %rbp; ret", "leave; ret" and the like. */
static bool step_by_epilogue(Walk *w) {
#if defined(__x86_64__)
  uint8_t code[24];
  uint64_t from = w->pc & ~UINT64_C(7), words[4];
  for (uint64_t i = 0; i < 4; i++)
    if (!load(w, from + 8 * i, &words[i])) return false;
  memcpy(code, (const uint8_t *)words + (w->pc - from), sizeof code);
  uint64_t sp = w->registers[SP], fp = w->registers[FP], unused;
  for (size_t i = 0; i + 7 < sizeof code;) {
    if (code[i] == 0xf3 && code[i + 1] == 0xc3) i++; /* rep ret */
    if (code[i] == 0xc3) {
      if (!load(w, sp, &w->pc)) return false;
      w->registers[SP] = sp + 8, w->registers[FP] = fp, w->exact = false;
      return true;
    }
    int32_t wide;
    memcpy(&wide, code + i + 3, 4);
    if (code[i] == 0x48 && code[i + 1] == 0x83 && code[i + 2] == 0xc4) sp += (uint64_t)(int8_t)code[i + 3], i += 4;
    else if (code[i] == 0x48 && code[i + 1] == 0x81 && code[i + 2] == 0xc4) sp += (uint64_t)(int64_t)wide, i += 7;
    else if (code[i] == 0xc9) { /* leave */
      if (!load(w, fp, &unused)) return false;
      sp = fp + 8, fp = unused, i++;
    } else if (code[i] == 0x5d) {
      if (!load(w, sp, &fp)) return false;
      sp += 8, i++;
    } else if (code[i] >= 0x58 && code[i] <= 0x5f && code[i] != 0x5c) sp += 8, i++;
    else if (code[i] == 0x41 && code[i + 1] >= 0x58 && code[i + 1] <= 0x5f) sp += 8, i += 2;
    else return false;
  }
#endif
  return false;
}

static bool step_by_frame_pointer(Walk *w) {
  uint64_t fp = w->registers[FP], next, link;
  if (fp < w->registers[SP] || !load(w, fp, &next) || !load(w, fp + 8, &link)) return false;
  w->registers[SP] = fp + 16, w->registers[FP] = next, w->pc = link, w->exact = false;
  return true;
}

static bool begin(Walk *w, const void *context) {
  const ucontext_t *u = context;
#if defined(__x86_64__)
  static const uint8_t places[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                   REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (int i = 0; i < REGISTERS; i++) w->registers[i] = (uint64_t)u->uc_mcontext.gregs[places[i]];
  w->pc = w->registers[LINK];
#elif defined(__aarch64__)
  for (int i = 0; i < 31; i++) w->registers[i] = u->uc_mcontext.regs[i];
  w->registers[SP] = u->uc_mcontext.sp;
  w->pc = u->uc_mcontext.pc;
#else
  (void)u;
  return false;
#endif
  w->exact = true, w->page_count = 0;
  return true;
}

int unwind_interrupted(const void *context, uint64_t *addresses, int most) {
  Walk w;
  int n = 0;
  if (!begin(&w, context)) return 0;
  while (n < most && w.pc) {
    addresses[n++] = w.pc;
    uint64_t sp = w.registers[SP];
    Entry e;
    bool more = find_entry(w.exact ? w.pc : w.pc - 1, &e)
                    ? step_by_rules(&w, &e)
                    : (!w.exact && step_by_epilogue(&w)) || step_by_frame_pointer(&w);
    if (LINK == 30) w.pc &= UINT64_C(0xffffffffffff);                 /* AArch64's signatures */
    if (!more || (w.registers[SP] <= sp && !w.exact && n > 1)) break; /* a stack grows down */
  }
  return n;
}
