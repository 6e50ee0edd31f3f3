// SPDX-License-Identifier: Apache-2.0
// LiveServer: serves the OpenAI API with any engine type and gates; the engine runs on its own thread.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/with.hpp"
#include "sluice/serve/beast/nlohmann/openai_server.hpp"
#include "sluice/serve/engine_thread.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/token_source.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace sluice {

/// A server with engine type `E`. Each request passes `Gates`, in this order, before it reaches the engine.
///
///     using MyServer = sluice::LiveServer<With<OrbitFlow, GenerationFeed>, QueueLimit>;
///
/// This primary template represents a rejected server. Its members are declared but never defined, so the compiler
/// reports only the sentences that explain the rejection.
template <class E, class... Gates>
class LiveServer {
  static_assert(explain_server<E, Gates...>());

 public:
  using Config = detail::Anything;
  static Expected<std::unique_ptr<LiveServer>> make(const Config& config);
  [[nodiscard]] static Status serve(const Config& config, const detail::Anything& started);
  [[nodiscard]] Status run();
  void drain();
  void stop();
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;
  [[nodiscard]] bool ready() const;
};

/// Lifecycle: `make` listens, constructs the engine and starts to load its weights; `run` serves until TERM, `drain` or
/// `stop`. The server is on the heap and never moves, because its components hold each other's addresses.
template <class E, class... Gates>
  requires MakesServer<E, Gates...>
class LiveServer<E, Gates...> {
 public:
  using engine_type = E;

  struct Config : OpenAiServerConfig {
    typename E::Config engine;           ///< the server sets its GenerationFeed
    std::shared_ptr<TokenSource> tokens; ///< CpuTokens with a machine, DrawnTokens without
    std::tuple<Gates...> gates{};
    /// Where copies of the engine look ahead, for gates such as ForecastSlo. For an engine on `Cpu`, this is `world_of`
    /// a simulated backend.
    WorldAhead<E> ahead = EngineLoop<E>::copied_world();
  };

  /// Makes a server. Errors: the address cannot be listened on, or the engine's configuration is invalid.
  [[nodiscard]] static Expected<std::unique_ptr<LiveServer>> make(Config config) {
    if (config.tokens == nullptr)
      return Error{ErrorCode::bad_input, "tokens", "there is no source of tokens",
                   "CpuTokens with a machine, DrawnTokens with none"};
    std::unique_ptr<LiveServer> server(new LiveServer(config));
    if (Status listening = server->http_.listen(); !listening) return listening.error();
    Status started = server->thread_.start(
        [engine = std::move(config.engine)](EventListener& feed) {
          typename E::Config one = engine;
          std::get<GenerationFeed>(one.observers).listener = &feed;
          return one;
        },
        std::move(config.ahead));
    if (!started) return started.error();
    return server;
  }
  /// Makes a server, calls `started` with it, and runs it. Errors: those of `make` and `run`.
  template <class Started>
  [[nodiscard]] static Status serve(Config config, Started&& started) {
    const Expected<std::unique_ptr<LiveServer>> server = make(std::move(config));
    if (!server) return server.error();
    started(static_cast<const LiveServer&>(**server));
    return (*server)->run();
  }
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  /// Serves on this thread until the server is drained or stopped. Returns the error that ended the engine's run, for
  /// example weights that could not be loaded or a policy's impossible answer.
  [[nodiscard]] Status run() {
    http_.run();
    thread_.stop();
    return thread_.status();
  }
  /// Ends `run` when all running requests have finished, or after `Config::drain_s`. May be called from any thread.
  void drain() { http_.drain(); }
  /// Ends `run` now. May be called from any thread.
  void stop() { http_.stop(); }

  [[nodiscard]] std::uint16_t port() const { return http_.port(); }
  /// Returns the address it listens on: `http://127.0.0.1:8080`.
  [[nodiscard]] std::string url() const { return http_.url(); }
  /// Returns whether the weights are loaded, so that requests are served.
  [[nodiscard]] bool ready() const { return thread_.ready(); }

 private:
  using Thread = EngineThread<E, Gates...>;

  explicit LiveServer(Config& config)
      : tokens_(std::move(config.tokens)),
        http_(std::move(static_cast<OpenAiServerConfig&>(config))),
        thread_(std::apply([&](auto&... gates) { return Thread(*tokens_, http_.listener(), std::move(gates)...); },
                           config.gates)) {
    if (ServedListener* const served = http_.served()) thread_.tell_served(*served);
    http_.attach(thread_);
  }

  std::shared_ptr<TokenSource> tokens_;
  OpenAiServer http_;
  Thread thread_; ///< ends before the objects that it notifies
};

} // namespace sluice
