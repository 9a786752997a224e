// Four transposes of a matrix of floats, in tiles of 32 x 32 by 32 x 8 threads, each mending what the one before is bad at:
//
//     transpose_naive     each warp writes down a column: 32 sectors a request
//     transpose_shared    through shared memory, so that both sides are rows; but a warp reads a column of the tile, all in one bank: 32 passes
//     transpose_padded    the tile's rows are 33 words long, so that a column goes through all banks
//     transpose_swizzled  rows of 32 words, word c of row r in place c ^ r: the same without the padding's memory
//
//     nereid run kernels/teaching/transpose.cu:transpose_padded x=randn:f32[1024,1024] out=like:x n=1024 --grid 32,32 --block 32,8 --device cuda

extern "C" __global__ void transpose_naive(const float *__restrict__ x, float *__restrict__ out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[c * n + r + i] = x[(r + i) * n + c];
}

template <int WIDTH, bool SWIZZLE> __device__ void through_shared(const float *x, float *out, int n) {
  __shared__ float tile[32][WIDTH];
  int c = threadIdx.x, r = threadIdx.y;
  for (int i = r; i < 32; i += 8) tile[i][SWIZZLE ? c ^ i : c] = x[(blockIdx.y * 32 + i) * n + blockIdx.x * 32 + c];
  __syncthreads();
  for (int i = r; i < 32; i += 8) out[(blockIdx.x * 32 + i) * n + blockIdx.y * 32 + c] = tile[c][SWIZZLE ? i ^ c : i];
}

extern "C" __global__ void transpose_shared(const float *__restrict__ x, float *__restrict__ out, int n) { through_shared<32, false>(x, out, n); }
extern "C" __global__ void transpose_padded(const float *__restrict__ x, float *__restrict__ out, int n) { through_shared<33, false>(x, out, n); }
extern "C" __global__ void transpose_swizzled(const float *__restrict__ x, float *__restrict__ out, int n) { through_shared<32, true>(x, out, n); }
