// SPDX-License-Identifier: Apache-2.0
// KeyAccount: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/serve/key_account.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice {

SLUICE_SERVER_INLINE void MinuteBucket::limit(std::int64_t per_minute, double now) {
  fill(now);
  left_ = per_minute_ == 0 ? static_cast<double>(per_minute) : std::min(left_, static_cast<double>(per_minute));
  per_minute_ = per_minute;
}

SLUICE_SERVER_INLINE void MinuteBucket::take(double amount, double now) {
  fill(now);
  left_ -= amount;
}

SLUICE_SERVER_INLINE std::int64_t MinuteBucket::left(double now) {
  fill(now);
  return static_cast<std::int64_t>(std::floor(std::max(left_, 0.0) + 1e-9));
}

SLUICE_SERVER_INLINE double MinuteBucket::wait(double amount, double now) {
  fill(now);
  return limited() ? std::max(0.0, (amount - left_) * 60 / static_cast<double>(per_minute_)) : 0.0;
}

SLUICE_SERVER_INLINE void MinuteBucket::fill(double now) {
  const auto most = static_cast<double>(per_minute_);
  left_ = std::min(most, left_ + std::max(0.0, now - at_) * most / 60);
  at_ = now;
}

SLUICE_SERVER_INLINE void KeyAccount::change(const ApiKey& key, double now) {
  name_ = key.name;
  requests_.limit(key.requests_per_minute, now);
  tokens_.limit(key.tokens_per_minute, now);
}

SLUICE_SERVER_INLINE std::optional<ApiError> KeyAccount::why_not(double now) {
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

SLUICE_SERVER_INLINE void KeyAccount::tell(HttpHeaders& headers, double now, bool refused) {
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

SLUICE_SERVER_INLINE std::string KeyAccount::duration(double seconds) {
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

SLUICE_SERVER_INLINE std::int64_t KeyAccount::milliseconds(double seconds) {
  return static_cast<std::int64_t>(std::ceil(seconds * 1e3 - 1e-6));
}

SLUICE_SERVER_INLINE std::uint64_t KeyAccount::salt_of(const std::string& secret) {
  Fnv digest;
  digest.add(reinterpret_cast<const std::byte*>(secret.data()), static_cast<std::int64_t>(secret.size()));
  return std::max<std::uint64_t>(1, digest.value());
}

SLUICE_SERVER_INLINE AccountedExchange::AccountedExchange(std::shared_ptr<KeyAccount> account,
                                                          std::function<double()> clock,
                                                          std::unique_ptr<Exchange> exchange)
    : account_(std::move(account)), clock_(std::move(clock)), exchange_(std::move(exchange)) {}

SLUICE_SERVER_INLINE void AccountedExchange::respond(HttpResponse response) {
  account_->tell(response.headers, clock_(), false);
  exchange_->respond(std::move(response));
}

SLUICE_SERVER_INLINE void AccountedExchange::begin(HttpResponse head) {
  account_->tell(head.headers, clock_(), false);
  exchange_->begin(std::move(head));
}

} // namespace sluice
