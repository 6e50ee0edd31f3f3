// SPDX-License-Identifier: Apache-2.0
// Compares ptxas's report on every kernel with kernels/occupancy.txt: no spilled register; registers, stack, shared
// memory, threads, and the CTAs per SM by CUDA's own formula (cuda_occupancy.h), which on sm_90 must be at least the
// number that the kernel is written for. It needs no GPU.
// usage: sluice_check_ptxas OCCUPANCY UNIT.ptxas... [--update]
#include "kernels/families.hpp"
#include <cuda_occupancy.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

namespace {

using namespace sluice::kernels;

/// A kernel's line in configs.cmake, and its launch's resources.
struct Listed {
  std::string text;
  int threads = 0;
  std::size_t shared_bytes = 0;
  int wanted_ctas = 0; ///< CTAs per SM for which the kernel's registers are limited
};

/// ptxas's report on one function for one architecture.
struct Compiled {
  std::string architecture;
  int registers = -1, stack = -1, spilled = -1, fixed_shared = 0;
};

std::string demangled(const char* name) {
  int failed = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &failed);
  std::string result = failed == 0 ? text : name;
  std::free(text);
  return result;
}

/// In the name of a class-type template argument, g++ omits trailing zeros, as the ABI requires; nvcc does not.
std::string without_last_zeros(const std::string& kernel) {
  static const std::regex zero(R"((, )?(\([A-Za-z_:]+\))?(0|false)\}>$)");
  std::string text = kernel;
  for (std::smatch match; std::regex_search(text, match, zero);)
    text.replace(static_cast<std::size_t>(match.position()), std::string::npos, "}>");
  return text;
}

/// The kernels of a family by their types' names. The table is OnGpu's: it links only if every line of configs.cmake
/// was instantiated.
template <class Config>
void list(std::map<std::string, Listed>& kernels) {
  using Family = KernelFamily<Config>;
  const auto table = kernel_table<Config>();
  const auto names = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::vector<std::string>{demangled(typeid(typename Family::template Kernel<Family::configs[i]>).name())...};
  }
  (std::make_index_sequence<Family::configs.size()>{});
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string config = describe(table[i].config);
    kernels[without_last_zeros(names[i])] = {std::string{Family::name} + (config.empty() ? "" : " ") + config,
                                             table[i].threads, table[i].shared_bytes, table[i].ctas_per_sm};
  }
}
template <class... Config>
std::map<std::string, Listed> list_all(ConfigTypes<Config...>) {
  std::map<std::string, Listed> kernels;
  (list<Config>(kernels), ...);
  return kernels;
}

/// Reads one unit's report, by the kernels' types.
void read(std::istream& in, std::multimap<std::string, Compiled>& compiled) {
  static const std::regex entry("Compiling entry function '([^']+)' for '([^']+)'");
  static const std::regex spills("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex used("Used ([0-9]+) registers");
  static const std::regex shared(" ([0-9]+) bytes smem");
  Compiled* now = nullptr;
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, match, entry)) {
      // "void sluice::kernels::run_kernel<KERNEL>(KERNEL::Params)"
      const std::string function = demangled(match[1].str().c_str());
      const std::size_t begin = function.find('<') + 1;
      std::string kernel = function.substr(begin, function.find(">(", begin) - begin);
      while (!kernel.empty() && kernel.back() == ' ') kernel.pop_back();
      now = &compiled.emplace(without_last_zeros(kernel), Compiled{match[2], -1, -1, -1, 0})->second;
    } else if (now != nullptr && std::regex_search(line, match, spills)) {
      now->stack = std::stoi(match[1]);
      now->spilled = std::stoi(match[2]) + std::stoi(match[3]);
    } else if (now != nullptr && std::regex_search(line, match, used)) {
      now->registers = std::stoi(match[1]);
      if (std::regex_search(line, match, shared)) now->fixed_shared = std::stoi(match[1]);
      now = nullptr;
    }
  }
}

/// An SM of an A100 or an H100 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
cudaOccDeviceProp device(const std::string& architecture) {
  cudaOccDeviceProp p{};
  p.computeMajor = architecture == "sm_80" ? 8 : 9;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = 2048;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerMultiprocessor = architecture == "sm_80" ? 164 << 10 : 228 << 10;
  p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor - 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.numSms = 1;
  return p;
}

/// How many blocks fit an SM at once.
int ctas_per_sm(const Compiled& compiled, const Listed& kernel) {
  const cudaOccDeviceProp properties = device(compiled.architecture);
  cudaOccFuncAttributes function{};
  function.maxThreadsPerBlock = kernel.threads;
  function.numRegs = compiled.registers;
  function.sharedSizeBytes = static_cast<std::size_t>(compiled.fixed_shared);
  function.partitionedGCConfig = PARTITIONED_GC_OFF;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = kernel.shared_bytes;
  function.numBlockBarriers = 1;
  const cudaOccDeviceState state{};
  cudaOccResult result{};
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &function, &state,
                                                                     kernel.threads, kernel.shared_bytes);
  return error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : 0;
}

constexpr const char* columns[] = {"architecture", "registers",   "stack",      "shared",
                                   "threads",      "CTAs wanted", "CTAs per SM"};
using Row = std::vector<std::string>; ///< the columns, and the kernel behind them

std::string line_of(const Row& row) {
  char text[80];
  std::snprintf(text, sizeof text, "%-6s %9s %6s %7s %8s %7s %5s  ", row[0].c_str(), row[1].c_str(), row[2].c_str(),
                row[3].c_str(), row[4].c_str(), row[5].c_str(), row[6].c_str());
  return text + row.back() + "\n";
}

/// The stated rows by architecture and kernel.
std::map<std::string, Row> read_stated(const std::string& path) {
  std::map<std::string, Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    Row row(std::size(columns));
    for (std::string& word : row) words >> word;
    std::string kernel;
    std::getline(words >> std::ws, kernel);
    row.push_back(kernel);
    rows[row[0] + " " + kernel] = row;
  }
  return rows;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool update = std::erase(arguments, "--update") > 0;
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: sluice_check_ptxas OCCUPANCY UNIT.ptxas... [--update]\n");
    return 2;
  }
  int faults = 0;
  const auto fault = [&](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    ++faults;
  };
  const std::map<std::string, Listed> kernels = list_all(AllConfigs{});
  std::multimap<std::string, Compiled> compiled;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::ifstream in(arguments[i]);
    if (!in.good()) fault(arguments[i] + ": cannot be read; build sluice_kernels first");
    read(in, compiled);
  }

  std::vector<Row> rows;
  for (const auto& [name, kernel] : kernels) {
    const auto [begin, end] = compiled.equal_range(name);
    if (begin == end) fault(kernel.text + ": ptxas does not report it; no function is named by " + name);
    for (auto one = begin; one != end; ++one) {
      const Compiled& said = one->second;
      const std::string where = kernel.text + ": " + said.architecture + ": ";
      if (said.registers < 0 || said.spilled < 0) fault(where + "ptxas does not say its registers and spills");
      if (said.spilled > 0) fault(where + std::to_string(said.spilled) + " bytes are spilled; expected none");
      const int ctas = ctas_per_sm(said, kernel);
      if (ctas == 0) fault(where + "no SM has room for a block of it");
      // sm_80 has 164 KiB of shared memory, sm_90 228, so a kernel tuned for sm_90 may fit fewer times; occupancy.txt
      // then has the smaller number.
      if (ctas < kernel.wanted_ctas && said.architecture != "sm_80")
        fault(where + "ctas_per_sm is " + std::to_string(kernel.wanted_ctas) + ", and an SM has room for " +
              std::to_string(ctas));
      rows.push_back({said.architecture, std::to_string(said.registers), std::to_string(said.stack),
                      std::to_string(kernel.shared_bytes + static_cast<std::size_t>(said.fixed_shared)),
                      std::to_string(kernel.threads), std::to_string(kernel.wanted_ctas), std::to_string(ctas),
                      kernel.text});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair{a.back(), a.front()} < std::pair{b.back(), b.front()};
  });

  if (update) {
    std::ofstream out(arguments[0]);
    out << "# What each kernel takes of an SM, as ptxas and cuda_occupancy.h say: registers of a thread; bytes of "
           "stack of a\n"
           "# thread; bytes of shared memory of a block; threads of a block; blocks that an SM is wanted to hold at\n"
           "# once (ctas_per_sm), and holds.\n"
           "# Written by `cmake --build --preset cuda --target kernels_occupancy`; the test kernels.ptxas compares.\n"
        << "#    registers  stack  shared  threads  wanted  CTAs\n";
    for (const Row& row : rows) out << line_of(row);
    out.close();
    if (!out.good()) fault(arguments[0] + ": cannot be written");
  } else {
    std::map<std::string, Row> stated = read_stated(arguments[0]);
    const std::string mend = "; if that is intended: cmake --build --preset cuda --target kernels_occupancy";
    for (const Row& row : rows) {
      const auto found = stated.find(row.front() + " " + row.back());
      if (found == stated.end()) {
        fault(row.back() + ": " + row.front() + ": kernels/occupancy.txt has no line for it" + mend);
        continue;
      }
      for (std::size_t i = 1; i < std::size(columns); ++i)
        if (row[i] != found->second[i])
          fault(row.back() + ": " + row.front() + ": " + columns[i] + " " + row[i] + ", kernels/occupancy.txt states " +
                found->second[i] + mend);
      stated.erase(found);
    }
    for (const auto& [key, row] : stated)
      fault(row.back() + ": " + row.front() + ": stated in kernels/occupancy.txt, and not compiled" + mend);
  }
  std::printf("%zu kernels, %zu times compiled: %d faults\n", kernels.size(), rows.size(), faults);
  return faults == 0 ? 0 : 1;
}
