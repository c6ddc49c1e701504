// Puts the accesses of single threads together again, as counters.cpp does, but keeps each of them.
//
// A thread runs alone from one wait to the next. What the lanes of a warp did between two waits are
// lists, and the steps are made of them as a warp would: lanes that stand at the same instruction
// go together, and one that others still come to waits for those.
#include "warptape/kernels/simt/steps.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "warptape/kernels/simt/access_counter.h"
#include "warptape/kernels/simt/counters.h"
#include "warptape/kernels/simt/queues.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {
namespace {

// An access of one lane. `instruction`: equal numbers are the same instruction.
struct Touched {
  uint32_t instruction;
  uint64_t offset;
  SimtValue value;
  uint32_t memory;
};
struct Recorded {
  const void* code;
  Loc at;
  Touch kind;
  bool shared;
  size_t bytes;
};

SimtValue value_at(const void* p, size_t bytes) {
  SimtValue v{};
  std::memcpy(&v, p, std::min(bytes, sizeof v));
  return v;
}

class StepRecorder {
 public:
  StepRecorder(uint64_t launch, uint64_t block) : launch_(launch) { out_.number = block; }

  void grid_begin() {
    in_launch_ = launches_++ == launch_;
    blocks_ = 0;
    if (!in_launch_) return;
    const GridLaunch& g = *exec().grid;
    out_.kernel = kernel_title(g);
    out_.grid = {g.grid.x, g.grid.y, g.grid.z};
    out_.block = {g.block.x, g.block.y, g.block.z};
  }
  void block_begin() {
    flush_all();
    in_block_ = in_launch_ && blocks_++ == out_.number;
  }
  void grid_end() {
    flush_all();
    in_launch_ = in_block_ = false;
  }

  void access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
              const CountedPlace& place) {
    if (!in_block_) return;
    settle();
    const auto key = std::tuple(place.code, place.at.file, place.at.line, kind, shared, bytes);
    const auto [at, added] = index_.emplace(key, uint32_t(instructions_.size()));
    if (added) instructions_.push_back({place.code, place.at, kind, shared, bytes});
    Touched t{at->second, 0, kind == Touch::read ? value_at(p, bytes) : SimtValue{}, 0};
    if (shared)
      locate_shared(static_cast<const char*>(p), t);
    else
      locate(p, t);
    if (kind == Touch::write || kind == Touch::atomic) stored_ = p, storing_ = thread;
    lanes_[thread].push_back(t);
  }

  // The hook of a store comes before the store: its value is there once anybody does something
  // else.
  void settle() {
    if (!stored_) return;
    Touched& t = lanes_[storing_].back();
    t.value = value_at(std::exchange(stored_, nullptr), instructions_[t.instruction].bytes);
  }

  void exchange(unsigned warp, uint32_t lanes, unsigned op, Loc at) {
    if (!in_block_) return;
    flush(warp);
    add_wait(SimtStep::Kind::exchange, warp, lanes, op, at, exec().warps[warp].in);
  }
  void barrier() {
    if (!in_block_) return;
    flush_all();
    const Exec& x = exec();
    add_wait(SimtStep::Kind::barrier, 0, ~0u, x.bar_op, x.bar_at);
  }

  SimtSteps finish() {
    std::vector<const void*> codes;
    for (const Recorded& r : instructions_) codes.push_back(r.code);
    std::vector<std::vector<std::string>> frames = source_frames(codes);
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const Recorded& r = instructions_[i];
      out_.places.push_back(r.code ? std::move(frames[i])
                                   : std::vector<std::string>{strf("%s:%u", r.at.file, r.at.line)});
    }
    out_.memories = uint32_t(memories_.size());
    return std::move(out_);
  }

 private:
  // From the beginning of its array; what is between arrays is the executor's.
  static void locate_shared(const char* p, Touched& t) {
    t.offset = uint64_t(p - exec().shared);
    for (size_t i = 0; i < exec().arrays.size(); ++i) {
      const SharedArray& a = exec().arrays[i];
      if (p >= a.data && p < a.data + a.bytes)
        t.offset = uint64_t(p - a.data), t.memory = uint32_t(i);
    }
  }
  void locate(const void* p, Touched& t) {
    Allocation a;
    const char* const at = static_cast<const char*>(p);
    if (!find_allocation(p, a)) a = {at, 0};
    t.memory =
        memories_.emplace(std::pair(a.begin, a.number), uint32_t(memories_.size())).first->second;
    t.offset = uint64_t(at - a.begin);
  }

  void add(SimtStep s) {
    if (out_.steps.size() < kMostSimtSteps)
      out_.steps.push_back(std::move(s));
    else
      out_.cut = true;
  }
  void add_wait(SimtStep::Kind kind, unsigned warp, uint32_t lanes, unsigned op, Loc at,
                const uint64_t* given = nullptr) {
    SimtStep s{.kind = kind, .warp = warp, .lanes = lanes, .what = op_name(op)};
    for (unsigned lane = 0; given && lane < 32; ++lane) s.value[lane] = {given[lane], 0};
    const auto [place, added] =
        index_.emplace(std::tuple((const void*)nullptr, at.file, at.line, Touch::read, false, 0u),
                       uint32_t(instructions_.size()));
    if (added) instructions_.push_back({nullptr, at, Touch::read, false, 0});
    s.place = place->second;
    add(std::move(s));
  }

  void flush_all() {
    for (unsigned w = 0; w < kWarps; ++w) flush(w);
  }
  void flush(unsigned warp) {
    settle();
    Lists lists;
    for (unsigned lane = 0; lane < 32; ++lane) lists.take(lane, lanes_[warp * 32 + lane]);
    while (lists.left) add(step(warp, lists));
  }

  // What is left of each lane's list, and how often each instruction is in it.
  struct Lists {
    std::vector<Touched> of[32];
    size_t next[32] = {};
    std::unordered_map<uint32_t, uint32_t> rest[32];
    uint32_t left = 0;  // lanes that have something
    void take(unsigned lane, std::vector<Touched>& from) {
      of[lane].swap(from);
      from.clear();
      for (const Touched& t : of[lane]) ++rest[lane][t.instruction];
      if (!of[lane].empty()) left |= 1u << lane;
    }
    uint32_t head(unsigned lane) const { return of[lane][next[lane]].instruction; }
    const Touched& pop(unsigned lane) {
      const Touched& t = of[lane][next[lane]++];
      --rest[lane][t.instruction];
      if (next[lane] == of[lane].size()) left &= ~(1u << lane);
      return t;
    }
    // Whether a lane that stands elsewhere comes to this instruction yet.
    bool awaited(uint32_t instruction) const {
      for (uint32_t l = left; l; l &= l - 1) {
        const unsigned lane = unsigned(__builtin_ctz(l));
        if (head(lane) == instruction) continue;
        const auto at = rest[lane].find(instruction);
        if (at != rest[lane].end() && at->second) return true;
      }
      return false;
    }
    uint32_t chosen() const {
      for (uint32_t l = left; l; l &= l - 1)
        if (const uint32_t i = head(unsigned(__builtin_ctz(l))); !awaited(i)) return i;
      return head(unsigned(__builtin_ctz(left)));
    }
  };

  SimtStep step(unsigned warp, Lists& lists) {
    const uint32_t i = lists.chosen();
    const Recorded& r = instructions_[i];
    SimtStep s{.kind = r.kind == Touch::read     ? SimtStep::Kind::load
                       : r.kind == Touch::write  ? SimtStep::Kind::store
                       : r.kind == Touch::atomic ? SimtStep::Kind::atomic
                                                 : SimtStep::Kind::copy,
               .shared = r.shared,
               .warp = warp,
               .bytes = unsigned(r.bytes),
               .place = i};
    for (uint32_t l = lists.left; l; l &= l - 1) {
      const unsigned lane = unsigned(__builtin_ctz(l));
      if (lists.head(lane) != i) continue;
      const Touched& t = lists.pop(lane);
      s.lanes |= 1u << lane;
      s.offset[lane] = t.offset, s.memory[lane] = t.memory, s.value[lane] = t.value;
    }
    return s;
  }

  uint64_t launch_, launches_ = 0, blocks_ = 0;
  bool in_launch_ = false, in_block_ = false;
  std::vector<Recorded> instructions_;
  std::map<std::tuple<const void*, const char*, unsigned, Touch, bool, size_t>, uint32_t> index_;
  std::map<std::pair<const char*, uint64_t>, uint32_t> memories_;
  std::vector<Touched> lanes_[kMaxThreads];
  const void* stored_ = nullptr;  // by `storing_`, just now
  unsigned storing_ = 0;
  SimtSteps out_;
};

std::unique_ptr<StepRecorder> recorder;

}  // namespace

bool stepping = false;
void record_grid_begin() { recorder->grid_begin(); }
void record_block_begin() { recorder->block_begin(); }
void record_grid_end() { recorder->grid_end(); }
void record_barrier() { recorder->barrier(); }
void record_exchange(unsigned warp, uint32_t lanes, unsigned op, Loc at) {
  recorder->exchange(warp, lanes, op, at);
}
void record_access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
                   const CountedPlace& place) {
  recorder->access(thread, p, bytes, kind, shared, place);
}

}  // namespace simt_runtime

void simt_start_steps(uint64_t launch, uint64_t block) {
  simt_start_counting();
  simt_runtime::recorder = std::make_unique<simt_runtime::StepRecorder>(launch, block);
  simt_runtime::stepping = true;
}

SimtSteps simt_stop_steps() {
  (void)simt_stop_counting(false);
  simt_runtime::stepping = false;
  SimtSteps steps;
  if (simt_runtime::recorder) steps = simt_runtime::recorder->finish();
  simt_runtime::recorder.reset();
  return steps;
}

}  // namespace wt
