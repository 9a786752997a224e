"""Writes unicode_tables.h and unicode_names.h beside it from this Python's unicodedata: `python3.12 unicode_tables.py`.

The tables in the tree are of Unicode 15.0, which is Python 3.12's. unicodedata knows the aliases of names ("LINE FEED")
but does not list them: candidates are read from Perl's unicore/Name.pl, whose path may be given as the argument."""
import glob, os, re, sys, unicodedata as ud

ALL = [c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def ranges(codes):
    out = []
    for c in codes:
        if out and out[-1][1] == c - 1: out[-1][1] = c
        else: out.append([c, c])
    return out


def emit(name, ctype, items, per_line):
    print(f"static const {ctype} {name}[] = {{")
    for i in range(0, len(items), per_line): print("  " + ",".join(items[i:i + per_line]) + ",")
    print("};")


def hash_name(s):  # as identifier.c's
    h = 0x811C9DC5
    for b in s.encode(): h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def tables():
    print(f"/* Unicode {ud.unidata_version}, as identifier.c needs it. Made by unicode_tables.py; do not edit. */")
    for name, prefix in (("start_ranges", ""), ("continue_ranges", "a")):
        emit(name, "Range", ["{0x%X,0x%X}" % tuple(r) for r in ranges(c for c in ALL if (prefix + chr(c)).isidentifier())], 10)

    pool, index, entries = [], {}, []
    for c in ALL:
        if c in HANGUL or not ("a" + chr(c)).isidentifier(): continue
        d = ud.normalize("NFKD", chr(c))
        if d == chr(c): continue
        if d not in index:
            index[d] = len(pool)
            pool += [ord(x) for x in d]
        entries.append("{0x%X,%d,%d}" % (c, index[d], len(d)))
    emit("decompositions", "Decomposition", entries, 10)
    emit("decomposed", "uint32_t", ["0x%X" % c for c in pool], 20)

    classes = []
    for c in ALL:
        k = ud.combining(chr(c))
        if not k: continue
        if classes and classes[-1][1] == c - 1 and classes[-1][2] == k: classes[-1][1] = c
        else: classes.append([c, c, k])
    emit("combining_classes", "CombiningClass", ["{0x%X,0x%X,%d}" % tuple(r) for r in classes], 10)

    pairs = []
    for c in range(0xA0, 0x110000):
        if c in HANGUL: continue
        d = ud.decomposition(chr(c))
        if not d or d.startswith("<") or " " not in d or ud.normalize("NFC", chr(c)) != chr(c): continue
        pairs.append(tuple(int(x, 16) for x in d.split()) + (c,))
    emit("compositions", "Composition", ["{0x%X,0x%X,0x%X}" % p for p in sorted(pairs)], 8)


def names():
    """Per named character the hash of its name; the names that are made by rule are left to unicode_by_name."""
    rules = ("CJK UNIFIED IDEOGRAPH-", "CJK COMPATIBILITY IDEOGRAPH-", "HANGUL SYLLABLE ", "TANGUT IDEOGRAPH-",
             "NUSHU CHARACTER-", "KHITAN SMALL SCRIPT CHARACTER-")
    named = [(c, ud.name(chr(c), "")) for c in range(0x110000)]
    named = [(c, n) for c, n in named if n and not n.startswith(rules)]
    perl = sys.argv[1] if len(sys.argv) > 1 else sorted(glob.glob("/usr/share/perl/5*/unicore/Name.pl"))[-1]
    aliases = []
    for code, name in re.findall(r"^([0-9A-F]{5,6})\n(.+)$", open(perl).read(), re.M):
        try: c = ud.lookup(name)
        except KeyError: continue
        if len(c) == 1 and ud.name(c, "") != name: aliases.append((ord(c), name))
    hashes = {}
    for c, n in named + aliases:
        assert hashes.setdefault(hash_name(n), c) == c, f"two names with one hash: {n}"
    print(f"/* The names of Unicode {ud.unidata_version}'s characters. Made by unicode_tables.py; do not edit. */")
    codes = [c for c, _ in named]
    emit("named_ranges", "Range", ["{0x%X,0x%X}" % tuple(r) for r in ranges(codes)], 10)
    print("/* the hashes of the names of all characters in named_ranges, in order */")
    emit("name_hashes", "uint32_t", ["0x%X" % hash_name(n) for _, n in named], 12)
    emit("name_aliases", "NameAlias", ["{0x%X,0x%X}" % (hash_name(n), c) for c, n in aliases], 8)


folder = os.path.dirname(os.path.abspath(__file__))
for name, write in (("unicode_tables.h", tables), ("unicode_names.h", names)):
    with open(os.path.join(folder, name), "w") as sys.stdout: write()
