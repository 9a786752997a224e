# shellcheck shell=bash
# The kernels that use.c launches, as nereid build takes them; $root is the repository.
# shellcheck disable=SC2034,SC2154
use_kernels=("$root/kernels/softmax.py:softmax" 'x_ptr=f32[M,N]' 'out_ptr=f32[M,N]' x_stride=i32 out_stride=i32 n_cols=i32 BLOCK=1024
  --then "$root/kernels/vector_add.py:vector_add" 'x_ptr=f32*' 'y_ptr=f32*' 'out_ptr=f32*' n=i32 BLOCK=256 --grid 'cdiv(n, BLOCK)'
  --then "$root/tests/aot/values.py:scaled" 'desc=tensordesc<f32[4,8]>' 'to=(ptr=f32*, by=f32)' row=i32 --grid 1)
