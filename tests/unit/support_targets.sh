#!/bin/sh
# Builds and runs the tests of src/cpu/support for each instruction set that this machine can run, with each compiler that is
# there, plainly and under UBSan. `tests/unit/support_targets.sh [name...]`: only tests whose file holds a name.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
passed=0 failed=0
flags="-std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-psabi -Wno-unused-parameter -fno-math-errno -fno-strict-aliasing -fwrapv -Isrc -Iinclude"

# Instruction sets: a name, the flags, what /proc/cpuinfo must list.
targets() {
  case $(uname -m) in
  x86_64)
    echo "avx512 -march=native avx512vl"
    echo "avx512-wide -march=native:-DND_WIDE avx512vl"
    echo "avx2 -march=haswell avx2"
    echo "avx2-wide -march=haswell:-DND_WIDE avx2"
    echo "avx2-without-fma -mavx2 avx2"
    echo "sse4 -march=nehalem sse4_2"
    echo "sse2 -march=x86-64 sse2"
    echo "portable -march=x86-64:-U__SSE2__ sse2" # what other processors get
    ;;
  *) echo "native -O2 -" ;;
  esac
}

for cc in gcc clang; do
  command -v $cc >/dev/null || continue
  for test in tests/unit/test_support*.c; do
    if [ $# -gt 0 ]; then
      wanted=
      for name in "$@"; do case $test in *"$name"*) wanted=1 ;; esac; done
      [ "$wanted" ] || continue
    fi
    targets | {
      while read -r name options needs; do
        [ "$needs" = - ] || grep -qw "$needs" /proc/cpuinfo || continue
        for sanitize in "" "-O0 -fsanitize=undefined -fno-sanitize-recover=undefined"; do
          case $sanitize:$name in -*-*) continue ;; esac # once a lane count is enough
          what="$cc $name $(basename "$test" .c)${sanitize:+ ubsan}"
          # shellcheck disable=SC2086
          if $cc $flags $(echo "$options" | tr : ' ') $sanitize -o "$out/test" "$test" src/base/number.c -lcmocka -lm -pthread >"$out/log" 2>&1 &&
            CMOCKA_MESSAGE_OUTPUT=stdout "$out/test" >"$out/log" 2>&1; then
            passed=$((passed + 1))
          else
            failed=$((failed + 1))
            echo "FAILED: $what"
            grep -v '\[ *\(OK\|RUN\) *\]' "$out/log" | head -15
          fi
        done
      done
      echo "$passed $failed" >>"$out/counts"
    }
  done
done
awk '{ p += $1; f += $2 } END { printf "%d passed, %d failed\n", p, f; exit f > 0 || p == 0 }' "$out/counts"
