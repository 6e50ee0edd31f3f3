// SPDX-License-Identifier: Apache-2.0
#include "compare/same_hardware.hpp"

#include "sluice/core/text.hpp"
#include "sluice/model/device/named.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Models of GPUs, without their memory: the named devices', and what drivers call others.
constexpr std::array<std::string_view, 10> models{"rtx-pro-6000", "rtx-4090", "a5000", "a6000", "a100",
                                                  "a10",          "h100",     "h200",  "gh200", "t4"};

/// Words that make another GPU of a model: NVIDIA's A10G, H100 PCIe and H100 NVL, RTX 4090 D and Laptop, and the Max-Q
/// and Server editions of the RTX PRO 6000 have other rates than the named A10, H100 (SXM5), and so on.
constexpr std::array<std::string_view, 5> editions{"nvl", "pcie", "laptop", "max", "server"};
constexpr std::array<std::string_view, 2> suffixes{"g", "d"}; ///< directly behind the model: "GH200 144G" is no edition

/// Runs of letters and runs of digits, in lower case: "A100-SXM4" is a, 100, sxm, 4.
std::vector<std::string> pieces_of(std::string_view name) {
  const auto kind = [](char c) { return c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : 0; };
  std::vector<std::string> pieces;
  int before = 0;
  for (const char c : name) {
    const char small = sluice::detail::small_letter(c);
    if (kind(small) != 0 && kind(small) != before) pieces.emplace_back();
    before = kind(small);
    if (before != 0) pieces.back() += small;
  }
  return pieces;
}

/// The model that a name contains, and the word behind it that makes it another GPU; both empty: none.
struct GpuName {
  std::string_view model, edition;
  friend bool operator==(const GpuName&, const GpuName&) = default;
};
GpuName model_in(std::string_view name) {
  const std::vector<std::string> pieces = pieces_of(name);
  for (const std::string_view model : models) {
    const std::vector<std::string> own = pieces_of(model);
    const auto at = std::search(pieces.begin(), pieces.end(), own.begin(), own.end());
    if (at == pieces.end()) continue;
    const auto behind = at + static_cast<std::ptrdiff_t>(own.size());
    const auto next = behind == pieces.end() ? behind : behind + 1;
    const auto suffix = std::find_first_of(suffixes.begin(), suffixes.end(), behind, next);
    const auto edition = std::find_first_of(editions.begin(), editions.end(), behind, pieces.end());
    if (suffix != suffixes.end()) return {model, *suffix};
    if (model == "a100") return {model, {}}; // one device for both forms: their bandwidths differ by 5 %
    return {model, edition == editions.end() ? std::string_view{} : *edition};
  }
  return {};
}

/// Whether a driver's name states a memory ("80GB") of a named device of the model, and it is not this device's.
bool other_memory(std::string_view measured, std::string_view model, const Device& device) {
  const std::vector<std::string> pieces = pieces_of(measured);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
    if (pieces[i + 1] == "gb")
      for (const NamedDevice& named : named_devices)
        if (model_in(named.name).model == model && std::to_string(named.device().memory.count() >> 30) == pieces[i])
          return named.device().memory.count() >> 30 != device.memory.count() >> 30;
  return false;
}

} // namespace

bool same_hardware(std::string_view measured, const Device& device) {
  const GpuName found = model_in(measured), own = model_in(device.name);
  if (found.model.empty() && own.model.empty()) {
    const std::vector<std::string> pieces = pieces_of(measured), whole = pieces_of(device.name);
    return std::search(pieces.begin(), pieces.end(), whole.begin(), whole.end()) != pieces.end() && !whole.empty();
  }
  return found == own && !other_memory(measured, found.model, device);
}

std::string devices_named_for(std::string_view measured) {
  std::string names;
  for (const NamedDevice& named : named_devices)
    if (same_hardware(measured, named.device())) names += (names.empty() ? "" : " or ") + std::string{named.name};
  return names;
}

} // namespace compared
