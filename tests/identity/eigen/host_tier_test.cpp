// SPDX-License-Identifier: Apache-2.0
// KV that outlives its request on a real machine: turns that find it in the host tier or on a disk get the tokens and
// logits of requests that compute everything, bit for bit.
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/when_ended.hpp"
#include "sluice/policy/caching/with_hints.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/records/record_store.hpp"
#include "sluice/world/cpu/copy_engine.hpp"
#include "sluice/world/cpu/cpu_device.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"

#include "identity/eigen/trials.hpp"
#include "records/disk_model.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::testing {

namespace {

/// The tokens that later turns find if nothing is lost: their earlier turn's whole blocks that have KV.
std::int64_t findable(const RealTrial& trial, const std::vector<RealOutput>& expected, std::size_t count) {
  std::int64_t tokens = 0;
  for (std::size_t i = count; i < trial.prompts.size(); ++i) {
    const auto before = static_cast<std::int64_t>(trial.prompts[i - count].size() + expected[i - count].tokens.size());
    const std::int64_t each = trial.limits.block_tokens.count();
    tokens += (before - 1) / each * each; // the last token of an answer has no KV
  }
  return tokens;
}

std::shared_ptr<RecordStore> records_on(std::unique_ptr<FileLayer> files, std::uint64_t digest = 1,
                                        std::function<void(const std::string&)> log = {},
                                        std::int64_t capacity = sluice_test::plenty) {
  auto store = RecordStore::open(std::move(files), {capacity, digest, sluice_test::crc32c_by_bit, std::move(log)});
  REQUIRE(store);
  return std::shared_ptr<RecordStore>{*std::move(store)};
}

/// Loads at most `most` of the blocks that are found.
struct LoadsUpTo : WriteThrough {
  std::int64_t most = 0;
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& /*row*/, const FoundPrefix& found, const Cost& /*cost*/) const {
    CHECK(found.only_layerwise);
    return {std::min(found.below, Tokens{most * view.limits.block_tokens.count()})};
  }
};

/// Loads a random number of blocks, which differs between requests.
struct LoadsSome : WriteThrough {
  static Tokens cut(RequestId id, Tokens found, Tokens block) {
    const auto blocks = static_cast<std::uint64_t>(found.count() / block.count());
    return Tokens{static_cast<std::int64_t>(Random(index(id)).below(blocks + 1)) * block.count()};
  }
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& /*cost*/) const {
    return {cut(row.id, found.below, view.limits.block_tokens)};
  }
};
/// Its answer depends on how much there is to compute without the load, which the answer before must not change.
struct LoadsLong : WriteThrough {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& /*cost*/) const {
    return {row.pending() > view.limits.block_tokens * 2 ? found.below : Tokens{0}};
  }
};
/// Pins and weighs each session's blocks differently.
struct Pinned : WriteThrough {
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& row, const Cost& /*cost*/) const {
    Random random(index(row.id));
    const double score = random.uniform();
    return {score, Seconds{500 * random.uniform()}};
  }
};
/// Each request has loaded what LoadsSome said.
struct LoadsThat {
  using role = roles::Observer;
  using hears = Events<events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct State {};
  void on(State& /*state*/, const events::Delivered& event) const {
    CHECK(event.row.found == LoadsSome::cut(event.row.id, event.row.on_host, Tokens{4})); // a trial's block
  }
};

/// Writes what each request says, in tokens, and has it weighed and pinned by what the request says.
struct Asked {
  std::int64_t most = 1'000;
  double worth = 0;
  Seconds pinned{0};
};
template <class Base>
struct AsAsked : Base {
  Asked* asked = nullptr;
  Tokens write(const View& view, const RequestRow& row) const {
    return std::min(Base::write(view, row), Tokens{asked->most});
  }
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& row, const Cost& /*cost*/) const {
    CHECK(row.phase == Phase::ended);
    return {asked->worth, asked->pinned};
  }
};

/// A CPU whose link begins no copy to the host while `held`, so that a test decides what has arrived.
class HeldCpu : public CpuDevice {
 public:
  explicit HeldCpu(const std::atomic<bool>& held) : held_(&held), lane_(memory_) {}
  ~HeldCpu() { stop(); }

  [[nodiscard]] Status connect(MachineCore& core, ModelRunner& /*runner*/) {
    if (Status status = memory_.reserve(core); !status) return status;
    schedule_ = &core.schedule;
    engine_ = std::make_unique<CopyEngine<HeldCpu>>(*this, core.setup.link);
    return {};
  }
  void stop() { engine_.reset(); }
  [[nodiscard]] Status adopt_weights(const MachineCore& core) { return memory_.adopt_weights(core); }
  void put(const PlacedCopy& placed) {
    const Copy copy = memory_.addressed(placed);
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  }
  [[nodiscard]] std::span<std::byte> host_block(std::int32_t block) const { return memory_.host_block(block); }
  void wake() { engine_->wake(); }
  void rest(std::unique_lock<std::mutex>& lock) { schedule_->progress.wait(lock); }
  [[nodiscard]] CopyTotals moved() const { return engine_->totals(); }
  [[nodiscard]] Lane& lane() { return lane_; }

  // For the CopyEngine. No request waits for room on the device, so no end of a copy wakes a lane.
  std::optional<Copy> next(Way way) {
    const std::lock_guard lock{schedule_->mutex}; // a hold that precedes a step of the machine precedes what this sees
    if (way == Way::to_host && *held_) return std::nullopt;
    const std::optional<PlacedCopy> placed = schedule_->next(way);
    return placed ? std::optional{memory_.addressed(*placed)} : std::nullopt;
  }
  void ended(Way way, const Copy& /*copy*/, CopyOutcome outcome) {
    const std::lock_guard lock{schedule_->mutex};
    const Time now = std::chrono::steady_clock::now();
    (void)schedule_->ended(way, outcome, now, now);
  }

 private:
  const std::atomic<bool>* held_;
  CpuMemory memory_;
  Lane lane_;
  LinkSchedule* schedule_ = nullptr;
  std::unique_ptr<CopyEngine<HeldCpu>> engine_;
};

/// A machine and its engine, for one request after the other.
template <class Caching, class Device = CpuDevice>
class TurnsWith {
 public:
  /// `device`: what the device is made with.
  template <class... Args>
  explicit TurnsWith(const RealTrial& trial, Caching caching = {}, const Args&... device) {
    std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, 1);
    RealTrial all = trial;
    all.limits.batch_tokens = Tokens{256};
    const std::int64_t blocks = all.all() + 16 * all.layers();
    const MachineSetup setup = all.setup(*decoder, blocks);
    auto made = Machine<Device>::make(all.weights, std::make_unique<DecoderRunner>(std::move(decoder)), setup,
                                      TokenListener{}, device...);
    REQUIRE(made);
    machine_ = *made;
    const ModelShape& shape = all.weights.config.shape;
    const Bytes block{kv_block_floats(shape, all.limits.block_tokens) * 4};
    SmallCost cost;
    cost.base = Seconds{1e-3};
    cost.rate = BytesPerSecond{1e9};
    Expected<E> engine = E::make({.limits = all.limits,
                                  .geometry = {shape.layers, block, all.weights.layout.bytes, Bytes{0}},
                                  .device_blocks = LayerBlocks{blocks},
                                  .host_blocks = LayerBlocks{blocks},
                                  .cost = cost,
                                  .backend = Cpu{machine_},
                                  .caching = caching});
    REQUIRE(engine);
    engine_.emplace(*std::move(engine));
  }

  [[nodiscard]] Machine<Device>& machine() { return *machine_; }
  [[nodiscard]] std::uint64_t seek(const std::vector<std::int32_t>& prompt) {
    TokenRequest request;
    request.tokens = prompt;
    return machine_->seek(request);
  }
  /// Generates `output` tokens, waits until the request's KV has reached the tiers, and returns how many tokens of the
  /// prompt were found.
  std::int64_t run(const std::vector<std::int32_t>& prompt, std::int64_t output = 1,
                   std::vector<std::int32_t>* answer = nullptr) {
    return run_found(prompt, machine_->find(seek(prompt)), output, answer);
  }
  std::int64_t run_found(const std::vector<std::int32_t>& prompt, Tokens found, std::int64_t output,
                         std::vector<std::int32_t>* answer, std::uint32_t session = 0, const SessionHints& hints = {}) {
    begin(prompt, found, output, session, hints);
    return end(found, output, answer);
  }
  /// Submits a request, for `end`.
  RequestId begin(const std::vector<std::int32_t>& prompt, Tokens found, std::int64_t output, std::uint32_t session,
                  const SessionHints& hints = {}) {
    TokenRequest request;
    request.tokens = prompt;
    RequestSpec spec;
    spec.arrival = engine_->now();
    spec.prompt = Tokens{static_cast<std::int64_t>(prompt.size())};
    spec.output = Tokens{output};
    spec.session = session;
    spec.hints = hints;
    const Expected<RequestId> id = engine_->submit(spec, {}, found);
    REQUIRE(id);
    id_ = *id;
    machine_->enter(id_, std::move(request));
    return id_;
  }
  [[nodiscard]] bool alive() const { return engine_->alive() > 0; }
  void step() { REQUIRE(engine_->step() != Stepped::failed); }
  std::int64_t end(Tokens found, std::int64_t output, std::vector<std::int32_t>* answer) {
    while (alive()) step();
    if (answer != nullptr) {
      const auto tokens = machine_->generated(id_, Tokens{0}, Tokens{output});
      answer->assign(tokens.begin(), tokens.end());
    }
    machine_->forget(id_);
    while (machine_->keeps_moving()) std::this_thread::yield();
    return found.count();
  }
  /// Ends the request without waiting for its KV.
  void answer_at_once(std::int64_t output, std::vector<std::int32_t>& answer) {
    while (alive()) step();
    const auto tokens = machine_->generated(id_, Tokens{0}, Tokens{output});
    answer.assign(tokens.begin(), tokens.end());
    machine_->forget(id_);
  }
  /// Waits until no record is read or used any more.
  void wait_for_disk() {
    while (machine_->keeps_reading()) std::this_thread::yield();
  }

 private:
  using E = With<Engine<>, Cpu, SmallCost, Caching>;
  std::shared_ptr<Machine<Device>> machine_;
  std::optional<E> engine_;
  RequestId id_{};
};
using Turns = TurnsWith<NoCaching>;
using HeldTurns = TurnsWith<NoCaching, HeldCpu>;

/// A prompt of so many full blocks and one more token, all of them `number`.
std::vector<std::int32_t> chat_of(const RealTrial& trial, std::int32_t number, std::int64_t blocks) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(blocks * trial.limits.block_tokens.count() + 1), number);
}

} // namespace

TEST_CASE("later turns find all of their conversation that has KV, and generate the same tokens") {
  Random random(60);
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions(random, 3);
    const std::size_t count = sessions.trial.prompts.size() / 3;
    sessions.trial.tier_blocks = sessions.trial.all() * 2;
    const RealResult result = run_real<Engine<>>(sessions.trial, sessions.trial.all());
    check_identity(result, sessions.expected);
    CHECK(result.tier.found == findable(sessions.trial, sessions.expected, count));
    CHECK(result.tier.evicted == 0);
  }
}

TEST_CASE("a turn that comes before its conversation's KV has reached the tier waits for it") {
  Random random(61);
  RealTrial trial = random_real_trial(random);
  trial.tier_blocks = 1000;
  trial.link.to_host_bytes_per_s = 2e6; // some milliseconds for what a turn leaves
  std::atomic<bool> held = true;
  HeldTurns turns(trial, {}, held);
  std::vector<std::int32_t> prompt = chat_of(trial, 3, 6);
  for (int turn = 0; turn < 4; ++turn) {
    CAPTURE(turn);
    const std::uint64_t search = turns.seek(prompt);
    CHECK(turns.machine().sought(search) == (turn == 0));
    held = false;
    while (!turns.machine().sought(search)) std::this_thread::yield();
    const Tokens found = turns.machine().find(search);
    const std::int64_t whole = static_cast<std::int64_t>(prompt.size()) - 1;
    // All but the blocks that this turn adds, and the one that its first token opens.
    CHECK((found == Tokens{0}) == (turn == 0));
    if (turn > 0) CHECK(found.count() >= whole - 3 * trial.limits.block_tokens.count());
    std::vector<std::int32_t> answer;
    held = true;
    turns.begin(prompt, found, 4, 1);
    turns.answer_at_once(4, answer);
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    prompt.insert(prompt.end(), static_cast<std::size_t>(trial.limits.block_tokens.count()), 5);
  }
  held = false;
}

TEST_CASE("a hundred turns that come at once find all of their conversation, whoever waits for it") {
  Random random(62);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.tier_blocks = 200 * trial.layers();
  trial.link.to_host_bytes_per_s = 2e7;
  std::atomic<bool> held = false;
  HeldTurns turns(trial, {}, held);
  std::int64_t hits = 0;
  for (std::int32_t chat = 0; chat < 100; ++chat) {
    std::vector<std::int32_t> prompt = chat_of(trial, 1 + chat % 60, 3), answer;
    prompt[0] = chat % 64;
    held = true;
    turns.begin(prompt, Tokens{0}, 2, 0);
    turns.answer_at_once(2, answer);
    prompt.insert(prompt.end(), {answer[0], 9});
    const std::uint64_t search = turns.seek(prompt);
    CHECK_FALSE(turns.machine().sought(search));
    held = false;
    if (turns.machine().find(search).count() == 3 * each) ++hits; // the search waits, not its caller
  }
  CHECK(hits == 100);
}

TEST_CASE("behind KV that was on its way to the host, a turn finds what the disk has") {
  Random random(63);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.tier_blocks = 40 * trial.layers();
  sluice_test::DiskModel disk;
  const auto open = [&disk] {
    return records_on(std::make_unique<sluice_test::WatchedFiles>(disk, nullptr, nullptr), 1, {});
  };
  const std::vector<std::int32_t> whole = chat_of(trial, 7, 10);
  {
    trial.records = open();
    CHECK(Turns(trial).run(whole) == 0);
  }
  trial.link.to_host_bytes_per_s = 2e6;
  for (const std::int64_t wanted : {10, 7, 5, 0})
    for (const bool waits : {false, true}) {
      CAPTURE(wanted);
      CAPTURE(waits);
      trial.records = nullptr; // a folder belongs to one store at a time
      trial.records = open();
      std::atomic<bool> held = true;
      HeldTurns turns(trial, {}, held);
      std::vector<std::int32_t> answer;
      turns.begin(chat_of(trial, 7, 5), Tokens{0}, 1, 0); // computes the beginning
      turns.answer_at_once(1, answer);
      int asked = 0;
      const WouldLoad would_load = [&](const FoundPrefix& found) {
        ++asked;
        CHECK(found.below.count() == 5 * each);
        CHECK(found.lower.count() == 5 * each);
        return Tokens{wanted * each};
      };
      TokenRequest request;
      request.tokens = whole;
      const std::uint64_t search = turns.machine().seek(request, would_load);
      CHECK_FALSE(turns.machine().sought(search, would_load));
      CHECK(asked == 0);
      held = false;
      while (!waits && !turns.machine().sought(search, would_load)) std::this_thread::yield();
      CHECK(turns.machine().find(search, would_load).count() == std::max<std::int64_t>(5, wanted) * each);
      CHECK(asked == 1);
      turns.wait_for_disk();
    }
  trial.records = nullptr;
}

TEST_CASE("a policy that throws behind KV that was on its way leaves nothing pinned") {
  Random random(65);
  RealTrial trial = random_real_trial(random);
  trial.tier_blocks = 10 * trial.layers();
  sluice_test::DiskModel disk;
  const auto open = [&disk] { return records_on(std::make_unique<sluice_test::ModelFiles>(disk)); };
  TokenRequest request;
  request.tokens = chat_of(trial, 7, 10);
  {
    trial.records = open();
    CHECK(Turns(trial).run(request.tokens) == 0);
  }
  const WouldLoad unlucky = [](const FoundPrefix&) -> Tokens { throw std::runtime_error("unlucky"); };
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    trial.records = nullptr; // a folder belongs to one store at a time
    trial.records = open();
    std::atomic<bool> held = true;
    HeldTurns turns(trial, {}, held);
    std::vector<std::int32_t> answer;
    turns.begin(chat_of(trial, 7, 5), Tokens{0}, 1, 0);
    turns.answer_at_once(1, answer);
    const std::uint64_t search = turns.machine().seek(request, unlucky);
    CHECK_FALSE(turns.machine().sought(search, unlucky));
    held = false;
    if (waits) {
      CHECK_THROWS_AS((void)turns.machine().find(search, unlucky), std::runtime_error);
    } else {
      while (turns.machine().keeps_moving()) std::this_thread::yield();
      CHECK_THROWS_AS((void)turns.machine().sought(search, unlucky), std::runtime_error);
      turns.machine().leave_search(search);
    }
    while (turns.machine().keeps_moving()) std::this_thread::yield();
    CHECK(turns.machine().host_tier().blocks == 5);
    CHECK(turns.run(chat_of(trial, waits ? 8 : 9, 10)) == 0); // needs the whole tier
    CHECK(turns.machine().host_tier().refused == 0);
    CHECK(turns.machine().host_tier().blocks == 10);
    turns.wait_for_disk();
  }
  trial.records = nullptr;
}

TEST_CASE("a small host tier takes new blocks while the disk syncs older ones, and counts those it cannot take") {
  Random random(64);
  RealTrial trial = random_real_trial(random);
  trial.tier_blocks = 6 * trial.layers();
  sluice_test::DiskModel disk;
  std::promise<void> begun, opened;
  std::atomic<bool> first = true;
  trial.records = records_on(std::make_unique<sluice_test::WatchedFiles>(
      disk,
      [&](sluice_test::FileCall call, const std::string&) {
        if (call != sluice_test::FileCall::write || !first.exchange(false)) return;
        begun.set_value();
        opened.get_future().wait();
      },
      nullptr));
  {
    Turns turns(trial);
    const auto leave = [&](std::int32_t number, std::int64_t blocks, std::int64_t all) {
      std::vector<std::int32_t> answer;
      turns.begin(chat_of(trial, number, blocks), Tokens{0}, 1, 0);
      turns.answer_at_once(1, answer);
      const auto counts = [&turns] { return turns.machine().host_tier(); };
      while (counts().stored + counts().refused < all) (void)turns.machine().keeps_moving();
    };
    leave(1, 5, 5);
    begun.get_future().wait(); // the disk is busy with the first request's blocks
    leave(2, 5, 10);
    const HostTierCounts counts = turns.machine().host_tier();
    CHECK(counts.stored == 10);
    CHECK(counts.refused == 0);
    CHECK(counts.disk.waiting == 10);
    CHECK(counts.disk.written == 0);
    opened.set_value();
    while (turns.machine().keeps_moving()) std::this_thread::yield();
    CHECK(turns.machine().host_tier().disk.written == 10);
    CHECK(turns.machine().host_tier().disk.waiting == 0);
    CHECK(turns.machine().host_tier().disk.capacity == sluice_test::plenty);
    CHECK(turns.machine().host_tier().disk.bytes == trial.records->totals().bytes);
    const std::uint64_t search = turns.seek(chat_of(trial, 2, 5)); // pins what it has found
    leave(3, 5, 15);
    CHECK(turns.machine().host_tier().stored == 11);
    CHECK(turns.machine().host_tier().refused == 4);
    turns.machine().leave_search(search);
    while (turns.machine().keeps_moving()) std::this_thread::yield();
    turns.wait_for_disk();
  }
  CHECK(trial.records->totals().records == 11);
}

TEST_CASE("a Caching policy cuts what is loaded at any block, and no token and no logit changes") {
  Random random(80);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(9 * each + 2));
  for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random.below(64));
  trial.prompts.assign(2, prompt);
  trial.prompts[1].resize(prompt.size() + 5, 3);
  trial.outputs = {1, 6};
  trial.arrivals = {0, 1000};
  trial.tier_blocks = 40 * trial.layers();
  const std::vector<RealOutput> expected = alone(trial);
  const std::int64_t block = kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4;
  for (std::int64_t most = 0; most <= 10; ++most) {
    CAPTURE(most);
    const RealResult result =
        run_real<With<Engine<>, LoadsUpTo>>(trial, trial.all(), [most](auto& config) { config.caching.most = most; });
    check_identity(result, expected);
    CHECK(result.tier.found == 9 * each);
    CHECK(result.tier.loaded == std::min<std::int64_t>(most, 9) * each);
    CHECK(result.moved.to_device.bytes.count() == std::min<std::int64_t>(most, 9) * trial.layers() * block);
  }
}

TEST_CASE_TEMPLATE("the host gets as many blocks as the policy says, each once, when it says", Base, WriteThrough,
                   WhenEnded<WriteThrough>, BasicWriteThrough<Writes::evicted>) {
  constexpr bool behind = std::is_same_v<Base, WriteThrough>;
  Random random(90);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.prompts.assign(1, std::vector<std::int32_t>(static_cast<std::size_t>(5 * each + 1), 9));
  trial.outputs.assign(1, 3 * each);
  trial.tier_blocks = 100 * trial.layers();
  const std::int64_t block =
      trial.layers() * kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4;
  for (const std::int64_t most : {std::int64_t{0}, 3 * each - 1, 7 * each, std::int64_t{1'000}}) {
    CAPTURE(most);
    Asked asked{most};
    TurnsWith<AsAsked<Base>> turns(trial, {{}, &asked});
    turns.begin(trial.prompts[0], Tokens{0}, trial.outputs[0], 0);
    for (int step = 0; step < 2; ++step) turns.step(); // the prompt, and a second token, with which copies begin
    const std::int64_t early = std::min<std::int64_t>(most / each, 5);
    const auto bytes = [&turns] { return turns.machine().host_tier().to_host.bytes; };
    const auto begun = std::chrono::steady_clock::now(); // only a failure takes five minutes
    while (behind && bytes() < early * block && std::chrono::steady_clock::now() - begun < std::chrono::minutes{5})
      (void)turns.machine().keeps_moving();
    if (behind) CHECK(bytes() == early * block);
    if (!behind) CHECK(bytes() == 0);
    CHECK(turns.machine().host_tier().blocks == 0); // nobody finds it before its request ends
    (void)turns.end(Tokens{0}, trial.outputs[0], nullptr);
    const bool asks = !std::is_same_v<Base, BasicWriteThrough<Writes::evicted>>;
    const std::int64_t written = asks ? std::min<std::int64_t>(most / each, 8) : 8;
    CHECK(turns.machine().host_tier().stored == written);
    CHECK(bytes() == written * block);
    std::vector<std::int32_t> next = trial.prompts[0];
    next.resize(static_cast<std::size_t>(7 * each), 9); // the answer may differ
    CHECK(turns.machine().find(turns.seek(next)).count() >= std::min<std::int64_t>(written, 5) * each);
  }
}

TEST_CASE("of a prompt that the host tier has, no block crosses back, whether it is loaded or computed") {
  Random random(94);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(6 * each + 1), 9);
  trial.prompts.assign(1, prompt);
  trial.outputs.assign(1, 4 * each);
  trial.tier_blocks = 100 * trial.layers();
  for (const std::int64_t most : {0, 3, 6}) {
    CAPTURE(most);
    LoadsUpTo caching;
    caching.most = most;
    TurnsWith<LoadsUpTo> turns(trial, caching);
    CHECK(turns.run(prompt) == 0);
    const std::int64_t written = turns.machine().host_tier().to_host.bytes;
    CHECK(written == 6 * trial.layers() * kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4);
    CHECK(turns.run(prompt, 3) == 6 * each); // no block more is full
    CHECK(turns.machine().host_tier().loaded == most * each);
    CHECK(turns.machine().host_tier().to_host.bytes == written);
    CHECK(turns.run(prompt, 3 * each) == 6 * each);
    CHECK(turns.machine().host_tier().to_host.bytes == written / 6 * 9);
  }
}

TEST_CASE("a copy for the host tier that fails costs the tier the block, and its request nothing") {
  Random random(91);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.prompts.assign(1, std::vector<std::int32_t>(static_cast<std::size_t>(5 * each + 1), 9));
  trial.outputs.assign(1, 3 * each);
  trial.tier_blocks = 100 * trial.layers();
  const std::vector<RealOutput> expected = alone(trial);
  trial.faults.to_host_fails = true;
  const RealResult result = run_real<With<Engine<>, WriteThrough>>(trial, trial.all());
  CHECK(result.refused == 0);
  check_identity(result, expected);
  CHECK(result.tier.blocks == 0);
}

TEST_CASE("the tier evicts the blocks that the policy finds least worthy, and none of a session that it pins") {
  Random random(92);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const auto chat = [&](std::int32_t number) { return chat_of(trial, number, 3); };
  trial.prompts.assign(1, chat(0));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 6 * trial.layers(); // two chats
  Asked asked;
  SUBCASE("worth") {
    trial.tier_evicts = Replacement::least_worth;
    TurnsWith<AsAsked<WriteThrough>> turns(trial, {{}, &asked});
    const auto run = [&](std::int32_t number, double worth) {
      asked.worth = worth;
      return turns.run(chat(number)) / each;
    };
    CHECK(run(1, 5) == 0);
    CHECK(run(2, 3) == 0);
    CHECK(run(3, 4) == 0); // instead of 2
    CHECK(run(2, 1) == 0); // not kept: all others are worth more
    CHECK(run(2, 6) == 0); // instead of 3
    CHECK(run(1, 2) == 3);
    CHECK(run(3, 7) == 0); // instead of 1, whose last use made it worth less
    CHECK(run(2, 6) == 3);
    CHECK(run(1, 1) == 0);
  }
  SUBCASE("pins") {
    TurnsWith<AsAsked<WriteThrough>> turns(trial, {{}, &asked});
    const auto run = [&](std::int32_t number, std::uint32_t session, Seconds pinned) {
      asked.pinned = pinned;
      return turns.run_found(chat(number), turns.machine().find(turns.seek(chat(number))), 1, nullptr, session) / each;
    };
    constexpr Seconds long_time{1e9};
    CHECK(run(1, 7, long_time) == 0);
    CHECK(run(2, 0, long_time) == 0);  // no session: not pinned
    CHECK(run(3, 0, Seconds{0}) == 0); // instead of 2
    CHECK(run(4, 0, Seconds{0}) == 0); // instead of 3
    CHECK(run(1, 7, Seconds{0}) == 3); // the pin has served
    CHECK(run(2, 0, Seconds{0}) == 0);
    CHECK(run(3, 0, Seconds{0}) == 0);
    CHECK(run(1, 7, Seconds{0}) == 0);
  }
}

TEST_CASE("a pin ends with its time or its session's next request, and covers what the tier had, too") {
  Random random(95);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const auto chat = [&](std::int32_t number) { return chat_of(trial, number, 3); };
  trial.prompts.assign(1, chat(0));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 6 * trial.layers(); // two chats
  Asked asked;
  TurnsWith<AsAsked<WriteThrough>> turns(trial, {{}, &asked});
  const auto found = [&](std::int32_t number) { return turns.machine().find(turns.seek(chat(number))); };
  const auto run = [&](std::int32_t number, std::uint32_t session, Seconds pinned) {
    asked.pinned = pinned;
    return turns.run_found(chat(number), found(number), 1, nullptr, session) / each;
  };
  constexpr Seconds long_time{1e6};
  const auto others = [&] {
    for (std::int32_t number = 2; number < 5; ++number) CHECK(run(number, 0, Seconds{0}) == 0);
  };
  SUBCASE("time") {
    CHECK(run(1, 7, long_time) == 0);
    others();
    CHECK(found(1).count() == 3 * each);
    (void)found(0);
    turns.machine().idle_until(turns.machine().now() + long_time); // does not wait
    others();
    CHECK(found(1).count() == 0);
  }
  SUBCASE("the next request joins while the KV crosses") {
    asked.pinned = long_time;
    const RequestId first = turns.begin(chat(1), Tokens{0}, 1, 7);
    while (turns.alive()) turns.step();
    asked.pinned = Seconds{0};
    const RequestId second = turns.begin(chat(9), Tokens{0}, 1, 7);
    CHECK(first != second);
    (void)turns.end(Tokens{0}, 1, nullptr);
    turns.machine().forget(first);
    others();
    CHECK(found(1).count() == 0);
  }
  SUBCASE("a request that writes nothing") {
    CHECK(run(1, 0, Seconds{0}) == 0);
    asked.most = 0;
    CHECK(run(1, 7, long_time) == 3);
    asked.most = 1'000;
    others();
    CHECK(found(1).count() == 3 * each);
  }
}

TEST_CASE("the tier obeys what clients say: what is written, how long it stays, and what leaves first") {
  Random random(97);
  RealTrial trial = random_real_trial(random);
  const auto each = static_cast<std::int32_t>(trial.limits.block_tokens.count());
  const auto chat = [&](std::int32_t number) { return chat_of(trial, number, 3); };
  trial.prompts.assign(1, chat(0));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 6 * trial.layers(); // two chats
  const auto check = [&]<class Base>(std::type_identity<Base>) {
    WithHints<Base> caching;
    caching.longest = Seconds{3600};
    TurnsWith<WithHints<Base>> turns(trial, caching);
    const auto found = [&](std::int32_t number) {
      const std::int64_t tokens = turns.machine().find(turns.seek(chat(number))).count();
      (void)turns.machine().find(turns.seek(chat(0))); // nothing stays pinned for the question
      return tokens;
    };
    const auto run = [&](std::int32_t number, std::uint32_t session, const SessionHints& hints) {
      return turns.run_found(chat(number), turns.machine().find(turns.seek(chat(number))), 1, nullptr, session, hints);
    };
    CHECK(run(1, 7, {.release = true}) == 0);
    CHECK(found(1) == 0);
    CHECK(run(1, 7, {.keep = each + 1}) == 0);
    CHECK(found(1) == each);
    // Without a session, too; it covers what is kept.
    CHECK(run(2, 0, {.ttl = Seconds{3000}, .keep = 2 * each}) == 0);
    for (std::int32_t other = 3; other < 6; ++other) CHECK(run(other, 0, {}) == 0);
    CHECK(found(2) == 2 * each);
    CHECK(found(1) == 0);
  };
  check(std::type_identity<WriteThrough>{});
  check(std::type_identity<WhenEnded<WriteThrough>>{});
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    TurnsWith<WithHints<WriteThrough>> turns(trial);
    const auto run = [&](std::int32_t number, std::uint32_t session, const SessionHints& hints) {
      return turns.run_found(chat(number), turns.machine().find(turns.seek(chat(number))), 1, nullptr, session, hints);
    };
    CHECK(run(1, 7, {}) == 0);
    if (shared) CHECK(run(1, 8, {}) == 3 * each);
    CHECK(run(2, 9, {}) == 0);
    CHECK(run(1, 7, {.release = true}) == 3 * each);
    CHECK(run(3, 0, {}) == 0); // instead of 1, though 2 is less recent; of 2, if another session has had 1
    CHECK(run(shared ? 1 : 2, 0, {}) == 3 * each);
    CHECK(run(shared ? 2 : 1, 0, {}) == 0);
  }
}

TEST_CASE("no block leaves the tier while blocks that follow it cross") {
  Random random(96);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const auto chat = [&](std::int64_t blocks, std::int32_t number) { return chat_of(trial, number, blocks); };
  trial.prompts.assign(1, chat(4, 0));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 4 * trial.layers();
  Turns turns(trial);
  CHECK(turns.run(chat(3, 1)) == 0);
  const RequestId longer = turns.begin(chat(4, 1), turns.machine().find(turns.seek(chat(4, 1))), 1, 0);
  (void)turns.machine().find(turns.seek(chat(3, 2)));
  const RequestId other = turns.begin(chat(3, 2), Tokens{0}, 1, 0);
  while (turns.alive()) turns.step();
  turns.machine().forget(longer); // three blocks are there, and one crosses
  turns.machine().forget(other);  // would need the room of these three
  while (turns.machine().keeps_moving()) std::this_thread::yield();
  CHECK(turns.machine().find(turns.seek(chat(4, 1))).count() == 4 * each);
}

TEST_CASE("each request loads what its Caching policy says, whatever the system does with the KV") {
  using Some = With<Chaos, LoadsSome, LoadsThat>;
  CHECK(check_turns(&real<Some>, 81, 8, 0.8).found > 0);
  CHECK(check_turns(&real<With<ChaosAhead, LoadsSome, LoadsThat>>, 82, 8, 0.9).found > 0);
  CHECK(check_turns(&real<With<OrbitFlow, LoadsSome, LoadsThat>>, 83, 6, 1.1).found > 0);
  CHECK(check_turns(&real<Some>, 84, 10, 0.8, 10).found > 0);
  CHECK(check_turns(&real<Some>, 85, 10, 0.9, 0, 0.05).found > 0);
  CHECK(check_turns(&real<With<VllmSwap, IfFaster<WriteThrough>>>, 86, 6, 1.1).found > 0);
  CHECK(check_turns(&real<With<Chaos, LoadsLong>>, 88, 6, 0.9).found > 0);
  CHECK(check_turns(&real<With<Chaos, WhenEnded<WriteThrough>>>, 89, 8, 0.9, 10).found > 0);
  CHECK(check_turns(&real<With<Chaos, Pinned>>, 90, 8, 0.9, 10, 0.02).found > 0);
  CHECK(check_turns(&real<With<SuperInfer, Cpu, WriteThrough>>, 91, 6, 1.1).found > 0); // makes copies of its own
  CHECK(check_turns(&real<With<Chaos, WithinSlos<WriteThrough>>>, 87, 6, 0.9).found > 0);
}

TEST_CASE("fifty requests that wait for one beginning: one read of the disk") {
  sluice_test::DiskModel disk;
  check_convoy(74, 50, 9, [&disk] { return records_on(std::make_unique<sluice_test::ModelFiles>(disk)); });
}

TEST_CASE(
    "entries of latent attention, and states behind each block, are found on the host, and on the disk by the next "
    "process") {
  for (bool (ModelShape::*const has)() const : {&ModelShape::has_latents, &ModelShape::has_states}) {
    const auto is_such = [has](std::uint64_t seed) {
      Random random(seed);
      return (this_device().draw(random).weights.config.shape.*has)();
    };
    std::uint64_t seed = 1;
    while (!is_such(seed)) ++seed;
    sluice_test::DiskModel disk;
    check_convoy(seed, 5, 9, [&disk] { return records_on(std::make_unique<sluice_test::ModelFiles>(disk)); });
  }
}

TEST_CASE("the least recently used turns leave the host tier, and a conversation loses its end first") {
  Random random(75);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::int64_t each = trial.limits.block_tokens.count();
    const std::int64_t capacity = 6 + static_cast<std::int64_t>(random.below(12));
    trial.prompts.assign(1, std::vector<std::int32_t>(60)); // room on the device for the longest
    trial.outputs.assign(1, 1);
    trial.tier_blocks = capacity * trial.layers();
    Turns turns(trial);
    std::vector<std::vector<std::int32_t>> chats(5);
    std::list<RecordKey> recent;                            // the reference: the most recent first
    const auto use = [&](std::span<const RecordKey> keys) { // so that the first one is the most recent
      for (std::size_t i = keys.size(); i-- > 0;) {
        recent.remove(keys[i]);
        recent.push_front(keys[i]);
      }
    };
    const auto known = [&](std::span<const RecordKey> keys) {
      std::size_t found = 0;
      while (found < keys.size() && std::find(recent.begin(), recent.end(), keys[found]) != recent.end()) ++found;
      return found;
    };
    for (int step = 0; step < 60; ++step) {
      std::vector<std::int32_t>& chat = chats[random.below(chats.size())];
      if (chat.size() > 50) chat.clear();
      for (std::uint64_t more = 1 + random.below(12); more > 0; --more)
        chat.push_back(static_cast<std::int32_t>(random.below(64)));
      std::vector<RecordKey> keys, prompt;
      prefix_keys(std::span(chat).first(chat.size() - 1), each, 0, prompt);
      const std::size_t found = known(prompt);
      use(std::span(prompt).first(found));
      CHECK(turns.run(chat) == static_cast<std::int64_t>(found) * each); // the answer's one token has no KV
      prefix_keys(chat, each, 0, keys);
      const std::size_t first = known(keys);
      use(std::span(keys).first(first)); // they stay while room is made
      const std::size_t end = std::min<std::size_t>(keys.size(), static_cast<std::size_t>(capacity));
      for (std::size_t i = first; i < end; ++i)
        if (recent.size() + end - first > static_cast<std::size_t>(capacity)) recent.pop_back();
      use(std::span(keys).first(end));
    }
  }
}

TEST_CASE("a disk that fails while a request waits for it is a miss and a line, and others run meanwhile") {
  enum class Fault { none, slow, error, cut };
  Random random(76);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.prompts = {std::vector<std::int32_t>(static_cast<std::size_t>(6 * each + 1), 7),
                   std::vector<std::int32_t>(static_cast<std::size_t>(2 * each + 1), 8)};
  trial.outputs.assign(2, 3);
  trial.tier_blocks = 20 * trial.layers();
  sluice_test::DiskModel disk;
  std::int64_t lines = 0;
  const auto open = [&](sluice_test::WatchedFiles::Hook before) {
    return records_on(std::make_unique<sluice_test::WatchedFiles>(disk, std::move(before), nullptr), 1,
                      [&lines](const std::string&) { ++lines; });
  };
  std::vector<std::int32_t> first, second, answer; // what the two requests generate
  {
    trial.records = open(nullptr);
    Turns turns(trial);
    CHECK(turns.run(trial.prompts[0], 3, &first) == 0);
    CHECK(turns.run(trial.prompts[1], 3, &second) == 0);
  }
  const auto files = disk.names;
  CHECK(files.size() == 8);
  for (const Fault fault : {Fault::none, Fault::slow, Fault::error, Fault::cut}) {
    CAPTURE(static_cast<int>(fault));
    disk.names.clear();
    for (const auto& [name, file] : files) disk.names[name] = std::make_shared<sluice_test::DiskModel::File>(*file);
    lines = 0;
    std::promise<void> answers;
    const std::shared_future<void> gate = answers.get_future().share();
    std::atomic<int> reads = 0;
    trial.records = open([&](sluice_test::FileCall call, const std::string&) {
      if (call != sluice_test::FileCall::read) return;
      if (fault == Fault::slow) gate.wait();
      if (reads++ == 4 && fault == Fault::error) { // the third record's head
        disk.fail_at = disk.steps;
        disk.code = EIO;
      }
    });
    if (fault == Fault::cut)
      for (auto& [name, file] : disk.names) file->bytes.resize(20);
    Turns turns(trial);
    const std::uint64_t search = turns.seek(trial.prompts[0]);
    if (fault == Fault::slow) { // the disk answers only after the other request has run
      CHECK_FALSE(turns.machine().sought(search));
      CHECK(turns.run_found(trial.prompts[1], Tokens{0}, 3, &answer) == 0);
      CHECK(answer == second);
      CHECK_FALSE(turns.machine().sought(search));
      // An idle engine wakes when the disk has answered, whether that is before or after it begins to wait.
      answers.set_value();
      Doorbell bell;
      turns.machine().idle_until(never_due, bell);
      CHECK(turns.machine().sought(search));
    }
    const std::int64_t found = turns.run_found(trial.prompts[0], turns.machine().find(search), 3, &answer);
    CHECK(answer == first);
    CHECK(found == (fault == Fault::error ? 2 : fault == Fault::cut ? 0 : 6) * each);
    CHECK(lines == (fault == Fault::error || fault == Fault::cut ? 1 : 0));
    turns.wait_for_disk(); // its thread may still note what was used
    disk.fail_at = -1;
    trial.records = nullptr;
  }
}

TEST_CASE("of a prefix on the disk only as much is read as the request would load") {
  Random random(93);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(6 * each + 1), 7);
  trial.prompts.assign(1, prompt);
  trial.outputs.assign(1, 3);
  trial.tier_blocks = 20 * trial.layers();
  sluice_test::DiskModel disk;
  std::vector<std::int32_t> expected, answer;
  {
    trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk));
    Turns turns(trial);
    (void)turns.run(prompt, 3, &expected);
  }
  TokenRequest request;
  request.tokens = prompt;
  for (const std::int64_t wanted : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{1}, 4 * each, 9 * each}) {
    CAPTURE(wanted);
    const std::int64_t blocks = std::clamp<std::int64_t>((wanted + each - 1) / each, 0, 6);
    trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk));
    Turns turns(trial);
    for (const bool again : {false, true}) {
      bool asked = false;
      const std::uint64_t search = turns.machine().seek(request, [&](const FoundPrefix& there) {
        asked = true;
        const std::int64_t on_host = again ? blocks : 0;
        CHECK(there.below.count() == on_host * each);
        CHECK(there.lower.count() == (6 - on_host) * each);
        CHECK((there.lower_time > Seconds{0}) == (on_host > 0)); // measured, once something has been read
        CHECK(turns.machine().host_tier().blocks == on_host);    // no mutex is held
        return Tokens{wanted};
      });
      CHECK(asked != (again && blocks == 6)); // if the host has it all, no disk is in question
      if (asked && blocks < 6)                // what the question throws arrives here
        CHECK_THROWS_AS((void)turns.machine().seek(
                            request, [](const FoundPrefix&) -> Tokens { throw std::runtime_error("unlucky"); }),
                        std::runtime_error);
      const Tokens found = turns.machine().find(search);
      CHECK(found.count() == blocks * each);
      CHECK(trial.records->totals().read == blocks);
    }
    CHECK(turns.run_found(
              prompt, turns.machine().find(turns.machine().seek(request, [](const FoundPrefix&) { return Tokens{0}; })),
              3, &answer) == blocks * each);
    CHECK(answer == expected);
  }
}

namespace {

/// A disk with a clock: each call that reads takes `each`, and fails if `fails`, which leaves the files alone.
struct ClockedDisk {
  sluice_test::DiskModel disk;
  std::atomic<double> now = 0, each = 0;
  std::atomic<bool> fails = false;
  std::atomic<std::int64_t> calls = 0;
  std::function<void()> before; ///< each read

  [[nodiscard]] std::shared_ptr<RecordStore> records() {
    return records_on(std::make_unique<sluice_test::WatchedFiles>(
        disk,
        [this](sluice_test::FileCall call, const std::string&) {
          if (call != sluice_test::FileCall::read) return;
          if (before) before();
          ++calls;
          now = now + each;
          if (!fails) return;
          disk.fail_at = disk.steps;
          disk.code = EMFILE;
        },
        nullptr));
  }
  /// A trial whose disk has chats 1 to `chats` of 6 blocks, and whose host can have them all.
  [[nodiscard]] RealTrial trial(std::int32_t chats) {
    Random random(97);
    RealTrial trial = random_real_trial(random);
    trial.prompts.clear();
    for (std::int32_t chat = 1; chat <= chats; ++chat) trial.prompts.push_back(chat_of(trial, chat, 6));
    trial.outputs.assign(trial.prompts.size(), 1);
    trial.tier_blocks = 6 * chats * trial.layers();
    trial.disk_clock = [this] { return Seconds{now.load()}; };
    {
      trial.records = records();
      Turns turns(trial);
      for (const std::vector<std::int32_t>& prompt : trial.prompts) (void)turns.run(prompt);
    }
    trial.records = records();
    return trial;
  }
};

} // namespace

TEST_CASE("a disk that was slow once is read again after one measurement, and one that fails is asked no sooner") {
  ClockedDisk disk;
  RealTrial trial = disk.trial(5);
  Turns turns(trial);
  const std::int64_t each = trial.limits.block_tokens.count();
  Seconds expected{0};
  /// Looks a chat up for a request that reads if a record takes less than 5 ms. Returns how many blocks it finds.
  const auto ask = [&](std::int32_t chat) {
    TokenRequest request;
    request.tokens = trial.prompts[static_cast<std::size_t>(chat - 1)];
    const std::uint64_t search = turns.machine().seek(request, [&](const FoundPrefix& found) {
      expected = found.lower_time;
      const bool pays =
          found.lower_time.count() < 5e-3 * static_cast<double>(found.lower.count()) / static_cast<double>(each);
      return pays ? found.below + found.lower : found.below;
    });
    const std::int64_t blocks = turns.machine().find(search).count() / each;
    turns.wait_for_disk();
    return blocks;
  };
  disk.each = 0.25;
  CHECK(ask(1) == 6); // nothing has been read yet
  const std::int64_t slow_calls = disk.calls;
  const double slow_read = 0.25 * static_cast<double>(slow_calls) / 6;
  disk.each = 0.0005;
  CHECK(ask(2) == 0);
  CHECK(expected.count() == doctest::Approx(6 * slow_read));
  CHECK(disk.calls == slow_calls); // too soon to measure
  SUBCASE("it has become fast") {
    disk.now = disk.now + 10;
    CHECK(ask(2) == 0); // and measures
    CHECK(disk.calls > slow_calls);
    CHECK(ask(2) == 6);
    CHECK(expected.count() == doctest::Approx(6 * slow_read / 500));
    CHECK(ask(3) == 6);
  }
  SUBCASE("it has begun to fail") {
    disk.each = 30;
    disk.fails = true;
    disk.now = disk.now + 10;
    CHECK(ask(2) == 0);
    CHECK(disk.calls == slow_calls + 1); // a single record
    for (const std::int32_t chat : {3, 4, 5}) CHECK(ask(chat) == 0);
    CHECK(disk.calls == slow_calls + 1);
    CHECK(expected.count() == doctest::Approx(6 * 30));
    disk.now = disk.now + 10;
    CHECK(ask(2) == 0);
    CHECK(disk.calls == slow_calls + 2);
    disk.fails = false;
    disk.disk.fail_at = -1;
    disk.each = 0.0005;
    disk.now = disk.now + 10;
    CHECK(ask(2) == 0);
    CHECK(ask(2) == 6);
  }
}

TEST_CASE("reads that fail slowly make requests decline") {
  ClockedDisk disk;
  RealTrial trial = disk.trial(2);
  Turns turns(trial);
  disk.each = 0.0005;
  (void)turns.machine().find(turns.seek(trial.prompts[0]));
  disk.each = 30;
  disk.fails = true;
  TokenRequest request;
  request.tokens = trial.prompts[1];
  for (const bool failed : {false, true}) {
    (void)turns.machine().find(turns.machine().seek(request, [&](const FoundPrefix& found) {
      CHECK((found.lower_time > Seconds{6}) == failed);
      return found.below + found.lower;
    }));
    turns.wait_for_disk();
  }
}

TEST_CASE("nobody waits behind the records of a request that has left") {
  ClockedDisk disk;
  RealTrial trial = disk.trial(4);
  std::promise<void> answers;
  const std::shared_future<void> gate = answers.get_future().share();
  std::atomic<bool> stands = false;
  disk.before = [&] {
    if (stands) gate.wait();
  };
  Turns turns(trial);
  disk.each = 0.25;
  (void)turns.machine().find(turns.seek(trial.prompts[0]));
  turns.wait_for_disk();
  const double record = 0.25 * static_cast<double>(disk.calls) / 6;
  stands = true;
  const std::uint64_t first = turns.seek(trial.prompts[1]); // is being read, or will be next
  turns.machine().leave_search(turns.seek(trial.prompts[2]));
  TokenRequest request;
  request.tokens = trial.prompts[3];
  const std::uint64_t last = turns.machine().seek(request, [&](const FoundPrefix& found) {
    CHECK(found.lower_time.count() == doctest::Approx(12 * record)); // the first one's and its own
    return found.below + found.lower;
  });
  answers.set_value();
  for (const std::uint64_t search : {first, last})
    CHECK(turns.machine().find(search).count() == 6 * trial.limits.block_tokens.count());
}

TEST_CASE("a request that leaves while the disk is read for it gives back what it has found") {
  Random random(78);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  trial.prompts.assign(1, std::vector<std::int32_t>(static_cast<std::size_t>(6 * each + 1), 7));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 6 * trial.layers();
  sluice_test::DiskModel disk;
  {
    trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk));
    Turns turns(trial);
    (void)turns.run(trial.prompts[0]);
  }
  trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk));
  Turns turns(trial);
  turns.machine().leave_search(turns.seek(trial.prompts[0])); // read or not
  turns.wait_for_disk();
  const std::vector<std::int32_t> other(trial.prompts[0].size(), 8);
  CHECK(turns.run(other) == 0);
  CHECK(turns.run(other) == 6 * each); // it had the whole tier: nothing was pinned
}

TEST_CASE("a record whose block is found on the host is used, too: others leave the disk before it") {
  Random random(77);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const auto chat = [&](std::int32_t number) { return chat_of(trial, number, 3); };
  trial.prompts.assign(1, chat(0));
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 60 * trial.layers();
  const std::int64_t record = static_cast<std::int64_t>(record_head_bytes + record_tail_bytes) + 4 * each +
                              trial.layers() * kv_block_floats(trial.weights.config.shape, Tokens{each}) * 4;
  sluice_test::DiskModel disk;
  const auto open = [&] { // room for three conversations
    return records_on(std::make_unique<sluice_test::ModelFiles>(disk), 1, {}, 9 * record);
  };
  {
    trial.records = open();
    Turns turns(trial);
    for (std::int32_t number = 0; number < 8; ++number) {
      (void)turns.run(chat(number));
      CHECK(turns.run(chat(0)) == 3 * each);
      turns.wait_for_disk();
    }
  }
  trial.records = open();
  Turns again(trial);
  CHECK(again.run(chat(0)) == 3 * each); // it was never read from the disk
  CHECK(again.run(chat(7)) == 3 * each);
  CHECK(again.run(chat(3)) == 0);
}

TEST_CASE("a request that waits for the disk does not wait until all records of host hits are noted as used") {
  Random random(79);
  RealTrial trial = random_real_trial(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const std::vector<std::int32_t> there(static_cast<std::size_t>(6 * each + 1), 7),
      away(static_cast<std::size_t>(3 * each + 1), 8);
  trial.prompts = {there};
  trial.outputs.assign(1, 1);
  trial.tier_blocks = 60 * trial.layers();
  sluice_test::DiskModel disk;
  {
    trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk));
    Turns turns(trial);
    (void)turns.run(there);
    (void)turns.run(away);
    turns.wait_for_disk();
  }
  std::promise<void> asked;
  const std::shared_future<void> gate = asked.get_future().share();
  std::atomic<bool> watches = false;
  std::atomic<int> touched = 0, before = -1;
  trial.records = records_on(std::make_unique<sluice_test::WatchedFiles>(
      disk,
      [&](sluice_test::FileCall call, const std::string&) {
        if (!watches) return;
        if (call == sluice_test::FileCall::read && before < 0) before = touched.load();
        if (call == sluice_test::FileCall::touch && touched++ == 0) gate.wait(); // until all requests have asked
      },
      nullptr));
  Turns turns(trial);
  CHECK(turns.run(there) == 6 * each); // from the disk to the host
  turns.wait_for_disk();
  watches = true;
  for (int hit = 0; hit < 20; ++hit) (void)turns.machine().find(turns.seek(there));
  const std::uint64_t search = turns.seek(away);
  asked.set_value();
  CHECK(turns.machine().find(search).count() == 3 * each);
  CHECK(before >= 0);
  CHECK(before < 20);
  turns.wait_for_disk();
  CHECK(touched >= 20 * 6); // later all are noted
}

TEST_CASE(
    "a new process finds on the disk all that an earlier one has computed, and nothing that is broken or foreign") {
  Random random(71);
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions(random, 3);
    RealTrial& trial = sessions.trial;
    const std::int64_t each = trial.limits.block_tokens.count();
    std::int64_t prompts = 0; // tokens of all prompts that can be found
    for (const auto& prompt : trial.prompts) prompts += (static_cast<std::int64_t>(prompt.size()) - 1) / each * each;
    sluice_test::DiskModel disk;
    std::atomic<int> lines = 0;
    const auto run = [&]<class E>(std::uint64_t digest, std::int64_t tier_blocks, const E* /*type*/) {
      trial.records = records_on(std::make_unique<sluice_test::ModelFiles>(disk), digest,
                                 [&lines](const std::string&) { ++lines; });
      trial.tier_blocks = tier_blocks;
      const RealResult result = run_real<E>(trial, trial.all());
      trial.records = nullptr;
      check_identity(result, sessions.expected);
      return result.tier;
    };
    const std::int64_t plenty = trial.all() * 2;
    constexpr const Engine<>* plain = nullptr;
    constexpr const Chaos* chaos = nullptr;
    CHECK(run(1, plenty, plain).from_disk == 0);
    const HostTierCounts again = run(1, plenty, chaos);
    CHECK(again.found == prompts);
    CHECK(again.from_disk > 0);
    CHECK(run(1, trial.layers(), chaos).blocks <= 1); // a tier of one block: whatever it finds is right
    CHECK(lines == 0);
    CHECK(run(2, plenty, chaos).from_disk == 0);
    for (auto& [name, file] : disk.names) file->bytes[random.below(file->bytes.size())] ^= std::byte{0x10};
    CHECK(run(1, plenty, chaos).from_disk == 0);
    CHECK(lines > 0);
  }
}

TEST_CASE("a request of another salt finds nothing") {
  Random random(72);
  const RealTrial trial = random_real_trial(random);
  std::vector<RecordKey> one, other;
  std::vector<std::int32_t> tokens(64, 5);
  prefix_keys(tokens, trial.limits.block_tokens.count(), 1, one);
  prefix_keys(tokens, trial.limits.block_tokens.count(), 2, other);
  REQUIRE(one.size() == 16);
  for (const RecordKey& key : one) CHECK(std::find(other.begin(), other.end(), key) == other.end());
}

} // namespace sluice::testing
