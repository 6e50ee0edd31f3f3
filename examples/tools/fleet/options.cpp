// SPDX-License-Identifier: Apache-2.0
// Reads the values of flags that have parts.
#include "fleet/options.hpp"

#include "shared/sizes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

namespace fleets {

using namespace sluice;

namespace {

template <class Take>
bool each_part(std::string_view text, Take&& take) {
  const std::vector<std::string_view> parts = parts_of(text);
  return std::all_of(parts.begin(), parts.end(), take);
}
bool read_whole(std::string_view text, std::int64_t least, std::int64_t most, std::int64_t& value) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  return wrong == std::errc{} && end == text.data() + text.size() && value >= least && value <= most;
}
struct Named {
  std::string_view name, value;
};
Named named(std::string_view part, char between) {
  const std::size_t at = part.find(between);
  return at == part.npos ? Named{part, {}} : Named{part.substr(0, at), part.substr(at + 1)};
}

} // namespace

bool read_double(std::string_view text, double& value) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  return wrong == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string read_handoff(std::string_view text, Handoff& handoff) {
  const bool read = each_part(text, [&](std::string_view part) {
    const auto [name, value] = named(part, '=');
    if (name == "rate") {
      const std::optional<double> rate = read_rate(value);
      if (!rate || *rate < 1) return false;
      handoff.rate = BytesPerSecond{*rate};
      return true;
    }
    if (name == "latency") {
      double seconds = 0;
      if (!read_double(value, seconds) || seconds < 0 || seconds > 1e6) return false;
      handoff.latency = Seconds{seconds};
      return true;
    }
    if (name != "by" || (value != "layer" && value != "whole")) return false;
    handoff.sends = value == "layer" ? Sends::by_layer : Sends::whole;
    return true;
  });
  return read ? "" : "rate=25GB/s, latency=SECONDS and by=whole or by=layer, with commas";
}

std::string read_failures(std::string_view text, std::vector<Failure>& failures) {
  failures.clear();
  const bool read = each_part(text, [&](std::string_view part) {
    const auto [engine, at] = named(part, '@');
    std::int64_t number = 0;
    double seconds = 0;
    if (!read_whole(engine, 0, 1'000'000, number) || !read_double(at, seconds) || seconds < 0 || seconds > 1e9)
      return false;
    failures.push_back({Seconds{seconds}, static_cast<std::size_t>(number)});
    return true;
  });
  return read ? "" : "ENGINE@SECONDS, such as 2@30, or several with commas; engines count from 0";
}

std::string read_stages(std::string_view text, std::vector<Stage>& stages) {
  stages.clear();
  const bool read = each_part(text, [&](std::string_view part) {
    const auto [rate, seconds] = named(part, ':');
    Stage stage;
    if (!read_double(rate, stage.rate) || !read_double(seconds, stage.seconds) || !(stage.rate > 0) ||
        !(stage.seconds > 0) || stage.rate * stage.seconds < 1 || stage.rate * stage.seconds > 1e7)
      return false;
    stages.push_back(stage);
    return true;
  });
  return read && stages.size() > 1
             ? ""
             : "RATE:SECONDS with commas, at least one request each: the first warms, and at least one is measured";
}

std::string read_arrivals(std::string_view text, Arrivals& arrivals) {
  constexpr std::array<std::pair<std::string_view, Arrivals>, 3> names{
      {{"poisson", Arrivals::poisson}, {"scaled", Arrivals::scaled}, {"even", Arrivals::even}}};
  for (const auto& [name, value] : names)
    if (text == name) {
      arrivals = value;
      return "";
    }
  return "poisson, scaled or even";
}

std::string read_prompts(std::string_view text, Ladder& ladder) {
  const bool read = each_part(text, [&](std::string_view part) {
    const auto [name, value] = named(part, '=');
    std::int64_t number = 0;
    const bool from_none = name == "shared";
    if (!read_whole(value, from_none ? 0 : 1, 1'000'000, number)) return false;
    if (name == "groups") return ladder.groups = static_cast<int>(number), true;
    if (name == "users") return ladder.users = static_cast<int>(number), true;
    if (name == "shared") return ladder.shared = Tokens{number}, true;
    if (name == "own") return ladder.own = Tokens{number}, true;
    if (name == "output") return ladder.output = Tokens{number}, true;
    return false;
  });
  return read ? "" : "groups=N,users=N,shared=TOKENS,own=TOKENS,output=TOKENS";
}

} // namespace fleets
