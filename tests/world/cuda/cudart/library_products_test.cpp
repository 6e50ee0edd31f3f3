// SPDX-License-Identifier: Apache-2.0
// LibraryProducts' calls of cuBLASLt, on functions with that library's conventions that run on the kernels' emulator.
#include "emulate/kernel_queue.hpp"
#include "emulate/streams.hpp"
#include "kernels/product_problem.hpp"
#include "kernels/products/library_products.hpp"
#include "world/cuda/cudart/runtime.hpp"
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

template <class T, class Y>
void are_products(std::uint64_t seed) {
  testing::restart_runtime(seed);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  emulate::Memory room{1024};
  auto library = make_library_products({room.data(), room.size()});
  REQUIRE(library.has_value());
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 20; ++trial) {
    CAPTURE(trial);
    const int outputs = 1 + static_cast<int>(random() % 40);
    const ProductProblem<T> problem(random(), static_cast<int>(random() % 20), outputs,
                                    static_cast<int>(random() % 5) * Packet<T>::size,
                                    static_cast<int>(random() % static_cast<std::uint64_t>(outputs)));
    std::vector<Y> y(problem.y.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = narrow<Y>(widen(problem.y[i]));
    ProductCall call = problem.call(y.data());
    call.wide = !std::is_same_v<T, Y>;
    const bool biased = random() % 2 == 0 && !call.wide;
    call.accumulate = random() % 2 == 0;
    if (biased) call.bias = problem.bias.data();
    if (random() % 2 == 0) call.w = problem.split_weights();
    const Status multiplied = (**library)(stream, call);
    CHECK(multiplied.ok());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(problem.error(y, biased, call.accumulate) < (call.wide ? 1e-6 : product_limit<T>));
  }
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}

} // namespace

TEST_CASE("a library's products are correct for whole and split matrices, with bias and accumulation") {
  are_products<float, float>(1);
  are_products<F16, F16>(2);
  are_products<Bf16, Bf16>(3);
  are_products<Bf16, float>(4);
}

TEST_CASE("a missing library is reported in one line") {
  testing::restart_runtime(1);
  testing::emulated_runtime().has_cublas_lt = false;
  const auto library = make_library_products({});
  REQUIRE(!library.has_value());
  CHECK(library.error().line().starts_with("cuda: fast products: CUBLAS_STATUS_NOT_INITIALIZED"));
}
