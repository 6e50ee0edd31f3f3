// SPDX-License-Identifier: Apache-2.0
// CompletionJob: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/serve/completion_job.hpp"

#include <algorithm>

namespace sluice {

SLUICE_SERVER_INLINE StopStrings::StopStrings(std::vector<std::string> stops, bool include)
    : stops_(std::move(stops)), include_(include) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

SLUICE_SERVER_INLINE std::string StopStrings::push(std::string_view piece) {
  if (hit_) return {};
  if (stops_.empty()) return std::string{piece};
  held_ += piece;
  std::size_t first = std::string::npos, length = 0;
  for (const std::string& stop : stops_)
    if (const std::size_t at = held_.find(stop); at < first) first = at, length = stop.size();
  if (first != std::string::npos) {
    hit_ = true;
    std::string text = held_.substr(0, first + (include_ ? length : 0));
    held_.clear();
    return text;
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, begun(stop));
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return text;
}

SLUICE_SERVER_INLINE std::size_t StopStrings::begun(const std::string& stop) const {
  for (std::size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > 0; --bytes)
    if (std::string_view(held_).substr(held_.size() - bytes) == std::string_view(stop).substr(0, bytes)) return bytes;
  return 0;
}

SLUICE_SERVER_INLINE CompletionJob::CompletionJob(ReplyHead head, Completion request,
                                                  std::vector<std::vector<std::int32_t>> prompts,
                                                  const Tokenizer& tokenizer, std::unique_ptr<Exchange> exchange)
    : head_(std::move(head)), request_(std::move(request)), tokenizer_(&tokenizer), exchange_(std::move(exchange)) {
  for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    usage_.prompt += static_cast<std::int64_t>(prompts[prompt].size());
    for (int choice = 0; choice < request_.choices; ++choice) {
      Answer& answer = answers_.emplace_back(tokenizer, request_.stop, request_.include_stop);
      if (!request_.chat) // a completion continues its prompt: the tokenizer keeps the space between them
        for (const std::int32_t token : prompts[prompt]) (void)answer.text.push(token);
      const std::string begun = request_.echo ? tokenizer.decode(prompts[prompt], SkipSpecial::yes) : std::string{};
      answer.echo = replace_broken_utf8(begun);
      if (request_.scores_prompt()) answer.prompt = prompts[prompt];
      if (request_.stream && request_.response) {
        events_.emplace(head_).begin(out_);
      } else if (request_.stream) {
        using Usage = ChunkWriter::Usage;
        const Usage usage = !request_.include_usage     ? Usage::absent
                            : request_.continuous_usage ? Usage::continuous
                                                        : Usage::null;
        answer.chunks.emplace_back(head_, static_cast<std::int64_t>(answers_.size()) - 1, usage,
                                   static_cast<std::int64_t>(prompts[prompt].size()));
      }
    }
  }
  request_.messages = {}; // freed: tokens replace the text, and the answer may take long
  request_.prompts = {};
}

SLUICE_SERVER_INLINE void CompletionJob::take(std::size_t at, const GenerationEvent& event) {
  if (over_) return;
  Answer& answer = answers_[at];
  if (answer.ended) return;
  switch (event.kind) {
  case GenerationEvent::Kind::accepted:
    if (!event.forecast.empty()) forecast_ = event.forecast;
    ++accepted_;
    break;
  case GenerationEvent::Kind::refused:
  case GenerationEvent::Kind::failed:
    fail(event);
    break;
  case GenerationEvent::Kind::tokens:
    // Once for each prompt, as its tokens are counted; further choices find what the first has found.
    if (event.cached && at % static_cast<std::size_t>(request_.choices) == 0)
      usage_.cached = usage_.cached.value_or(0) + *event.cached;
    if (!answer.prompt.empty()) add_prompt(answer, event.prompt_chances);
    if (request_.max_tokens == 0) break; // the engine generates at least one token
    for (std::size_t i = 0; i < event.tokens.size() && !answer.ended; ++i)
      add(answer, event.tokens[i],
          i < event.chances.size() ? std::span(event.chances[i]) : std::span<const TokenChance>{});
    break;
  case GenerationEvent::Kind::ended:
    end(answer, event.reason);
    break;
  }
}

SLUICE_SERVER_INLINE void CompletionJob::flush() {
  if (over_) return;
  if (request_.stream) {
    if (accepted_ < answers_.size()) return; // a refusal would change the HTTP status
    begin();
    for (Answer& answer : answers_)
      if (answer.ended && !answer.told && events_) {
        events_->finish(out_, answer.reason, usage_);
        answer.told = true;
      } else if (answer.ended && !answer.told) {
        answer.chunks.front().finish(out_, answer.reason, answer.logprobs.empty() ? nullptr : &answer.logprobs);
        answer.told = true;
      }
  }
  const bool all = ends();
  if (request_.stream) {
    if (all) {
      if (request_.include_usage) out_ += usage_event(head_, usage_);
      if (!events_) out_ += done_event;
    }
    exchange_->send(out_);
    out_.clear();
    if (all) exchange_->finish(outcome_);
  } else if (all) {
    respond_whole();
  }
  over_ = over_ || all; // `send` may have noticed that the client disconnected
}

SLUICE_SERVER_INLINE void CompletionJob::fail(const GenerationEvent& event) {
  if (over_) return;
  for (std::size_t at = 0; at < answers_.size(); ++at)
    if (!answers_[at].ended) cancel_.push_back(at);
  over_ = true;
  if (begun_) { // too late for a status: the error becomes an event, and the stream ends without [DONE]
    std::string last;
    if (events_)
      events_->fail(last, event.error);
    else
      last = error_event(event.error);
    exchange_->send(last);
    exchange_->finish();
    return;
  }
  HttpResponse response = error_response(event.error);
  if (event.retry_after_s > 0) add_retry_after(response.headers, event.retry_after_s);
  exchange_->respond(std::move(response));
}

SLUICE_SERVER_INLINE bool CompletionJob::ends() const {
  return std::all_of(answers_.begin(), answers_.end(), [](const Answer& answer) { return answer.ended; });
}

SLUICE_SERVER_INLINE void CompletionJob::abandon() {
  over_ = true;
  for (std::size_t at = 0; at < answers_.size(); ++at)
    if (!answers_[at].ended) cancel_.push_back(at);
}

SLUICE_SERVER_INLINE CompletionJob::Answer::Answer(const Tokenizer& tokenizer, const std::vector<std::string>& stop,
                                                   bool include)
    : text(tokenizer), stops(stop, include) {}

SLUICE_SERVER_INLINE void CompletionJob::add(Answer& answer, std::int32_t token, std::span<const TokenChance> chances) {
  ++usage_.completion;
  ++answer.generated;
  if (!answer.chunks.empty()) answer.chunks.front().generated(answer.generated);
  if (request_.logprobs >= 0 && !chances.empty()) answer.logprobs.push_back(logprob_of(chances));
  const bool may_stop = answer.generated > request_.rules.min_tokens;
  const bool stops = may_stop && std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) !=
                                     request_.stop_tokens.end();
  if (!stops || request_.include_stop) {
    const std::string text = replace_broken_utf8(answer.text.push(token));
    pass(answer, may_stop ? answer.stops.push(text) : text);
  }
  if (!answer.stops.hit() && !stops) return;
  if (!answer.stops.hit()) pass_rest(answer);
  answer.ended = answer.stopped = true;
  answer.reason = FinishReason::stop;
  cancel_.push_back(static_cast<std::size_t>(&answer - answers_.data()));
}

SLUICE_SERVER_INLINE TokenLogprob CompletionJob::logprob_of(std::span<const TokenChance> chances) const {
  TokenLogprob one;
  one.chosen = likely(chances.front());
  one.shown = !tokenizer_->vocabulary().is_special(chances.front().token);
  for (const TokenChance& chance : chances.subspan(1)) one.likeliest.push_back(likely(chance));
  return one;
}

SLUICE_SERVER_INLINE TokenLogprob::Likely CompletionJob::likely(const TokenChance& chance) const {
  return {std::string{tokenizer_->vocabulary().text_of(chance.token)}, chance.logprob};
}

SLUICE_SERVER_INLINE void CompletionJob::add_prompt(Answer& answer, std::span<const std::vector<TokenChance>> chances) {
  SLUICE_ASSERT(chances.size() + 1 == answer.prompt.size(), "chances of every token of the prompt but the first");
  const TokenChance first{answer.prompt.front(), 0};
  answer.logprobs.push_back(logprob_of(std::span{&first, 1}));
  answer.logprobs.back().known = false;
  for (const std::vector<TokenChance>& one : chances) answer.logprobs.push_back(logprob_of(one));
  answer.prompt = {};
  if (request_.stream) pass(answer, std::exchange(answer.echo, {}));
}

SLUICE_SERVER_INLINE void CompletionJob::end(Answer& answer, FinishReason reason) {
  pass_rest(answer);
  answer.ended = true;
  answer.stopped = answer.stops.hit();
  answer.reason = answer.stops.hit() ? FinishReason::stop : request_.max_tokens == 0 ? FinishReason::length : reason;
}

SLUICE_SERVER_INLINE void CompletionJob::pass_rest(Answer& answer) {
  pass(answer, answer.stops.push(replace_broken_utf8(answer.text.finish())));
  if (!answer.stops.hit()) pass(answer, answer.stops.finish());
}

SLUICE_SERVER_INLINE void CompletionJob::pass(Answer& answer, std::string_view text) {
  if (text.empty()) return;
  if (!request_.stream) {
    answer.whole += text;
    return;
  }
  if (events_) return events_->text(out_, text);
  answer.chunks.front().text(out_, text, request_.logprobs >= 0 ? &answer.logprobs : nullptr);
  answer.logprobs.clear();
}

SLUICE_SERVER_INLINE void CompletionJob::begin() {
  if (begun_) return;
  begun_ = true;
  HttpResponse head;
  head.type = "text/event-stream; charset=utf-8";
  head.headers.add("Cache-Control", "no-store");
  head.headers.add("X-Accel-Buffering", "no"); // otherwise nginx buffers the stream
  head.headers.add("Trailer", "x-sluice-ttft-ms, x-sluice-cached-tokens, x-sluice-slo, x-sluice-slo-late-ms");
  if (!forecast_.empty()) head.headers.add("x-sluice-forecast", forecast_);
  exchange_->begin(std::move(head));
  std::string first;
  for (Answer& answer : answers_) {
    if (events_) break; // its stream began with the job
    if (request_.chat) answer.chunks.front().role(first);
    if (!answer.echo.empty() && !request_.scores_prompt()) answer.chunks.front().text(first, answer.echo);
  }
  out_.insert(0, first);
}

SLUICE_SERVER_INLINE void CompletionJob::respond_whole() {
  std::vector<Choice> choices;
  for (Answer& answer : answers_)
    choices.push_back({answer.echo + answer.whole, answer.reason, std::move(answer.logprobs), request_.logprobs >= 0,
                       request_.scores_prompt() ? 0 : detail::characters(answer.echo)});
  HttpResponse response;
  response.body = request_.response ? responses_json(head_, choices.front().text, choices.front().reason, usage_)
                                    : completion_json(head_, choices, usage_);
  if (!forecast_.empty()) response.headers.add("x-sluice-forecast", forecast_);
  for (const auto& [name, value] : outcome_) response.headers.add(name, value);
  exchange_->respond(std::move(response));
}

} // namespace sluice
