// SPDX-License-Identifier: Apache-2.0
// VirtualMemory: zeros until written, resident only where written, returned page by page.
#include "sluice/core/random.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"

#include "support/resident.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

std::int64_t page() { return static_cast<std::int64_t>(VirtualMemory::page_size()); }

std::int64_t resident_pages() { return sluice_test::resident_memory()->bytes / page(); }

} // namespace

TEST_CASE("memory is page-aligned, zero at first, and keeps its contents when moved") {
  Expected<VirtualMemory> made = VirtualMemory::reserve(Bytes{3 * page() + 17});
  REQUIRE(made.has_value());
  VirtualMemory memory = *std::move(made);
  CHECK(memory.size() == Bytes{3 * page() + 17});
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % VirtualMemory::page_size() == 0);
  for (std::int64_t i = 0; i < memory.size().count(); ++i) REQUIRE(memory.data()[i] == std::byte{0});
  std::byte* const there = memory.data();
  there[memory.size().count() - 1] = std::byte{7};
  VirtualMemory other;
  CHECK(other.data() == nullptr);
  other = std::move(memory);
  CHECK(other.data() == there);
  const VirtualMemory third{std::move(other)};
  CHECK(third.data() == there);
  CHECK(third.data()[third.size().count() - 1] == std::byte{7});
}

TEST_CASE("size 0 is no memory, and a refused size is an error that names it") {
  const Expected<VirtualMemory> none = VirtualMemory::reserve(Bytes{0});
  REQUIRE(none.has_value());
  CHECK(none->data() == nullptr);
  CHECK(none->size() == Bytes{0});
  const Expected<VirtualMemory> huge = VirtualMemory::reserve(Bytes{std::numeric_limits<std::int64_t>::max() / 2});
  REQUIRE_FALSE(huge.has_value());
  CHECK(huge.error().code == ErrorCode::out_of_memory);
  CHECK(huge.error().line().find("4611686018427387903 bytes") != std::string::npos);
  const Expected<VirtualMemory> negative = VirtualMemory::reserve(Bytes{-1});
  REQUIRE_FALSE(negative.has_value());
  CHECK(negative.error().code == ErrorCode::bad_input);
}

TEST_CASE("decommit zeroes exactly the whole pages inside its range") {
  constexpr std::int64_t pages = 9;
  const std::int64_t size = pages * page() - 100; // the last page is only partly ours
  Random random{11};
  for (int round = 0; round < 200; ++round) {
    VirtualMemory memory = *VirtualMemory::reserve(Bytes{size});
    for (std::int64_t i = 0; i < size; ++i) memory.data()[i] = std::byte{0xa5};
    std::int64_t begin = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size + 1)));
    std::int64_t end = begin + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size - begin + 1)));
    if (random.below(2) == 0) begin = begin / page() * page();
    if (random.below(2) == 0) end = size;
    memory.decommit(Bytes{begin}, Bytes{end - begin});
    for (std::int64_t p = 0; p < pages; ++p) {
      const std::int64_t first = p * page(), last = std::min(size, first + page());
      const bool given_back = begin <= first && last <= end && first < end;
      const std::byte wanted{given_back ? std::uint8_t{0} : std::uint8_t{0xa5}};
      std::int64_t wrong = 0;
      for (std::int64_t i = first; i < last; ++i) wrong += memory.data()[i] == wanted ? 0 : 1;
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("reserving costs no memory, writing does, and decommitting gives it back" *
          doctest::skip(!sluice_test::resident_memory())) {
  const std::int64_t before = resident_pages();
  constexpr std::int64_t pages = 4096, slack = 512;
  VirtualMemory memory = *VirtualMemory::reserve(Bytes{1000 * pages * page()});
  CHECK(resident_pages() - before < slack);
  for (std::int64_t i = 0; i < pages; ++i) memory.data()[i * page()] = std::byte{1};
  const std::int64_t full = resident_pages();
  CHECK(full - before >= pages - slack);
  memory.decommit(Bytes{0}, Bytes{pages * page() / 2});
  CHECK(full - resident_pages() >= pages / 2 - slack);
  CHECK(memory.data()[pages * page() / 2] == std::byte{1});
  memory = VirtualMemory{};
}
