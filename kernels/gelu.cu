// GELU in its tanh form, as kernels/gelu.py has it: one read and one write an element, by one thread each.
//
//     nereid run kernels/gelu.cu:gelu n=2^20 x=randn:f32[n] out=like:x --grid 'cdiv(n, 256)' --block 256 --device cuda

extern "C" __global__ void gelu(const float *__restrict__ x, float *__restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  out[i] = 0.5f * v * (1.0f + tanhf(inner));
}
