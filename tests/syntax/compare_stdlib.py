#!/usr/bin/env python3
"""Compares Nereid's syntax trees with Python's own, node by node and position by position.

    compare_stdlib.py AST_DUMP [FOLDER_OR_FILE ...]

AST_DUMP is the program of ast_dump_main.c. Without paths, the standard library of the running Python is read, its tests
included. Every file that Python's ast.parse takes must give the identical dump; every file that it refuses must be
refused. Needs Python 3.10 or later (earlier ones lack positions and `match`); the grammar compared is 3.12's, so under an older Python:

- positions inside f-strings are left out (before 3.12 Python gave wrong ones);
- a file that only the older grammar refuses, or takes, is no failure when its message says so (see OLDER below).

Prints each difference and, last, "N passed, N failed"."""
import ast, os, re, subprocess, sys, sysconfig, tempfile, warnings

PLACED_FSTRINGS = sys.version_info >= (3, 12)
NEWER = sys.version_info >= (3, 13)


def quoted(b):
    return '"' + "".join(QUOTED[c] for c in b) + '"'


QUOTED = [chr(c) if 32 <= c < 127 and c not in b'"\\' else "\\" + chr(c) if c in b'"\\' else "\\n" if c == 10 else "\\x%02x" % c
          for c in range(256)]


def constant(v):
    if v is None or v is True or v is False: return str(v)
    if v is ...: return "..."
    if isinstance(v, str): return quoted(v.encode("utf-8", "surrogatepass"))
    if isinstance(v, bytes): return "b" + quoted(v)
    if isinstance(v, int): return str(v) if -1 << 63 <= v < 1 << 63 else hex(v)
    if isinstance(v, float): return repr(v)
    return repr(v.imag) + "j"


def plain(name, v):
    if name == "ctx" or name == "op": return type(v).__name__
    if name == "ops": return ",".join(type(o).__name__ for o in v)
    if isinstance(v, list): return ",".join(v)
    return str(v)


SKIPPED = {"type_comment", "type_ignores"}
PLAIN_LISTS = {"ops", "kwd_attrs"}  # and the names of Global and Nonlocal


def dump(node, level, out):
    """The form is that of ast_dump in src/syntax/syntax.h."""
    kind = type(node)
    name = kind.__name__
    line = [" " * level, name]
    if hasattr(node, "lineno"): line.append(f" {node.lineno}:{node.col_offset}-{node.end_lineno}:{node.end_col_offset}")
    children = []
    for field in kind._fields:
        v = getattr(node, field, None)
        if v is None and not (field == "value" and (kind is ast.Constant or name == "MatchSingleton")): continue
        if field in SKIPPED or v == [] or field == "default_value": continue
        if kind is ast.Constant and field == "value": line.append(" value=" + constant(v))
        elif name == "MatchSingleton": line.append(f" value={v}")
        elif isinstance(v, list) and not (field in PLAIN_LISTS or kind in (ast.Global, ast.Nonlocal)): children.append((field, v))
        elif isinstance(v, ast.AST) and field not in ("ctx", "op"): children.append((field, [v]))
        else: line.append(f" {field}={plain(field, v)}")
    out.append("".join(line))
    for field, v in children:
        if kind is ast.JoinedStr: v = [c for c in v if not (isinstance(c, ast.Constant) and c.value == "")]
        if not v: continue
        out.append(" " * (level + 1) + "." + field)
        for child in v:
            if child is None: out.append(" " * (level + 2) + "None")
            else: dump(child, level + 2, out)


def without_fstring_positions(lines):
    inside = None
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        if inside is not None and indent > inside: lines[i] = re.sub(r"^( *\w+) \d+:\d+-\d+:\d+", r"\1", line)
        else: inside = indent if line.lstrip(" ").startswith("JoinedStr ") else None
    return lines


def python_files(paths):
    for path in paths:
        if os.path.isfile(path): yield path
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
            for name in sorted(names):
                if name.endswith(".py"): yield os.path.join(folder, name)


# What an older or newer Python says of code that 3.12 judges otherwise.
OLDER = re.compile("f-string|type parameter|defaults of type parameters|too many nested|ValueError|is Python 3.13's")
ODD = re.compile("utf8 with BOM")  # Python wants the cookie after a byte-order mark spelled utf-8; Nereid's reader drops the mark


def main():
    if sys.version_info < (3, 10):
        print("skipped: needs Python 3.10 or later")
        return 0
    program, paths = sys.argv[1], sys.argv[2:] or [sysconfig.get_paths()["stdlib"]]
    sys.setrecursionlimit(20000)
    if hasattr(sys, "set_int_max_str_digits"): sys.set_int_max_str_digits(0)
    warnings.simplefilter("ignore")
    files = list(python_files(paths))
    with tempfile.TemporaryFile() as listing:
        listing.write("\n".join(files).encode() + b"\n")
        listing.seek(0)
        ours = subprocess.Popen([program], stdin=listing, stdout=subprocess.PIPE)
        passed = failed = differ = 0
        for path in files:
            head = ours.stdout.readline().decode().split(" ", 3)
            if len(head) != 4:
                print(f"{path}: {program} stopped")
                failed += 1
                break
            text = ours.stdout.read(int(head[2])).decode("utf-8", "surrogateescape")
            try:
                with open(path, "rb") as f: tree = ast.parse(f.read(), path)
                refused = None
            except (SyntaxError, ValueError, UnicodeDecodeError) as e:
                refused = e
            if refused is not None or head[1] == "error":
                both = refused is not None and head[1] == "error"
                message = text.strip() if head[1] == "error" else f"{type(refused).__name__}: {refused}"
                if both or ODD.search(message): passed += 1
                elif OLDER.search(message) and (not PLACED_FSTRINGS or NEWER): differ += 1
                else:
                    failed += 1
                    print(f"{path}: only {'Nereid' if head[1] == 'error' else 'Python'} refuses it: {message}")
                continue
            out = []
            dump(tree, 0, out)
            mine = text.rstrip("\n").split("\n")
            if not PLACED_FSTRINGS: mine, out = without_fstring_positions(mine), without_fstring_positions(out)
            if mine == out:
                passed += 1
                continue
            failed += 1
            at = next((i for i, (a, b) in enumerate(zip(mine, out)) if a != b), min(len(mine), len(out)))
            print(f"{path}: line {at + 1} of the dump\n  Nereid: {' '.join(mine[at:at + 1])}\n  Python: {' '.join(out[at:at + 1])}")
    if differ: print(f"{differ} files that Python {sys.version.split()[0]} and 3.12's grammar judge differently")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
