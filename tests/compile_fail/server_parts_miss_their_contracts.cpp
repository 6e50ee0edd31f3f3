// SPDX-License-Identifier: Apache-2.0
// An API that does not drain, a gate that does not answer and a what-if that does not stop: each has its sentence.
// sentences: 3
// says: this Api needs .void drain\(\)., after which it refuses new requests
// says: this Gate needs .GateAnswer answer\(const Generation&, …\). as serve/gate.hpp declares it
// says: this WhatIf needs a nested .Setup. of which it is made
#include "sluice/serve/compose_server.hpp"
#include "sluice/systems/vllm.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct Words : sluice::HttpApp, sluice::GenerationListener {
  using role = sluice::roles::Api;
  struct Setup {
    std::function<std::string()> what_if;
  };
  Words(Setup, sluice::HttpTransport&, sluice::GenerationEngine&) {}
  void handle(sluice::HttpRequest, std::unique_ptr<sluice::Exchange>) override {}
  sluice::HttpResponse refuse(int, std::string) override { return {}; }
  void happened(std::vector<sluice::GenerationEvent>) override {}
#ifdef GOOD
  void drain() {}
#endif
  std::size_t under_way() const { return 0; }
};

struct Nobody {
  using role = sluice::roles::Gate;
#ifdef GOOD
  sluice::GateAnswer answer(const sluice::Generation&, const auto&) const { return {}; }
#else
  sluice::GateAnswer answers(const sluice::Generation&, const auto&) const { return {}; }
#endif
};

struct Oracle {
  using role = sluice::roles::WhatIf;
  struct Setup {};
  explicit Oracle(Setup) {}
  void hear(auto&) {}
  std::string json() { return "{}"; }
#ifdef GOOD
  void stop() {}
#endif
};

using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed>;
static_assert(sluice::explain_server<Mine, Words, Nobody, Oracle>());
