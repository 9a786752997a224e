/* The file of all kernels, with the functions that several of them call. */
#include "fuse/fuse.h"

static const char head[] = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n";

/* Of two equal elements, NaN for one, the first or the last is taken whatever the order. */
#define TAKEN(name, better, nearer) \
  "def " name "(a, i, b, j):\n" \
  "    same = (a == b) | ((a != a) & (b != b))\n" \
  "    other = ((b " better " a) & (a == a)) | ((b != b) & (a == a)) | (same & (j " nearer " i))\n" \
  "    return tl.where(other, b, a), tl.where(other, j, i)\n"
static const struct {
  const char *name, *text;
} helpers[] = {
    {"multiply", "def multiply(a, b):\n    return a * b\n"},
    {"max_nan", "def max_nan(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"},
    {"min_nan", "def min_nan(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"},
    {"first_max", TAKEN("first_max", ">", "<")},
    {"first_min", TAKEN("first_min", "<", "<")},
    {"last_max", TAKEN("last_max", ">", ">")},
    {"last_min", TAKEN("last_min", "<", ">")},
    {"log_add_exp", "def log_add_exp(a, b):\n"
                    "    most = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"
                    "    least = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"
                    "    return most + libdevice.log1p(tl.exp(tl.where(least == most, 0.0, least - most)))\n"},
    {"float_order", "def float_order(x):\n"
                    "    \"\"\"An integer that orders as x does; NaN is the largest.\"\"\"\n"
                    "    bits = x.to(tl.int32, bitcast=True)\n"
                    "    size = bits & 0x7FFFFFFF\n"
                    "    return tl.where(size > 0x7F800000, 0x7FFFFFFF, tl.where(bits < 0, -size, size))\n"},
    {"double_order", "def double_order(x):\n"
                     "    bits = x.to(tl.int64, bitcast=True)\n"
                     "    size = bits & 0x7FFFFFFFFFFFFFFF\n"
                     "    order = tl.where(bits < 0, -size, size)\n"
                     "    return tl.where(size > 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF, order)\n"},
    {"grouped_tile", "def grouped_tile(program, rows, columns):\n"
                     "    \"\"\"Down 8 rows of tiles, then one column on.\"\"\"\n"
                     "    first = program // (8 * columns) * 8\n"
                     "    height = min(rows - first, 8)\n"
                     "    return first + program % (8 * columns) % height, program % (8 * columns) // height\n"},
};
enum { HELPERS = sizeof helpers / sizeof *helpers };

void fuse_need_helper(const FusePlan *p, const char *name) {
  for (int i = 0; i < HELPERS; i++)
    if (!strcmp(helpers[i].name, name)) ((FusePlan *)p)->helpers |= 1u << i;
}

const char *fuse_text(const FusePlan *p) {
  Buf text = {.arena = p->g->cx->arena};
  buf_puts(&text, head);
  for (int i = 0; i < HELPERS; i++)
    if (p->helpers >> i & 1) buf_printf(&text, "\n\n@triton.jit\n%s", helpers[i].text);
  for (int i = 0; i < p->kernels.n; i++)
    if (p->kernels.at[i]->text) buf_printf(&text, "\n\n%s", p->kernels.at[i]->text);
  return text.at;
}
