// SPDX-License-Identifier: Apache-2.0
// drain_on_signal: what TERM and INT do to a server: the first lets requests under way end, the second ends the
// program.
#pragma once

#include "sluice/serve/beast/http_server.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace sluice {

/// The longest drain, in seconds: a day. Clocks count nanoseconds, and a number of any size would be none of them.
inline constexpr double longest_drain = 86'400;

/// No new requests; those under way end, for at most `seconds`. On the application's thread.
template <class Connection, class App>
void drain(HttpServer<Connection>& server, App& app, double seconds) {
  app.drain();
  server.drain(std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, longest_drain) * 1000)));
}

/// From here on the first TERM or INT drains `server`. Another does what it does without this: the program ends at once
/// by it, whatever any thread of it is at. (Rejected: to stop the server, and so `run`. The engine's step under way
/// would have to end first, and the exit status would be that of a drain in which nothing was lost.) `said` is told of
/// the first, with how many requests are under way; may be empty.
template <class Connection, class App>
void drain_on_signal(HttpServer<Connection>& server, App& app, double seconds,
                     std::function<void(std::size_t under_way)> said = {}) {
  server.on_signal({SIGTERM, SIGINT}, [&server, &app, seconds, said = std::move(said)](int) {
    if (server.draining()) return server.stop(); // somebody else has let it drain
    if (said) said(app.under_way());
    drain(server, app, seconds);
  });
}

} // namespace sluice
