// SPDX-License-Identifier: Apache-2.0
// gpu_gemm: cuBLASLt's rate for bf16 products, the ceiling of prompts and of our own tiles. It is a separate program,
// because a machine may lack the library, and the other rows do not need it.
#include "kernels/products/cublas_lt.cuh"
#include "row.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace {

using namespace gpu_bench;
using namespace sluice::kernels;

void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void require(const sluice::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().line());
}

/// Random bits of bf16 in [-2, 2): zeros would run faster than numbers do. Computed from i, so that the host can repeat
/// it.
__host__ __device__ unsigned short number(unsigned long long i) {
  unsigned long long x = (i + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 29U)) * 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 32U;
  const unsigned exponent = 0x7fU - static_cast<unsigned>(x & 3U);
  return static_cast<unsigned short>(static_cast<unsigned>(x >> 8U & 1U) << 15U | exponent << 7U |
                                     static_cast<unsigned>(x >> 16U & 127U));
}
__global__ void fill(unsigned short* to, unsigned long long count, unsigned long long seed) {
  for (unsigned long long i = blockIdx.x * 256ULL + threadIdx.x; i < count; i += gridDim.x * 256ULL)
    to[i] = number(i + seed);
}
double value(unsigned long long i) {
  const unsigned bits = static_cast<unsigned>(number(i)) << 16U;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

struct Free {
  void operator()(void* at) const { cudaFree(at); }
};
using Memory = std::unique_ptr<void, Free>;
Memory memory(std::size_t bytes) {
  void* at = nullptr;
  require(cudaMalloc(&at, bytes));
  return Memory{at};
}

void measure(CublasLt& library, cudaStream_t stream, Row& row, int rows, int outputs, int inputs, int repetitions) {
  const auto of = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
  constexpr unsigned long long w_seed = 1ULL << 40U;
  const Memory x = memory(of(rows, inputs) * 2), w = memory(of(outputs, inputs) * 2), y = memory(of(rows, outputs) * 2);
  fill<<<1024, 256, 0, stream>>>(static_cast<unsigned short*>(x.get()), of(rows, inputs), 0);
  fill<<<1024, 256, 0, stream>>>(static_cast<unsigned short*>(w.get()), of(outputs, inputs), w_seed);
  require(cudaMemsetAsync(y.get(), 0xff, of(rows, outputs) * 2, stream));
  ProductCall call;
  call.x = x.get();
  call.w = ProductWeights::whole(w.get(), outputs);
  call.y = y.get();
  call.x_stride = inputs;
  call.y_stride = outputs;
  call.rows = rows;
  call.outputs = outputs;
  call.inputs = inputs;
  call.element = sluice::ElementType::bf16;
  cudaEvent_t begin = nullptr, end = nullptr;
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  constexpr int calls = 10; // between two events, so that the host is ahead of the device
  for (int i = -2; i < repetitions; ++i) {
    require(cudaEventRecord(begin, stream));
    for (int c = 0; c < calls; ++c) require(library(stream, call));
    require(cudaEventRecord(end, stream));
    require(cudaEventSynchronize(end));
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= 0) row.samples.push_back(static_cast<double>(milliseconds) * 1e-3 / calls);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  row.unit = "TFLOP/s";
  row.amount = 2e-12 * rows * static_cast<double>(outputs) * inputs;
  double off = 0, all = 0;
  for (int i = 0; i < 8; ++i) {
    const int r = static_cast<int>((rows - 1LL) * i / 7), o = static_cast<int>((outputs - 1LL) * (7 - i) / 7);
    unsigned short got = 0;
    require(cudaMemcpy(&got, static_cast<unsigned short*>(y.get()) + of(r, outputs) + static_cast<std::size_t>(o), 2,
                       cudaMemcpyDeviceToHost));
    double sum = 0;
    for (int k = 0; k < inputs; ++k)
      sum += value(of(r, inputs) + static_cast<std::size_t>(k)) *
             value(w_seed + of(o, inputs) + static_cast<std::size_t>(k));
    const unsigned bits = static_cast<unsigned>(got) << 16U;
    float one;
    std::memcpy(&one, &bits, 4);
    off += (one - sum) * (one - sum);
    all += sum * sum;
  }
  row.checks = true;
  row.check = {std::sqrt(off / all), 4e-3, 8};
}

} // namespace

int main(int count, char** arguments) {
  const int repetitions = count > 1 && std::atoi(arguments[1]) > 0 ? std::atoi(arguments[1]) : 20;
  int failed = 0;
  try {
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const Memory room = memory(static_cast<std::size_t>(CublasLt::wanted_workspace.count()));
    sluice::Expected<CublasLt> library = CublasLt::make({room.get(), CublasLt::wanted_workspace});
    if (!library) throw std::runtime_error(library.error().line());
    const int shapes[][3] = {{4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 28672, 4096}, {16, 4096, 4096}};
    for (const auto& shape : shapes) {
      const auto begin = std::chrono::steady_clock::now();
      Row row;
      row.stage = "ceilings";
      row.name =
          "cublas, " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " x " + std::to_string(shape[2]);
      row.config = "bf16, sums in f32, cublasLtMatmul's first choice, one stream";
      try {
        measure(*library, stream, row, shape[0], shape[1], shape[2], repetitions);
      } catch (const std::exception& error) {
        row.failed = error.what();
      }
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      failed += print(row, seconds, "gpu_gemm") ? 0 : 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_gemm: %s\n", error.what());
    return 2;
  }
  return failed == 0 ? 0 : 1;
}
