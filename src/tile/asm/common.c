/* What all instructions of inline assembly share: types, modifiers, and what is said of those that are not taken. */
#include "tile/asm/asm.h"

const AsmType asm_types[ASM_TYPE_COUNT] = {
#define TYPE(name, bits, lanes, dtype) {#name, bits, lanes, DT_##dtype},
#include "tile/asm/types.def"
#undef TYPE
};

static const char HINT[] = "write the same in Triton's own operations, or run it on a GPU";

void asm_refuse(Asm *x, const char *format, ...) {
  Arena *arena = x->b->func->cx->arena;
  Span at = x->op->span ? *x->op->span : (Span){0};
  char what[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  const char *where = x->inst && x->inst->text ? arena_printf(arena, ", in `%.160s`", x->inst->text) : "";
  diag_fail_hint(x->b->func->cx, at, HINT, "inline assembly: %s%s", what, where);
}

bool asm_has(const AsmInst *i, const char *modifier) {
  for (int k = 1; k < i->parts; k++)
    if (!strcmp(i->part[k], modifier)) return true;
  return false;
}

Value *asm_2(Asm *x, OpCode code, Value *a, Value *b) { return build_binary(x->b, code, a, b); }
