#!/usr/bin/env bash
# The command and the examples on a GPU: the devices' row, CUDA C beside Triton, a kernel in a program's own stream, a captured graph.
set -u
build=${BUILD:-build}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failed=0
says() { # says WORDS COMMAND...
  local words=$1; shift
  if "$@" >"$scratch/out" 2>&1 && grep -qE -- "$words" "$scratch/out"; then echo "ok    $*"; sed 's/^/      /' "$scratch/out" | head -n 8
  else failed=1; echo "FAIL  $* does not say '$words'"; sed 's/^/      /' "$scratch/out" | tail -n 20; fi
}
fails() { # fails STATUS WORDS COMMAND...
  local status=$1 words=$2; shift 2
  "$@" >"$scratch/out" 2>&1
  if [ $? -eq "$status" ] && grep -qE -- "$words" "$scratch/out"; then echo "ok    $*"
  else failed=1; echo "FAIL  $* does not fail with '$words'"; sed 's/^/      /' "$scratch/out" | tail -n 20; fi
}

says '^cuda:0 +yes +NVIDIA' "$build/nereid" devices
says '"name":"cuda:0","available":true.*"compute_capability":"' "$build/nereid" devices --json
says 'agrees' "$build/nereid" run kernels/gelu.py:gelu x_ptr=randn:f32[100000] out_ptr=like:x_ptr n=100000 BLOCK=1024 --grid 'cdiv(n, BLOCK)' --device cuda \
  --check out_ptr=interp -o out_ptr="$scratch/gelu.npy" -o x_ptr="$scratch/x.npy"
if ldconfig -p | grep -q libnvrtc || [ -e /usr/local/cuda/lib64/libnvrtc.so ]; then
  says 'agrees' "$build/nereid" run kernels/gelu.cu:gelu x=@"$scratch/x.npy" out=like:x n=100000 --grid 'cdiv(n, 256)' --block 256 --device cuda --check out=@"$scratch/gelu.npy" --rtol 1e-5 --atol 1e-6
else
  echo "skip  CUDA C: no NVRTC here"
fi
fails 1 "there is no device 'cuda:99'" "$build/nereid" run kernels/gelu.py:gelu x_ptr=randn:f32[8] out_ptr=like:x_ptr n=8 BLOCK=16 --grid 1 --device cuda:99
says ' 0 wrong' "$build/examples/vector_add" kernels/vector_add.py cuda
says ' 0 wrong' "$build/examples/cuda_stream" kernels/vector_add.py
says '^0 sums wrong' "$build/examples/cuda_graph" kernels/vector_add.py
# The gap shrinks: a launch in a graph takes less than one by itself.
single=$(sed -n 's/.*one by one.*each \([0-9.]*\) us/\1/p' "$scratch/out") whole=$(sed -n 's/.*as a graph.*each \([0-9.]*\) us/\1/p' "$scratch/out")
if awk "BEGIN { exit !($whole < $single) }"; then echo "ok    $whole us in a graph, $single us by itself"; else failed=1; echo "FAIL  $whole us in a graph, $single us by itself"; fi
exit $failed
