// SPDX-License-Identifier: Apache-2.0
// Recorder: the observers of a comparison as one listener.
#pragma once

#include "sluice/report/observer/any_observer.hpp"

#include "compare/recorded.hpp"
#include "compare/run.hpp"

#include <vector>

namespace compared {

/// Records what the request's row and files need.
struct Recorder final : sluice::EventListener {
  explicit Recorder(const Request& of);
  void hear(const sluice::AnyEvent& event) override;

  const Request& request; ///< the results to record
  Recorded kept;

 private:
  void note_horizon(sluice::Seconds arrival);

  bool windowed_ = false; ///< figures leave out requests: --warmup or --horizon
  std::vector<sluice::SloClass> classes_;
};

} // namespace compared
