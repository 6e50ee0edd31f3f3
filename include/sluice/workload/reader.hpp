// SPDX-License-Identifier: Apache-2.0
// TraceReader: a workload, one request at a time, from a file or a generator.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/slo_classes.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The shortest `ttl` and `prefetch` that readers and the API take.
inline constexpr Seconds shortest_hint{1e-3};

/// The longest prompt or output that a reader accepts: two thousand times current contexts, and small enough that sums
/// over a trace do not overflow.
inline constexpr std::int64_t max_request_tokens = std::int64_t{1} << 28;

/// A source of requests.
///
/// 1. `next()` returns the next request, an empty optional at the end, or an Error with its place.
/// 2. Arrivals start at 0 and never decrease; both lengths are from 1 to `max_request_tokens`. A request that `follows`
///    another comes directly after it, and its arrival is the recorded one, which may be later than the next request's.
/// 3. Memory does not grow with the number of requests.
/// 4. A source without any request is an error, not an end.
///
/// Not checked; callers must not call `next()` again after an error or the end.
template <class Reader>
concept TraceReader = requires(Reader& reader) {
  { reader.next() } -> std::same_as<Expected<std::optional<RequestSpec>>>;
};

/// A source that knows the content of its requests. `content()` is the content of the request that `next` returned
/// last: its prompt, and its answer as far as it is known. Valid until the next call of `next`. Empty if the content is
/// unknown.
template <class Reader>
concept KnowsContent = requires(const Reader& reader) {
  { reader.content() } -> std::same_as<std::span<const ContentPiece>>;
};

/// Returns the content of the reader's last request; empty for readers that know no content.
template <class Reader>
[[nodiscard]] std::span<const ContentPiece> content_of([[maybe_unused]] const Reader& reader) {
  if constexpr (KnowsContent<Reader>)
    return reader.content();
  else
    return {};
}

/// A source whose arrivals may count the engine's iterations instead of seconds: `Seconds{3}` is then the third. Such a
/// request arrives when the engine has run so many; while nothing can run, the count skips to the next arrival.
template <class Reader>
concept KnowsArrivalUnit = requires(const Reader& reader) {
  { reader.arrivals_in_steps() } -> std::same_as<bool>;
};

/// Returns whether the reader's arrivals count iterations; false for readers that know only seconds.
template <class Reader>
[[nodiscard]] bool arrivals_in_steps([[maybe_unused]] const Reader& reader) {
  if constexpr (KnowsArrivalUnit<Reader>)
    return reader.arrivals_in_steps();
  else
    return false;
}

/// Options for workloads of every format.
struct ReadOptions {
  std::optional<std::int64_t> limit{}; ///< read at most this many requests
  double rate_scale = 1.0;             ///< arrival times, and hints of them, are divided by this: 2 doubles the rate
  Slo slo{};                           ///< for requests that have no SLO of their own and no class
  std::vector<SloClass> slo_classes{}; ///< classes from which requests without their own SLO are drawn
  std::uint64_t class_seed = 1;        ///< seed of these draws
  bool open_sessions = false;          ///< requests of sessions arrive as recorded, whenever earlier ones are answered
  bool opened_later = false;           ///< the same, but whoever reads the requests merges them (OpenSessions)
  bool arrivals_in_steps = false;      ///< arrivals count iterations (KnowsArrivalUnit); only for OrbitFlow's traces

  friend bool operator==(const ReadOptions&, const ReadOptions&) = default;
};

/// Returns an error if an option is out of range; it names the program's flag.
Status check(const ReadOptions& options);

/// Any reader with the options applied; it is itself a TraceReader. Never reads lines after the limit.
template <TraceReader Reader>
class Shaped {
 public:
  /// `options` must have passed `check`.
  Shaped(Reader reader, ReadOptions options)
      : reader_(std::move(reader)), options_(std::move(options)), draws_(options_.slo_classes, options_.class_seed) {
    SLUICE_ASSERT(check(options_).ok(), "options that passed check()");
  }

  Expected<std::optional<RequestSpec>> next() {
    if (options_.limit && taken_ >= *options_.limit) return std::optional<RequestSpec>{};
    Expected<std::optional<RequestSpec>> request = reader_.next();
    if (!request || !*request) return request;
    ++taken_;
    (*request)->arrival = (*request)->arrival / options_.rate_scale;
    if (arrives_as_recorded(**request)) scale((*request)->hints);
    // A request's own SLO and priority (from a server's record, or a trace's columns) take precedence. A priority of 0
    // counts as none: a server's record leaves it out, and readers give 0 for a field that is missing.
    const SloClass* drawn = draws_.none() ? nullptr : &draws_.next();
    const Slo& other = drawn == nullptr ? options_.slo : drawn->slo;
    if (drawn != nullptr && (*request)->priority == 0) (*request)->priority = drawn->priority;
    Slo& slo = (*request)->slo;
    if (std::isinf(slo.ttft.count())) slo.ttft = other.ttft;
    if (std::isinf(slo.tbt.count())) slo.tbt = other.tbt;
    return request;
  }

  [[nodiscard]] std::span<const ContentPiece> content() const { return content_of(reader_); }
  [[nodiscard]] const Reader& reader() const { return reader_; }
  [[nodiscard]] const ReadOptions& options() const { return options_; }

 private:
  /// Whether the session's next request arrives by the trace, and not by its own delay after the answer.
  [[nodiscard]] bool arrives_as_recorded(const RequestSpec& request) const {
    const bool open = options_.open_sessions || options_.opened_later;
    if (request.follows) return open;
    // No turn of a recorded run follows another; elsewhere only a session's first turn does not.
    constexpr bool is_run = requires(Reader & reader) { reader.next_record(); };
    return is_run || open || request.session == 0;
  }
  /// The next request comes sooner by the same factor as all. A time that no reader would take is not said.
  void scale(SessionHints& hints) const {
    for (Seconds* const time : {&hints.ttl, &hints.prefetch}) {
      *time = std::min(*time / options_.rate_scale, longest_hint);
      if (*time < shortest_hint) *time = Seconds{0};
    }
  }

  Reader reader_;
  ReadOptions options_;
  SloDraws draws_;
  std::int64_t taken_ = 0;
};

/// Returns the remaining requests of `reader`, in order, or the first error.
template <TraceReader Reader>
Expected<std::vector<RequestSpec>> read_all(Reader& reader) {
  std::vector<RequestSpec> requests;
  for (;;) {
    Expected<std::optional<RequestSpec>> request = reader.next();
    if (!request) return request.error();
    if (!*request) return requests;
    requests.push_back(**request);
  }
}
template <TraceReader Reader>
Expected<std::vector<RequestSpec>> read_all(Reader&& reader) {
  return read_all(reader);
}

/// Reads the same, with each request's content; `contents` stays empty if no request's content is known.
template <TraceReader Reader>
Status read_all_with_content(Reader& reader, std::vector<RequestSpec>& requests,
                             std::vector<std::vector<ContentPiece>>& contents) {
  bool known = false;
  for (;;) {
    Expected<std::optional<RequestSpec>> request = reader.next();
    if (!request) return request.error();
    if (!*request) break;
    requests.push_back(**request);
    const std::span<const ContentPiece> content = content_of(reader);
    contents.emplace_back(content.begin(), content.end());
    known = known || !content.empty();
  }
  if (!known) contents.clear();
  return {};
}

namespace detail {

/// Converts a format's own clock to arrivals that start at 0 and never decrease.
///
/// A line out of order is an error. Sorting would need the whole trace in memory, and such a line suggests that two
/// logs were joined. (Exception: a vLLM run; see VllmRunReader.)
class ArrivalClock {
 public:
  /// `raw`: seconds on the format's clock. `where`: the position of the request that arrives then.
  Expected<Seconds> arrival(double raw, const std::string& where);

 private:
  std::optional<double> first_;
  std::optional<double> last_;
};

} // namespace detail

// Dealt: one tenant's requests from a stream that several tenants share.

/// The requests of `Reader` that tenant `tenant` of `tenants` gets. Each request, or whole session, goes to one tenant,
/// chosen at random with equal probability. Readers of the same stream with the same seed choose the same tenants, so
/// every request goes to exactly one of them.
///
/// A session's tenant is computed from its number and the seed, and no list of sessions is kept: with open sessions,
/// the requests of many sessions are interleaved.
template <TraceReader Reader>
class Dealt {
 public:
  Dealt(Reader all, std::uint64_t tenant, std::uint64_t tenants, std::uint64_t seed)
      : all_(std::move(all)), tenant_(tenant), tenants_(tenants), seed_(seed), random_(seed) {
    SLUICE_ASSERT(tenant < tenants, "one of the tenants");
  }
  Expected<std::optional<RequestSpec>> next() {
    for (;;) {
      Expected<std::optional<RequestSpec>> request = all_.next();
      if (!request || !*request || tenant_of(**request) == tenant_) return request;
    }
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_of(all_); }

 private:
  [[nodiscard]] std::uint64_t tenant_of(const RequestSpec& request) {
    if (request.session == 0) return random_.below(tenants_);
    return Random{static_cast<std::uint64_t>(next_key(BlockKey{seed_}, request.session))}.below(tenants_);
  }

  Reader all_;
  std::uint64_t tenant_, tenants_, seed_;
  Random random_; ///< for requests without a session
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/reader.inl.hpp"
#endif
