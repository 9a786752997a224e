/* Constant expressions of inline PTX, as ptxas computes them ("Constant Expressions" in the PTX ISA).
 *
 *     (3+4)*2     1 << 5 | 3     ~0 >> 4     7 > 3 ? 5 : 6     WARP_SZ - 1     (.s64)~0     1.5 * 2.0
 *
 * Integers have 64 bits. They are signed but for those that end in U or do not fit, what ~ and % give, and what an
 * operation makes of such and others; a shift has its left side's type, ?: the type of what it chooses. A shift's count
 * has six bits. Floats know + - * / and signs; they do not mix with integers, and the bits 0f... stand alone.
 */
#include "tile/asm/asm.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct Number {
  AsmOperand o;
  bool is_unsigned;
} Number;

static void space(const char **at) {
  while (isspace((unsigned char)**at)) ++*at;
}

static bool take(const char **at, const char *sign) {
  space(at);
  size_t n = strlen(sign);
  if (strncmp(*at, sign, n) != 0) return false;
  *at += n;
  return true;
}

static Number integer(uint64_t v, bool is_unsigned) {
  return (Number){{.kind = ASM_INT, .value = (int64_t)v}, is_unsigned};
}

static Number of_double(double v) {
  Number n = {{.kind = ASM_FLOAT, .float_bits = 64, .number = v}, false};
  memcpy(&n.o.value, &v, 8);
  return n;
}

/* ---- literals ---- */

/* 12, 0x1f, 0b101, 017, with U; 1.5, 1e3, 0f3F800000, 0d... */
static Number literal(Asm *x, const char **at) {
  const char *s = *at;
  char *end;
  char second = s[0] == '0' ? (char)tolower((unsigned char)s[1]) : 0;
  if (second == 'f' || second == 'd') {
    Number n = {{.kind = ASM_FLOAT, .float_bits = second == 'f' ? 32 : 64}, false};
    uint64_t bits = strtoull(s + 2, &end, 16);
    if (end - s - 2 != n.o.float_bits / 4) asm_refuse(x, "expected the digits of a float's bits, found `%.20s`", s);
    n.o.number = dtype_load_float(second == 'f' ? DT_F32 : DT_F64, &bits);
    n.o.value = (int64_t)bits;
    *at = end;
    return n;
  }
  size_t digits = strspn(s, "0123456789");
  if (second != 'x' && second != 'b' && (s[digits] == '.' || tolower((unsigned char)s[digits]) == 'e')) {
    char text[64];
    size_t n = digits + (s[digits] == '.');
    n += strspn(s + n, "0123456789");
    if (tolower((unsigned char)s[n]) == 'e') {
      size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
      n += 1 + sign + strspn(s + n + 1 + sign, "0123456789");
    }
    if (n >= sizeof text) asm_refuse(x, "expected a shorter number, found `%.20s`", s);
    memcpy(text, s, n);
    text[n] = 0;
    *at = s + n;
    return of_double(text_to_double(text, NULL));
  }
  uint64_t v = second == 'b' ? strtoull(s + 2, &end, 2) : strtoull(s, &end, 0);
  if (end == s || (second == 'b' && end == s + 2)) asm_refuse(x, "expected a number, found `%.20s`", s);
  bool is_unsigned = *end == 'U';
  *at = end + is_unsigned;
  return integer(v, is_unsigned || v > INT64_MAX);
}

/* ---- operations ---- */

static void both_integers(Asm *x, const Number *a, const Number *b, const char *sign) {
  if (a->o.kind != ASM_INT || b->o.kind != ASM_INT)
    asm_refuse(x, "`%s` is for integers, in a constant expression", sign);
}

static Number float_binary(Asm *x, const char *sign, double a, double b) {
  switch (sign[1] ? 0 : *sign) {
    case '+': return of_double(a + b);
    case '-': return of_double(a - b);
    case '*': return of_double(a * b);
    case '/':
      if (b == 0) asm_refuse(x, "a constant is divided by 0");
      return of_double(a / b);
    default: asm_refuse(x, "`%s` is for integers, in a constant expression", sign);
  }
}

static uint64_t divided(Asm *x, bool is_unsigned, uint64_t a, uint64_t b) {
  if (!b) asm_refuse(x, "a constant is divided by 0");
  if (is_unsigned) return a / b;
  return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

static bool less(bool is_unsigned, uint64_t a, uint64_t b) { return is_unsigned ? a < b : (int64_t)a < (int64_t)b; }

typedef enum { C_OR, C_AND, OR, XOR, AND, EQ, NE, LE, GE, SHL, SHR, LT, GT, ADD, SUB, MUL, DIV, REM } Code;
/* What is longer stands before what it begins with. */
static const struct {
  const char *sign;
  int level;
  Code code;
} binary[] = {{"||", 1, C_OR}, {"&&", 2, C_AND}, {"|", 3, OR},   {"^", 4, XOR},  {"&", 5, AND},  {"==", 6, EQ},
              {"!=", 6, NE},   {"<<", 8, SHL},   {">>", 8, SHR}, {"<=", 7, LE},  {">=", 7, GE},  {"<", 7, LT},
              {">", 7, GT},    {"+", 9, ADD},    {"-", 9, SUB},  {"*", 10, MUL}, {"/", 10, DIV}, {"%", 10, REM}};
enum { BINARY = sizeof binary / sizeof *binary };

static Number apply(Asm *x, int row, const Number *p, const Number *q) {
  const char *sign = binary[row].sign;
  if (p->o.kind == ASM_FLOAT && q->o.kind == ASM_FLOAT) return float_binary(x, sign, p->o.number, q->o.number);
  both_integers(x, p, q, sign);
  bool u = p->is_unsigned || q->is_unsigned;
  uint64_t a = (uint64_t)p->o.value, b = (uint64_t)q->o.value;
  switch (binary[row].code) {
    case C_OR: return integer(a || b, false);
    case C_AND: return integer(a && b, false);
    case OR: return integer(a | b, u);
    case XOR: return integer(a ^ b, u);
    case AND: return integer(a & b, u);
    case EQ: return integer(a == b, false);
    case NE: return integer(a != b, false);
    case LT: return integer(less(u, a, b), false);
    case GT: return integer(less(u, b, a), false);
    case LE: return integer(!less(u, b, a), false);
    case GE: return integer(!less(u, a, b), false);
    case SHL: return integer(a << (b & 63), p->is_unsigned);
    case SHR: return integer(p->is_unsigned ? a >> (b & 63) : (uint64_t)((int64_t)a >> (b & 63)), p->is_unsigned);
    case ADD: return integer(a + b, u);
    case SUB: return integer(a - b, u);
    case MUL: return integer(a * b, u);
    case DIV: return integer(divided(x, u, a, b), u);
    default:
      if (!b) asm_refuse(x, "a constant is divided by 0");
      return integer(a % b, true);
  }
}

/* ---- the grammar ---- */

static Number chosen(Asm *x, const char **at);

static Number primary(Asm *x, const char **at) {
  stack_guard();
  space(at);
  if (take(at, "(.s64)") || take(at, "(.u64)")) {
    bool is_unsigned = (*at)[-4] == 'u';
    Number n = primary(x, at);
    both_integers(x, &n, &n, is_unsigned ? "(.u64)" : "(.s64)");
    return integer((uint64_t)n.o.value, is_unsigned);
  }
  if (take(at, "(")) {
    Number n = chosen(x, at);
    if (!take(at, ")")) asm_refuse(x, "expected `)`, found `%.20s`", *at);
    return n;
  }
  if (take(at, "WARP_SZ")) return integer(32, false);
  char sign = **at;
  if (!sign || !strchr("+-~!", sign)) return literal(x, at);
  ++*at;
  Number n = primary(x, at);
  if (sign == '+') return n;
  if (sign == '-' && n.o.kind == ASM_FLOAT) {
    n.o.value ^= (int64_t)(1ull << (n.o.float_bits - 1));
    n.o.number = -n.o.number;
    return n;
  }
  char text[] = {sign, 0};
  both_integers(x, &n, &n, text);
  uint64_t v = (uint64_t)n.o.value;
  return sign == '-' ? integer(-v, n.is_unsigned) : sign == '~' ? integer(~v, true) : integer(!v, false);
}

static Number joined(Asm *x, const char **at, int least) {
  stack_guard();
  Number a = primary(x, at);
  for (;;) {
    int row = 0;
    space(at);
    while (row < BINARY && strncmp(*at, binary[row].sign, strlen(binary[row].sign)) != 0) row++;
    if (row == BINARY || binary[row].level < least) return a;
    *at += strlen(binary[row].sign);
    Number b = joined(x, at, binary[row].level + 1);
    a = apply(x, row, &a, &b);
  }
}

static Number chosen(Asm *x, const char **at) {
  stack_guard();
  Number a = joined(x, at, 1);
  if (!take(at, "?")) return a;
  both_integers(x, &a, &a, "?");
  Number b = chosen(x, at);
  if (!take(at, ":")) asm_refuse(x, "expected `:`, found `%.20s`", *at);
  Number c = chosen(x, at);
  return a.o.value ? b : c;
}

bool asm_begins_constant(const char *at) {
  while (*at == '!' || isspace((unsigned char)*at)) at++; /* !p is a predicate */
  return isdigit((unsigned char)*at) || (*at && strchr("(-+~", *at)) || !strncmp(at, "WARP_SZ", 7);
}

AsmOperand asm_constant(Asm *x, const char **at) {
  const char *begin = *at;
  Number n = chosen(x, at);
  space(at);
  if (begin[0] == '0' && tolower((unsigned char)begin[1]) == 'f' && **at && !strchr(",;}])", **at))
    asm_refuse(x, "the bits of a float stand alone, found `%.20s`", begin);
  return n.o;
}
