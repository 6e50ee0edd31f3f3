// SPDX-License-Identifier: Apache-2.0
// gpu_kernel_tests: the tests of tests/kernels on a GPU.
#define DOCTEST_CONFIG_IMPLEMENT
#include "arena.hpp"
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

int main(int count, char** arguments) {
  doctest::Context context(count, arguments);
  if (const char* const said = gpu_bench::take_pinned_memory(std::size_t{1} << 29U); said != nullptr) {
    std::fprintf(stderr, "gpu_kernel_tests: %s\n", said);
    return 2;
  }
  const int result = context.run();
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(result); // destructors of static objects would free memory that CUDA has already released
}
