// SPDX-License-Identifier: Apache-2.0
// A server of an engine that tells nobody of its tokens, of a type that is no part, of a policy, and without an API:
// each has its sentence.
// sentences: 4
// says: this engine tells nobody of its tokens, so that none would reach a client: write .With<E, GenerationFeed>.
// says: this type is no part of a server: a part says .using role = roles::
// says: a server has no such role as this part's
// says: this server has no Api: name one, as OpenAi
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

#ifdef GOOD
using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed, sluice::DeadlinePool>;
static_assert(sluice::explain_server<Mine, Words, sluice::QueueLimit>());
#else
struct Limit {
  long most = 7;
};
static_assert(sluice::explain_server<sluice::VllmSwap, Limit, sluice::DeadlinePool>());
#endif
