// SPDX-License-Identifier: Apache-2.0
// MissCauses: why prompt tokens are computed that had been computed before.
#pragma once

#include "sluice/core/units.hpp"

namespace sluice {

/// In tokens, whole blocks. Tokens that no request has had before are no miss.
struct MissCauses {
  Tokens unwritten{0}; ///< no tier got them, and the device has overwritten them
  Tokens evicted{0};   ///< every tier that had them has evicted them
  Tokens late{0};      ///< another request still computed them, or they were on their way
  Tokens cut{0};       ///< a tier had them, but Caching did not load them

  [[nodiscard]] Tokens all() const { return unwritten + evicted + late + cut; }
  MissCauses& operator+=(const MissCauses& other) {
    unwritten += other.unwritten;
    evicted += other.evicted;
    late += other.late;
    cut += other.cut;
    return *this;
  }
};

} // namespace sluice
