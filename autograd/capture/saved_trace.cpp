// What a function launches, written down while it runs.
#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "warptape/autograd/capture/saved_program.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"

namespace wt::detail {
namespace {

// Bytes that launches have written.
class WrittenBytes {
 public:
  void add(i64 begin, i64 end) {
    auto it = all_.upper_bound(begin);
    if (it != all_.begin() && std::prev(it)->second >= begin) --it;
    while (it != all_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = all_.erase(it);
    }
    all_[begin] = end;
  }
  bool has_all(i64 begin, i64 end) const {
    const auto it = all_.upper_bound(begin);
    return it != all_.begin() && std::prev(it)->second >= end;
  }
  bool has_some(i64 begin, i64 end) const {
    const auto it = all_.lower_bound(end);
    return it != all_.begin() && std::prev(it)->second > begin;
  }

 private:
  std::map<i64, i64> all_;  // disjoint: begin to end
};

// A block that the function took, or an input.
struct Block {
  i64 bytes;
  int first = -1, last = -1;  // calls that touch it; -1: none
  u64 offset = 0;             // in the pool
};
struct LiveBlock {
  i64 bytes;
  int block;  // of all
  WrittenBytes written;
};

// An operand's place before the pool is planned.
struct Reference {
  enum class Where : u8 { absent, block, outside, snapshot, empty } where = Where::absent;
  int block = 0;  // or the snapshot
  u64 offset = 0;
  const char* outside = nullptr;
};

class Trace final : public profiler::Observer {
 public:
  Trace(Device d, const std::vector<Tensor>& inputs) : device_(d) {
    for (const Tensor& t : inputs) {
      const i64 bytes = t.impl()->storage->bytes;
      if (!t.impl()->storage->data || bytes == 0) continue;
      LiveBlock& b = add_block(t.impl()->storage->data, bytes);
      b.written.add(0, bytes);
      blocks_[size_t(b.block)].first = blocks_[size_t(b.block)].last = 0;
    }
  }

  void begin(const profiler::Range& r) noexcept override {
    if (!is_mine() || r.kind != profiler::Kind::kernel || !(r.device == device_)) return;
    if (depth_++ || !failed_.empty()) return;  // within another kernel
    try {
      record(r);
    } catch (const std::exception& e) {
      failed_ = e.what();
    }
  }
  void end(const profiler::Range& r) noexcept override {
    if (is_mine() && r.kind == profiler::Kind::kernel && r.device == device_) --depth_;
  }
  void allocated(const profiler::Memory& m) noexcept override {
    const void* data = static_cast<const Storage*>(m.storage)->data;  // its other fields come later
    if (is_mine() && m.device == device_ && data) add_block(data, m.bytes);
  }
  void released(const profiler::Memory& m) noexcept override {
    const char* data = static_cast<const char*>(static_cast<const Storage*>(m.storage)->data);
    if (!(m.device == device_) || !data) return;
    if (is_mine()) live_.erase(data);
    for (const auto& [begin, end] : outside_)
      if (begin < data + m.bytes && data < end && failed_.empty())
        failed_ = "a tensor that it read was freed before its end";
  }

  // When the function is over and nobody watches any more.
  SavedProgram finish(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results);
  const std::string& failed() const { return failed_; }

 private:
  struct Recorded {
    ProgramCall call;
    std::vector<Reference> places;
  };
  class Operands;

  bool is_mine() const { return std::this_thread::get_id() == thread_; }
  LiveBlock& add_block(const void* data, i64 bytes) {
    blocks_.push_back({bytes});
    LiveBlock& b = live_[static_cast<const char*>(data)];
    b = {bytes, int(blocks_.size()) - 1, {}};
    return b;
  }
  void record(const profiler::Range& r);
  Reference refer(const void* data, i64 bytes, bool written);
  void plan(SavedProgram& to);
  void read_constants(SavedProgram& to);
  ProgramPlace place_of(const Reference& r) const;
  void fail(const std::string& why) {
    if (failed_.empty()) failed_ = why;
  }

  const Device device_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::map<const char*, LiveBlock> live_;
  std::vector<Block> blocks_;
  std::vector<std::pair<const char*, const char*>> outside_;  // ranges that were there before
  std::vector<std::vector<char>> snapshots_;                  // made on the host
  std::vector<Recorded> calls_;
  std::string failed_;
  int depth_ = 0;
};

// Notes where a launch's operands lie.
class Trace::Operands final : public LaunchOperands {
 public:
  Operands(Trace& t, Recorded& r) : trace_(t), recorded_(r) {}
  // Those that are read are seen as they are before the launch writes, in place too.
  void refer() {
    for (const bool written : {false, true})
      for (const Seen& s : seen_)
        if (s.written == written)
          recorded_.places[s.operand] = trace_.refer(s.data, s.bytes, written);
  }

 private:
  struct Seen {
    size_t operand;
    const void* data;
    i64 bytes;
    bool written;
  };
  void view(View& v, bool written) override {
    if (!v) return recorded_.places.emplace_back(), void();
    v.geometry = &recorded_.call.geometries.emplace_back(*v.geometry);
    if (!sound_geometry(*v.geometry)) trace_.fail("it has negative strides");
    add(v.data, extent_of(*v.geometry) * item_size(v.dtype()), written);
  }
  void memory(void*& data, i64 elements, DType t, bool written) override {
    if (!data) return recorded_.places.emplace_back(), void();
    add(data, elements * item_size(t), written);
  }
  void add(const void* data, i64 bytes, bool written) {
    recorded_.places.push_back({Reference::Where::empty});
    if (bytes > 0) seen_.push_back({recorded_.places.size() - 1, data, bytes, written});
  }
  Trace& trace_;
  Recorded& recorded_;
  std::vector<Seen> seen_;
};

Reference Trace::refer(const void* data, i64 bytes, bool written) {
  using Where = Reference::Where;
  const char* const at = static_cast<const char*>(data);
  auto it = live_.upper_bound(at);
  if (it == live_.begin() || at >= (--it)->first + it->second.bytes) {
    if (written) fail("it writes a tensor that was there before");
    outside_.emplace_back(at, at + bytes);
    return {Where::outside, 0, 0, at};
  }
  LiveBlock& live = it->second;
  const i64 begin = at - it->first, end = begin + bytes;
  if (end > live.bytes) fail("it reads beyond a block");
  if (written) {
    live.written.add(begin, end);
  } else if (!live.written.has_all(begin, end)) {
    if (device_.kind != DeviceKind::cpu || live.written.has_some(begin, end)) {
      fail("it reads memory that no kernel has written");
    } else {  // the host has: tensor({1, 2, 3})
      snapshots_.emplace_back(at, at + bytes);
      return {Where::snapshot, int(snapshots_.size()) - 1};
    }
  }
  Block& b = blocks_[size_t(live.block)];
  const int now = int(calls_.size());
  if (b.first < 0) b.first = now;
  b.last = now;
  return {Where::block, live.block, u64(begin)};
}

void Trace::record(const profiler::Range& r) {
  const auto refuse = [&](const std::string& why) {
    failed_ = str("[", r.op ? r.op->name : r.name, "] a file cannot hold this: ", why, "\n  at ",
                  describe_place(frame_of(r.frame)));
  };
  Recorded now{{any_launch(r.name, r.args), r.op ? r.op->name : ""}, {}};
  if (!now.call.launch)
    return refuse(str("the kernel '", r.name, "' is not one that can be saved"));
  if (const char* why = now.call.launch->why_not()) return refuse(why);
  Operands operands(*this, now);
  now.call.launch->operands(operands);
  operands.refer();
  if (!failed_.empty()) return refuse(std::string(failed_));
  calls_.push_back(std::move(now));
}

// Lays blocks that are never in use at once over each other, large ones first.
void Trace::plan(SavedProgram& to) {
  std::vector<Block*> order, placed;
  for (Block& b : blocks_)
    if (b.first >= 0 && b.bytes > 0) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  const auto rounded = [](u64 n) {
    return (n + kSavedAlignment - 1) / kSavedAlignment * kSavedAlignment;
  };
  for (Block* b : order) {
    u64 at = 0;
    for (const Block* other : placed) {  // by offset
      if (other->last < b->first || b->last < other->first) continue;
      if (at + u64(b->bytes) <= other->offset) break;
      at = std::max(at, rounded(other->offset + u64(other->bytes)));
    }
    b->offset = at;
    to.pool_bytes = std::max(to.pool_bytes, rounded(at + u64(b->bytes)));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), b,
                         [](const Block* x, const Block* y) { return x->offset < y->offset; }),
        b);
  }
}

// Of ranges that overlap one is made.
void Trace::read_constants(SavedProgram& to) {
  std::sort(outside_.begin(), outside_.end());
  std::vector<std::pair<const char*, const char*>> merged;
  for (const auto& r : outside_)
    if (!merged.empty() && r.first < merged.back().second)
      merged.back().second = std::max(merged.back().second, r.second);
    else
      merged.push_back(r);
  outside_ = std::move(merged);
  for (const auto& [begin, end] : outside_) {
    ProgramConstant& c = to.constants.emplace_back();
    c.lead = u32(reinterpret_cast<u64>(begin) % kSavedAlignment);
    c.bytes.resize(size_t(end - begin));
    copy_bytes(c.bytes.data(), Device::cpu(), begin, device_, end - begin);
  }
  for (std::vector<char>& s : snapshots_) to.constants.push_back({0, std::move(s)});
}

ProgramPlace Trace::place_of(const Reference& r) const {
  using Where = ProgramPlace::Where;
  switch (r.where) {
    case Reference::Where::absent:
      return {};
    case Reference::Where::empty:
      return {Where::empty};
    case Reference::Where::block:
      return {Where::pool, 0, blocks_[size_t(r.block)].offset + r.offset};
    case Reference::Where::snapshot:
      return {Where::constant, u32(outside_.size()) + u32(r.block)};
    case Reference::Where::outside:
      break;
  }
  auto it = std::upper_bound(outside_.begin(), outside_.end(), std::pair(r.outside, r.outside),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
  --it;
  return {Where::constant, u32(it - outside_.begin()), u64(r.outside - it->first)};
}

SavedProgram Trace::finish(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results) {
  SavedProgram p;
  std::vector<Reference> ends;
  const auto note = [&](const Tensor& t, bool written) {
    const Geometry& g = t.impl()->geometry;
    if (!sound_geometry(g)) fail("it returns a tensor with negative strides");
    Reference r{Reference::Where::empty};
    if (g.numel > 0) r = refer(t.impl()->data, extent_of(g) * item_size(g.dtype), written);
    ends.push_back(r);
  };
  for (const Tensor& t : results) note(t, false);
  for (const Tensor& t : inputs) {  // are known, and their last use is
    const auto live = live_.find(static_cast<const char*>(t.impl()->storage->data));
    const bool empty = t.numel() == 0 || live == live_.end();
    ends.push_back({empty ? Reference::Where::empty : Reference::Where::block,
                    empty ? 0 : live->second.block});
  }
  if (!failed_.empty()) return p;
  plan(p);
  read_constants(p);
  for (Recorded& c : calls_) {
    for (const Reference& r : c.places) c.call.places.push_back(place_of(r));
    p.calls.push_back(std::move(c.call));
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    const bool is_result = i < results.size();
    const Tensor& t = is_result ? results[i] : inputs[i - results.size()];
    (is_result ? p.results : p.inputs).push_back({t.impl()->geometry, place_of(ends[i])});
  }
  return p;
}

// While it stands, what a graph could not hold is refused; work runs nevertheless.
class TraceScope {
 public:
  explicit TraceScope(Device d) : capture_{d, mode.native_stream, nullptr, true} {
    if (mode.capture) throw UsageError("[save_graph] inside a capture: save it outside");
    mode.capture = &capture_;
  }
  ~TraceScope() { mode.capture = nullptr; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  const std::string& broken() const { return capture_.broken; }

 private:
  Capture capture_;
};

void check_examples(const std::vector<Tensor>& example) {
  if (example.empty()) throw UsageError("[save_graph] needs an example of each input");
  for (const Tensor& t : example) {
    if (!t.defined()) use_of_undefined();
    if (!(t.device() == example[0].device()))
      throw PlacementError(str("[save_graph] examples are on ", to_string(example[0].device()),
                               " and ", to_string(t.device())));
  }
  if (example[0].device().is_meta)
    throw PlacementError("[save_graph] nothing runs on a meta device");
}

void check_results(const std::vector<Tensor>& results, Device d) {
  for (const Tensor& t : results) {
    if (!t.defined()) throw UsageError("[save_graph] the function returns an undefined tensor");
    if (!(t.device() == d))
      throw PlacementError(str("[save_graph] the function was given tensors on ", to_string(d),
                               " and returns ", describe(t)));
  }
}

}  // namespace

i64 extent_of(const Geometry& g) {
  if (g.numel == 0) return 0;
  i64 elements = 1;
  for (int i = 0; i < g.ndim; ++i) elements += (g.shape[i] - 1) * g.strides[i];
  return elements;
}

SavedProgram trace_program(const TracedFunction& f, const std::vector<Tensor>& example) {
  check_examples(example);
  const Device d = example[0].device();
  const NoGrad no_grad;
  std::vector<Tensor> inputs;
  for (const Tensor& t : example) {
    inputs.emplace_back(new_in_order(t.impl(), t.dtype()));
    inputs.back().copy_(t);
  }
  Trace trace(d, inputs);
  std::vector<Tensor> results;
  {
    const TraceScope tracing(d);
    const profiler::ObserverScope watch(trace);
    results = f(inputs);
    if (!tracing.broken().empty()) throw UsageError(tracing.broken());  // f has swallowed it
  }
  check_results(results, d);
  SavedProgram p;
  if (trace.failed().empty()) p = trace.finish(inputs, results);
  if (!trace.failed().empty()) throw UsageError(trace.failed());
  return p;
}

}  // namespace wt::detail
