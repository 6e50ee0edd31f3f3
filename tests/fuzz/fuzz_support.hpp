// SPDX-License-Identifier: Apache-2.0
// What every fuzz target checks for a reader, whatever its input.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace sluice_test {

/// A target of the replay program (replay_main.cpp), which finds it by name.
struct FuzzTarget {
  using Function = int (*)(const std::uint8_t* data, std::size_t size);
  FuzzTarget(const char* of, Function does) : name(of), function(does), next(std::exchange(first, this)) {}

  const char* name;
  Function function;
  FuzzTarget* next;
  static inline FuzzTarget* first = nullptr;
};

/// Ends the program, which a fuzzer detects; on in every build type, unlike an assertion.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: broken: %s\n", what);
  std::abort();
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string{} : std::string(reinterpret_cast<const char*>(data), size);
}

/// An error is one readable line, with a place and what would be right.
inline void require_one_line(const sluice::Error& error) {
  const std::string line = error.line();
  require(!error.where.empty() && !error.what.empty() && !error.expected.empty(),
          "an error names a place, what is wrong and what would be right");
  require(line.size() < 2000, "an error's line is short");
  for (const char character : line) {
    require(static_cast<unsigned char>(character) >= 0x20 && character != 0x7f, "an error has no control characters");
  }
}

/// Reads to the end or the first error, and checks every request against the guarantees of TraceReader.
template <sluice::TraceReader Reader>
void drain(Reader& reader) {
  sluice::Seconds before{0};
  for (std::int64_t count = 0;; ++count) {
    const auto request = reader.next();
    if (!request) return require_one_line(request.error());
    if (!*request) return require(count > 0, "an empty trace is an error");
    const sluice::RequestSpec& spec = **request;
    require(count > 0 || spec.arrival == sluice::Seconds{0}, "the first arrives at 0");
    require(spec.follows || spec.arrival >= before, "arrivals never decrease");
    require(spec.prompt.count() >= 1 && spec.prompt.count() <= sluice::max_request_tokens, "a prompt in range");
    require(spec.output.count() >= 1 && spec.output.count() <= sluice::max_request_tokens, "an output in range");
    if (!spec.follows) before = spec.arrival;
  }
}

} // namespace sluice_test

/// `SLUICE_FUZZ_TARGET(NAME) { ... return 0; }` in NAME_fuzz.cpp: tries `data` and `size`. It is libFuzzer's entry
/// point, or one of the replay program's targets.
#ifdef SLUICE_FUZZ_REPLAY
#define SLUICE_FUZZ_TARGET(NAME)                                                                                       \
  static int fuzz_##NAME(const std::uint8_t* data, std::size_t size);                                                  \
  static sluice_test::FuzzTarget fuzz_target_##NAME{#NAME, fuzz_##NAME};                                               \
  static int fuzz_##NAME(const std::uint8_t* data, std::size_t size)
#else
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
#define SLUICE_FUZZ_TARGET(NAME) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif
