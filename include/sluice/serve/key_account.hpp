// SPDX-License-Identifier: Apache-2.0
// KeyAccount: how much of its limits per minute one API key may still use.
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/http.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// A key that clients send, and its limits.
struct ApiKey {
  std::string name;                     ///< for operators; clients never send it
  std::string secret;                   ///< the key itself, which clients send
  std::int64_t requests_per_minute = 0; ///< 0: any number
  std::int64_t tokens_per_minute = 0;   ///< tokens of prompts and answers together; 0: any number
};

/// A bucket that fills evenly, up to the amount of one minute. It may be overdrawn; later requests then wait until the
/// debt is paid.
class MinuteBucket {
 public:
  /// Sets the limit. `now`: seconds. The remaining amount is kept, up to the new limit.
  void limit(std::int64_t per_minute, double now) {
    fill(now);
    left_ = per_minute_ == 0 ? static_cast<double>(per_minute) : std::min(left_, static_cast<double>(per_minute));
    per_minute_ = per_minute;
  }
  void take(double amount, double now) {
    fill(now);
    left_ -= amount;
  }
  [[nodiscard]] bool limited() const { return per_minute_ > 0; }
  [[nodiscard]] std::int64_t per_minute() const { return per_minute_; }
  /// Returns the remaining amount, rounded down to whole units.
  [[nodiscard]] std::int64_t left(double now) {
    fill(now);
    return static_cast<std::int64_t>(std::floor(std::max(left_, 0.0) + 1e-9));
  }
  /// Returns the seconds until at least `amount` is available.
  [[nodiscard]] double wait(double amount, double now) {
    fill(now);
    return limited() ? std::max(0.0, (amount - left_) * 60 / static_cast<double>(per_minute_)) : 0.0;
  }

 private:
  void fill(double now) {
    const auto most = static_cast<double>(per_minute_);
    left_ = std::min(most, left_ + std::max(0.0, now - at_) * most / 60);
    at_ = now;
  }

  std::int64_t per_minute_ = 0;
  double left_ = 0, at_ = 0;
};

/// A request needs one of the requests per minute, and at least one token. Its tokens are subtracted as they are
/// counted for `usage`, so the length of an answer need not be guessed. After a long answer the next request waits.
class KeyAccount {
 public:
  KeyAccount(const ApiKey& key, double now) : salt_(salt_of(key.secret)) { change(key, now); }
  void change(const ApiKey& key, double now) {
    name_ = key.name;
    requests_.limit(key.requests_per_minute, now);
    tokens_.limit(key.tokens_per_minute, now);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the salt of the KV of its prompts (`Generation::salt`), the same after a restart: no other key's owner can
  /// find out by the time of an answer what its owner has asked.
  [[nodiscard]] std::uint64_t salt() const { return salt_; }

  /// Returns the refusal of a request that arrives at `now`, if its key has reached a limit. Subtracts nothing.
  [[nodiscard]] std::optional<ApiError> why_not(double now) {
    for (const bool tokens : {false, true}) {
      MinuteBucket& bucket = tokens ? tokens_ : requests_;
      if (bucket.wait(1, now) <= 0) continue;
      const char* const what = tokens ? "tokens" : "requests";
      ApiError error;
      error.status = 429;
      error.type = what;
      error.code = "rate_limit_exceeded";
      error.message = "the key '" + name_ + "' may use " + std::to_string(bucket.per_minute()) + " " + what +
                      " a minute; try again in " + duration(bucket.wait(1, now));
      return error;
    }
    return std::nullopt;
  }
  void take_request(double now) { requests_.take(1, now); }
  void take_tokens(std::int64_t tokens, double now) { tokens_.take(static_cast<double>(tokens), now); }

  /// Adds OpenAI's headers with the remaining limits; with `refused`, also the time to retry.
  void tell(HttpHeaders& headers, double now, bool refused) {
    for (const bool tokens : {false, true}) {
      MinuteBucket& bucket = tokens ? tokens_ : requests_;
      if (!bucket.limited()) continue;
      const std::string what = tokens ? "tokens" : "requests";
      headers.add("x-ratelimit-limit-" + what, std::to_string(bucket.per_minute()));
      headers.add("x-ratelimit-remaining-" + what, std::to_string(bucket.left(now)));
      headers.add("x-ratelimit-reset-" + what, duration(bucket.wait(static_cast<double>(bucket.per_minute()), now)));
    }
    if (!refused) return;
    const std::int64_t wait = milliseconds(std::max(requests_.wait(1, now), tokens_.wait(1, now)));
    headers.add("Retry-After", std::to_string((wait + 999) / 1000));
    headers.add("retry-after-ms", std::to_string(wait));
  }

  /// Formats seconds as OpenAI does: 20ms, 1.5s, 6m0s.
  [[nodiscard]] static std::string duration(double seconds) {
    const std::int64_t all = milliseconds(seconds);
    if (all < 1000) return std::to_string(all) + "ms";
    std::string text;
    if (all >= 60'000) text = std::to_string(all / 60'000) + "m";
    const std::int64_t rest = all % 60'000;
    text += std::to_string(rest / 1000);
    if (const std::int64_t tenths = rest % 1000 / 100; tenths > 0 && all < 60'000)
      text.append(".").append(std::to_string(tenths));
    return text + "s";
  }

 private:
  /// Rounds up, but ignores rounding errors of a double.
  [[nodiscard]] static std::int64_t milliseconds(double seconds) {
    return static_cast<std::int64_t>(std::ceil(seconds * 1e3 - 1e-6));
  }

  /// Never 0, which is the salt of requests without a key.
  [[nodiscard]] static std::uint64_t salt_of(const std::string& secret) {
    Fnv digest;
    digest.add(reinterpret_cast<const std::byte*>(secret.data()), static_cast<std::int64_t>(secret.size()));
    return std::max<std::uint64_t>(1, digest.value());
  }

  std::string name_;
  std::uint64_t salt_;
  MinuteBucket requests_, tokens_;
};

/// An exchange whose response contains the remaining limits of a key, as they are when its head is sent.
class AccountedExchange final : public Exchange {
 public:
  AccountedExchange(std::shared_ptr<KeyAccount> account, std::function<double()> clock,
                    std::unique_ptr<Exchange> exchange)
      : account_(std::move(account)), clock_(std::move(clock)), exchange_(std::move(exchange)) {}
  void respond(HttpResponse response) override {
    account_->tell(response.headers, clock_(), false);
    exchange_->respond(std::move(response));
  }
  void begin(HttpResponse head) override {
    account_->tell(head.headers, clock_(), false);
    exchange_->begin(std::move(head));
  }
  void send(std::string_view piece) override { exchange_->send(piece); }
  void finish() override { exchange_->finish(); }
  void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

 private:
  std::shared_ptr<KeyAccount> account_;
  std::function<double()> clock_;
  std::unique_ptr<Exchange> exchange_;
};

} // namespace sluice
