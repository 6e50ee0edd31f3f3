// SPDX-License-Identifier: Apache-2.0
// A policy that reads what clients say of their KV must say so, or nobody would know which systems read a hint.
// sentences: 1
// says: this policy reads what clients say of their KV and does not say so
#include "sluice/engine/caching.hpp"
#include "sluice/policy/caching/write_through.hpp"

struct KeepsALittle : sluice::WriteThrough {
#ifdef GOOD
  static constexpr sluice::HintSet uses_hints{.keep = true};
#endif
  sluice::Tokens write(const sluice::View& /*view*/, const sluice::RequestRow& row) const {
    return row.hints(sluice::heeded<KeepsALittle>).kept();
  }
};

static_assert(sluice::explain<KeepsALittle>());
