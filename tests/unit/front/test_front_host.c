/* What stands around kernels: files and imports, module constants, decorators, configurations, parameters and their
 * specialization. */
#include "test_front_kit.h"

#include <sys/stat.h>
#include <unistd.h>

#define K HEAD "@triton.jit\n"

/* ---- host code --------------------------------------------------------------------------------------------------- */

/* v, defined by `host`, must be the constexpr `value`. */
static void host_gives(const char *host, int32_t value) {
  char text[4096];
  snprintf(text, sizeof text, HEAD "%s\nV = tl.constexpr(v)\n@triton.jit\ndef k(out, n):\n    tl.store(out, V)\n",
           host);
  kit_gives(text, 1, 1, &value);
}

/* The length of v, which `host` defines, must not be known. */
static void host_refuses(const char *host, const char *why) {
  char text[4096];
  snprintf(text, sizeof text, HEAD "%s\nV = tl.constexpr(len(v))\n@triton.jit\ndef k(out, n):\n    tl.store(out, V)\n",
           host);
  kit_refuses(text, why);
}

static void module_constants(void **state) {
  host_gives("v = 3", 3);
  host_gives("v = 3\nv = v + 1", 4);
  host_gives("C = [1, 2]\nw = len(C)\nC = []\nv = w", 2); /* a statement sees what stands above it */
  host_gives("C = 5\ndef f(a=C):\n    return a\nC = 7\nv = f()", 5);
  host_gives("def f():\n    return C\nC = 5\nw = f()\nC = 7\nv = w * 10 + f()", 57);
  host_gives("a, (b, *c) = 1, (2, 3, 4)\nv = a * 100 + b * 10 + c[-1]", 124);
  host_gives("v = 1\nv += 5", 6);
  host_gives("v = later()\ndef later():\n    return 9", 9);
  host_gives("L = []\nfor i in range(4):\n    L.append(i * i)\nv = sum(L)", 14);
  host_gives("D = {}\nD['a'] = 7\nv = D['a']", 7);
  host_gives("import math\nv = math.ceil(math.log2(100))", 7);
  host_gives("from math import *\nv = floor(3.7)", 3);
  host_gives("v = {k: x for k, x in zip('ab', (1, 2))}['b'] + len({1, 1, 2})", 4);
  host_gives("v = int('%d%s' % (4, '2'))", 42);
  host_gives("v = int(f'{7:02d}{1.5:.0f}'.replace('7', '1'))", 12);
  host_gives("import functools\nv = functools.reduce(lambda a, b: a * b, [1, 2, 3, 4])", 24);
  host_gives("import itertools\nv = len([1 for a, b in itertools.product(range(3), range(4)) if a != b])", 9);
  host_gives("v = sorted([3, 1, 2], key=lambda x: -x)[0] * 10 + max(map(abs, (-4, 2)))", 34);
  host_gives("import os\nv = int(os.environ.get('NO_SUCH', '5'))", 5);
  host_gives("from enum import Enum\nclass E(Enum):\n    A = 4\n    B = 5\nv = E.B.value + E['A'].value", 9);
  host_gives("v = (lambda a, *b, c=3, **d: a + len(b) + c + d['e'])(1, 2, 2, e=10)", 16);
}

static void host_functions(void **state) {
  host_gives("def f(n):\n    s = 0\n    for i in range(n):\n        if i == 2:\n            continue\n        if i == "
             "6:\n            break\n        s += i\n    else:\n        s = -1\n    return s\nv = f(9)",
             13);
  host_gives("def f(n):\n    while n % 7:\n        n += 1\n    return n\nv = f(30)", 35);
  host_gives("def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\nv = f(12)", 144);
  host_gives("def f():\n    try:\n        import no_such_module\n        return 1\n    except ImportError:\n        "
             "return 2\nv = f()",
             2);
  host_gives("def f():\n    try:\n        raise ValueError('x')\n    except ValueError:\n        return 3\n    "
             "finally:\n        pass\nv = f()",
             3);
  host_gives("def outer(a):\n    def inner(b):\n        return a * b\n    return inner\nv = outer(3)(4)", 12);
  host_gives("def f(d):\n    d.setdefault('x', 1)\n    d['x'] += 4\n    return d.get('x')\nv = f({})", 5);
}

/* What changes a value is run in the order of the file, once, whatever it is called by (python/toplevel.c). */
static void statements_in_order(void **state) {
  host_gives("L = [1]\nM = L\nM.append(2)\nv = len(L)", 2);
  host_gives("L = [1]\nM = L\nM += [2]\nv = len(L)", 2);
  host_gives("a = b = []\na.append(1)\nv = len(b)", 1);
  host_gives("L = [1]\nD = {'l': L}\nD['l'].append(2)\nv = len(L)", 2);
  host_gives("L = [[]] * 3\nL[0].append(1)\nv = len(L[2])", 1);
  host_gives("L = [1]\nM = [2]\nfor x in (L, M):\n    x.append(9)\nv = len(L)", 2);
  host_gives("A = []\nB = []\nfor i in range(3):\n    A.append(i)\n    B.append(i)\nv = len(A) + 10 * len(B)", 33);
  host_gives("L = []\ndef f():\n    L.append(1)\n    return 5\ndef g():\n    return f() + f()\nw = g()\nv = w + len(L)",
             12);
  host_gives("def f(l, x):\n    l.append(x)\n    return l\nL = f([], 1)\nf(L, 2)\nv = len(L)", 2);
  host_gives("def f(a=[]):\n    a.append(1)\n    return len(a)\nf()\nv = f()", 2);
  host_gives("X = 1\ndef f():\n    global X\n    X += 4\nf()\nv = X", 5);
  host_gives("X = 1\ndef f():\n    global X\n    X += 4\nv = X", 1);
  host_gives("L = [3]\ndef f():\n    L.append(4)\nv = len(L)", 1);
  host_gives("R = {}\ndef register(f):\n    R[f.__name__] = f\n    return f\n@register\ndef a():\n    pass\n@register\n"
             "def b():\n    pass\nv = len(R)",
             2);
  host_gives("def twice(f):\n    return lambda x: 2 * f(x)\n@twice\ndef g(x):\n    return x\nv = g(3)", 6);
  host_gives("class A:\n    x = 1\nfor i in range(4):\n    A.x += 1\nsetattr(A, 'x', A.x * 2)\nv = A.x", 10);
  host_gives("class R:\n    def __init__(self):\n        self.d = []\n    def add(self, x):\n        "
             "self.d.append(x)\n        "
             "return self\nr = R()\nr.add(1).add(2)\nv = len(r.d)",
             2);
  host_gives("L = [1, 2, 3]\nx = L.pop(0)\ny = L.pop()\nv = x + 10 * y + 100 * len(L)", 131);
  host_gives("D = {'a': 1, 'b': 2}\ndel D['a']\nL = [5, 6]\ndel L[0]\nv = 10 * len(D) + L[0]", 16);
  host_gives("it = iter([1, 2, 3])\nnext(it)\nv = next(it) + len(list(filter(None, [0, 1, 2])))", 4);
  host_gives("X = 1\nglobals()['X'] = 5\nv = X", 5);
  host_gives("try:\n    v = 1\n    raise KeyError\nexcept ValueError:\n    v = 3\nexcept LookupError:\n    v += 4", 5);
  host_gives("C = [{'B': b} for b in (1, 2)]\nfor c in C:\n    c['B'] *= 10\nv = C[1]['B']", 20);
  host_refuses("v = [1]\nfor i in range(1 << 20):\n    v.append(i)", "a range of more than 1000000 numbers");
  host_refuses("v = []\nn = 0\nwhile n < (1 << 40):\n    n += 1\n    v.append(n)", "takes too long");
  host_refuses("v = {1, 2}\nv.pop()", "{1, 2}.pop");
  host_refuses("v = [1, 2]\nv[0:1] = [7, 8, 9]", "a list of which a part is replaced");
  host_refuses("v = [1]\nexec('v = [1, 2]')", "`exec`");
  host_refuses("import torch\nv = [1]\ndef f():\n    if torch.no():\n        v.append(2)\nf()", "torch.no()");
}

static void conditions_and_tries_at_the_top(void **state) {
  host_gives("if 1 + 1 == 2:\n    v = 1\nelse:\n    v = 2", 1);
  host_gives("import torch\nif torch.version.hip:\n    v = 1\nelse:\n    v = 2", 2);
  host_gives("try:\n    import no_such_module\n    v = 1\nexcept ImportError:\n    v = 2", 2);
  host_gives("try:\n    import math\n    v = 1\nexcept ImportError:\n    v = 2", 1);
  host_gives(
      "from packaging import version\nv = 1 if version.parse(triton.__version__) >= version.parse('3.0.0') else 0", 1);
  host_gives("if __name__ == '__main__':\n    v = 6", 6);
  kit_accepts(HEAD "try:\n    from triton.language.extra.libdevice import rsqrt\nexcept ModuleNotFoundError:\n    from "
                   "triton.language.math import rsqrt\n@triton.jit\ndef k(x):\n    tl.store(x, rsqrt(tl.load(x)))\n");
}

/* Where nobody knows a test, what its branches bind differently is not known, whether the file is run in order (`L +=`
 * makes it) or looked up name by name. */
static void tests_that_nobody_knows(void **state) {
  static const char *const how[] = {"import torch\n", "import torch\nL = []\nL += [1]\n"};
  static const struct {
    const char *host;
    int value; /* -1: unknown */
  } cases[] = {
      {"if torch.cuda.no():\n    v = 1\nelse:\n    v = 2", -1},
      {"v = 2\nif torch.cuda.no():\n    v = 1", -1},
      {"v = 2\nif torch.cuda.no():\n    pass\nelse:\n    v = 1", -1},
      {"if torch.cuda.no():\n    v = 1\nelse:\n    v = 1", 1},
      {"if torch.cuda.no():\n    v = 1", 1}, /* whoever has it has taken the branch */
      {"v = 3\nif torch.cuda.no():\n    v = 1\nelse:\n    v = 1", 1},
      {"v = 3\nif torch.cuda.no():\n    v = 1\nelif torch.cuda.nor():\n    v = 1\nelse:\n    v = 1", 1},
      {"v = 3\nif torch.cuda.no():\n    v = 1\nelif torch.cuda.nor():\n    v = 1", -1},
      {"if torch.cuda.no():\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\nv = f()", -1},
      {"if torch.cuda.no():\n    a = 1\nelse:\n    a = 2\nv = 5", 5},
      {"v = 1 if torch.cuda.no() else 2", -1},
      {"if torch.cuda.no() and False:\n    v = 1\nelse:\n    v = 2", 2},
      {"if torch.cuda.no():\n    if True:\n        v = 1\nelse:\n    v = 1\nv = v + 1", 2},
      {"C = [1]\nif torch.cuda.no():\n    C.append(2)\nv = len(C)", -1},
      {"if torch.cuda.no():\n    raise ValueError\nv = 4", 4},
      {"try:\n    v = torch.cuda.no()\nexcept Exception:\n    v = 1", -1},
      {"class A:\n    if torch.cuda.no():\n        x = 1\n    else:\n        x = 2\nv = A.x", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
      char text[512];
      snprintf(text, sizeof text, "%s%s", how[k], cases[i].host);
      if (cases[i].value >= 0) host_gives(text, cases[i].value);
      else {
        char kernel[1024];
        snprintf(kernel, sizeof kernel,
                 HEAD "%s\nV = tl.constexpr(v)\n@triton.jit\ndef k(out, n):\n    tl.store(out, V)\n", text);
        kit_refuses(kernel, "not known here: ");
      }
    }
  kit_refuses(HEAD "import torch\nif torch.cuda.no():\n    V = tl.constexpr(1)\nelse:\n    V = tl.constexpr(2)\n" K
                   "def k(out, n):\n    tl.store(out, V)\n",
              "it depends on the `if` in line 4 of k.py, and so on torch.cuda.no()");
  kit_refuses(HEAD "import torch\nif torch.cuda.no():\n    @triton.jit\n    def f(x):\n        return x\nelse:\n"
                   "    @triton.jit\n    def f(x):\n        return x + 1\n" K
                   "def k(out, n):\n    tl.store(out, f(n))\n",
              "--define NAME=VALUE");
}

/* Of the GPU that is compiled for; other devices stand in for one of 9.0. */
static void questions_about_the_gpu(void **state) {
  static const char text[] = HEAD
      "import torch\nfrom triton.runtime import driver\n"
      "if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9:\n    V = tl.constexpr(1)\n"
      "else:\n    V = tl.constexpr(2)\n"
      "P = torch.cuda.get_device_properties(0)\nW = tl.constexpr(P.major * 10 + P.minor)\n"
      "A = tl.constexpr(driver.active.get_current_target().arch)\n" K "def k(out, n):\n    tl.static_print(V, W, A)\n";
  static const struct {
    int sm;
    const char *printed;
  } cases[] = {{0, "1 90 90"}, {80, "2 80 80"}, {86, "2 86 86"}, {90, "1 90 90"}, {100, "1 100 100"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Kit k = kit_compile_with(text, &(CompileOptions){.cuda_sm = cases[i].sm});
    if (!k.c || !strstr(k.printed, cases[i].printed))
      fail_msg("sm %d: expected %s, got %s%s", cases[i].sm, cases[i].printed, k.printed, k.messages);
    kit_free(&k);
  }
}

/* What a kernel sees of values that Python has more than one meaning for. */
static void constexprs_as_python_has_them(void **state) {
#define B "    tl.store(out, "
  kit_gives(
      HEAD "from enum import IntEnum, Enum\nclass E(IntEnum):\n    A = 1\n    B = 2\nclass S(str, Enum):\n    A = 'a'\n"
           "M = tl.constexpr(E.B)\nN = tl.constexpr(S.A)\n" K
           "def k(out, n):\n    r = M + 10 * (M == 2) + 100 * (N == 'a')\n    if M:\n        r += 1000\n" B "r)\n",
      1, 1, (int32_t[]){1112});
  kit_gives(HEAD K "def k(out, n, A: tl.constexpr = 'abc', N: tl.constexpr = 1000, M: tl.constexpr = 5):\n"
                   "    r = 0\n    if A is 'abc':\n        r += 1\n    if A is not 'abc':\n        r += 2\n"
                   "    if N is 1000:\n        r += 4\n    if M is 5:\n        r += 8\n" B "r)\n",
            1, 1, (int32_t[]){10});
  kit_gives(HEAD K
            "def k(out, n, A: tl.constexpr = 5, C: tl.constexpr = None):\n    r = 0\n    if hasattr(A, 'value'):\n"
            "        r += 1\n    if hasattr(C, 'value'):\n        r += 2\n    if hasattr(A, 'bit_length'):\n"
            "        r += 4\n" B "r)\n",
            1, 1, (int32_t[]){4});
  kit_refuses(HEAD K "def k(out, n, A: tl.constexpr = 5):\n" B "getattr(A, 'value'))\n", "has no attribute `value`");
  /* Triton evaluates a text to itself: no declaration */
  kit_refuses(HEAD K "def k(out, n):\n    x: 'tl.constexpr' = 4\n" B "tl.sum(tl.full((x,), 1, tl.int32), 0))\n",
              "constexpr");
  kit_gives(HEAD
            "def make(m):\n    M = tl.constexpr(m)\n    @triton.jit\n    def f(x, y=M):\n        return x * M + y\n"
            "    return f\nf = make(7)\n" K "def k(out, n):\n" B "f(n))\n",
            3, 1, (int32_t[]){28});
  kit_gives(
      HEAD
      "class A:\n    def __init__(self, a):\n        self.a = a\nX = tl.constexpr(A(1))\nY = tl.constexpr(A(1))\n" K
      "def k(out, n):\n    if X == Y:\n    " B "1)\n    else:\n    " B "2)\n",
      1, 1, (int32_t[]){2});
#undef B
}

static void endless_host_code_ends(void **state) {
  kit_refuses(HEAD "def f():\n    while True:\n        pass\nV = tl.constexpr(f())\n@triton.jit\ndef k(out):\n    "
                   "tl.store(out, V)\n",
              "takes too long");
  kit_refuses(
      HEAD "def f(n):\n    return f(n + 1)\nV = tl.constexpr(f(0))\n@triton.jit\ndef k(out):\n    tl.store(out, V)\n",
      "a recursion without end");
  /* no value may contain itself */
  static const char *const into_itself[] = {"v = [1]\nv.append(v)", "v = {}\nv['d'] = v", "v = {}\nv.update(e=v)",
                                            "v = [1]\nv += [v]"};
  for (size_t i = 0; i < sizeof into_itself / sizeof *into_itself; i++) host_refuses(into_itself[i], "not known here");
  host_gives("L = [1]\nL += L\nv = len(L)", 2);
  kit_refuses(HEAD "S = 'ab'\nfor i in range(60):\n    S = S + S\nV = tl.constexpr(S)\n@triton.jit\ndef k(out):\n    "
                   "tl.store(out, len(V))\n",
              "too long");
  kit_refuses(HEAD "@triton.jit\ndef k(out):\n    for i in tl.static_range(1000):\n        for j in "
                   "tl.static_range(1000):\n            tl.store(out + j, i)\n",
              "unrolls to more than 200000 statements");
  kit_refuses(HEAD "V = W\nW = V\n@triton.jit\ndef k(out):\n    tl.store(out, V)\n", "not known here");
}

static void constexpr_functions(void **state) {
  kit_gives(HEAD
            "@triton.constexpr_function\ndef f(n):\n    s = 0\n    for i in range(n):\n        if i % 2:\n            "
            "continue\n        s += i\n    return s\n"
            "@triton.jit\ndef k(out, n, M: tl.constexpr = 8):\n    tl.store(out + tl.arange(0, f(M) - 4) * 0, f(M))\n",
            1, 1, (int32_t[]){12});
  kit_refuses(HEAD "@triton.constexpr_function\ndef f(n):\n    return n + missing\n@triton.jit\ndef k(out, n):\n    "
                   "tl.store(out, f(3))\n",
              "f could not be evaluated at compile time: 'missing'");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[64];

static void write_file(const char *name, const char *text) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_true(file_write_atomic(path, text, strlen(text)));
}

static char *compile_file(const char *name) { /* "" or the messages; to be freed */
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  Context *cx = context_create();
  if (context_try(cx)) {
    Module *m = front_load_file(cx, path);
    Kernel *k = front_kernel(m, "k");
    ArgSpec *args = NEW_N(cx->arena, ArgSpec, kernel_param_count(k) + 1);
    kit_arguments(k, args);
    front_compile(m, k, args, &(CompileOptions){0});
    context_end_try(cx);
  }
  Buf b = {0};
  diags_print(&b, cx, false);
  context_destroy(cx);
  return b.at ? b.at : strdup("");
}

static void expect_file(const char *name, const char *what) {
  char *messages = compile_file(name);
  if (what ? !strstr(messages, what) : *messages != 0)
    fail_msg("%s: expected \"%s\", got:\n%s", name, what ? what : "", messages);
  free(messages);
}

static void imports_of_files(void **state) {
  strcpy(folder, "/tmp/nereid_front_XXXXXX");
  assert_non_null(mkdtemp(folder));
  char path[160];
  snprintf(path, sizeof path, "%s/pkg", folder);
  assert_int_equal(mkdir(path, 0755), 0);
  snprintf(path, sizeof path, "%s/pkg/ops", folder);
  assert_int_equal(mkdir(path, 0755), 0);
  write_file("pkg/__init__.py", "");
  write_file("pkg/consts.py", HEAD "from .ops.a import helper_name\nB = tl.constexpr(8)\nPLAIN = 4\n");
  write_file("pkg/ops/__init__.py", "from .a import f as exported\n");
  write_file("pkg/ops/a.py", HEAD
             "from pkg.consts import B\nhelper_name = 'x'\n@triton.jit\ndef f(v):\n    return v + tl.arange(0, B)\n");
  write_file("pkg/ops/b.py", HEAD "import pkg.consts\nfrom pkg.consts import B\nfrom .a import f\nfrom . import "
                                  "a\nfrom ..ops import exported as g\nfrom pkg.ops.a import *\n"
                                  "@triton.jit\ndef k(out, n):\n    tl.store(out + f(n), pkg.consts.PLAIN)\n    "
                                  "tl.store(out + a.f(n), g(n))\n    tl.store(out + tl.arange(0, pkg.consts.B), B)\n");
  write_file("broken.py", "def (:\n");
  write_file("c.py", HEAD "from broken import f\n@triton.jit\ndef k(out, n):\n    tl.store(out, f(n))\n");
  write_file("d.py", HEAD "from pkg.consts import nothing\n@triton.jit\ndef k(out, n):\n    tl.store(out, nothing)\n");
  write_file("e.py", HEAD "@triton.jit\ndef other(out):\n    pass\n");
  write_file("third.py", "def deep(l):\n    l.append(1)\n");
  write_file("changing.py", "from third import deep\nL = []\nN = 0\ndef add(x):\n    L.append(x)\n    return x\n"
                            "def bump():\n    global N\n    N = N + 1\ndef fill(l):\n    deep(l)\n"
                            "def register(f):\n    L.append(f)\n    return f\n");
  write_file("f.py",
             HEAD "import changing\nfrom changing import add as put, fill, register, L\nput(3)\nchanging.bump()\n"
                  "changing.bump()\nM = []\nfill(M)\n@register\ndef g():\n    pass\n"
                  "tl_ = tl\nV = tl.constexpr(len(L) * 100 + changing.N * 10 + len(M))\n"
                  "@triton.jit\ndef k(out, n):\n    tl.static_assert(V == 221, V)\n    tl.store(out, V)\n");
  /* a package that imports its own module by its own name, and whose text has to be run */
  snprintf(path, sizeof path, "%s/own", folder);
  assert_int_equal(mkdir(path, 0755), 0);
  write_file("own/__init__.py", "from own import sub\nL = []\nL.append(sub.B)\n");
  write_file("own/sub.py", "B = 8\n");
  write_file("g.py", HEAD "from own import L, sub\n@triton.jit\ndef k(out, n):\n    tl.static_assert(sub.B == 8)\n");
  expect_file("g.py", NULL);
  /* triton.runtime.jit is a module, also by two dots, and torch.version one that kernels may ask */
  write_file("h.py", HEAD "import torch\nfrom triton.runtime import jit as module\nfrom triton.runtime.jit import jit\n"
                          "int_type = triton.runtime.jit.constexpr_function(tl.core.get_int_dtype)\n"
                          "@module.jit\ndef f(v):\n    return v\n@jit\ndef k(out, n):\n"
                          "    t: tl.constexpr = int_type(bitwidth=16, signed=False)\n"
                          "    tl.static_assert(t == tl.uint16)\n"
                          "    if tl.constexpr(torch.version.hip is not None):\n        tl.static_assert(False)\n"
                          "    tl.store(out, f(n))\n");
  expect_file("h.py", NULL);
  expect_file("f.py", NULL);
  expect_file("pkg/ops/b.py", NULL);
  expect_file("c.py", "module 'broken', which was not found");
  expect_file("d.py", "`nothing` comes from module 'pkg.consts' without a name 'nothing'");
  expect_file("e.py", "has no kernel `k`");
  expect_file("nowhere.py", "cannot read");
  const char *const files[] = {"pkg/ops/b.py",
                               "pkg/ops/a.py",
                               "pkg/ops/__init__.py",
                               "pkg/consts.py",
                               "pkg/__init__.py",
                               "broken.py",
                               "c.py",
                               "d.py",
                               "e.py",
                               "f.py",
                               "third.py",
                               "changing.py",
                               "g.py",
                               "h.py",
                               "own/sub.py",
                               "own/__init__.py"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/own", folder);
  rmdir(path);
  snprintf(path, sizeof path, "%s/pkg/ops", folder);
  rmdir(path);
  snprintf(path, sizeof path, "%s/pkg", folder);
  rmdir(path);
  assert_int_equal(rmdir(folder), 0);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void kernels_are_found(void **state) {
  static const char text[] =
      "import triton as t\nfrom triton import jit as j\nimport triton.language as tl\nimport torch\njitter = t.jit\n"
      "@t.jit\ndef a(x): pass\n@j\ndef b(x): pass\n@jitter\ndef c(x): pass\n@t.jit(do_not_specialize=['x'])\ndef d(x): "
      "pass\n"
      "@torch.jit.script\ndef not_one(x): pass\ndef make(W: int = 8):\n    width = W * 2\n    @t.jit\n    def e(x):\n  "
      "      tl.store(x + tl.arange(0, 4), 1)\n    return e\n"
      "class C:\n    @staticmethod\n    @t.jit\n    def f(x): pass\nif True:\n    "
      "@triton_heuristics.pointwise(size_hints=[4])\n    @t.jit\n    def g(x): pass\n"
      "def plain(x): pass\nh = t.jit(plain)\ni = t.autotune([], [])(t.jit(plain))\n";
  Context *cx = context_create();
  assert_true(context_try(cx));
  Module *m = front_load_text(cx, "k.py", text, strlen(text));
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  assert_int_equal(front_kernel_count(m), 9);
  for (int i = 0; i < 9; i++) assert_string_equal(kernel_name(front_kernel_at(m, i)), names[i]);
  assert_int_equal(kernel_line(front_kernel(m, "a")), 7);
  assert_true(kernel_param(front_kernel(m, "d"), 0)->no_specialize);
  context_end_try(cx);
  context_destroy(cx);
}

static void parameters(void **state) {
  static const char text[] = K "def k(a, b: tl.constexpr, c: 'tl.constexpr', d: tl.int64, e: 'fp16', f: '*bf16', g: "
                               "int = 4, h: float = 1e-5, i: torch.Tensor = None, *, j=(1, 2)): pass\n";
  Context *cx = context_create();
  assert_true(context_try(cx));
  Module *m = front_load_text(cx, "k.py", text, strlen(text));
  Kernel *k = front_kernel(m, "k");
  assert_int_equal(kernel_param_count(k), 10);
  assert_false(kernel_param(k, 0)->is_constexpr);
  assert_true(kernel_param(k, 1)->is_constexpr);
  assert_true(kernel_param(k, 2)->is_constexpr);
  static const char *const annotations[] = {NULL, NULL, NULL, "i64", "f16", "*bf16", "i32", "f32", NULL, NULL};
  for (int i = 0; i < 10; i++) {
    if (annotations[i]) assert_string_equal(kernel_param(k, i)->annotation, annotations[i]);
    else assert_null(kernel_param(k, i)->annotation);
  }
  assert_true(kernel_param(k, 7)->has_default);
  assert_string_equal(kernel_param(k, 7)->default_text, "1e-5");
  assert_string_equal(kernel_param(k, 9)->default_text, "(1, 2)");
  context_end_try(cx);
  context_destroy(cx);
}

/* ---- specialization ---------------------------------------------------------------------------------------------- */

/* The first lines of the IR of kernel k with these arguments, to be freed; or the messages. */
static char *specialized(const char *text, const ArgSpec *args, const CompileOptions *options) {
  Context *cx = context_create();
  Buf b = {0};
  if (context_try(cx)) {
    Module *m = front_load_text(cx, "k.py", text, strlen(text));
    CompileOptions o = options ? *options : (CompileOptions){0};
    Buf printed = {0};
    o.print = &printed;
    Compiled *c = front_compile(m, front_kernel_at(m, front_kernel_count(m) - 1), args, &o);
    tile_verify(c->func, "the front end");
    assert_int_equal(c->slot_count, c->func->body->arg_count);
    tile_print(&b, c->func, 0);
    buf_printf(&b, "warps=%d stages=%d ctas=%d", c->num_warps, c->num_stages, c->num_ctas);
    for (int i = 0; i < c->constexpr_count; i++)
      buf_printf(&b, " %s=%s", c->constexpr_names[i], c->constexpr_values[i]);
    buf_destroy(&printed);
    context_end_try(cx);
  } else diags_print(&b, cx, false);
  context_destroy(cx);
  return b.at;
}

static void expect(const char *text, const ArgSpec *args, const CompileOptions *options, const char *what) {
  char *got = specialized(text, args, options);
  if (!strstr(got, what)) fail_msg("expected \"%s\" in:\n%s\n%s", what, text, got);
  free(got);
}

static ArgSpec integer(int64_t v) { return (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = v}; }

static void arguments_are_specialized(void **state) {
  static const char one[] = K "def k(a):\n    tl.static_print(a)\n";
  ArgSpec a = integer(64);
  expect(one, &a, NULL, "(%a: i32 {divisible=16})");
  a = integer(65);
  expect(one, &a, NULL, "(%a: i32)");
  a = integer(0);
  expect(one, &a, NULL, "(%a: i32 {divisible=16})");
  a = integer(1);
  expect(one, &a, NULL, "@k()");
  a = integer(INT64_C(1) << 31);
  expect(one, &a, NULL, "(%a: i64 {divisible=16})");
  a = (ArgSpec){.kind = ARG_INT, .has_value = true, .is_unsigned = true, .int_value = -1};
  expect(one, &a, NULL, "(%a: u64)");
  a = (ArgSpec){.kind = ARG_INT};
  expect(one, &a, NULL, "(%a: i32)");
  a = (ArgSpec){.kind = ARG_FLOAT, .float_value = 1};
  expect(one, &a, NULL, "(%a: f32)");
  a = (ArgSpec){.kind = ARG_BOOL, .int_value = 1};
  expect(one, &a, NULL, "(%a: i1)");
  a = (ArgSpec){.kind = ARG_NONE};
  expect(one, &a, NULL, "@k()");
  a = (ArgSpec){.kind = ARG_POINTER, .dtype = DT_BF16, .aligned = true};
  expect(one, &a, NULL, "(%a: *bf16 {divisible=16})");
  a.aligned = false;
  expect(one, &a, NULL, "(%a: *bf16)");
  a = integer(1);
  expect(K "def k(a: tl.int64):\n    pass\n", &a, NULL, "(%a: i64)");
  expect(K "def k(a: int):\n    pass\n", &a, NULL, "(%a: i32)");
  expect(HEAD "@triton.jit(do_not_specialize=['a'])\ndef k(a):\n    pass\n", &a, NULL, "(%a: i32)");
  a = integer(64);
  expect(HEAD "@triton.jit(do_not_specialize=[0])\ndef k(a):\n    pass\n", &a, NULL, "(%a: i32)");
  expect(HEAD "@triton.jit(do_not_specialize_on_alignment=['a'])\ndef k(a):\n    pass\n", &a, NULL, "(%a: i32)");
  expect(K "def k(a: float):\n    pass\n", &a, NULL, "(%a: f32)");
  expect(K "def k(a: tl.constexpr):\n    tl.arange(0, a)\n", &a, NULL, "a=64");
  ArgSpec items[] = {
      integer(64), {.kind = ARG_POINTER, .dtype = DT_F32}, {.kind = ARG_TUPLE, .item_count = 1, .items = &a}};
  ArgSpec tuple = {.kind = ARG_TUPLE, .item_count = 3, .items = items};
  expect(K "def k(a):\n    tl.store(a[1], a[2][0] + a[0])\n", &tuple, NULL,
         "(%a.0: i32 {divisible=16}, %a.1: *f32, %a.2.0: i32 {divisible=16})");
  ArgSpec desc = {.kind = ARG_DESCRIPTOR, .dtype = DT_F16, .aligned = true, .rank = 2, .block_shape = {16, 32}};
  expect(K "def k(a):\n    a.store([0, 0], a.load([0, 0]))\n", &desc, NULL,
         "(%a.base: *f16 {divisible=16}, %a.shape0: i32, %a.shape1: i32, %a.stride0: i64 {divisible=8})");
}

static void constexpr_arguments(void **state) {
  static const char text[] = HEAD "@triton.jit\ndef relu(v):\n    return tl.maximum(v, 0)\n@triton.jit\ndef k(a: "
                                  "tl.constexpr):\n    tl.static_print(a)\n";
  static const struct {
    const char *text, *value;
  } cases[] = {{"128", "a=128"},         {"'relu'", "a='relu'"}, {"None", "a=None"}, {"(1, 2)", "a=(1, 2)"},
               {"tl.float16", "a=fp16"}, {"tl.fp16", "a=fp16"},  {"fp16", "a=fp16"}, {"relu", "a=function relu"},
               {"1e-6", "a=1e-06"},      {"True", "a=True"},     {"-3", "a=-3"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ArgSpec a = {.kind = ARG_CONSTEXPR, .text = cases[i].text};
    expect(text, &a, NULL, cases[i].value);
  }
  ArgSpec bad = {.kind = ARG_CONSTEXPR, .text = "nothing"};
  expect(text, &bad, NULL, "the value of the constexpr `a` is not known: 'nothing'");
  bad = (ArgSpec){.kind = ARG_CONSTEXPR, .text = "1 +"};
  expect(text, &bad, NULL, "error");
  bad = (ArgSpec){.kind = ARG_POINTER, .dtype = DT_F32};
  expect(text, &bad, NULL, "argument `a` of k is a constexpr, but an array is given");
}

static void missing_arguments(void **state) {
  ArgSpec none[4] = {{0}};
  expect(K "def k(a):\n    pass\n", none, NULL, "k.py:4:7: error: argument `a` of k is missing");
  expect(K "def k(a: tl.constexpr):\n    pass\n", none, NULL, "it is a tl.constexpr: pass a value");
  expect(K "def k(a, b=1e-5, c=None, d: tl.constexpr = 32):\n    tl.store(a, b)\n",
         (ArgSpec[]){{.kind = ARG_POINTER, .dtype = DT_F32}, {0}, {0}, {0}}, NULL, "const {value=1e-05} : f32");
}

static const char tuned[] =
    HEAD "def configs():\n    return [triton.Config({'A': a, 'B': 2 * a}, num_warps=w, num_stages=4) for a in (16, 32) "
         "for w in (2, 8)]\n"
         "@triton.autotune(configs=configs(), key=['n'])\n@triton.heuristics({'EVEN': lambda args: args['n'] % "
         "args['A'] == 0, 'W': lambda args: triton.next_power_of_2(args['n'])})\n"
         "@triton.jit\ndef k(n, A: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, W: tl.constexpr):\n    "
         "tl.static_print(A)\n";

static void configurations(void **state) {
  ArgSpec args[5] = {integer(48)};
  expect(tuned, args, NULL, "warps=2 stages=4 ctas=1 A=16 B=32 EVEN=True W=64");
  args[0] = integer(50);
  expect(tuned, args, NULL, "EVEN=False");
  args[1] = integer(32);
  expect(tuned, args, NULL, "warps=2 stages=4 ctas=1 A=32 B=64");
  expect(tuned, args, &(CompileOptions){.num_warps = 16}, "warps=16 stages=4");
  args[3] = (ArgSpec){.kind = ARG_BOOL, .int_value = 1};
  expect(tuned, args, NULL, "EVEN=True");
  expect(tuned, args, &(CompileOptions){.no_autotune = true}, "argument `B` of k is missing");
  args[0] = (ArgSpec){.kind = ARG_INT};
  args[3] = (ArgSpec){0};
  expect(tuned, args, NULL, "its autotune or heuristics value is not known here: the value of 'n'");
  ArgSpec none[2] = {{0}};
  expect(K "def k(n: tl.constexpr = 3):\n    pass\n", none, NULL, "warps=4 stages=3 ctas=1 n=3");
  expect(K "def k(num_warps: tl.constexpr):\n    tl.static_print(num_warps)\n", none, &(CompileOptions){.num_warps = 8},
         "num_warps=8");
  ArgSpec eight = integer(8);
  expect(K "def k(num_warps: tl.constexpr):\n    tl.static_print(num_warps)\n", &eight, NULL, "warps=8");
  expect(HEAD "k = triton.autotune([triton.Config({'A': 4})], [])(triton.jit(lambda: "
              "0))\n@triton.autotune(configs=unknown_thing, key=[])\n@triton.jit\ndef k(A: tl.constexpr):\n    pass\n",
         none, NULL, "is not known here: 'unknown_thing'");
}

static void grids(void **state) {
  static const char *const names[] = {"n", "BLOCK", "x"};
  static const double values[] = {1000, 128, 2.5};
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {{"cdiv(n, BLOCK)", 8},         {"triton.cdiv(n, BLOCK)", 8},      {"next_power_of_2(n)", 1024},
               {"min(n, 7) * max(2, 3)", 21}, {"n // BLOCK if n > 5 else 1", 7}, {"int(x * 2)", 5}};
  Context *cx = context_create();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_true(context_try(cx));
    assert_int_equal(front_eval_int(cx, cases[i].text, 3, names, values), cases[i].value);
    context_end_try(cx);
  }
  static const struct {
    const char *text, *message;
  } bad[] = {{"cdiv(n, BLOK)", "'BLOK' is not known"},
             {"n / 4", "250.0 is a float, and an integer is needed"},
             {"'a'", "is not an integer"},
             {"n //", "error"},
             {"n // 0", "division by zero"}};
  for (volatile size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (context_try(cx)) {
      front_eval_int(cx, bad[i].text, 3, names, values);
      context_end_try(cx);
      fail_msg("accepted %s", bad[i].text);
    }
    Buf b = {0};
    diag_print(&b, &cx->diags.at[cx->diags.n - 1], false);
    if (!strstr(b.at, bad[i].message)) fail_msg("expected %s, got %s", bad[i].message, b.at);
    buf_destroy(&b);
  }
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(module_constants),
      cmocka_unit_test(host_functions),
      cmocka_unit_test(conditions_and_tries_at_the_top),
      cmocka_unit_test(tests_that_nobody_knows),
      cmocka_unit_test(questions_about_the_gpu),
      cmocka_unit_test(constexprs_as_python_has_them),
      cmocka_unit_test(endless_host_code_ends),
      cmocka_unit_test(statements_in_order),
      cmocka_unit_test(constexpr_functions),
      cmocka_unit_test(imports_of_files),
      cmocka_unit_test(kernels_are_found),
      cmocka_unit_test(parameters),
      cmocka_unit_test(arguments_are_specialized),
      cmocka_unit_test(constexpr_arguments),
      cmocka_unit_test(missing_arguments),
      cmocka_unit_test(configurations),
      cmocka_unit_test(grids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
