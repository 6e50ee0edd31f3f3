// SPDX-License-Identifier: Apache-2.0
// StreamCheck: one streamed answer as it comes: when its tokens came, and what the API promises of it that it breaks.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include "chunk.hpp" // by its place: tests include this header without the programs' include path
#include "sse.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loading {

/// What an answer may break.
enum class Flaw : std::uint8_t {
  type,   ///< a 200 that is no event stream
  sse,    ///< a line that is none of an event, or an event that is cut
  json,   ///< an event that is no JSON object
  chunk,  ///< an object that is neither a chunk nor an error
  order,  ///< text after the finish_reason, a second one, or something after [DONE]
  end,    ///< no [DONE]: the stream was cut
  reason, ///< no finish_reason
  usage,  ///< no usage, or one that does not add up
  tokens, ///< usage is not what came: something was lost, or sent twice
  prompt, ///< usage does not count the prompt's tokens that were sent
  length  ///< more tokens than asked for; or fewer, with the reason "length"
};
inline constexpr std::array<std::string_view, 11> flaw_names{"type",   "sse",   "json",   "chunk",  "order", "end",
                                                             "reason", "usage", "tokens", "prompt", "length"};
inline constexpr std::array<std::string_view, 11> flaw_texts{"answered 200 and no event stream",
                                                             "sent a line that is no part of an event",
                                                             "sent an event that is no JSON",
                                                             "sent an object that is no chunk",
                                                             "went on behind a finish_reason or [DONE]",
                                                             "ended without [DONE]",
                                                             "had no finish_reason",
                                                             "had no usage that adds up",
                                                             "had another usage than tokens",
                                                             "counted another prompt than was sent",
                                                             "had another length than asked for"};
using Flaws = std::array<std::int64_t, flaw_names.size()>; ///< answers that have each

/// What was asked for.
struct Asked {
  std::int64_t max_tokens = 0;
  std::optional<std::int64_t> prompt_tokens{}; ///< where they are known
  bool logprobs = false; ///< each token comes with its own: they can be counted. Otherwise a token may have no text,
                         ///< and pieces of text are only known to be at most as many as tokens
  sluice::Slo slo{};
};

/// Fed with the body's bytes, however they are cut.
class StreamCheck {
 public:
  /// `gaps`: gets the seconds between two pieces of text; may be null.
  StreamCheck(const Asked& asked, std::vector<float>* gaps) : asked_(asked), gaps_(gaps) {}

  /// `now`: seconds since the request was sent.
  void feed(std::string_view bytes, double now) {
    sse_.feed(bytes, [&](std::string_view data) { take(data, now); });
  }
  /// The body has ended, or the connection has.
  void end() {
    if (sse_.unknown_lines() > 0 || !sse_.between_events()) flaw(Flaw::sse);
    if (error_) return; // nothing else is promised of it
    if (!done_) flaw(Flaw::end);
    if (!done_) return; // what is missing is missing for that
    if (reason_.empty()) flaw(Flaw::reason);
    if (!usage_ || usage_->total != usage_->prompt + usage_->completion) flaw(Flaw::usage);
    if (!usage_) return;
    const std::int64_t completion = usage_->completion;
    if (asked_.logprobs && counted_ > 0 ? counted_ != completion : pieces_ > completion) flaw(Flaw::tokens);
    if (asked_.prompt_tokens && usage_->prompt != *asked_.prompt_tokens) flaw(Flaw::prompt);
    if (completion > asked_.max_tokens || (reason_ == "length" && completion != asked_.max_tokens)) flaw(Flaw::length);
  }
  void flaw(Flaw which) { flaws_ |= 1U << static_cast<unsigned>(which); }

  [[nodiscard]] bool has(Flaw which) const { return (flaws_ & (1U << static_cast<unsigned>(which))) != 0; }
  [[nodiscard]] bool flawless() const { return flaws_ == 0; }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::optional<std::string>& error() const { return error_; }
  [[nodiscard]] std::int64_t pieces() const { return pieces_; }
  [[nodiscard]] bool started() const { return pieces_ > 0; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::optional<Usage>& usage() const { return usage_; }
  /// Tokens of the answer: as its usage has them, else its pieces of text.
  [[nodiscard]] std::int64_t tokens() const { return usage_ ? usage_->completion : pieces_; }

  /// Seconds from the request to the first piece, and to the last or the finish_reason.
  [[nodiscard]] double ttft() const { return first_ >= 0 ? first_ : last_; }
  [[nodiscard]] double latency() const { return last_; }
  [[nodiscard]] std::int64_t gaps_on_time() const { return on_time_; }
  [[nodiscard]] std::int64_t deadlines_missed() const { return missed_; }

 private:
  void take(std::string_view data, double now) {
    if (done_) return flaw(Flaw::order);
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    std::optional<Chunk> chunk = read_chunk(data);
    if (!chunk) return flaw(Flaw::json);
    if (chunk->error) {
      error_ = std::move(chunk->error);
      return;
    }
    if (!chunk->has_choices && !chunk->usage) return flaw(Flaw::chunk);
    if (chunk->usage) usage_ = chunk->usage;
    counted_ += chunk->tokens;
    if (chunk->text > 0) {
      if (!reason_.empty()) flaw(Flaw::order);
      piece(now);
    }
    if (chunk->finish_reason.empty()) return;
    if (!reason_.empty()) flaw(Flaw::order);
    reason_ = std::move(chunk->finish_reason);
    last_ = now;
  }

  void piece(double now) {
    ++pieces_;
    if (first_ < 0) {
      first_ = last_ = now;
      return;
    }
    const double gap = now - last_;
    last_ = now;
    if (gaps_ != nullptr) gaps_->push_back(static_cast<float>(gap));
    if (std::isinf(asked_.slo.tbt.count())) return;
    const std::int64_t missed = sluice::deadlines_missed(sluice::Seconds{gap}, asked_.slo.tbt, sluice::Seconds{now});
    missed_ += missed;
    on_time_ += missed == 0 ? 1 : 0;
  }

  Asked asked_;
  std::vector<float>* gaps_;
  SseParser sse_;
  std::uint32_t flaws_ = 0;
  std::int64_t pieces_ = 0;  ///< events with text
  std::int64_t counted_ = 0; ///< tokens, by their logprobs
  std::string reason_;
  std::optional<Usage> usage_;
  std::optional<std::string> error_;
  bool done_ = false;
  double first_ = -1, last_ = 0;
  std::int64_t on_time_ = 0, missed_ = 0;
};

} // namespace loading
