// SPDX-License-Identifier: Apache-2.0
// Two APIs, two what-ifs, and an admission that knows lengths: each has its sentence. Gates there may be many.
// sentences: 3
// says: two Apis in one server: keep one of them
// says: two WhatIfs in one server: name all systems in one
// says: this engine's Admission looks at how long each request will be
#include "sluice/admission/shortest_first.hpp"
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
  void drain() {}
  std::size_t under_way() const { return 0; }
};

template <int Which>
struct Oracle {
  using role = sluice::roles::WhatIf;
  struct Setup {};
  explicit Oracle(Setup) {}
  void hear(auto&) {}
  std::string json() { return "{}"; }
  void stop() {}
};

using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed>;
#ifdef GOOD
static_assert(sluice::explain_server<Mine, Words, Oracle<1>, sluice::QueueLimit, sluice::QueueLimit>());
#else
using Knows = sluice::With<Mine, sluice::ShortestKnownFirst>;
static_assert(sluice::explain_server<Knows, Words, Oracle<1>, Words, Oracle<2>>());
#endif
