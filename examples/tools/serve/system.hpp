// SPDX-License-Identifier: Apache-2.0
// The setup of a server: a model's tokens and an engine, on this machine or simulated.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/cpu/cpu.hpp"

#include "run/job.hpp"
#include "serve/options.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace serving {

struct Served {
  std::string name; ///< of the model
  std::unique_ptr<sluice::Tokenizer> tokenizer;
  int vocabulary = 0;
  std::int64_t context = 0;
  engines::Setup setup;
  std::shared_ptr<sluice::BackendWorld> world; ///< null if a record of this machine is replayed
  running::WorldsAhead ahead;
  std::unique_ptr<sluice::TokenSource> tokens;
  std::string what;   ///< a line for people: the machine, and how much memory it uses
  std::string kept;   ///< what layers keep of a request, in one line; empty if they are alike
  std::string digest; ///< of the weights; "simulated" if there are none
};

/// Reads the model and sets up the machine, or its simulation.
sluice::Expected<Served> set_up(const Options& options, const engines::System& system);

} // namespace serving
