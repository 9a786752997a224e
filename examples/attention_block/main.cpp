// An attention block, out = x + attention(rotary(rms_norm(x) Wqkv)) Wo, of kernels that were compiled when this program
// was: no Python and no compiler when it runs. What comes out is compared with the same in double precision, and the
// time from the program's start to its first launch is said.
//
//     attention_block [DEVICE]        cpu (default), cpu:2, cuda, cuda:1
#include "block_kernels.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int heads = HEADS, d = HEAD_DIM, dim = heads * d, n = 100;
constexpr float eps = 1e-6f, log2_base = 13.287712f;  // base 10000
using Half = unsigned short;
using Clock = std::chrono::steady_clock;

void check(nereid_status status, nereid_error *error) {
  if (!status) return;
  std::fputs(nereid_error_text(error), stderr);
  std::exit(1);
}

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// An array of the device, and the same on the host.
struct Array {
  nereid_device *device;
  void *at = nullptr;
  std::vector<Half> host;

  Array(nereid_device *device, size_t count) : device(device), host(count) {
    nereid_error *error = nullptr;
    check(nereid_alloc(device, int64_t(count * 2 + 64), &at, &error), error);
  }
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;
  ~Array() { nereid_free(device, at); }
  void fill(double scale) {
    static unsigned state = 1;
    nereid_error *error = nullptr;
    for (Half &h : host) {
      state = state * 1664525u + 1013904223u;
      nereid_dtype_store(NEREID_F16, &h, scale * (double(state >> 8) / (1 << 23) - 1));
    }
    check(nereid_copy_to_device(device, at, host.data(), int64_t(host.size() * 2), &error), error);
  }
  void fetch() {
    nereid_error *error = nullptr;
    check(nereid_copy_to_host(device, host.data(), at, int64_t(host.size() * 2), &error), error);
  }
  double operator[](size_t i) const { return nereid_dtype_load(NEREID_F16, &host[i]); }
};

// The same in double precision.
std::vector<double> reference(const Array &x, const Array &weight, const Array &qkv_weight, const Array &out_weight) {
  std::vector<double> h(n * dim), qkv(size_t(n) * 3 * dim), merged(n * dim), out(n * dim);
  for (int r = 0; r < n; r++) {
    double sum = 0;
    for (int c = 0; c < dim; c++) sum += x[r * dim + c] * x[r * dim + c];
    for (int c = 0; c < dim; c++) h[r * dim + c] = x[r * dim + c] / std::sqrt(sum / dim + eps) * weight[c];
  }
  for (int r = 0; r < n; r++)
    for (int k = 0; k < dim; k++)
      for (int c = 0; c < 3 * dim; c++) qkv[size_t(r) * 3 * dim + c] += h[r * dim + k] * qkv_weight[k * 3 * dim + c];
  for (int r = 0; r < n; r++)
    for (int part = 0; part < 2; part++)
      for (int head = 0; head < heads; head++)
        for (int i = 0; i < d / 2; i++) {
          double *at = &qkv[size_t(r) * 3 * dim + part * dim + head * d + i], a = at[0], b = at[d / 2];
          double angle = r * std::exp2(-log2_base * 2 * i / d);
          at[0] = a * std::cos(angle) - b * std::sin(angle);
          at[d / 2] = b * std::cos(angle) + a * std::sin(angle);
        }
  for (int head = 0; head < heads; head++)
    for (int r = 0; r < n; r++) {
      std::vector<double> p(r + 1);
      double sum = 0;
      for (int c = 0; c <= r; c++) {
        double s = 0;
        for (int i = 0; i < d; i++)
          s += qkv[size_t(r) * 3 * dim + head * d + i] * qkv[size_t(c) * 3 * dim + dim + head * d + i];
        sum += p[c] = std::exp(s / std::sqrt(double(d)));
      }
      for (int c = 0; c <= r; c++)
        for (int i = 0; i < d; i++)
          merged[r * dim + head * d + i] += p[c] / sum * qkv[size_t(c) * 3 * dim + 2 * dim + head * d + i];
    }
  for (int r = 0; r < n; r++)
    for (int k = 0; k < dim; k++)
      for (int c = 0; c < dim; c++) out[r * dim + c] += merged[r * dim + k] * out_weight[k * dim + c];
  return out;
}

}  // namespace

int main(int argc, char **argv) {
  const Clock::time_point start = Clock::now();
  nereid_error *error = nullptr;
  nereid_device *device = nullptr;
  check(nereid_device_open(argc > 1 ? argv[1] : "cpu", &device, &error), error);
  const double opened = milliseconds(start);
  double difference = 0, largest = 0;
  {
    Array x(device, n * dim), weight(device, dim), qkv_weight(device, dim * 3 * dim), out_weight(device, dim * dim);
    Array h(device, n * dim), qkv(device, n * 3 * dim), q(device, n * dim), k(device, n * dim), v(device, n * dim);
    Array attended(device, n * dim), lse(device, 2 * heads * n), merged(device, n * dim), out(device, n * dim);
    x.fill(1), weight.fill(1);

    const Clock::time_point before = Clock::now();
    const int64_t rows[3] = {n, 1, 1}, tiles[3] = {(n + 63) / 64, heads, 1};
    check(rms_norm(device, nullptr, rows, x.at, weight.at, h.at, dim, dim, eps, &error), error);
    std::printf("start to first launch %.2f ms, of which %.2f to open the device and %.2f to load and launch\n",
                milliseconds(start), opened, milliseconds(before));
    qkv_weight.fill(0.2), out_weight.fill(0.2);
    const Clock::time_point block = Clock::now();
    check(matmul(device, nullptr, h.at, qkv_weight.at, qkv.at, n, 3 * dim, dim, dim, 1, 3 * dim, 1, 3 * dim, 1, &error),
          error);
    check(rotary(device, nullptr, qkv.at, q.at, k.at, v.at, n, log2_base, &error), error);
    check(attention(device, nullptr, tiles, q.at, k.at, v.at, attended.at, static_cast<float *>(lse.at), n,
                    1 / std::sqrt(float(d)), &error),
          error);
    check(merge_heads(device, nullptr, attended.at, merged.at, n, &error), error);
    check(matmul(device, nullptr, merged.at, out_weight.at, out.at, n, dim, dim, dim, 1, dim, 1, dim, 1, &error), error);
    check(nereid_synchronize(device, &error), error);
    std::printf("the rest of the block, its kernels loaded on the way: %.2f ms\n", milliseconds(block));

    out.fetch();
    const std::vector<double> want = reference(x, weight, qkv_weight, out_weight);
    for (int i = 0; i < n * dim; i++) {
      difference = std::fmax(difference, std::fabs(want[i] - out[i]));
      largest = std::fmax(largest, std::fabs(want[i]));
    }
  }
  nereid_device_close(device);
  std::printf("largest difference from double precision %.2g of %.2g\n", difference, largest);
  return difference < 0.01 * largest ? 0 : 1;
}
