// SPDX-License-Identifier: Apache-2.0
// LiveServer: an engine, its thread, gates, API and connections, as one type.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/drain.hpp"
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/compose_server.hpp"
#include "sluice/serve/engine_thread.hpp"
#include "sluice/serve/pacer.hpp"
#include "sluice/serve/token_source.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {

template <class E, class Gates>
struct ServerTypes;
template <class E, class... Gates>
struct ServerTypes<E, Parts<Gates...>> {
  using Thread = EngineThread<E, Gates...>;
  using Values = std::tuple<Gates...>;
};

} // namespace detail

/// A server of the given composition; `LiveServer<…>` below names it from an engine and a list of parts.
///
/// Life: `make` listens, makes the engine and lets its weights load; `run` serves until TERM, `drain` or `stop`. One
/// object, one place: its parts know each other by address, so that it is made on the heap and does not move.
template <class C>
class BasicLiveServer {
  using Types = detail::ServerTypes<typename C::engine_type, typename C::gate_types>;

 public:
  using composition = C;
  using engine_type = typename C::engine_type;
  using api_type = typename C::api_type;
  using what_if_type = typename C::what_if_type;
  using connection_type = std::conditional_t<std::same_as<typename C::connection_type, detail::NoPart>, PlainHttp,
                                             typename C::connection_type>;

  /// Everything a server is made from. The engine's feed is the server's to set.
  struct Config {
    typename engine_type::Config engine;
    std::shared_ptr<TokenSource> tokens; ///< CpuTokens with a machine, DrawnTokens with none
    typename api_type::Setup api;
    typename Types::Values gates{};
    /// Where copies of the engine look ahead, for gates as ForecastSlo: of an engine on `Cpu`, a SimulatedWorld.
    WorldAhead<engine_type> ahead = EngineLoop<engine_type>::copied_world();
    typename what_if_type::Setup what_if{};
    connection_type connection{};
    HttpAddress address{};
    HttpLimits limits{};
    double drain_s = 30; ///< that requests under way may take to end after TERM
    bool signals = true; ///< `run` hears TERM and INT: the first drains, the second ends the program
  };

  /// Errors: an address that cannot be listened on, what is wrong with the engine's configuration.
  [[nodiscard]] static Expected<std::unique_ptr<BasicLiveServer>> make(Config config) {
    if (config.tokens == nullptr)
      return Error{ErrorCode::bad_input, "tokens", "there is no source of tokens",
                   "CpuTokens with a machine, DrawnTokens with none"};
    std::unique_ptr<BasicLiveServer> server(new BasicLiveServer(config));
    if (Status listening = server->http_.listen(config.address); !listening) return listening.error();
    if constexpr (C::has_what_if) server->what_if_.hear(*server->thread_);
    Status started = server->thread_->start(
        [engine = std::move(config.engine)](FeedListener& feed) {
          typename engine_type::Config one = engine;
          std::get<GenerationFeed>(one.observers).listener = &feed;
          return one;
        },
        std::move(config.ahead));
    if (!started) return started.error();
    return server;
  }
  /// The whole life of a server: it is made, `started` is told of it, and it runs. Errors: those of `make` and `run`.
  template <class Started>
  [[nodiscard]] static Status serve(Config config, Started&& started) {
    const Expected<std::unique_ptr<BasicLiveServer>> server = make(std::move(config));
    if (!server) return server.error();
    started(static_cast<const BasicLiveServer&>(**server));
    return (*server)->run();
  }
  ~BasicLiveServer() {
    thread_->stop(); // before what it tells is gone
    if constexpr (C::has_what_if) what_if_.stop();
  }
  BasicLiveServer(const BasicLiveServer&) = delete;
  BasicLiveServer& operator=(const BasicLiveServer&) = delete;

  /// Serves on this thread until the server is drained or stopped. Error: what ended the engine's run, if anything did:
  /// weights that could not be loaded, a policy's impossible answer.
  [[nodiscard]] Status run() {
    if (signals_) drain_on_signal(http_, *api_, drain_s_);
    http_.run(*api_);
    thread_->stop();
    return thread_->status();
  }
  /// Lets requests under way end, for at most `Config::drain_s`, and then `run`. From any thread.
  void drain() {
    http_.post([this] { sluice::drain(http_, *api_, drain_s_); });
  }
  /// Ends `run` now. From any thread.
  void stop() {
    http_.post([this] { http_.stop(); });
  }

  [[nodiscard]] std::uint16_t port() const { return http_.port(); }
  /// Where it listens: `http://127.0.0.1:8080`.
  [[nodiscard]] std::string url() const {
    return std::string{connection_type::scheme} + "://" + host_ + ":" + std::to_string(port());
  }
  /// Whether the weights are loaded and requests are served.
  [[nodiscard]] bool ready() const { return thread_->ready(); }

 private:
  explicit BasicLiveServer(Config& config)
      : signals_(config.signals),
        drain_s_(config.drain_s),
        host_(config.address.host.find(':') == std::string::npos ? config.address.host
                                                                 : "[" + config.address.host + "]"),
        tokens_(std::move(config.tokens)),
        http_(config.limits, std::move(config.connection)),
        pacer_(http_),
        what_if_(std::move(config.what_if)) {
    if constexpr (C::has_what_if) config.api.what_if = [this] { return what_if_.json(); };
    std::apply(
        [&](auto&... gates) {
          thread_ = std::make_unique<typename Types::Thread>(*tokens_, pacer_, std::move(gates)...);
        },
        config.gates);
    api_ = std::make_unique<api_type>(std::move(config.api), http_, *thread_);
    pacer_.tell(*api_);
  }

  bool signals_;
  double drain_s_;
  std::string host_; ///< as addresses have it
  std::shared_ptr<TokenSource> tokens_;
  HttpServer<connection_type> http_;
  Pacer pacer_;
  [[no_unique_address]] what_if_type what_if_;
  std::unique_ptr<typename Types::Thread> thread_;
  std::unique_ptr<api_type> api_; ///< keeps exchanges, which end before the transport
};

/// Stands for a server that was rejected, so that the sentences are the only errors. `Explained` is what the function
/// with the sentences returns: naming this type makes the compiler print them.
template <class Explained>
struct RejectedServer {
  using Config = detail::Anything;
  static Expected<std::unique_ptr<RejectedServer>> make(const Config& config);
  [[nodiscard]] static Status serve(const Config& config, const detail::Anything& started);
  [[nodiscard]] Status run();
  void drain();
  void stop();
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;
  [[nodiscard]] bool ready() const;
};

namespace detail {

template <class E, class List>
struct NameServer {
  using type = RejectedServer<decltype(explain_server_parts<E>(List{}))>;
};
template <class E, class List>
  requires MakesServer<E, List>
struct NameServer<E, List> {
  using type = BasicLiveServer<typename ComposeServer<E, List>::type>;
};

} // namespace detail

/// The server of an engine and parts, by role and in any order. A wrong composition is one sentence per mistake.
///
///     using MyServer = sluice::LiveServer<With<OrbitFlow, GenerationFeed>, OpenAi, QueueLimit>;
template <class E, class... Ps>
using LiveServer = typename detail::NameServer<E, typename detail::Unpack<Parts<Ps...>>::type>::type;

} // namespace sluice
