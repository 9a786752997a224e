#!/usr/bin/env bash
# nereid prof over PyTorch programs on a GPU: the program's output and status are its own, kernels are torch.profiler's (names, calls, times within 5%), the
# synchronisation in the loop is named, and a launch costs less than 3 us more.
set -u
build=${BUILD:-build}
here=$(dirname "$0")
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failed=0
tell() { # tell STATUS WORDS: whether the last thing went well
  if [ "$1" -eq 0 ]; then echo "ok    $2"; else failed=1; echo "FAIL  $2"; fi
}
python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "skip  no PyTorch with CUDA here"; exit 0; }
program=$here/prof_torch.py

python3 "$program" train >"$scratch/plain.out" 2>/dev/null
for i in 1 2 3; do
  "$build/nereid" prof --trace "$scratch/run$i" -o "$scratch/report$i" -- python3 "$program" train >"$scratch/prof$i.out" 2>"$scratch/prof$i.err"
  tell $? "profiled run $i ends with status 0"
  "$build/nereid" prof "$scratch/run$i" --table --rows 1000000 --json >"$scratch/ours$i.json"
  python3 "$program" torch "$scratch/theirs$i.json" >/dev/null 2>&1
done
cmp "$scratch/plain.out" "$scratch/prof1.out"; tell $? "the same output"
python3 "$program" compare "$scratch"/ours?.json -- "$scratch"/theirs?.json; tell $? "the kernels of torch.profiler, as often and as long"
"$build/nereid" prof "$scratch/run1" --advice >"$scratch/advice"
grep -q 'cudaStreamSynchronize' "$scratch/advice"; tell $? "the advice names the synchronisation: $(grep -m1 cudaStreamSynchronize "$scratch/advice" | cut -c1-120)"
"$build/nereid" prof -- python3 -c 'import torch, os; torch.ones(9, device="cuda").sum().item(); os._exit(7)' >"$scratch/out" 2>&1
[ $? -eq 7 ] && grep -q reduce_kernel "$scratch/out"; tell $? "a program that leaves by _exit keeps its status and its kernels"
"$build/nereid" prof -- python3 -c 'import torch; torch.ones(9, device="cuda").add_(1); import os; os.kill(os.getpid(), 11)' >"$scratch/out" 2>&1
[ $? -eq 139 ] && grep -q 'signal 11' "$scratch/out"; tell $? "one that crashes, too"
NEREID_CUPTI=/nonexistent "$build/nereid" prof -- python3 -c 'import torch; print(torch.ones(9, device="cuda").sum().item())' >"$scratch/out" 2>&1
[ $? -eq 0 ] && grep -q '^9.0' "$scratch/out" && grep -q 'the GPU was not recorded' "$scratch/out"; tell $? "without CUPTI the program runs and the report says why"

# Turn by turn, since a processor's clock wanders; the best of each.
without=999 with=999
least() { awk "BEGIN { print $1 < $2 ? $1 : $2 }"; }
for i in 1 2 3; do
  without=$(least "$(python3 "$program" launches)" "$without")
  with=$(least "$("$build/nereid" prof --trace "$scratch/l$i" --table -o "$scratch/out" -- python3 "$program" launches | tail -n 1)" "$with")
done
awk "BEGIN { exit !($with - $without < 3) }"; tell $? "a launch costs $(awk "BEGIN { printf \"%.2f\", $with - $without }") us more ($without us without, $with us with; 100,000 launches)"
exit $failed
