/* The table of operations as data: op_info and math_info from ops.def and math.def, and what each attribute is called.
 *
 * ops.def names an operation's attributes in one string. "dims", "text" and "number" have fields of their own, the
 * others lie in attr, a name at one place in all operations that have it. Some attributes are enumerations, written as
 * words: cmp's pred=lt, atomic_rmw's kind=add.
 */
#include "tile/tile.h"

/* "2", "2-3" and "2+" as bounds. */
#define LOW(s) ((s)[0] - '0')
#define HIGH(s) (sizeof(s) == 3 ? -1 : (s)[sizeof(s) - 2] - '0')

const OpInfo op_info[OP_COUNT] = {
#define OP(id, group, name, in, out, regions, effects, attrs) \
  [OP_##id] = {name, LOW(in), HIGH(in), LOW(out), HIGH(out), regions, EFFECT_##effects, attrs, GROUP_##group},
#include "tile/ops.def"
#undef OP
};

const MathInfo math_info[MATH_COUNT] = {
#define MATH(id, name, arity, sig) [MATH_##id] = {name, arity, sig},
#include "tile/math.def"
#undef MATH
};

static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};
static const char *const rmw_kinds[] = {"add", "max", "min", "and", "or", "xor", "xchg", NULL};
static const char *const sems[] = {"acq_rel", "acquire", "release", "relaxed", NULL};
static const char *const scopes[] = {"gpu", "cta", "sys", NULL};
static const char *const caches[] = {"none", "ca", "cg", "cs", "cv", "wb", "wt", NULL};
static const char *const evicts[] = {"default", "first", "last", "normal", NULL};
static const char *const precisions[] = {"tf32", "tf32x3", "ieee", "bf16x3", "bf16x6", "split", NULL};
static const char *const waits[] = {"no", "looks", "works", NULL};
static const char *const hint_kinds[] = {"divisible", "contiguous", "constant", NULL};

static const struct {
  const char *name;
  const char *const *words;
} enumerations[] = {{"pred", preds},   {"kind", rmw_kinds},       {"sem", sems},   {"scope", scopes}, {"cache", caches},
                    {"evict", evicts}, {"precision", precisions}, {"waits", waits}};

#define SLOT(name, field) \
  { name, (int)((offsetof(Op, field) - offsetof(Op, attr)) / sizeof(int64_t)) }
static const struct {
  const char *name;
  int slot;
} slots[] = {SLOT("value", value),
             SLOT("axis", axis),
             SLOT("start", start),
             SLOT("reorder", reorder),
             SLOT("rounding", rounding),
             SLOT("nan", nan),
             SLOT("fn", fn),
             SLOT("pred", pred),
             SLOT("cache", cache),
             SLOT("kind", kind),
             SLOT("precision", precision),
             SLOT("descending", descending),
             SLOT("slots", slots),
             SLOT("pending", pending),
             SLOT("unaligned", unaligned),
             SLOT("num_stages", num_stages),
             SLOT("waits", waits),
             SLOT("acquire", acquire),
             SLOT("region", region),
             SLOT("hex", hex),
             SLOT("undefined", undefined),
             SLOT("pure", pure),
             SLOT("end", end),
             SLOT("evict", evict),
             SLOT("sem", sem),
             SLOT("async", async),
             SLOT("reverse", reverse),
             SLOT("pack", pack),
             SLOT("inner", inner),
             SLOT("unroll", unroll),
             SLOT("bitonic", bitonic),
             SLOT("volatile", is_volatile),
             SLOT("scope", scope),
             SLOT("own", own),
             SLOT("imprecise", imprecise),
             SLOT("cluster", cluster),
             SLOT("parts", parts),
             SLOT("flags", flags)};
#undef SLOT

/* Printed even when 0, since a reader would ask. */
static const char *const always_shown[] = {"pred", "kind", "fn", "axis", "start", "end"};

int op_attrs(OpCode code, AttrInfo out[MAX_ATTRS]) {
  int n = 0;
  for (const char *s = op_info[code].attrs; *s;) {
    size_t length = strcspn(s, " ");
    AttrInfo *a = &out[n++];
    *a = (AttrInfo){.name = s, .name_length = (int)length, .kind = ATTR_INT, .slot = -1};
#define IS(word) (length == strlen(word) && !memcmp(s, word, length))
    if (IS("dims")) a->kind = ATTR_DIMS;
    else if (IS("text")) a->kind = ATTR_TEXT;
    else if (IS("number")) a->kind = ATTR_NUMBER;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
      if (IS(slots[i].name)) a->slot = slots[i].slot;
    if (IS("fn")) a->kind = ATTR_MATH;
    for (size_t i = 0; i < sizeof enumerations / sizeof *enumerations; i++)
      if (IS(enumerations[i].name)) a->kind = ATTR_WORD, a->words = enumerations[i].words;
    if (code == OP_HINT && a->kind == ATTR_WORD) a->words = hint_kinds;
    for (size_t i = 0; i < sizeof always_shown / sizeof *always_shown; i++)
      if (IS(always_shown[i])) a->always_shown = true;
#undef IS
    s += length;
    s += *s == ' ';
  }
  return n;
}

const char *attr_word(const AttrInfo *a, int64_t value) {
  if (value < 0) return NULL;
  if (a->kind == ATTR_MATH) return value < MATH_COUNT ? math_info[value].name : NULL;
  for (int i = 0; a->words[i]; i++)
    if (i == value) return a->words[i];
  return NULL;
}

int attr_word_value(const AttrInfo *a, const char *word, size_t n) {
  const char *known;
  for (int i = 0; (known = attr_word(a, i)); i++)
    if (strlen(known) == n && !memcmp(known, word, n)) return i;
  return -1;
}
