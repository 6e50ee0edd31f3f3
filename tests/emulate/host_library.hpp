// SPDX-License-Identifier: Apache-2.0
// HostLibrary: the MatmulLibrary that replaces cuBLASLt on an emulated device; each call is a host function in a
// stream. Products of few rows split their sums, as libraries do, so the bits depend on the number of rows.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "emulate/streams.hpp"
#include "kernels/element.hpp"
#include "kernels/products/bucketed_product.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::emulate {

class HostLibrary {
 public:
  struct Stream {
    Device* device;
    int number;
  };
  struct Algorithm {
    int rows;  ///< for at most this many rows
    int parts; ///< of a sum
    kernels::Alignments aligned;
  };

  /// `room`: device memory, written by every call that splits its sums.
  explicit HostLibrary(std::span<std::byte> room) : room_(room) {}

  [[nodiscard]] Expected<std::vector<Algorithm>> algorithms(const kernels::ProductCall& call,
                                                            const kernels::Alignments& aligned) const {
    return std::vector<Algorithm>{{call.rows, call.rows > 8 ? 1 : 4, aligned}};
  }
  /// Refuses calls that the algorithm was not selected for, as a library may.
  [[nodiscard]] kernels::LibraryAnswer run(const kernels::ProductCall& call, const Algorithm& algorithm,
                                           const Stream& stream) const {
    const kernels::Alignments aligned = kernels::alignments_of(call);
    for (std::size_t i = 0; i < aligned.size(); ++i)
      if (aligned[i] < algorithm.aligned[i] || call.rows > algorithm.rows)
        return {true, Error{ErrorCode::unsupported, "host library", "a call that the algorithm is not for", ""}};
    SLUICE_ASSERT(call.w.head != nullptr && call.w.split == call.outputs, "weights in one place");
    stream.device->launch(stream.number, [call, algorithm, room = room_] {
      switch (call.element) {
      case ElementType::f32:
        return multiply<float>(call, algorithm, room);
      case ElementType::f16:
        return multiply<kernels::F16>(call, algorithm, room);
      default:
        return multiply<kernels::Bf16>(call, algorithm, room);
      }
    });
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return Bytes{static_cast<std::int64_t>(room_.size())}; }

 private:
  template <class T>
  static void multiply(const kernels::ProductCall& call, const Algorithm& algorithm, std::span<std::byte> room) {
    if (algorithm.parts > 1) std::memset(room.data(), 0x7b, room.size());
    for (int row = 0; row < call.rows; ++row) {
      for (int output = 0; output < call.outputs; ++output) {
        const T* const x = static_cast<const T*>(call.x) + row * call.x_stride;
        const T* const w = static_cast<const T*>(call.w.head) + std::int64_t{output} * call.inputs;
        float sum = 0;
        for (int part = 0; part < algorithm.parts; ++part) {
          float of_part = 0;
          for (int k = part; k < call.inputs; k += algorithm.parts)
            of_part += kernels::widen(x[k]) * kernels::widen(w[k]);
          sum += of_part;
        }
        if (call.bias != nullptr) sum += kernels::widen(static_cast<const T*>(call.bias)[output]);
        const std::int64_t at = row * call.y_stride + output;
        if (call.wide)
          store(static_cast<float*>(call.y) + at, sum, call.accumulate);
        else
          store(static_cast<T*>(call.y) + at, sum, call.accumulate);
      }
    }
  }
  template <class Y>
  static void store(Y* to, float sum, bool accumulate) {
    *to = kernels::narrow<Y>(accumulate ? kernels::widen(*to) + sum : sum);
  }

  std::span<std::byte> room_;
};
static_assert(kernels::MatmulLibrary<HostLibrary>);

} // namespace sluice::emulate
