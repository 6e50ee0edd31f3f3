// SPDX-License-Identifier: Apache-2.0
// The rules of a header, checked on its text: which layers it may include, which libraries, and its form.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace architecture {

/// The content of cmake/layers.txt: each folder's rank, the pairs that may cross within a rank, the folders that stand
/// for a library, the headers that may call the operating system, and the two rings.
struct Layers {
  std::map<std::string, int> rank;
  std::set<std::pair<std::string, std::string>> allowed;
  std::vector<std::string> libraries;
  std::vector<std::string> system;
  std::vector<std::string> library;   ///< headers and folders of the outer ring, the framework's libraries
  std::vector<std::string> framework; ///< headers and folders within those that belong to the inner ring
};

inline Layers read_layers(std::istream& in) {
  Layers layers;
  int rank = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    const std::vector<std::string> names(std::istream_iterator<std::string>{words},
                                         std::istream_iterator<std::string>{});
    if (names.empty()) continue;
    if (names.size() == 3 && names[1] == "->") {
      layers.allowed.emplace(names[0], names[2]);
      continue;
    }
    if (names.front() == "libraries:") {
      layers.libraries.assign(names.begin() + 1, names.end());
      continue;
    }
    const auto places = [&](std::vector<std::string>& into) {
      for (auto name = names.begin() + 1; name != names.end(); ++name) into.push_back("sluice/" + *name);
    };
    if (names.front() == "system:") {
      places(layers.system);
      continue;
    }
    if (names.front() == "library:") {
      places(layers.library);
      continue;
    }
    if (names.front() == "framework:") {
      places(layers.framework);
      continue;
    }
    if (names.front().back() == ':') continue; // checked with the umbrella headers
    for (const std::string& name : names) layers.rank.emplace(name, rank);
    ++rank;
  }
  return layers;
}

/// A header of include/, by its path from there ("sluice/core/units.hpp"), and its text.
struct Header {
  std::string path;
  std::string text;
};

/// The folder that a path belongs to: the longest listed folder that contains it, "policy/cost" for
/// "sluice/policy/cost/work.hpp". For a path in no listed folder its first folder, and "" for an umbrella header,
/// "sluice/sluice.hpp".
inline std::string folder_of(const std::string& path, const Layers& layers) {
  const std::size_t begin = path.find('/') + 1;
  const std::size_t first = path.find('/', begin);
  if (first == std::string::npos) return {};
  for (std::size_t end = path.rfind('/'); end > begin && end != std::string::npos; end = path.rfind('/', end - 1))
    if (layers.rank.count(path.substr(begin, end - begin)) != 0) return path.substr(begin, end - begin);
  return path.substr(begin, first - begin);
}

/// Whether `name` is a folder on the path, which declares that the header needs the library of that name.
inline bool in_folder(const std::string& path, const std::string& name) {
  return path.find("/" + name + "/") != std::string::npos;
}

/// The folder name that permits an include of `<name>`; empty for a header of the standard library.
inline std::optional<std::string> library_of(const std::string& name) {
  static const std::map<std::string, std::string> known{{"Eigen", "eigen"}, {"boost", "beast"},   {"coin", "cbc"},
                                                        {"cub", "cudart"},  {"thrust", "cudart"}, {"unicode", "icu"},
                                                        {"isa-l", "isal"}};
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) {
    const std::string first = name.substr(0, slash);
    const auto found = known.find(first);
    return found == known.end() ? first : found->second;
  }
  if (name.rfind("cuda", 0) == 0) return "cudart";
  if (name.find('.') != std::string::npos) return name.substr(0, name.find('.'));
  return std::nullopt;
}

/// Whether `path` is one of `places`, or in one that ends in '/'. A `.inl.hpp` is where the header is that declares
/// what it defines.
inline bool among(const std::string& path, const std::vector<std::string>& places) {
  std::string declares = path;
  if (const std::size_t inl = path.rfind(".inl.hpp"); inl != std::string::npos) declares.erase(inl, 4);
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return place.back() == '/' ? path.rfind(place, 0) == 0 : path == place || declares == place;
  });
}

/// Whether a header belongs to one of the framework's libraries.
inline bool of_a_library(const std::string& path, const Layers& layers) {
  static const std::vector<std::string> folders{"nlohmann", "icu", "beast", "openssl", "cbc"};
  if (among(path, layers.framework)) return false;
  return among(path, layers.library) ||
         std::any_of(folders.begin(), folders.end(), [&](const std::string& name) { return in_folder(path, name); });
}

/// Whether `<name>` is POSIX's or Linux's.
inline bool of_the_system(const std::string& name) {
  return name.rfind("sys/", 0) == 0 || name.rfind("linux/", 0) == 0 || name == "fcntl.h" || name == "unistd.h" ||
         name == "sched.h" || name == "poll.h" || name == "signal.h" || name == "dirent.h";
}

/// Each line names the header, what is wrong and what would be right. Empty if nothing is wrong.
inline std::vector<std::string> include_faults(const Header& header, const Layers& layers) {
  static const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& what) { faults.push_back(header.path + ": " + what); };
  const std::string from = folder_of(header.path, layers);
  const bool umbrella = from.empty();
  if (!umbrella && layers.rank.count(from) == 0) fault("its folder is not in cmake/layers.txt");

  std::istringstream in(header.text);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string name = match[2];
    if (match[1] == "<") {
      if (name == "iostream")
        fault("includes <iostream>, whose statics run in every program; print through a FILE or an ostream");
      if (of_the_system(name)) {
        if (!among(header.path, layers.system))
          fault("includes <" + name +
                ">; what asks the operating system is named in the line `system:` of cmake/layers.txt");
        continue;
      }
      const std::optional<std::string> library = library_of(name);
      if (library && !in_folder(header.path, *library))
        fault("includes <" + name + ">; a header that needs a library must be in a folder of its name, " + *library +
              "/");
      continue;
    }
    if (name.rfind("sluice/", 0) != 0) {
      fault("includes \"" + name + "\"; headers are included by their path from include/, \"sluice/…\"");
      continue;
    }
    for (const std::string& library : layers.libraries)
      if (in_folder(name, library) && !in_folder(header.path, library))
        fault("includes " + name + " and so needs " + library + "; only headers in a folder " + library + "/ may");
    // A third-party library's folder needs no ring: the rule above has refused it.
    if (!umbrella && among(name, layers.library) && !among(name, layers.framework) &&
        !of_a_library(header.path, layers))
      fault("includes " + name +
            ", which belongs to a library; the framework includes none (`library:` in cmake/layers.txt)");
    const std::string to = folder_of(name, layers);
    if (to.empty()) {
      if (!umbrella) fault("includes " + name + ", which includes everything; include what is used");
    } else if (layers.rank.count(to) == 0) {
      fault("includes " + name + ", whose folder is not in cmake/layers.txt");
    } else if (!umbrella && from != to && layers.rank.count(from) != 0) {
      const int left = layers.rank.at(to), here = layers.rank.at(from);
      if (left > here) fault("includes " + name + ", which is to its right in cmake/layers.txt");
      if (left == here && layers.allowed.count({from, to}) == 0)
        fault("includes " + name + ", which has the same rank; cmake/layers.txt allows it with a line `" + from +
              " -> " + to + "`");
    }
  }
  return faults;
}

/// The text without its comments and string literals, for rules about code.
inline std::string code_of(const std::string& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto skip_past = [&](const std::string& end) {
      const std::size_t found = text.find(end, i + 1);
      i = found == std::string::npos ? text.size() : found + end.size() - 1;
    };
    if (text.compare(i, 2, "//") == 0) {
      skip_past("\n");
      code += '\n';
    } else if (text.compare(i, 2, "/*") == 0) {
      skip_past("*/");
      code += ' ';
    } else if (text.compare(i, 3, "'\"'") == 0) {
      i += 2; // a character literal, which opens no string
    } else if (text[i] == '"' && i > 0 && text[i - 1] == 'R') {
      const std::size_t open = text.find('(', i);
      skip_past(")" + text.substr(i + 1, open - i - 1) + "\"");
    } else if (text[i] == '"') {
      do {
        ++i;
        if (i < text.size() && text[i] == '\\') i += 2;
      } while (i < text.size() && text[i] != '"');
    } else {
      code += text[i];
    }
  }
  return code;
}

/// Words that the design excludes from headers, and their replacements.
inline std::vector<std::string> word_faults(const Header& header) {
  struct Rule {
    std::regex word;
    std::string why;
    std::vector<std::string> but; ///< other headers than policies, where one call per layer costs nothing
  };
  static const std::vector<Rule> rules{
      {std::regex(R"(\bthrow\b)"),
       "throws; what can happen at run time is a Status or an Expected",
       // What leaves a policy, whose functions return no Status, and what drops a run in the middle of one.
       {"sluice/core/interrupt.hpp", "sluice/engine/core/checks.hpp"}},
      {std::regex(R"(\bvirtual\b)"),
       "has a virtual function; policies are composed at compile time",
       {"sluice/model/decoder/decoder.hpp", "sluice/model/decoder/model_runner.hpp",
        "sluice/model/tokenizer/tokenizer.hpp", "sluice/world/cpu/", "sluice/world/machine/", "sluice/world/real/",
        "sluice/world/stream/", "sluice/records/", "sluice/fleet/ranks.hpp", "sluice/serve/",
        "sluice/engine/any_engine.hpp", "sluice/report/observer/any_observer.hpp"}},
      {std::regex(R"(\bstd::function\b)"),
       "has a std::function, which may allocate; take a template parameter",
       {"sluice/model/checkpoint/tiny.hpp", "sluice/model/decoder/weights.hpp", "sluice/world/machine/",
        "sluice/world/host_tier/", "sluice/world/real/", "sluice/records/", "sluice/serve/",
        "sluice/engine/any_engine.hpp", "sluice/report/observer/any_observer.hpp"}},
      {std::regex(R"(\b(printf|fprintf|puts)\s*\(|std::(cout|cerr|clog)\b)"), "prints; programs do that", {}},
      {std::regex(R"(\b(abort|exit|terminate)\s*\()"), "ends the process; only SLUICE_ASSERT may", {}},
  };
  std::vector<std::string> faults;
  if (header.path == "sluice/core/assert.hpp") return faults;
  const std::string code = code_of(header.text);
  for (const Rule& rule : rules)
    if (!among(header.path, rule.but) && std::regex_search(code, rule.word))
      faults.push_back(header.path + ": " + rule.why);
  return faults;
}

/// The form that every header must have.
inline std::vector<std::string> form_faults(const Header& header) {
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& what) { faults.push_back(header.path + ": " + what); };
  std::istringstream in(header.text);
  std::string line;
  if (!std::getline(in, line) || line != "// SPDX-License-Identifier: Apache-2.0") fault("line 1 is not the SPDX line");
  if (!std::getline(in, line) || line.rfind("// ", 0) != 0) fault("line 2 does not say what the file is");
  if (header.text.find("\n#pragma once\n") == std::string::npos) fault("has no #pragma once");
  if (std::regex_search(header.text, std::regex(R"(\nnamespace\s*\{)")))
    fault("has an anonymous namespace: each translation unit would get its own");
  if (std::regex_search(header.text, std::regex(R"(\nusing namespace )")))
    fault("has a using-directive at namespace scope");
  const auto lines = std::count(header.text.begin(), header.text.end(), '\n');
  if (lines > 600) fault("has " + std::to_string(lines) + " lines; headers have at most 600: split it by idea");
  return faults;
}

/// A policy with more than `policy_lines` lines, and why its lines belong together.
struct LongPolicy {
  const char* path;
  const char* why;
};
inline constexpr long policy_lines = 120;
inline const std::vector<LongPolicy>& long_policies() {
  static const std::vector<LongPolicy> policies{
      {"sluice/policy/admission/largest_virtual_lag_first.hpp", "one rotation: who joins and who leaves, by lag"},
      {"sluice/policy/admission/load_aware.hpp", "NEO's one division of requests between two memories"},
      {"sluice/policy/admission/most_pending_first.hpp", "one choice, for waiting and for running requests"},
      {"sluice/policy/cost/calibrated.hpp", "one correction for all times of a cost model"},
      {"sluice/policy/cost/layered_roofline.hpp", "one roofline of kinds of layers, and each layer's own time by it"},
      {"sluice/policy/cost/table_profile.hpp", "one interpolation of measured times"},
      {"sluice/policy/placement/partial_recomputation.hpp", "KVPR's one split and its equations"},
      {"sluice/policy/placement/token_wise.hpp", "eLLM's one loop over pair, share and batch"},
      {"sluice/policy/placement/worth_joining.hpp", "one judgement of newcomers, in time or late"},
      {"sluice/policy/weights/parameter_remap.hpp", "one controller of the memory that weights lend"},
      {"sluice/policy/weights/slo_interval.hpp", "Select-N's two stages, which share a record"},
  };
  return policies;
}

/// A long policy is several ideas; as files of their own, other policies can use them.
inline std::vector<std::string> policy_faults(const Header& header) {
  if (header.path.rfind("sluice/policy/", 0) != 0) return {};
  const std::string code = code_of(header.text);
  const auto has = [&code](const char* text) { return code.find(text) != std::string::npos; };
  if (!has("using role = roles::") && !has("static_assert(explain<")) return {};
  const auto lines = static_cast<long>(std::count(header.text.begin(), header.text.end(), '\n'));
  const bool listed = std::any_of(long_policies().begin(), long_policies().end(),
                                  [&header](const LongPolicy& policy) { return header.path == policy.path; });
  const std::string counted = header.path + ": has " + std::to_string(lines) + " lines; ";
  if (lines > policy_lines && !listed)
    return {counted + "a policy has at most 120: give its parts files of their own, or its reason in long_policies()"};
  if (lines <= policy_lines && listed) return {counted + "take it out of long_policies()"};
  return {};
}

/// What a kernels/ header for any compiler must not include: CUDA, except behind __CUDACC__.
inline std::vector<std::string> cuda_faults(const Header& header) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]((cuda|cub/|thrust/|cuda/)[^>"]*|[^>"]+[.]cuh)[>"])");
  std::vector<std::string> faults;
  bool for_nvcc = false;
  std::istringstream in(header.text);
  for (std::string line; std::getline(in, line);) {
    if (line == "#if defined(__CUDACC__)") for_nvcc = true;
    if (line.rfind("#else", 0) == 0 || line.rfind("#endif", 0) == 0) for_nvcc = false;
    std::smatch match;
    if (!for_nvcc && std::regex_search(line, match, include))
      faults.push_back("kernels/" + header.path + ": includes " + match[1].str() +
                       "; a .hpp is read without CUDA: put it into a .cuh, or behind #if defined(__CUDACC__)");
  }
  return faults;
}

/// What code for a device must not call: nvcc 13.0 compiles these to a constant there, whatever the argument.
inline std::vector<std::string> device_faults(const Header& header) {
  const std::string code = code_of(header.text);
  if (code.find("SLUICE_DEVICE") == std::string::npos) return {};
  std::vector<std::string> faults;
  for (const char* const name : {"countr_zero", "countr_one"})
    if (code.find(name) != std::string::npos)
      faults.push_back("kernels/" + header.path + ": calls std::" + name +
                       ", which nvcc makes a constant in device code; use lowest_bit (kernels/device.hpp)");
  return faults;
}

/// The headers below `include`, sorted by path.
inline std::vector<Header> read_headers(const std::filesystem::path& include, const char* extension = ".hpp") {
  std::vector<Header> headers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(include)) {
    if (entry.path().extension() != extension) continue;
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    headers.push_back({std::filesystem::relative(entry.path(), include).generic_string(), text.str()});
  }
  std::sort(headers.begin(), headers.end(), [](const Header& a, const Header& b) { return a.path < b.path; });
  return headers;
}

} // namespace architecture
