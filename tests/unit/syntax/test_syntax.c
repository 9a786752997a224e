/* Tests of src/syntax through syntax.h: trees, values, places, messages, limits. That trees equal those of Python's own
 * parser is tested on real files by tests/syntax/compare_stdlib.py; here stands what no file of a library shows. */
#include "syntax/syntax.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fakes/comma_locale.h"

/* The dump of `text`, or "LINE:COL-LINE:COL: message" and, if there is one, " (hint)". To be freed. */
static char *outcome(const char *text, size_t size, bool expression, bool positions) {
  Context *cx = context_create();
  Buf out = {0};
  Source *src = source_from_text(cx, "t.py", text, size);
  if (context_try(cx)) {
    Node *n = expression ? parse_expression(cx, src) : parse_module(cx, src);
    ast_dump(&out, n, positions);
    context_end_try(cx);
  } else {
    assert_int_equal(cx->diags.n, 1);
    const Diag *d = &cx->diags.at[0];
    assert_int_equal(d->kind, DIAG_ERROR);
    assert_ptr_equal(d->span.source, src);
    buf_printf(&out, "%d:%d-%d:%d: %s", d->span.line, d->span.col, d->span.end_line, d->span.end_col, d->message);
    if (d->hint) buf_printf(&out, " (%s)", d->hint);
  }
  context_destroy(cx);
  assert_false(out.failed);
  return out.at;
}

static void tree_is(const char *text, const char *tree) {
  char *got = outcome(text, strlen(text), false, true);
  assert_string_equal(got, tree);
  free(got);
}

static void message_is(const char *text, const char *message) {
  char *got = outcome(text, strlen(text), false, false);
  if (strcmp(got, message) != 0) print_error("of: %s\n", text);
  assert_string_equal(got, message);
  free(got);
}

/* The dump of an expression without places. */
static void expression_is(const char *text, const char *tree) {
  char *got = outcome(text, strlen(text), true, false);
  if (strcmp(got, tree) != 0) print_error("of: %s\n", text);
  assert_string_equal(got, tree);
  free(got);
}

static void same_tree(const char *a, const char *b) {
  char *x = outcome(a, strlen(a), false, false), *y = outcome(b, strlen(b), false, false);
  assert_string_equal(x, y);
  assert_memory_equal(x, "Module", 6);
  free(x);
  free(y);
}

static char *repeat(const char *head, const char *s, int n, const char *tail) {
  size_t k = strlen(s);
  char *all = malloc(strlen(head) + k * (size_t)n + strlen(tail) + 1), *p = all + sprintf(all, "%s", head);
  for (int i = 0; i < n; i++, p += k) memcpy(p, s, k);
  strcpy(p, tail);
  return all;
}

/* ---- trees
 * ------------------------------------------------------------------------------------------------------------ */

static void a_kernel(void **state) {
  tree_is("@triton.jit\n"
          "def add(x, n: tl.constexpr = 2, *, y=None):\n"
          "    i = tl.arange(0, n)[:, None]\n"
          "    return i if n else -x\n",
          "Module\n"
          " .body\n"
          "  FunctionDef 2:0-4:25 name=add\n"
          "   .args\n"
          "    arguments\n"
          "     .args\n"
          "      arg 2:8-2:9 arg=x\n"
          "      arg 2:11-2:26 arg=n\n"
          "       .annotation\n"
          "        Attribute 2:14-2:26 attr=constexpr ctx=Load\n"
          "         .value\n"
          "          Name 2:14-2:16 id=tl ctx=Load\n"
          "     .kwonlyargs\n"
          "      arg 2:35-2:36 arg=y\n"
          "     .kw_defaults\n"
          "      Constant 2:37-2:41 value=None\n"
          "     .defaults\n"
          "      Constant 2:29-2:30 value=2\n"
          "   .body\n"
          "    Assign 3:4-3:32\n"
          "     .targets\n"
          "      Name 3:4-3:5 id=i ctx=Store\n"
          "     .value\n"
          "      Subscript 3:8-3:32 ctx=Load\n"
          "       .value\n"
          "        Call 3:8-3:23\n"
          "         .func\n"
          "          Attribute 3:8-3:17 attr=arange ctx=Load\n"
          "           .value\n"
          "            Name 3:8-3:10 id=tl ctx=Load\n"
          "         .args\n"
          "          Constant 3:18-3:19 value=0\n"
          "          Name 3:21-3:22 id=n ctx=Load\n"
          "       .slice\n"
          "        Tuple 3:24-3:31 ctx=Load\n"
          "         .elts\n"
          "          Slice 3:24-3:25\n"
          "          Constant 3:27-3:31 value=None\n"
          "    Return 4:4-4:25\n"
          "     .value\n"
          "      IfExp 4:11-4:25\n"
          "       .test\n"
          "        Name 4:16-4:17 id=n ctx=Load\n"
          "       .body\n"
          "        Name 4:11-4:12 id=i ctx=Load\n"
          "       .orelse\n"
          "        UnaryOp 4:23-4:25 op=USub\n"
          "         .operand\n"
          "          Name 4:24-4:25 id=x ctx=Load\n"
          "   .decorator_list\n"
          "    Attribute 1:1-1:11 attr=jit ctx=Load\n"
          "     .value\n"
          "      Name 1:1-1:7 id=triton ctx=Load\n");
}

static void operators_bind_as_in_python(void **state) {
  same_tree("a | b ^ c & d << e + f * -g ** -h", "(a | (b ^ (c & (d << (e + (f * (-(g ** (-h)))))))))");
  same_tree("a - b - c; a ** b ** c; a @ b // c % d", "((a - b) - c); (a ** (b ** c)); (((a @ b) // c) % d)");
  same_tree("not a == b and c or d", "((not (a == b)) and c) or d");
  same_tree("a if b else c if d else e", "a if b else (c if d else e)");
  same_tree("lambda: a if b else c", "lambda: (a if b else c)");
  same_tree("await_ = -1 .real ** 2", "await_ = -((1 .real) ** 2)");
  expression_is("a < b not in c is not d",
                "Compare ops=Lt,NotIn,IsNot\n .left\n  Name id=a ctx=Load\n .comparators\n  Name id=b ctx=Load\n"
                "  Name id=c ctx=Load\n  Name id=d ctx=Load\n");
}

static void brackets_leave_no_trace_but_in_places(void **state) {
  tree_is("(a) + (b)", "Module\n .body\n  Expr 1:0-1:9\n   .value\n    BinOp 1:0-1:9 op=Add\n     .left\n      Name "
                       "1:1-1:2 id=a ctx=Load\n"
                       "     .right\n      Name 1:7-1:8 id=b ctx=Load\n");
  same_tree("with (a as b, c): pass", "with a as b, c: pass");
  same_tree("with (a, b): pass", "with a, b: pass");
  same_tree("with (lambda *x: 0, y): pass", "with (lambda *x: 0), y: pass");
  same_tree("with (a, b) as c: pass", "with ((a, b)) as c: pass");
  same_tree("with (yield): pass", "with ((yield)): pass");
  same_tree("del (a), b", "del a, (b)");
  same_tree("for (x) in y: pass", "for x in (y): pass");
  char *simple = outcome("x: int", 6, false, false), *bracketed = outcome("(x): int", 8, false, false);
  assert_non_null(strstr(simple, "simple=1"));
  assert_non_null(strstr(bracketed, "simple=0"));
  free(simple);
  free(bracketed);
}

static void soft_keywords_are_names_elsewhere(void **state) {
  same_tree("match = case = type = _ = 1", "match = (case) = type = (_) = 1");
  same_tree("match(x); match[x]; match.x; match * x; match -x",
            "(match)(x); (match)[x]; (match).x; (match) * x; (match) - x");
  same_tree("print(match, case, type)\ntype(x)\ntype = 3", "print(match, case, type)\n(type)(x)\ntype = 3");
  tree_is("match x, *y:\n case [1, *_] | {'k': -1.5, **r} if z: pass\n case A.b(c, d=_) as e: pass",
          "Module\n .body\n  Match 1:0-3:28\n   .subject\n    Tuple 1:6-1:11 ctx=Load\n     .elts\n      Name 1:6-1:7 "
          "id=x ctx=Load\n"
          "      Starred 1:9-1:11 ctx=Load\n       .value\n        Name 1:10-1:11 id=y ctx=Load\n"
          "   .cases\n    match_case\n     .pattern\n      MatchOr 2:6-2:32\n       .patterns\n        MatchSequence "
          "2:6-2:13\n         .patterns\n"
          "          MatchValue 2:7-2:8\n           .value\n            Constant 2:7-2:8 value=1\n          MatchStar "
          "2:10-2:12\n"
          "        MatchMapping 2:16-2:32 rest=r\n         .keys\n          Constant 2:17-2:20 value=\"k\"\n         "
          ".patterns\n"
          "          MatchValue 2:22-2:26\n           .value\n            UnaryOp 2:22-2:26 op=USub\n             "
          ".operand\n"
          "              Constant 2:23-2:26 value=1.5\n     .guard\n      Name 2:36-2:37 id=z ctx=Load\n     .body\n   "
          "   Pass 2:39-2:43\n"
          "    match_case\n     .pattern\n      MatchAs 3:6-3:22 name=e\n       .pattern\n        MatchClass 3:6-3:17 "
          "kwd_attrs=d\n         .cls\n"
          "          Attribute 3:6-3:9 attr=b ctx=Load\n           .value\n            Name 3:6-3:7 id=A ctx=Load\n    "
          "     .patterns\n"
          "          MatchAs 3:10-3:11 name=c\n         .kwd_patterns\n          MatchAs 3:15-3:16\n     .body\n      "
          "Pass 3:24-3:28\n");
}

static void type_parameters(void **state) {
  tree_is("type A[T: int, *Ts, **P] = T\n", "Module\n .body\n  TypeAlias 1:0-1:28\n   .name\n    Name 1:5-1:6 id=A "
                                            "ctx=Store\n   .type_params\n    TypeVar 1:7-1:13 name=T\n"
                                            "     .bound\n      Name 1:10-1:13 id=int ctx=Load\n    TypeVarTuple "
                                            "1:15-1:18 name=Ts\n    ParamSpec 1:20-1:23 name=P\n"
                                            "   .value\n    Name 1:27-1:28 id=T ctx=Load\n");
}

/* ---- values
 * ------------------------------------------------------------------------------------------------------------ */

static void numbers(void **state) {
  expression_is("0", "Constant value=0\n");
  expression_is("1_000", "Constant value=1000\n");
  expression_is("0xFF", "Constant value=255\n");
  expression_is("0o17", "Constant value=15\n");
  expression_is("0b_101", "Constant value=5\n");
  expression_is("9223372036854775807", "Constant value=9223372036854775807\n");
  expression_is("9223372036854775808", "Constant value=0x8000000000000000\n");
  expression_is("18446744073709551616", "Constant value=0x10000000000000000\n");
  expression_is("100000000000000000000000000000", "Constant value=0x1431e0fae6d7217caa0000000\n");
  expression_is("0xFFFFFFFFFFFFFFFF", "Constant value=0xffffffffffffffff\n");
  expression_is("0x0_000_000_000_000_000_000_1", "Constant value=1\n");
  expression_is("0o1777777777777777777777", "Constant value=0xffffffffffffffff\n");
  expression_is("1.5", "Constant value=1.5\n");
  expression_is("1e-5", "Constant value=1e-05\n");
  expression_is(".1", "Constant value=0.1\n");
  expression_is("1_0.0_1e1_0", "Constant value=100100000000.0\n");
  expression_is("1e400", "Constant value=inf\n");
  expression_is("5e-324", "Constant value=5e-324\n");
  expression_is("2.2250738585072011e-308", "Constant value=2.225073858507201e-308\n");
  expression_is("9007199254740993.0", "Constant value=9007199254740992.0\n");
  expression_is("1e23", "Constant value=1e+23\n");
  expression_is("3j", "Constant value=3.0j\n");
  expression_is("012e0", "Constant value=12.0\n");
  same_tree("1if x else 2", "1 if x else 2");
  same_tree("0x1for x in y", "0x1f or x in y");
}

static void numbers_in_a_locale_with_commas(void **state) {
  if (!comma_locale()) skip();
  expression_is("0.1234567890123456789", "Constant value=0.12345678901234568\n");
  setlocale(LC_NUMERIC, "C");
}

static void strings(void **state) {
  expression_is("'a\\n\\x41\\101\\u00e9\\\n\\q'", "Constant value=\"a\\nAA\\xc3\\xa9\\\\q\"\n");
  expression_is("r'a\\n' \"\"\"b'\"c\"\"\"", "Constant value=\"a\\\\nb'\\\"c\"\n");
  expression_is("b'\\xff\\u1234\\777' rb'\\n'", "Constant value=b\"\\xff\\\\u1234\\xff\\\\n\"\n");
  expression_is("u'a' 'b'", "Constant value=\"ab\" kind=u\n");
  expression_is("'a' u'b'", "Constant value=\"ab\"\n");
  expression_is("'\\ud800' '\\U0001F600'", "Constant value=\"\\xed\\xa0\\x80\\xf0\\x9f\\x98\\x80\"\n");
  expression_is("'\\N{bullet}\\N{LINE FEED}\\N{Hangul Syllable GGWAELB}\\N{CJK UNIFIED IDEOGRAPH-4E2D}'",
                "Constant value=\"\\xe2\\x80\\xa2\\n\\xea\\xbd\\xaf\\xe4\\xb8\\xad\"\n");
  expression_is("''", "Constant value=\"\"\n");
  expression_is("('a'\n 'b')", "Constant value=\"ab\"\n");
  char *got = outcome("'a\\0b'", 6, true, false); /* a NUL is a character of the value */
  assert_string_equal(got, "Constant value=\"a\\x00b\"\n");
  free(got);
}

static void fstrings(void **state) {
  tree_is(
      "f'a{{{x!r:>{w}.2f}' 'b' f\"{f\"{'n'}\"}\"",
      "Module\n .body\n  Expr 1:0-1:37\n   .value\n    JoinedStr 1:0-1:37\n     .values\n"
      "      Constant 1:2-1:5 value=\"a{\"\n"
      "      FormattedValue 1:5-1:18 conversion=114\n       .value\n        Name 1:6-1:7 id=x ctx=Load\n       "
      ".format_spec\n"
      "        JoinedStr 1:9-1:17\n         .values\n          Constant 1:10-1:11 value=\">\"\n"
      "          FormattedValue 1:11-1:14 conversion=-1\n           .value\n            Name 1:12-1:13 id=w ctx=Load\n"
      "          Constant 1:14-1:17 value=\".2f\"\n"
      "      Constant 1:20-1:23 value=\"b\"\n"
      "      FormattedValue 1:26-1:36 conversion=-1\n       .value\n        JoinedStr 1:27-1:35\n         .values\n"
      "          FormattedValue 1:29-1:34 conversion=-1\n           .value\n            Constant 1:30-1:33 "
      "value=\"n\"\n");
  expression_is("f'{ x = }'", "JoinedStr\n .values\n  Constant value=\" x = \"\n  FormattedValue conversion=114\n   "
                              ".value\n    Name id=x ctx=Load\n");
  expression_is("f'{x=:d}'", "JoinedStr\n .values\n  Constant value=\"x=\"\n  FormattedValue conversion=-1\n   "
                             ".value\n    Name id=x ctx=Load\n"
                             "   .format_spec\n    JoinedStr\n     .values\n      Constant value=\"d\"\n");
  expression_is("f'{x  # why\n = }'", "JoinedStr\n .values\n  Constant value=\"x  \\n = \"\n  FormattedValue "
                                      "conversion=114\n   .value\n    Name id=x ctx=Load\n");
  expression_is("f'{\"#\"=}'", "JoinedStr\n .values\n  Constant value=\"\\\"#\\\"=\"\n  FormattedValue "
                               "conversion=114\n   .value\n    Constant value=\"#\"\n");
  expression_is("f''", "JoinedStr\n");
  expression_is("rf'\\{x}'", "JoinedStr\n .values\n  Constant value=\"\\\\\"\n  FormattedValue conversion=-1\n   "
                             ".value\n    Name id=x ctx=Load\n");
  expression_is("f'{x!=y}'", "JoinedStr\n .values\n  FormattedValue conversion=-1\n   .value\n    Compare ops=NotEq\n  "
                             "   .left\n      Name id=x ctx=Load\n"
                             "     .comparators\n      Name id=y ctx=Load\n");
}

static void identifiers(void **state) {
  Context *cx = context_create();
  Source *src = source_from_text(cx, "t.py", "ﬁne = fine = ᵅ\n", strlen("ﬁne = fine = ᵅ\n"));
  assert_true(context_try(cx));
  Node *m = parse_module(cx, src);
  context_end_try(cx);
  const Node *a = m->Module.body.at[0];
  assert_int_equal(a->kind, NODE_ASSIGN);
  assert_ptr_equal(a->Assign.targets.at[0]->Name.id, a->Assign.targets.at[1]->Name.id);
  assert_ptr_equal(a->Assign.targets.at[0]->Name.id, intern_z(cx, "fine"));
  assert_ptr_equal(a->Assign.value->Name.id, intern_z(cx, "ɑ"));
  assert_ptr_equal(a->span.source, src);
  assert_int_equal(a->Assign.targets.at[1]->span.col, 8); /* bytes */
  context_destroy(cx);
  same_tree("e\u0301\u0323 = 1", "\u1eb9\u0301 = 1"); /* marks are sorted, then composed */
  same_tree("\u1112\u1161\u11ab = 1", "\ud55c = 1");
}

/* ---- text
 * ---------------------------------------------------------------------------------------------------------------- */

static void line_ends(void **state) {
  const char *unix_text = "if a:\n  b = '''x\ny''' + \\\n 1\n\nc\n", *places = "Assign 2:2-4:2";
  char *a = outcome(unix_text, strlen(unix_text), false, true);
  assert_non_null(strstr(a, places));
  const char *dos = "if a:\r\n  b = '''x\r\ny''' + \\\r\n 1\r\n\r\nc\r\n",
             *mac = "if a:\r  b = '''x\ry''' + \\\r 1\r\rc\r";
  char *b = outcome(dos, strlen(dos), false, true), *c = outcome(mac, strlen(mac), false, true);
  assert_string_equal(a, b);
  assert_string_equal(a, c);
  free(a);
  free(b);
  free(c);
}

static void layout(void **state) {
  same_tree("if a:\n\tb\n\tc\n", "if a:\n        b\n        c\n");
  same_tree("\n\n  # comment\n\f\na\n   \n", "a");
  same_tree("if a: b; c;\nelse: d\n", "if a:\n  b\n  c\nelse:\n    d");
  same_tree("x = [\n1,\n # c\n2]\n", "x = [1, 2]");
  same_tree("def f(): # c\n# d\n  x\n # e\n  y\n", "def f():\n x\n y");
  same_tree("", "# nothing\n");
  same_tree("if a:\n  x\n\\\n\\\n  y",
            "if a:\n  x\n  y"); /* a joined line's indentation is its first part's that has any */
}

static void encodings(void **state) {
  const char latin[] = "# -*- coding: latin-1 -*-\nx = '\xe9', y\n";
  Context *cx = context_create();
  Source *src = source_from_text(cx, "t.py", latin, sizeof latin - 1);
  assert_true(context_try(cx));
  for (int twice = 0; twice < 2; twice++) {
    Node *m = parse_module(cx, src);
    const Node *value = m->Module.body.at[0]->Assign.value;
    assert_string_equal(value->Tuple.elts.at[0]->Constant.value.text, "é");
    assert_int_equal(value->Tuple.elts.at[1]->span.col, 10);
    assert_string_equal(value->span.source->path, "t.py");
  }
  context_end_try(cx);
  context_destroy(cx);
  message_is("x = 'a\xff'", "1:6-1:7: byte 0xff is not UTF-8 text (save the file as UTF-8, or name its encoding in its "
                            "first line: \"# coding: latin-1\")");
  message_is("#!/bin/x\n# coding=ascii\nx = 'é'",
             "3:5-3:6: byte 0xc3 is not ASCII, which the \"coding:\" line asks for (save the file as UTF-8, or name "
             "its encoding in its first line: \"# coding: latin-1\")");
  message_is("# coding: klingon\n", "1:10-1:17: unknown encoding: klingon (UTF-8, ASCII, Latin-1, cp1252 and koi8-r "
                                    "are read) (save the file as UTF-8)");
  same_tree("x\n# coding: klingon\n", "x"); /* only below an empty line or a comment */
  char *got = outcome("x = 1\0 + 2", 10, false, false);
  assert_string_equal(got, "1:5-1:6: source code cannot contain null bytes");
  free(got);
}

/* ---- messages
 * -------------------------------------------------------------------------------------------------------------- */

static void messages_of_the_lexer(void **state) {
  message_is("f(a,\n  b\nc = 1\n", "1:1-1:2: '(' was never closed");
  message_is("x = (1, [2)\n", "1:10-1:11: closing parenthesis ')' does not match opening parenthesis '['");
  message_is("x = (1,\n 2]\n", "2:2-2:3: closing parenthesis ']' does not match opening parenthesis '(' on line 1");
  message_is("x = 1)\n", "1:5-1:6: unmatched ')'");
  message_is("x = 'abc\ny = 2\n", "1:4-1:5: unterminated string literal (detected at line 1)");
  message_is("x = 'abc\\'\n", "1:4-1:5: unterminated string literal (detected at line 1) (perhaps the closing quote is "
                              "escaped by the backslash before it)");
  message_is("x = '''abc\ny = 2\n", "1:4-1:7: unterminated triple-quoted string literal (detected at line 2)");
  message_is("x = f'a{b}\n", "1:4-1:6: unterminated f-string literal (detected at line 1)");
  message_is("if a:\n    b\n  c\n", "3:0-3:2: unindent does not match any outer indentation level (give it the "
                                    "indentation of the block it belongs to)");
  message_is(
      "if a:\n        b\n\tc\n",
      "3:0-3:1: inconsistent use of tabs and spaces in indentation (indent with blanks only, or with tabs only)");
  message_is("  x = 1\n", "1:2-1:2: unexpected indent");
  message_is("x = 1\n  y = 2\n", "2:2-2:2: unexpected indent");
  message_is("x = 1 \\ \ny", "1:7-1:8: unexpected character after line continuation character (a backslash outside a "
                             "string must be the last character of its line)");
  message_is(
      "x = 0123",
      "1:4-1:8: leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers");
  message_is("x = 0o18", "1:7-1:8: invalid digit '8' in octal literal");
  message_is("x = 1__0", "1:5-1:6: invalid decimal literal");
  message_is("x = 3abc", "1:5-1:6: invalid decimal literal (a name cannot start with a digit)");
  message_is("x = a $ b", "1:6-1:7: invalid character '$'");
  message_is("x = “a”", "1:4-1:7: invalid character '“' (U+201C)");
  message_is("x\u00a0= 1",
             "1:1-1:3: invalid non-printable character U+00A0 (delete it, or put a plain blank in its place)");
  message_is("x = '\\x4'", "1:5-1:8: truncated '\\x' escape: 2 hex digits must follow (write '\\\\' for a backslash, "
                           "or put r before the string)");
  message_is("x = '''\n\\N{no such}'''", "2:0-2:11: unknown Unicode character name 'no such'");
  message_is("x = b'é'", "1:6-1:7: bytes can only contain ASCII literal characters (write it as '\\x..' escapes)");
}

static void messages_of_the_parser(void **state) {
  message_is("if x\n  y\n", "1:4-1:5: expected ':'");
  message_is("def f()\n  y\n", "1:7-1:8: expected ':'");
  message_is("def f:\n  y\n", "1:5-1:6: expected '('");
  message_is("for i in x:\nf()\n", "2:0-2:1: expected an indented block after 'for' statement on line 1");
  message_is("class A:\n", "1:8-1:8: expected an indented block after class definition on line 1");
  message_is("if x = 1:\n  y\n", "1:3-1:6: invalid syntax. Maybe you meant '==' or ':=' instead of '='?");
  message_is("if x.y = 1:\n  y\n", "1:3-1:6: cannot assign to attribute here. Maybe you meant '==' instead of '='?");
  message_is("f() = 1", "1:0-1:3: cannot assign to function call here. Maybe you meant '==' instead of '='?");
  message_is("a, f() = 1", "1:3-1:6: cannot assign to function call");
  message_is("None = 1", "1:0-1:4: cannot assign to None");
  message_is("a + 1 += 2", "1:0-1:5: 'expression' is an illegal expression for augmented assignment");
  message_is("a, b += 2", "1:0-1:4: 'tuple' is an illegal expression for augmented assignment");
  message_is("a, b: int", "1:0-1:4: only single target (not tuple) can be annotated");
  message_is("for f() in x: pass", "1:4-1:7: cannot assign to function call");
  message_is("with a as 1: pass", "1:10-1:11: cannot assign to literal");
  message_is("del f()", "1:4-1:7: cannot delete function call");
  message_is("del *a", "1:4-1:6: cannot delete starred");
  message_is("(a.b := 1)", "1:1-1:4: cannot use assignment expressions with attribute");
  message_is("x = [1 2]", "1:5-1:8: invalid syntax. Perhaps you forgot a comma?");
  message_is("x = a if b", "1:4-1:10: expected 'else' after 'if' expression");
  message_is("x = (*a)", "1:5-1:7: cannot use starred expression here");
  message_is("f(a=1, b)", "1:7-1:8: positional argument follows keyword argument");
  message_is("f(**a, *b)", "1:7-1:8: iterable argument unpacking follows keyword argument unpacking");
  message_is("f(a.b=1)", "1:2-1:6: expression cannot contain assignment, perhaps you meant \"==\"?");
  message_is("f(x for x in y, 1)", "1:2-1:14: Generator expression must be parenthesized");
  message_is("def f(a=1, b): pass", "1:11-1:12: parameter without a default follows parameter with a default");
  message_is("def f(*): pass", "1:6-1:7: named arguments must follow bare *");
  message_is("def f(a, (b, c)): pass", "1:9-1:10: Function parameters cannot be parenthesized");
  message_is("{1: 2, 3}", "1:7-1:8: ':' expected after dictionary key");
  message_is("{1:}", "1:2-1:3: expression expected after dictionary key and ':'");
  message_is("[*a for a in b]", "1:1-1:3: iterable unpacking cannot be used in comprehension");
  message_is("[a, b for a, b in c]", "1:1-1:5: did you forget parentheses around the comprehension target?");
  message_is("try:\n  a\nb\n", "3:0-3:1: expected 'except' or 'finally' block");
  message_is("try:\n  a\nexcept A, B:\n  b\n", "3:7-3:9: multiple exception types must be parenthesized");
  message_is("try:\n  a\nexcept A:\n  b\nexcept* B:\n  c\n",
             "5:0-5:6: cannot have both 'except' and 'except*' on the same 'try'");
  message_is("import a from b", "1:0-1:13: Did you mean to use 'from ... import ...' instead?");
  message_is("from a import b,", "1:15-1:16: trailing comma not allowed without surrounding parentheses");
  message_is("print 'a', b", "1:0-1:12: Missing parentheses in call to 'print'. Did you mean print(...)?");
  message_is("'a' b'b'", "1:0-1:8: cannot mix bytes and nonbytes literals");
  message_is("f'{}'", "1:3-1:4: f-string: valid expression required before '}'");
  message_is("f'{a!x}'", "1:5-1:6: f-string: invalid conversion character 'x': expected 's', 'r', or 'a'");
  message_is("f'{a'", "1:4-1:5: f-string: expecting '}'");
  message_is("f'}'", "1:2-1:3: f-string: single '}' is not allowed (write '}}' for a brace in the text)");
  message_is("f'{lambda x: 1}'", "1:3-1:9: f-string: lambda expressions are not allowed without parentheses");
  message_is("match x:\n case a.b as c.d: pass\n", "2:13-2:14: invalid pattern target");
  message_is("match x:\n case {a: 1}: pass\n",
             "2:7-2:8: mapping pattern keys may only match literals and attribute lookups");
  message_is("match x:\n y\n", "2:1-2:2: expected 'case' in a 'match' statement");
  message_is("match x:\n case _.a: pass\n", "2:7-2:8: expected ':'");
  message_is("deff(x): pass", "1:7-1:8: invalid syntax: ':' cannot stand here");
  message_is("f(): 1", "1:0-1:3: illegal target for annotation");
  message_is("class = 1", "1:6-1:7: invalid syntax: '=' cannot stand here");
  message_is("x = ", "1:3-1:3: invalid syntax: the line ends too early");
  message_is("x y", "1:2-1:3: invalid syntax: a name cannot stand here");
}

static void an_expression_alone(void **state) {
  expression_is("  cdiv(n, BLOCK)  # grid\n\n",
                "Call\n .func\n  Name id=cdiv ctx=Load\n .args\n  Name id=n ctx=Load\n  Name id=BLOCK ctx=Load\n");
  expression_is("(a,\n b)", "Tuple ctx=Load\n .elts\n  Name id=a ctx=Load\n  Name id=b ctx=Load\n");
  const struct {
    const char *text, *message;
  } wrong[] = {
      {"", "1:0-1:0: expected an expression"},
      {"   \n", "2:0-2:0: expected an expression"},
      {"a = 1", "1:2-1:3: invalid syntax: '=' cannot stand here"},
      {"a; b", "1:1-1:2: invalid syntax: ';' cannot stand here"},
      {"a\nb", "2:0-2:1: invalid syntax: a name cannot stand here"},
      {"cdiv(n, 4", "1:4-1:5: '(' was never closed"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) expression_is(wrong[i].text, wrong[i].message);
}

/* ---- limits
 * ------------------------------------------------------------------------------------------------------------------ */

static void hostile_nesting(void **state) {
  const struct {
    const char *head, *part;
    int n;
    const char *tail, *message;
  } wrong[] = {
      {"", "(", 100000, "", "1:200-1:201: too many nested parentheses"},
      {"", "-", 100000, "1", "too many nested expressions or statements"},
      {"", "not ", 100000, "1", "too many nested expressions or statements"},
      {"", "lambda: ", 100000, "1", "too many nested expressions or statements"},
      {"", "a if b else ", 100000, "1", "too many nested expressions or statements"},
      {"a", ".b", 100000, "", "too many nested expressions or statements"},
      {"a", "()", 100000, "", "too many nested expressions or statements"},
      {"a", " + a", 100000, "", "too many nested expressions or statements"},
      {"a", " ** a", 100000, "", "too many nested expressions or statements"},
      {"if a:\n b\n", "elif a:\n b\n", 100000, "", "too many nested expressions or statements"},
      {"", "f'{", 100000, "", "too many nested f-strings"},
      {"", "9", 4301, "", "exceeds the limit (4300 digits) for a decimal integer: it has 4301 digits"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char *text = repeat(wrong[i].head, wrong[i].part, wrong[i].n, wrong[i].tail);
    char *got = outcome(text, strlen(text), false, false);
    if (!strstr(got, wrong[i].message)) print_error("%s...: %.200s\n", wrong[i].part, got);
    assert_non_null(strstr(got, wrong[i].message));
    free(got);
    free(text);
  }
  /* long is not deep */
  const struct {
    const char *head, *part;
    int n;
    const char *tail;
  } right[] = {
      {"a", " and a", 20000, ""}, {"a", " < a", 20000, ""},         {"f(", "a,", 20000, ")"},
      {"", "a\n", 20000, ""},     {"a", " + a", 900, ""},           {"", "'a' ", 20000, ""},
      {"", "a = ", 20000, "1"},   {"[", "a.b(c + d),", 20000, "]"}, {"", "(", 199, ""},
  };
  for (size_t i = 0; i + 1 < sizeof right / sizeof right[0]; i++) {
    char *text = repeat(right[i].head, right[i].part, right[i].n, right[i].tail);
    char *got = outcome(text, strlen(text), false, false);
    if (memcmp(got, "Module", 6) != 0) print_error("%s...: %.200s\n", right[i].part, got);
    assert_memory_equal(got, "Module", 6);
    free(got);
    free(text);
  }
  Buf deep = {0};
  for (int i = 0; i < 101; i++) buf_printf(&deep, "%*sif a:\n", i, "");
  char *got = outcome(deep.at, deep.n, false, false);
  assert_string_equal(got, "101:100-101:101: too many levels of indentation");
  free(got);
  buf_destroy(&deep);
}

/* ---- the tree's own functions
 * ------------------------------------------------------------------------------------------------- */

static void count(void *arg, Node *child) { (*(int *)arg)++; }

static void children(void **state) {
  Context *cx = context_create();
  const char *text = "{a: b, **c}";
  Source *src = source_from_text(cx, "t.py", text, strlen(text));
  assert_true(context_try(cx));
  Node *dict = parse_expression(cx, src);
  context_end_try(cx);
  assert_int_equal(dict->kind, NODE_DICT);
  assert_int_equal(dict->Dict.keys.n, 2);
  assert_null(dict->Dict.keys.at[1]);
  int n = 0;
  node_children(dict, count, &n);
  assert_int_equal(n, 3);
  assert_string_equal(node_name(dict->kind), "Dict");
  assert_string_equal(pyop_name(PYOP_FLOOR_DIV), "FloorDiv");
  assert_string_equal(pyop_symbol(PYOP_NOT_IN), "not in");
  context_destroy(cx);
}

/* Every kind's fields are in the table of ast.c: no child of any node is passed over. */
static void every_kind_is_dumped(void **state) {
  const char *text =
      "def cc(): pass\n"
      "async def f[T](a, /, b, *c, d=1, **e) -> g:\n"
      "  async with h as i: await j\n"
      "  async for k in l: pass\n"
      "  nonlocal m\n"
      "  return (yield), (yield from n)\n"
      "class A[*U, **V](o, p=q): r: s = 1\n"
      "for t in u: break\n"
      "while v: continue\n"
      "try: raise w from x\n"
      "except* y as z: global aa\n"
      "try: assert ab, ac\n"
      "except ad: del ae\n"
      "finally: import af as ag\n"
      "from ..ah import ai\n"
      "with aj: ak += al\n"
      "type am = an\n"
      "match ao:\n case [ap, *aq] | {1: ar} | B(as_, at=au) | True | 2 | _: pass\n"
      "{av: aw for ax in ay if az}; {ba for ba in bb}; [bc for bc in bd]; (be for be in bf); {bg}; {bh: bi}; [*bj]\n"
      "f'{bk:{bl}}'; bm[bn:bo:bp]; lambda: (bq := br); bs if bt else bu; not bv; bw and bx; by < bz; ca.cb; cd = cf() "
      "+ 1\n"
      "import ce\n";
  char *got = outcome(text, strlen(text), false, false);
  for (int k = 0; k < NODE_KIND_COUNT; k++) {
    char name[64];
    snprintf(name, sizeof name, "%s", node_name((NodeKind)k));
    const char *at = strstr(got, name);
    while (at && !(at == got || at[-1] == ' ' || at[-1] == '\n')) at = strstr(at + 1, name);
    if (!at) print_error("no %s in the dump\n", name);
    assert_non_null(at);
  }
  for (char a = 'a'; a <= 'c'; a++) /* every name of the text is in the dump */
    for (char b = 'a'; b <= 'z'; b++) {
      char name[] = {a, b, 0}, in_dump[] = {'=', a, b, 0};
      const char *at = strstr(text, name);
      bool there = false;
      for (; at && !there; at = strstr(at + 1, name))
        there = !(at[-1] >= 'a' && at[-1] <= 'z') && !(at[2] >= 'a' && at[2] <= 'z') && at[2] != '_';
      if (there && strcmp(name, "as") && strcmp(name, "at") && !strstr(got, in_dump) && !strstr(got, name))
        fail_msg("no %s in the dump", name);
    }
  free(got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kernel),
      cmocka_unit_test(operators_bind_as_in_python),
      cmocka_unit_test(brackets_leave_no_trace_but_in_places),
      cmocka_unit_test(soft_keywords_are_names_elsewhere),
      cmocka_unit_test(type_parameters),
      cmocka_unit_test(numbers),
      cmocka_unit_test(numbers_in_a_locale_with_commas),
      cmocka_unit_test(strings),
      cmocka_unit_test(fstrings),
      cmocka_unit_test(identifiers),
      cmocka_unit_test(line_ends),
      cmocka_unit_test(layout),
      cmocka_unit_test(encodings),
      cmocka_unit_test(messages_of_the_lexer),
      cmocka_unit_test(messages_of_the_parser),
      cmocka_unit_test(an_expression_alone),
      cmocka_unit_test(hostile_nesting),
      cmocka_unit_test(children),
      cmocka_unit_test(every_kind_is_dumped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
