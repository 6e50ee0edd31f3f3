// SPDX-License-Identifier: Apache-2.0
// ClosedLoop: a workload's requests at their arrivals, of which some depend on the engine's answers.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/session_queue.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// Reads a workload on demand, one request ahead (and the requests that follow it), and says which request arrives
/// next.
template <TraceReader Reader>
class ClosedLoop {
 public:
  /// `block_tokens`: the engine's, for the keys of the requests' blocks.
  ClosedLoop(Reader& reader, Tokens block_tokens) : reader_(reader), block_tokens_(block_tokens) {}

  /// Reads the first request; call it once, before all others.
  Status start() { return read(); }
  /// The next arrival that is known; nothing if no request is left, or all wait for answers.
  [[nodiscard]] std::optional<Seconds> next() const {
    const std::optional<Seconds> held = sessions_.next();
    if (!next_) return held;
    return held ? std::min(*held, next_->spec.arrival) : next_->spec.arrival;
  }
  /// Takes the request that arrives next. A request of the source goes before one of equal arrival that was held.
  Expected<KeyedRequest> take() {
    const std::optional<Seconds> held = sessions_.next();
    if (!next_ || (held && *held < next_->spec.arrival)) return sessions_.take();
    KeyedRequest request = std::move(*next_);
    sessions_.started(request.spec);
    if (Status status = read(); !status) return status.error();
    return request;
  }
  void answered(const Answered& answer) { sessions_.answered(answer); }

 private:
  /// Reads up to the next request that follows none.
  Status read() {
    for (;;) {
      const Expected<std::optional<RequestSpec>> spec = reader_.next();
      if (!spec) return spec.error();
      if (!*spec) {
        next_.reset();
        sessions_.read_all();
        return {};
      }
      KeyedRequest request{**spec, {}};
      block_keys(content_of(reader_), block_tokens_, request.keys);
      if (!request.spec.follows) {
        next_ = std::move(request);
        return {};
      }
      sessions_.hold(std::move(request));
    }
  }

  Reader& reader_;
  Tokens block_tokens_;
  SessionQueue sessions_;
  std::optional<KeyedRequest> next_;
};

} // namespace sluice
