// Puts the accesses of single threads together again as a warp would have made them.
//
// A thread runs alone from one barrier to the next, so the lanes of a warp come one after the
// other. The k-th time that a lane is at an instruction since the last barrier belongs to the k-th
// time of the others: exact where all turns of a loop are made by the same lanes or by fewer and
// fewer; where an inner loop has another number of turns for each lane, lanes may be counted
// together that would have come apart. Evaluated at each barrier.
#include "warptape/kernels/simt/counters.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "warptape/kernels/simt/access_counter.h"
#include "warptape/kernels/simt/queues.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {

bool counting = false;

namespace {

constexpr uint64_t kSector = 32, kBank = 4, kBanks = 32;

struct Request {
  unsigned lanes = 0;  // a bit each
  uint64_t address[32];
};

// An instruction: its place, and what it does there. One place can load and store (a copy).
struct Instruction {
  const void* code = nullptr;
  Loc at{nullptr, 0};
  Touch kind = Touch::read;
  bool shared = false;
  size_t bytes = 0;
  SimtAccess sum{};  // of the kernel that is counted
  std::vector<std::vector<Request>> warps = std::vector<std::vector<Request>>(kWarps);
  // Executions by each thread since the barrier.
  std::vector<uint32_t> turns = std::vector<uint32_t>(kMaxThreads);
};

struct Kernel {
  SimtKernelCounts sum;
  std::vector<Instruction> instructions;
  std::map<std::tuple<const char*, unsigned, unsigned>, uint64_t> waits;  // file, line, operation
  // Of the first block, since its last barrier.
  std::vector<SimtWarpWork> phase;
  // Of the place and what is done there: an index above.
  std::map<std::tuple<const void*, const char*, unsigned, Touch, bool, size_t>, size_t> index;
};

struct Counter {
  std::vector<Kernel> kernels;
  std::map<std::string, size_t> by_title;
  Kernel* now = nullptr;
  std::unordered_set<uint64_t> read, written;  // sectors of this launch
  const void* last_code = nullptr;             // consecutive lanes are at the same place
  size_t last = 0;
};
Counter* counter = nullptr;
std::mutex counter_mutex;

unsigned count_distinct(uint64_t* first, unsigned n) {
  std::sort(first, first + n);
  return unsigned(std::unique(first, first + n) - first);
}

// Sectors of a request, and how few would do.
void add_sectors(const Request& r, size_t bytes, SimtAccess& sum,
                 std::unordered_set<uint64_t>* seen, std::unordered_set<uint64_t>* seen_too) {
  std::vector<uint64_t> sectors;
  uint64_t addresses[32];
  unsigned n = 0;
  for (unsigned rest = r.lanes; rest; rest &= rest - 1) {
    const uint64_t a = r.address[__builtin_ctz(rest)];
    addresses[n++] = a;
    for (uint64_t s = a / kSector; s <= (a + bytes - 1) / kSector; ++s) sectors.push_back(s);
  }
  const unsigned found = count_distinct(sectors.data(), unsigned(sectors.size()));
  sum.units += found;
  for (unsigned i = 0; i < found; ++i) {
    if (seen) seen->insert(sectors[i]);
    if (seen_too) seen_too->insert(sectors[i]);
  }
  const uint64_t different = count_distinct(addresses, n) * uint64_t(bytes);
  sum.least += std::min<uint64_t>(found, (different + kSector - 1) / kSector);
}

// Accesses of 8 bytes are served a half warp at a time, of 16 bytes a quarter. In each the bank
// with most different words says how many passes there are; an atomic takes one a lane.
void add_wavefronts(const Request& r, size_t bytes, bool atomic, SimtAccess& sum) {
  const unsigned group = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  for (unsigned first = 0; first < 32; first += group) {
    std::vector<uint64_t> words[kBanks];
    uint64_t all = 0;
    for (unsigned lane = first; lane < first + group; ++lane) {
      if (!(r.lanes >> lane & 1)) continue;
      const uint64_t a = r.address[lane];
      for (uint64_t w = a / kBank; w <= (a + bytes - 1) / kBank; ++w)
        words[w % kBanks].push_back(atomic ? w << 5 | lane : w);
    }
    size_t most = 0;
    for (std::vector<uint64_t>& bank : words) {
      const unsigned n = count_distinct(bank.data(), unsigned(bank.size()));
      most = std::max<size_t>(most, n);
      all += n;
    }
    sum.units += most;
    sum.least += (all + kBanks - 1) / kBanks;
  }
}

SimtRequest drawn(const Request& r, bool shared) {
  SimtRequest out{.lanes = r.lanes};
  uint64_t base = ~uint64_t(0);
  for (unsigned rest = r.lanes; rest; rest &= rest - 1)
    base = std::min(base, r.address[__builtin_ctz(rest)] / kSector * kSector);
  if (shared) base = reinterpret_cast<uintptr_t>(exec().shared);
  for (unsigned rest = r.lanes; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(__builtin_ctz(rest));
    out.offset[lane] = r.address[lane] - base;
  }
  return out;
}

void evaluate(Instruction& in) {
  Counter& c = *counter;
  const bool atomic = in.kind == Touch::atomic;
  for (size_t w = 0; w < in.warps.size(); ++w) {
    std::vector<Request>& warp = in.warps[w];
    if (w < c.now->phase.size())
      (in.shared ? c.now->phase[w].shared : c.now->phase[w].device) += uint32_t(warp.size());
    for (const Request& r : warp) {
      if (in.sum.requests == 0) in.sum.first = drawn(r, in.shared);
      ++in.sum.requests;
      in.sum.lanes += unsigned(__builtin_popcount(r.lanes));
      if (in.shared)
        add_wavefronts(r, in.bytes, atomic, in.sum);
      else
        add_sectors(r, in.bytes, in.sum, in.kind != Touch::write ? &c.read : nullptr,
                    in.kind != Touch::read ? &c.written : nullptr);
    }
    warp.clear();
  }
  std::fill(in.turns.begin(), in.turns.end(), 0);
}

void evaluate_all() {
  for (Instruction& in : counter->now->instructions) evaluate(in);
}

}  // namespace

void count_grid_begin() {
  if (stepping) record_grid_begin();
  Counter& c = *counter;
  const GridLaunch& g = *exec().grid;
  const std::string title = kernel_title(g);
  const auto [at, added] = c.by_title.emplace(title, c.kernels.size());
  if (added) {
    c.kernels.emplace_back();
    c.kernels.back().sum.kernel = title;
  }
  c.now = &c.kernels[at->second];
  c.last_code = nullptr;
  if (++c.now->sum.launches > 1) return;
  c.now->sum.grid = {g.grid.x, g.grid.y, g.grid.z};
  c.now->sum.block = {g.block.x, g.block.y, g.block.z};
}

namespace {

// Ends the phase of the first block, if that is the one that runs.
void end_phase(const std::string& barrier) {
  Kernel& k = *counter->now;
  if (k.phase.empty()) return;
  if (++k.sum.all_phases <= kSimtPhases) k.sum.phases.push_back({k.phase, barrier});
  std::fill(k.phase.begin(), k.phase.end(), SimtWarpWork{});
}

void end_block() {
  evaluate_all();
  Kernel& k = *counter->now;
  if (k.phase.empty()) return;
  const bool idle = std::none_of(k.phase.begin(), k.phase.end(),
                                 [](const SimtWarpWork& w) { return w.all() > 0; });
  if (!idle) end_phase("");
  k.phase.clear();
}

}  // namespace

void count_block_begin(unsigned threads) {
  if (stepping) record_block_begin();
  end_block();
  Kernel& k = *counter->now;
  if (k.sum.blocks++ == 0) k.phase.resize((threads + 31) / 32);
  k.sum.threads += threads;
}

void count_barrier() {
  if (stepping) record_barrier();
  evaluate_all();
  Kernel& k = *counter->now;
  const Exec& x = exec();
  ++k.sum.barriers;
  k.waits[{x.bar_at.file, x.bar_at.line, x.bar_op}] += x.warps_used;
  end_phase(at(x.bar_at));
}

void count_exchange(unsigned warp, uint32_t lanes, unsigned op, Loc at) {
  if (stepping) record_exchange(warp, lanes, op, at);
  Kernel& k = *counter->now;
  ++k.waits[{at.file, at.line, op}];
  if (warp < k.phase.size()) ++k.phase[warp].exchanges;
}

void count_grid_end() {
  if (stepping) record_grid_end();
  Counter& c = *counter;
  end_block();
  c.now->sum.read += c.read.size() * kSector;
  c.now->sum.written += c.written.size() * kSector;
  c.read.clear();
  c.written.clear();
}

void count_access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
                  const CountedPlace& place) {
  if (stepping) record_access(thread, p, bytes, kind, shared, place);
  Counter& c = *counter;
  Kernel& k = *c.now;
  if (shared)  // a block's arrays are known while it runs
    k.sum.shared_bytes =
        std::max<uint64_t>(k.sum.shared_bytes, exec().static_bytes + exec().grid->shared_bytes);
  const auto same = [&](const Instruction& in) {
    return in.kind == kind && in.shared == shared && in.bytes == bytes;
  };
  size_t i = c.last;
  if (!place.code || place.code != c.last_code || !same(k.instructions[i])) {
    const auto [at, added] =
        k.index.emplace(std::tuple(place.code, place.at.file, place.at.line, kind, shared, bytes),
                        k.instructions.size());
    if (added) {
      Instruction in;
      in.code = place.code, in.at = place.at;
      in.kind = kind, in.shared = shared, in.bytes = bytes;
      k.instructions.push_back(std::move(in));
    }
    i = at->second;
    c.last_code = place.code, c.last = i;
  }
  Instruction& in = k.instructions[i];
  std::vector<Request>& warp = in.warps[thread / 32];
  const uint32_t turn = in.turns[thread]++;
  if (turn >= warp.size()) warp.resize(turn + 1);
  warp[turn].lanes |= 1u << (thread % 32);
  warp[turn].address[thread % 32] = reinterpret_cast<uintptr_t>(p);
}

namespace {

SimtAccess finished(const Instruction& in, const std::vector<std::string>& where) {
  SimtAccess a = in.sum;
  a.kind = in.kind == Touch::read     ? SimtAccess::Kind::load
           : in.kind == Touch::atomic ? SimtAccess::Kind::atomic
                                      : SimtAccess::Kind::store;
  a.shared = in.shared;
  a.bytes = unsigned(in.bytes);
  a.where = where;
  return a;
}

std::vector<std::vector<std::string>> places_of(const std::vector<Instruction>& all) {
  std::vector<const void*> codes;
  for (const Instruction& in : all) codes.push_back(in.code);
  std::vector<std::vector<std::string>> where = source_frames(codes);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].code) where[i] = {strf("%s:%u", all[i].at.file, all[i].at.line)};
  return where;
}

SimtKernelCounts finished(Kernel& k, bool with_lines) {
  std::vector<std::vector<std::string>> where(k.instructions.size());
  if (with_lines) where = places_of(k.instructions);
  for (size_t i = 0; i < k.instructions.size(); ++i)
    if (k.instructions[i].sum.requests > 0)
      k.sum.accesses.push_back(finished(k.instructions[i], where[i]));
  std::stable_sort(k.sum.accesses.begin(), k.sum.accesses.end(),
                   [](const SimtAccess& a, const SimtAccess& b) { return a.where < b.where; });
  for (const auto& [place, warps] : k.waits) {
    const auto& [file, line, op] = place;
    k.sum.waits.push_back({op_name(op), strf("%s:%u", file, line), warps});
  }
  return std::move(k.sum);
}

profiler::Accesses counted_so_far() {
  if (lazy()) wait_quietly();
  const std::lock_guard lock(counter_mutex);
  profiler::Accesses sum;
  if (!counter) return sum;
  for (const Kernel& k : counter->kernels) {
    for (const Instruction& in : k.instructions) {
      sum.requests += double(in.sum.requests), sum.lanes += double(in.sum.lanes);
      (in.shared ? sum.passes : sum.sectors) += double(in.sum.units);
      (in.shared ? sum.least_passes : sum.least_sectors) += double(in.sum.least);
    }
  }
  return sum;
}

void drop_counts() {
  if (lazy()) wait_quietly();
  const std::lock_guard lock(counter_mutex);
  counting = false;
  delete std::exchange(counter, nullptr);
}

}  // namespace

constinit const profiler::AccessCounter access_counter = {simt_start_counting, counted_so_far,
                                                          drop_counts};

}  // namespace simt_runtime

bool simt_can_count() { return simt_runtime::race_hooks != nullptr; }

void simt_start_counting() {
  using namespace simt_runtime;
  if (!simt_can_count())
    throw UsageError("simt counts accesses only where its kernels are instrumented (flavour race)");
  const SimtUnprotect nothing_queued;
  const std::lock_guard lock(counter_mutex);
  if (counter) throw UsageError("simt counts accesses already, for somebody else");
  counter = new Counter;
  counting = true;
}

std::vector<SimtKernelCounts> simt_stop_counting(bool with_lines) {
  using namespace simt_runtime;
  const SimtUnprotect nothing_queued;
  const std::lock_guard lock(counter_mutex);
  counting = false;
  std::vector<SimtKernelCounts> all;
  if (!counter) return all;
  for (Kernel& k : counter->kernels) all.push_back(finished(k, with_lines));
  delete counter;
  counter = nullptr;
  return all;
}

}  // namespace wt
