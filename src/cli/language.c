/* language: prints the table of supported names as Markdown: docs/reference/language.md is this verb's output. */
#include "cli.h"

#include "base/json.h"
#include <string.h>

/* What stands above the tables. The tables come from the compiler; this says what is no name. tests/docs tries each
 * row. */
static const char opening[] =
    "# What of the Triton language is supported\n\n"
    "Made by `nereid language` from the tables that the compiler itself uses; do not edit. It is Triton 3.6's "
    "language. A\n"
    "name that is not here is an error with the nearest name that is; \"no\" means an error that says why. The "
    "columns are the\n"
    "[devices](../guide/devices.md); `cuda` stands for GPUs from compute capability 8.0 on.\n\n"
    "Names may be reached as Triton allows: `tl.exp`, `tl.math.exp`; `libdevice.tanh` as `tl.extra.libdevice`,\n"
    "`tl.extra.cuda.libdevice` or, as in Triton 2, `tl.math.tanh`; under any name given by `import ... as`. "
    "\"method\"\n"
    "means that a tensor has it too: `x.sum(axis=0)`. Functions of libdevice take exactly the types that stand beside\n"
    "them, before the colon. What is marked \"Triton 3.7\", 3.8 or 3.9 came with that version; \"Triton 3.3\" had it\n"
    "last.\n\n"
    "What Triton refuses is refused, in Triton's words where it has any: a kernel that compiles here compiles "
    "there.\n\n"
    "## Statements and expressions\n\n"
    "| in a kernel | |\n"
    "| --- | --- |\n"
    "| `if`, `elif`, `else`, `a if c else b` | on constexprs: resolved while compiling; on scalars: both sides "
    "compiled, with values of one type |\n"
    "| `for` over `range`, `tl.range`, `tl.static_range` | bounds of any integer type; negative steps when constexpr; "
    "a step of 0 gets a warning |\n"
    "| `while` | on a scalar condition; in it programs may wait for each other |\n"
    "| `return` | early too, but not inside a `for` or `while` that runs |\n"
    "| calls of `@triton.jit` functions | positional, keyword, default and `*args` (Triton 3.8; a kernel's own, too) "
    "arguments; "
    "functions, types, strings, tuples, `None` as arguments; numbers, strings, `None`, functions and constexpr types "
    "that are returned stay constexprs (Triton 3.7) "
    "|\n"
    "| `x = ...`, `x: tl.constexpr = ...`, `x += ...`, `a, b = ...` | |\n"
    "| `:=`, `x: tl.constexpr` before `x = ...` | Triton 3.8 |\n"
    "| tuples and lists, named tuples, `@triton.aggregate` classes, comprehensions over tuples | what Python made (a "
    "tuple that is a constexpr parameter, a global, or a constexpr "
    "function's result) is indexed and passed on, not assigned, sliced or spread |\n"
    "| names of the file around | what `tl.constexpr(...)` made, types, modules, `@triton.jit` and "
    "`constexpr_function` "
    "functions, named tuple and aggregate classes; other classes and plain values are errors, as in Triton (but with "
    "`TRITON_ALLOW_NON_CONSTEXPR_GLOBALS=1`); a [host](../guide/embedding.md#names-that-your-program-knows) may say "
    "what "
    "they are |\n"
    "| `+ - * / // %`, bit operations, shifts, comparisons, `and or not`, `is`, `is not` | Triton's promotion: "
    "numbers in the text are weak, scalars are not |\n"
    "| `**` | on constexprs |\n"
    "| `x[:, None]`, `t[0]`, `t[1:]` | tensors take `:` and `None`; tuples constexpr indices and slices |\n"
    "| `assert`, f-strings, `pass`, docstrings, annotations | f-strings of constexprs (`{N:>8}` is `{N}`, as in "
    "Triton) |\n"
    "| `break`, `continue`, `try`, `lambda`, nested `def`, `del`, `global`, `import`, `yield`, `match`, dicts, sets, "
    "generators, `in`, `not in`, chains like `0 < K < 8`, keyword-only and `**kw` parameters | errors, as in Triton "
    "|\n\n"
    "Around the kernels any Python 3.12 may stand; what a kernel needs of it is evaluated: constants, imports of "
    "files beside\n"
    "it, decorators. It has Python's value or is unknown, and a kernel that uses what is unknown is an error that "
    "says\n"
    "why.\n\n"
    "- Questions about the GPU (`torch.cuda.is_available()`, `get_device_capability()`, `get_current_target()`) are\n"
    "  answered for the GPU that is compiled for; `cpu` and `interp` stand in for one of compute capability 9.0. There "
    "is no\n"
    "  AMD GPU, and no variable of the environment is set.\n"
    "- Where an `if`'s condition is unknown, so are the names that its branches bind to different values.\n"
    "  [`--define NAME=VALUE`](../guide/embedding.md#names-that-your-program-knows) says what such a name, or one of "
    "the\n"
    "  condition, is.\n"
    "- An import that finds no file and is no library counts as missing.\n\n"
    "### Where Triton leaves it open\n\n"
    "Every operation has a result for all operands, the same bits on every device, and none traps: masked-off lanes "
    "may hold\n"
    "anything. Triton (LLVM, and PTX behind it) leaves these open; a kernel that is to run elsewhere must not rely "
    "on them.\n"
    "`--device interp --debug` finds where an element of the first, the third, the fourth or the sixth kind is "
    "stored or\n"
    "decides.\n\n"
    "| operation | here |\n"
    "| --- | --- |\n"
    "| `x // 0`, `x % 0` of integers | `x`, 0 |\n"
    "| the least integer `// -1`, `% -1`; sums, products out of range | wraps to itself, 0; wrap around |\n"
    "| shifts by the width or more, or by less than 0 | counts are unsigned: `<<` gives 0, `>>` 0 or, of a negative "
    "number, -1, as PTX's `shl`, `shr` |\n"
    "| float to integer, out of range; of NaN | the nearest end of the type's range; 0 |\n"
    "| `min`, `max` of -0 and +0 | -0 is below +0, as in PTX |\n"
    "| elements that a mask switches off and that have no `other` | 0 |\n"
    "| a loop that does not end, and changes nothing meanwhile | is left out, as Triton leaves it out; `interp` runs "
    "it "
    "to its limit |\n"
    "| which NaN an operation gives | any; operations that move bits keep them, but f16, bf16 and fp8 on `cpu` |\n";

/* Instrument a table: a bar would end the cell, a newline the row. */
static void print_cell(const char *s) {
  for (; *s; s++) {
    if (*s == '\n') fputs("\\n", stdout);
    else printf("%s%c", *s == '|' ? "\\" : "", *s);
  }
}

static void print_row(const nereid_language_name *e) {
  const char *remark = e->remark ? e->remark : "";
  printf("| `%s", e->name);
  if (e->arguments) printf("("), print_cell(e->arguments), printf(")");
  printf("` | ");
  const bool on[] = {e->interp, e->cpu, e->sim, e->cuda};
  for (int i = 0; i < 4; i++) print_in(stdout, on[i] ? COLOR_GOOD : COLOR_BAD, on[i] ? "yes" : "no"), printf(" | ");
  printf("%s%s", e->is_method ? "method" : "", e->is_method && *remark ? "; " : "");
  print_cell(remark);
  printf(" |\n");
}

static void put_optional(JsonWriter *w, const char *key, const char *text) {
  if (text) json_put_text(w, key, text);
  else json_put_null(w, key);
}

static void print_json(void) {
  JsonWriter w = {.file = stdout};
  json_begin_array(&w, NULL);
  for (int i = 0, n = nereid_language_count(); i < n; i++) {
    nereid_language_name e = nereid_language_at(i);
    json_break(&w, "\n");
    json_begin_object(&w, NULL);
    json_put_text(&w, "group", e.group);
    json_put_text(&w, "name", e.name);
    put_optional(&w, "arguments", e.arguments);
    json_put_bool(&w, "interp", e.interp);
    json_put_bool(&w, "cpu", e.cpu);
    json_put_bool(&w, "sim", e.sim);
    json_put_bool(&w, "cuda", e.cuda);
    json_put_bool(&w, "is_method", e.is_method);
    put_optional(&w, "remark", e.remark);
    json_end_object(&w);
  }
  json_break(&w, "\n");
  json_end_array(&w);
  printf("\n");
}

static int language(int argc, char **argv) {
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) {
      json = true;
      continue;
    }
    if (argv[i][0] != '-') return usage_error(&verb_language, "unknown word '%s'", argv[i]);
    int took = option_of_others(&verb_language, argc - i, argv + i);
    if (took < 0) return 2;
    i += took - 1;
  }
  if (!nereid_language_count()) return report_error(NULL);
  if (json) return print_json(), 0;
  fputs(opening, stdout);
  const char *group = "";
  for (int i = 0, n = nereid_language_count(); i < n; i++) {
    nereid_language_name e = nereid_language_at(i);
    if (strcmp(group, e.group))
      printf("\n## %s\n\n| name | interp | cpu | sim | cuda | remark |\n| --- | --- | --- | --- | --- | --- |\n",
             group = e.group);
    print_row(&e);
  }
  return 0;
}

const Verb verb_language = {"language", "language [--json]", "prints the table of supported names", language,
                            "  --json  as JSON: an array with an object for each name\n"};
