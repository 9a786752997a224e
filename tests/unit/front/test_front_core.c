/* The front end's core: names, constexprs, control flow, calls, compound values. Accepting and refusing is
 * Triton 3.6's, tried on its own front end; values are what Python computes. */
#include "test_front_kit.h"

#define K HEAD "@triton.jit\n"

/* ---- constexpr and run-time values ------------------------------------------------------------------------------- */

static void a_plain_assignment_demotes(void **state) {
  kit_refuses(K "def k(x, N: tl.constexpr):\n    n = N * 2\n    tl.store(x + tl.arange(0, n), 1.0)\n",
              "arange's arguments must be of type tl.constexpr, but `end` is a run-time value (i32)");
  kit_accepts(K "def k(x, N: tl.constexpr):\n    n: tl.constexpr = N * 2\n    tl.store(x + tl.arange(0, n), 1.0)\n");
  kit_refuses(K
              "def k(x, N: tl.constexpr):\n    s = tl.zeros([N], tl.float32).shape\n    y = tl.zeros(s, tl.float32)\n",
              "Shape element 0 must have type `constexpr[int]`, but it is a run-time value (i32)");
  kit_accepts(K
              "def k(x, N: tl.constexpr):\n    z = tl.zeros([N], tl.float32)\n    y = tl.zeros(z.shape, tl.float32)\n");
  kit_builds(K "def k(out):\n    flag = True\n    if flag:\n        tl.store(out, 1)\n", "if %");
}

static void a_constexpr_is_assigned_once(void **state) {
  kit_refuses(K "def k(x):\n    a: tl.constexpr = 1\n    a: tl.constexpr = 2\n",
              "k.py:6:5: error: a is already defined. constexpr cannot be reassigned");
  kit_accepts(K "def k(out):\n    a: tl.constexpr = 1\n    a = 2\n    tl.store(out, a)\n");
  kit_accepts(K "def k(out):\n    a: tl.constexpr\n    a = 16\n    tl.store(out + tl.arange(0, a), 1)\n");
  kit_refuses(K "def k(out):\n    for i in tl.static_range(2):\n        a: tl.constexpr = 16 * (i + 1)\n        "
                "tl.store(out + tl.arange(0, a), 1)\n",
              "a is already defined. constexpr cannot be reassigned");
  kit_builds(K "def k(out):\n    a: tl.int64 = 1\n    tl.store(out, a)\n", "const {value=1} : i32");
}

static void constants_compute_as_python_does(void **state) {
  static const struct {
    const char *expression;
    int32_t value;
  } cases[] = {{"-7 // 2", -4},
               {"-7 % 2", 1},
               {"7 // -2", -4},
               {"2 ** 10", 1024},
               {"1 << 4 | 3", 19},
               {"~5 & 0xff", 250},
               {"(3, 4, 5)[-1]", 5},
               {"(3, 4, 5)[1:][0]", 4},
               {"len((1, 2) + (3,))", 3},
               {"N.bit_length()", 5},
               {"int(7.9)", 7},
               {"N if 0 < N and N < 20 else 0", 16},
               {"(N > 3) and 5 or 6", 5},
               {"max(3, N, 4)", 16},
               {"len('abc' * 3)", 9},
               {"tl.cdiv(17, 4)", 5},
               {"triton.next_power_of_2(17)", 32},
               {"'a b'.split()[1] == 'b'", 1},
               {"[1, 2, 3][2]", 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text,
             K "def k(out, n, N: tl.constexpr):\n    v: tl.constexpr = %s\n    tl.store(out, v + n * 0)\n",
             cases[i].expression);
    kit_gives(text, 3, 1, &cases[i].value);
  }
  kit_refuses(K "def k(out):\n    tl.store(out, 1 // 0)\n", "division by zero");
  kit_refuses(K "def k(out):\n    tl.store(out, 'a' + 1)\n",
              "unsupported operand type(s) for +: 'str' and 'int': 'a' and 1");
  kit_refuses(K "def k(out):\n    tl.store(out, (1, 2)[2])\n", "list index out of range: 2, in a tuple of 2");
}

static void globals_must_be_constexpr(void **state) {
  kit_refuses(HEAD "G = 4\n@triton.jit\ndef k(out):\n    tl.store(out, G)\n",
              "hint: write G = tl.constexpr(4) where it is defined");
  kit_accepts(HEAD "G = tl.constexpr(4)\n@triton.jit\ndef k(out):\n    tl.store(out + tl.arange(0, G), 1)\n");
  kit_refuses(HEAD "G: tl.constexpr = 4\n@triton.jit\ndef k(out):\n    tl.store(out + tl.arange(0, G), 1)\n",
              "Cannot access global variable G from within @jit'ed function");
  kit_accepts(HEAD "DT = tl.float16\n@triton.jit\ndef k(x):\n    tl.store(x, tl.load(x).to(DT))\n");
  kit_accepts(HEAD "G = 4\n@triton.jit\ndef k(out, B: tl.constexpr = G):\n    tl.store(out + tl.arange(0, B), 1)\n");
  kit_accepts(HEAD "import math\n@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x, math.log2(N) + math.pi)\n");
}

static void unknown_names_are_told_with_the_nearest(void **state) {
  kit_refuses(K "def k(x, block_size: tl.constexpr = 4):\n    tl.store(x, blok_size)\n", "did you mean `block_size`?");
  kit_refuses(K "def k(x):\n    tl.store(x, tl.lod(x))\n", "did you mean `load`?");
  kit_refuses(K "def k(x):\n    tl.store(x, sorted(x))\n", "k.py:5:17: error: sorted is not defined in a kernel");
  kit_refuses(HEAD "from nowhere import thing\n@triton.jit\ndef k(x):\n    tl.store(x, thing(x))\n",
              "module 'nowhere', which was not found");
  kit_refuses(K "def k(x):\n    tl.store(x, (3).foo)\n", "'int' object has no attribute 'foo': it is 3");
  kit_refuses(K "def k(x, one):\n    tl.store(x, one.to(tl.float32))\n",
              "'int' object has no attribute 'to': the constexpr 1 is no tensor");
}

/* ---- statements that kernels do not have ------------------------------------------------------------------------- */

static void statements_outside_the_language(void **state) {
  static const struct {
    const char *body, *message;
  } cases[] = {
      {"a = b = 1", "Simultaneous multiple assignment is not supported"},
      {"a, *b = (1, 2)", "a starred target cannot be used in a kernel"},
      {"a, (b, c) = 1, (2, 3)", "unhashable type: 'list'"},
      {"t = (1, *(2, 3))", "`*` here cannot be used in a kernel"},
      {"for i in tl.static_range(2):\n        pass\n    else:\n        n = n + 1", "else after for"},
      {"a, b, c = (1, 2)", "2 values cannot be unpacked into 3 names"},
      {"f = lambda v: v", "`lambda` cannot be used in a kernel"},
      {"d = {}", "a dict cannot be used in a kernel"},
      {"x[0] = 1", "an item cannot be assigned"},
      {"x.y = 1", "Attribute assignment is not supported in triton"},
      {"del x", "`del` cannot be used in a kernel"},
      {"import math", "`import` cannot be used in a kernel"},
      {"raise x", "`raise` cannot be used in a kernel"},
      {"tl.store(x, n ** 2)", "`**` does not work on tensors"},
      {"tl.store(x, x @ x)", "use tl.dot(a, b)"},
      {"tl.store(x, 0 < n < 3)", "simultaneous multiple comparison is not supported"},
      {"tl.store(x, x == None)", "a tensor cannot be compared with None"},
      {"tl.static_print(f'{n}')", "Cannot evaluate f-string containing non-constexpr conversion values"},
      {"tl.float32(n)", "'dtype' object is not callable"},
      {"t = (1, 2)[n]", "indexed by constexpr integers"},
      {"tl.advance(tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,)), (4,))",
       "The result of tl.advance is not being used"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, K "def k(x, n):\n    %s\n", cases[i].body);
    kit_refuses(text, cases[i].message);
  }
}

/* ---- if ---------------------------------------------------------------------------------------------------------- */

static void a_runtime_if_merges_names(void **state) {
  kit_gives(K "def k(out, n):\n    if n > 1:\n        a = 10\n    elif n == 1:\n        a = 20\n    else:\n        a = "
              "30\n    tl.store(out, a)\n",
            0, 3, (int32_t[]){30, 20, 10});
  kit_gives(K "def k(out, n):\n    a = 1\n    if n > 1:\n        a = a + 5\n    tl.store(out, a)\n", 1, 2,
            (int32_t[]){1, 6});
  kit_gives(K
            "def k(out, n):\n    a = 1\n    b = 2\n    if n > 1:\n        a, b = b, a\n    tl.store(out, a * 10 + b)\n",
            1, 2, (int32_t[]){12, 21});
  kit_gives(K "def k(out, n):\n    t = (n, 1, (n, 2))\n    if n > 1:\n        t = (n + 1, 1, (7, 2))\n    "
              "tl.store(out, t[0] + t[2][0])\n",
            1, 2, (int32_t[]){2, 10});
  kit_refuses(K "def k(x, n):\n    if n > 0:\n        a = 1.0\n    else:\n        a = 2\n    tl.store(x, a)\n",
              "Mismatched type for a between then block (f32 scalar) and else block (i32 scalar)");
  kit_refuses(K "def k(x, n):\n    if n > 0:\n        a = 1.0\n    tl.store(x, a)\n",
              "`a` is not defined here: it is assigned in only one branch of the `if` in line 5");
  kit_refuses(
      K "def k(x, n):\n    a = 1\n    if n > 0:\n        a = 2.0\n    tl.store(x, a)\n",
      "k.py:7:9: error: initial value for `a` is of type i32 scalar, but the then block redefines it as f32 scalar");
  kit_refuses(K "def k(x, n, N: tl.constexpr):\n    if n > 0:\n        N = 3\n",
              "`N` is the constexpr 16 and cannot be changed inside a run-time `if`");
  kit_refuses(K "def k(x, n):\n    if n > 0:\n        return\n    else:\n        a = 1\n    tl.store(x, a)\n",
              "`a` is not defined here");
  kit_refuses(K "def k(x, n):\n    a = 1\n    if n > 0:\n        a = 2.0\n        return\n    tl.store(x, a)\n",
              "but the then block redefines it as f32 scalar");
}

static void none_keeps_its_value(void **state) {
  Kit k = kit_compile(
      K "def k(out, n):\n    a = None\n    if n > 0:\n        a = 1\n    if a is None:\n        tl.store(out, 1)\n");
  assert_non_null(k.c);
  assert_non_null(strstr(k.messages, "warning: `a` is None before this run-time `if` and stays so after it"));
  kit_free(&k);
  kit_accepts(
      K "def k(out, n):\n    a = None\n    if n > 0:\n        a = 1\n    else:\n        a = 2\n    tl.store(out, a)\n");
}

static void constexpr_conditions_are_resolved(void **state) {
  kit_accepts(K "def k(out, N: tl.constexpr):\n    if N > 3:\n        z = 5\n    else:\n        q = undefined(3)\n    "
                "tl.store(out, z)\n");
  kit_accepts(
      K "def k(out, none):\n    if none is None:\n        tl.store(out, 1)\n    if none:\n        undefined(1)\n");
  kit_accepts(K "def k(out, N: tl.constexpr):\n    tl.store(out, 1 if N > 0 else undefined)\n");
  kit_refuses(
      K "def k(x):\n    s: tl.constexpr = 'relu'\n    if s:\n        tl.store(x, 1)\n",
      "`if` conditionals can only accept values of type {bool, int, NoneType}, not objects of type str: 'relu'");
  kit_refuses(K "def k(x):\n    if 1.5:\n        tl.store(x, 1)\n", "not objects of type float: 1.5");
  kit_refuses(K "def k(x, N: tl.constexpr):\n    if tl.arange(0, N) > 3:\n        tl.store(x, 1)\n", "ambiguous");
  kit_refuses(K "def k(x, n):\n    tl.store(x, 1.0 if n > 0 else 2)\n",
              "Ternary expression with dynamic condition has inconsistent types f32 scalar and i32 scalar");
  kit_gives(K "def k(out, n):\n    tl.store(out, 7 if n > 1 else n)\n", 1, 2, (int32_t[]){1, 7});
  kit_gives(K "def k(out, n, N: tl.constexpr = 16):\n    if N > 3 and n > 1 and n < 3:\n        tl.store(out, 1)\n", 1,
            3, (int32_t[]){-1, 1, -1});
}

/* ---- return ------------------------------------------------------------------------------------------------------ */

static void early_returns(void **state) {
  kit_gives(K "def k(out, n):\n    if n > 1:\n        return\n    tl.store(out, 5)\n", 1, 2, (int32_t[]){5, -1});
  kit_gives(
      K "def k(out, n):\n    if n > 1:\n        tl.store(out, 5)\n    else:\n        return\n    tl.store(out, 6)\n", 1,
      2, (int32_t[]){-1, 6});
  static const char nested[] = K "def k(out, n):\n    if n > 0:\n        if n > 2:\n            return\n        v = "
                                 "3\n        if n == 2:\n            tl.store(out, 9)\n            return\n"
                                 "    else:\n        v = 4\n    tl.store(out, v)\n";
  kit_gives(nested, 0, 4, (int32_t[]){4, 3, 9, -1});
  static const char deep[] =
      K "def k(out, n):\n    s = 1\n    if n > 0:\n        s = s + 10\n        if n > 1:\n            s = s + 100\n    "
        "        if n > 2:\n                s = s + 1000\n                tl.store(out, s)\n"
        "                return\n            s = s + 1\n        s = s * 2\n    tl.store(out, s + 5)\n";
  kit_gives(deep, 0, 4, (int32_t[]){6, 27, 229, 1111});
  static const char in_static[] =
      K "def k(out, n):\n    s = 0\n    for i in tl.static_range(4):\n        if i == n:\n            tl.store(out, "
        "s)\n            return\n        s = s + 10 + i\n    tl.store(out, s + 1000)\n";
  kit_gives(in_static, 0, 6, (int32_t[]){0, 10, 21, 33, 1046, 1046});
  static const char under_constexpr[] = K "def k(out, n, N: tl.constexpr = 16):\n    if N > 3:\n        if n > 1:\n    "
                                          "        return\n    tl.store(out, 8)\n";
  kit_gives(under_constexpr, 1, 2, (int32_t[]){8, -1});
  kit_refuses(K "def k(x, n):\n    for i in range(n):\n        if i > 3:\n            return\n",
              "Cannot have `return` statements inside `while` or `for` statements in triton");
}

static void returned_values(void **state) {
  static const char f[] = HEAD "@triton.jit\ndef f(n):\n    if n > 2:\n        return n + 100\n    if n > 1:\n        "
                               "b = n * 2\n        if n == 2:\n            return b\n    return 7\n"
                               "@triton.jit\ndef k(out, n):\n    tl.store(out, f(n))\n";
  kit_gives(f, 1, 3, (int32_t[]){7, 4, 103});
  kit_gives(HEAD "@triton.jit\ndef f(n):\n    if n > 2:\n        return n, 1\n    else:\n        return 5, "
                 "1\n@triton.jit\ndef k(out, n):\n    a, b = f(n)\n    tl.store(out, a * 10 + b)\n",
            2, 2, (int32_t[]){51, 31});
  kit_accepts(
      HEAD
      "@triton.jit\ndef f():\n    return 16\n@triton.jit\ndef k(out):\n    tl.store(out + tl.arange(0, f()), 1)\n");
  kit_accepts(HEAD "@triton.jit\ndef f(n):\n    if n > 0:\n        return n\n@triton.jit\ndef k(out, n):\n    v = "
                   "f(n)\n    tl.store(out, 1)\n");
  kit_refuses(HEAD "@triton.jit\ndef f(n):\n    if n > 0:\n        return 1\n    return 2.0\n@triton.jit\ndef k(out, "
                   "n):\n    v = f(n)\n",
              "Inconsistent return types: i32 scalar and f32 scalar");
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void runtime_loops(void **state) {
  kit_gives(K "def k(out, n):\n    s = 0\n    for i in range(n):\n        s += i\n    tl.store(out, s)\n", 0, 5,
            (int32_t[]){0, 0, 1, 3, 6});
  kit_gives(K
            "def k(out, n):\n    s = 0\n    for i in range(n, 0, -2):\n        s = s * 10 + i\n    tl.store(out, s)\n",
            4, 3, (int32_t[]){42, 531, 642});
  kit_gives(K "def k(out, n):\n    s = 0\n    for i in tl.range(1, n, 3, num_stages=2):\n        for j in range(i):\n  "
              "          s += j\n    tl.store(out, s)\n",
            4, 2, (int32_t[]){0, 6});
  kit_gives(K "def k(out, n):\n    i = 0\n    s = 0\n    while i * i < n:\n        i += 1\n        s += i\n    "
              "tl.store(out, s)\n",
            4, 2, (int32_t[]){3, 6});
  kit_gives(
      K "def k(out, n):\n    a = 0\n    b = 1\n    for i in range(n):\n        a, b = b, a + b\n    tl.store(out, a)\n",
      6, 2, (int32_t[]){8, 13});
  kit_gives(
      K "def k(out, n):\n    s = 0\n    for i in range(n):\n        i = i * 2\n        s += i\n    tl.store(out, s)\n",
      3, 1, (int32_t[]){6});
  kit_gives(K "def k(out, n):\n    acc = 0\n    for i in tl.static_range(3):\n        acc = acc + i * n\n    "
              "tl.store(out, acc)\n",
            5, 1, (int32_t[]){15});
  kit_builds(K "def k(x, n):\n    y = 2.0\n    for i in range(n):\n        tl.store(x + i, y)\n", "for %0, %n, %");
  kit_builds(K "def k(out, n):\n    for i in range(n.to(tl.int64)):\n        tl.store(out + i, 1)\n", "(%i: i64)");
  kit_builds(K "def k(out, n):\n    for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):\n       "
               " tl.store(out + i, 1)\n",
             "num_stages=3, unroll=2, flags=1");
}

static void loops_that_are_wrong(void **state) {
  kit_refuses(K "def k(x, n):\n    acc = 0\n    for i in range(n):\n        acc += 1.0\n",
              "k.py:7:9: error: Loop-carried variable acc has initial type i32 scalar but is re-assigned to f32 scalar "
              "in loop!");
  kit_refuses(K "def k(x, n):\n    acc = None\n    for i in range(n):\n        acc = 1.0\n",
              "cannot reassign constexpr acc in the loop: it is None before");
  kit_refuses(K "def k(x, n, N: tl.constexpr):\n    for i in range(n):\n        N = N + 1\n",
              "cannot reassign constexpr N in the loop: it is 16 before");
  kit_refuses(K "def k(x, n):\n    for i in range(n):\n        t = i\n    tl.store(x, t)\n",
              "it is assigned only inside the loop in line 5");
  kit_refuses(K "def k(x, n):\n    for i in range(n):\n        break\n", "`break` cannot be used in a kernel");
  kit_refuses(K "def k(x, n):\n    for i in (1, 2):\n        pass\n",
              "Only `range` and `static_range` iterators are currently supported, not (1, 2)");
  kit_refuses(K "def k(x):\n    while True:\n        pass\n",
              "the condition of a `while` must be a run-time scalar, not True");
  kit_refuses(K "def k(x, f):\n    for i in range(f):\n        pass\n",
              "For loop bounds and step must all be ints: the end is f32 scalar");
  kit_refuses(K "def k(x, n):\n    for i in tl.static_range(0, 4, 0):\n        pass\n",
              "range() arg 3 must not be zero");
  kit_refuses(K "def k(x, n):\n    for i in range(n):\n        pass\n    else:\n        pass\n",
              "Don't know what to do with else after for");
  kit_refuses(K "def k(x, n):\n    for i in tl.static_range(n):\n        pass\n",
              "used as tl.static_range end value is not a constexpr");
  /* Triton accepts it */
  Kit k = kit_compile(K "def k(out, n):\n    for i in range(n):\n        pass\n    tl.store(out, i)\n");
  assert_non_null(k.c);
  assert_non_null(strstr(k.messages, "warning: `i` has no defined value here"));
  kit_free(&k);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

#define F HEAD "@triton.jit\ndef add(a, b=2):\n    return a + b\n@triton.jit\n"

static void calls(void **state) {
  /* defaults that Triton cannot pass, and some that it can */
  kit_refuses(F "def f(x, t=(1, 2)):\n    return x + t[0]\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(n))\n",
              "'int' object has no attribute 'type'");
  kit_refuses(F
              "def f(x, t: tl.constexpr = 'a'):\n    return x\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(n))\n",
              "'str' object has no attribute 'type'");
  kit_gives(HEAD "T = tl.constexpr((1, 2))\n@triton.jit\ndef f(x, t: tl.constexpr = T, u: tl.constexpr = None):\n"
                 "    return x + t[1]\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(n))\n",
            1, 1, (int32_t[]){3});
  kit_gives(F "def k(out, n):\n    tl.store(out, add(n) + add(n, b=10) + add(b=n, a=1))\n", 3, 1, (int32_t[]){22});
  kit_gives(F "def f(fn, v):\n    return fn(v, 1)\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(add, n) * (add, "
              "f)[0](n, n))\n",
            3, 1, (int32_t[]){24});
  kit_gives(F "def f(*a):\n    s = a[0]\n    for i in tl.static_range(1, len(a)):\n        s += a[i]\n    return "
              "s\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(n, 2, 3) + f(*(n, n)))\n",
            3, 1, (int32_t[]){14});
  kit_gives(F "def r(v, N: tl.constexpr):\n    if N == 0:\n        return v\n    else:\n        return r(v, N - 1) + "
              "1\n@triton.jit\ndef k(out, n):\n    tl.store(out, r(n, 5))\n",
            3, 1, (int32_t[]){8});
  kit_refuses(F "def r(v):\n    return r(v)\n@triton.jit\ndef k(out, n):\n    tl.store(out, r(n))\n",
              "recursion: r calls itself with arguments of the same types");
  kit_refuses(F "def k(out, n):\n    tl.store(out, add(n, n, n))\n",
              "add() takes 2 positional arguments but 3 were given");
  kit_refuses(F "def k(out, n):\n    tl.store(out, add())\n", "add() missing 1 required positional argument: 'a'");
  kit_refuses(F "def k(out, n):\n    tl.store(out, add(n, c=1))\n", "add() got an unexpected keyword argument 'c'");
  kit_refuses(F "def k(out, n):\n    tl.store(out, add(n, a=1))\n", "add() got multiple values for argument 'a'");
  kit_refuses(HEAD "def p(v):\n    return v\n@triton.jit\ndef k(out, n):\n    tl.store(out, p(n))\n",
              "p is a plain Python function");
  kit_refuses(HEAD
              "@triton.autotune([], [])\n@triton.jit\ndef t(out):\n    pass\n@triton.jit\ndef k(out, n):\n    t(out)\n",
              "can only be launched, not called");
}

static void errors_in_callees_carry_the_chain(void **state) {
  kit_refuses(HEAD "@triton.jit\ndef f(a):\n    return nothing\n@triton.jit\ndef g(a):\n    return "
                   "f(a)\n@triton.jit\ndef k(out, n):\n    tl.store(out, g(n))\n",
              "k.py:5:12: error: nothing is not defined");
  kit_refuses(HEAD "@triton.jit\ndef f(a):\n    return nothing\n@triton.jit\ndef g(a):\n    return "
                   "f(a)\n@triton.jit\ndef k(out, n):\n    tl.store(out, g(n))\n",
              "called from k.py:8:12");
  kit_refuses(HEAD "@triton.jit\ndef f(a):\n    return nothing\n@triton.jit\ndef g(a):\n    return "
                   "f(a)\n@triton.jit\ndef k(out, n):\n    tl.store(out, g(n))\n",
              "called from k.py:11:19");
}

static void compound_values(void **state) {
  static const char named[] =
      HEAD "from typing import NamedTuple\nclass P(NamedTuple):\n    a: tl.tensor\n    b: tl.constexpr = "
           "4\n@triton.jit\ndef k(out, n):\n    p = P(n)\n    tl.store(out, p.a * 10 + p.b)\n";
  kit_gives(named, 3, 1, (int32_t[]){34});
  static const char aggregate[] =
      HEAD "from triton.language.core import _aggregate as aggregate\n@aggregate\nclass A:\n    a: tl.tensor\n    n: "
           "tl.constexpr\n    @triton.constexpr_function\n    def __init__(self, a, n):\n"
           "        self.a = a\n        self.n = tl.constexpr(n)\n    @triton.jit\n    def get(self, m):\n        "
           "return self.a + self.n * m\n@triton.jit\ndef k(out, n):\n    p = A(n, 3)\n    for i in range(n):\n"
           "        p = A(p.a + 1, 3)\n    tl.store(out, p.get(100))\n";
  kit_gives(aggregate, 3, 1, (int32_t[]){306});
  kit_gives(K "def k(out, n):\n    t = (n, (1, n))\n    for i in range(n):\n        t = (t[0] + 1, (t[1][0], t[1][1] * "
              "2))\n    a, u = t\n    b, c = u\n    tl.store(out, a * 100 + c)\n",
            2, 2, (int32_t[]){408, 624});
  kit_gives(
      K
      "def k(out, n):\n    t = [v + 1 for v in (n, 2 * n)]\n    if (s := t[0] + t[1]) > 5:\n        tl.store(out, s)\n",
      1, 2, (int32_t[]){-1, 8});
  kit_refuses(HEAD "from typing import NamedTuple\nclass P(NamedTuple):\n    weight: tl.tensor\n@triton.jit\ndef "
                   "k(out, n):\n    p = P(n)\n    tl.store(out, p.weigth)\n",
              "did you mean `weight`?");
}

static void asserts_and_prints(void **state) {
  Kit k = kit_compile(K "def k(out, N: tl.constexpr):\n    tl.static_assert(N > 3, f'N is {N}')\n    "
                        "tl.static_print(f'N={N:04d}', N)\n    assert N > 100, 'no'\n");
  assert_non_null(k.c);
  assert_string_equal(k.printed, "N=16 16\n"); /* of an f-string's format Triton passes over */
  kit_free(&k);
  k = kit_compile(K "def k(out, N: tl.constexpr):\n    at = out + tl.arange(0, N)\n"
                    "    tl.static_print(at, out, tl.load(at), tl.full([4, 8], 0, tl.float16), tl.load(at) < 0)\n");
  assert_string_equal(k.printed, "pointer<int32>[constexpr[16]] pointer<int32>[] int32[constexpr[16]] "
                                 "fp16[constexpr[4], constexpr[8]] int1[constexpr[16]]\n");
  kit_free(&k);
  kit_refuses(K "def k(out, N: tl.constexpr):\n    tl.static_assert(N > 30, f'N is {N}')\n", "N is 16");
  k = kit_compile_with(K "def k(out, n):\n    assert n > 3, 'too small'\n", &(CompileOptions){.debug = true});
  Buf b = {0};
  tile_print(&b, k.c->func, 0);
  assert_non_null(strstr(b.at, "too small"));
  buf_destroy(&b);
  kit_free(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plain_assignment_demotes),
      cmocka_unit_test(a_constexpr_is_assigned_once),
      cmocka_unit_test(constants_compute_as_python_does),
      cmocka_unit_test(globals_must_be_constexpr),
      cmocka_unit_test(unknown_names_are_told_with_the_nearest),
      cmocka_unit_test(statements_outside_the_language),
      cmocka_unit_test(a_runtime_if_merges_names),
      cmocka_unit_test(none_keeps_its_value),
      cmocka_unit_test(constexpr_conditions_are_resolved),
      cmocka_unit_test(early_returns),
      cmocka_unit_test(returned_values),
      cmocka_unit_test(runtime_loops),
      cmocka_unit_test(loops_that_are_wrong),
      cmocka_unit_test(calls),
      cmocka_unit_test(errors_in_callees_carry_the_chain),
      cmocka_unit_test(compound_values),
      cmocka_unit_test(asserts_and_prints),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
