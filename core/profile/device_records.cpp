#include "warptape/core/profile/device_records.h"

#include <algorithm>
#include <unordered_set>

#include "warptape/core/stream.h"

namespace wt::profiler {
namespace {

constexpr size_t kCallsARecord = 4;  // calls in ranges that queue nothing

template <class T>
void put(std::vector<T>& ring, size_t& oldest, size_t most, const T& value, i64* lost) {
  if (ring.size() < most) return ring.push_back(value);
  ring[oldest++ % most] = value;
  if (lost) ++*lost;
}

// CUPTI's clock and the host's may run at different speeds. A difference is believed only beyond
// what the two readings leave open: in a short profile that would move kernels against each other.
class Clock {
 public:
  Clock(cupti::Moment first, cupti::Moment last)
      : from_(first.cupti), length_(double(last.cupti - first.cupti)), behind_(behind(first)) {
    const i64 apart = behind(last) - behind_;
    if (length_ > 0 && std::abs(apart) > first.within + last.within)
      drift_ = double(apart) / length_;
  }
  i64 steady(u64 cupti) const {
    const i64 at = i64(cupti);
    return at + behind_ + i64(drift_ * double(at - from_));
  }

 private:
  static i64 behind(cupti::Moment m) { return m.steady - m.cupti; }
  i64 from_;
  double length_;
  i64 behind_;
  double drift_ = 0;
};

const char* name_of(const cupti::Record& r) {
  switch (r.what) {
    case cupti::Record::What::kernel:
      return r.name;
    case cupti::Record::What::fill:
      return "memset";
    case cupti::Record::What::copy:
      break;
  }
  switch (r.copy_kind) {  // CUpti_ActivityMemcpyKind
    case 1:
    case 3:
      return "memcpy to device";
    case 2:
    case 4:
      return "memcpy to host";
    case 5:
    case 6:
    case 7:
    case 8:
      return "memcpy within";
    case 10:
      return "memcpy between devices";
    default:
      return "memcpy";
  }
}

// Ties records to events, and makes events of those that are no launch of a kernel's range.
class Tie {
 public:
  using Replays = std::unordered_map<u32, std::shared_ptr<const wt::detail::GraphKernels>>;
  Tie(Profile::Data& d, const std::unordered_map<u32, u32>& ids, const Replays& replays)
      : d_(d), ids_(ids), replays_(replays) {
    for (size_t i = 0; i < d.events.size(); ++i) places_.emplace(d.events[i].id, i);
  }

  void all(const std::vector<cupti::Record>& records, const Clock& clock, u32 next_id) {
    learn_streams(records);
    for (const cupti::Record& r : records) {
      const i64 begin = clock.steady(r.begin);
      const i64 end = begin + std::max<i64>(1, i64(r.end - r.begin));  // no digit is lost
      Event* const around = event_of(r);
      if (around && is_launch(*around) && !replays_.count(around->id))
        widen(*around, begin, end);
      else if (around || begin >= d_.begin_ns)
        add(r, around, begin, end, next_id++);
    }
    for (const auto& [graph, kernels] : replays_) name_replay(graph, kernels.get());
  }

 private:
  static bool is_launch(const Event& e) {
    return e.kind == Kind::kernel && e.device.kind == DeviceKind::cuda;
  }
  Event* event_of(const cupti::Record& r) {
    const auto id = ids_.find(r.correlation);
    if (id == ids_.end()) return nullptr;
    const auto place = places_.find(id->second);
    return place == places_.end() ? nullptr : &d_.events[place->second];
  }
  static u64 stream_key(const cupti::Record& r) { return u64{r.context} << 32 | r.stream; }

  // CUPTI numbers streams; which handle a number has, launches say. A graph's first node runs on
  // the stream that it was launched on.
  void learn_streams(const std::vector<cupti::Record>& records) {
    std::unordered_set<u32> replayed;
    for (const bool graphs : {false, true})
      for (const cupti::Record& r : records) {
        const Event* const e = event_of(r);
        if (!e || !is_launch(*e) || (replays_.count(e->id) != 0) != graphs) continue;
        if (!graphs || replayed.insert(e->id).second)
          streams_.try_emplace(stream_key(r), e->stream);
      }
  }
  // Those of others get a handle that is no address.
  void* stream_of(const cupti::Record& r) const {
    const auto known = streams_.find(stream_key(r));
    if (known != streams_.end()) return known->second;
    return reinterpret_cast<void*>(u64{1} << 63 | stream_key(r));
  }

  // Of several kernels of one range: from the first one's begin to the last one's end.
  static void widen(Event& e, i64 begin, i64 end) {
    const bool first = e.device_ns() == 0;
    e.device_begin_ns = first ? begin : std::min(e.device_begin_ns, begin);
    e.device_end_ns = first ? end : std::max(e.device_end_ns, end);
  }

  void add(const cupti::Record& r, const Event* around, i64 begin, i64 end, u32 id) {
    Event e;
    e.kind = Kind::kernel;
    e.device_only = true;
    e.id = id;
    e.name = name_of(r);
    e.device = Device::cuda(int(r.device));
    e.stream = stream_of(r);
    e.begin_ns = e.end_ns = begin;
    e.device_begin_ns = begin;
    e.device_end_ns = end;
    e.bytes = double(r.bytes);
    if (around) {
      e.parent = around->id;
      e.thread = around->thread;
      e.step = around->step;
      e.frame = around->frame;
      e.mode_id = around->mode_id;
      e.begin_ns = e.end_ns = around->begin_ns;
      if (replays_.count(around->id)) of_replay_[around->id].push_back(d_.events.size());
    }
    d_.events.push_back(e);
  }

  // The records are in the order of their begins, as the graph's chain of nodes is.
  void name_replay(u32 graph, const wt::detail::GraphKernels* kernels) {
    const auto at = of_replay_.find(graph);
    if (!kernels || at == of_replay_.end()) return;
    const std::vector<size_t>& nodes = at->second;
    if (i64(nodes.size()) != kernels->nodes) return;
    for (const wt::detail::GraphKernel& k : kernels->list)
      for (i64 n = std::max<i64>(k.first, 0); n < std::min(k.last, kernels->nodes); ++n) {
        Event& e = d_.events[nodes[size_t(n)]];
        e.name = k.name;
        e.variant = k.variant;
        e.op = k.op;
        e.of_backward = k.backward;
        e.dtype = k.dtype;
        e.frame = k.frame;
        e.mode_id = k.mode_id;
        e.bytes = n == k.first ? k.bytes : 0;
        e.flops = n == k.first ? k.flops : 0;
      }
  }

  Profile::Data& d_;
  const std::unordered_map<u32, u32>& ids_;  // of events, by correlation
  const Replays& replays_;
  std::unordered_map<u32, size_t> places_{};
  std::unordered_map<u64, void*> streams_{};
  std::unordered_map<u32, std::vector<size_t>> of_replay_{};
};

}  // namespace

void DeviceRecords::start(u64 run, i64 most) {
  run_ = run & ~u32{0};
  most_ = size_t(most);
}

cupti::Started DeviceRecords::turn_on() {
  cupti::Started s = cupti::start(*this);
  {
    const std::lock_guard lock(mutex_);  // it hears already
    external_kind_ = s.external_kind;
  }
  on_ = s.on;
  if (on_) first_ = cupti::moment();
  return s;
}

void DeviceRecords::did(const cupti::Record& r) noexcept {
  if (r.end == 0) return;  // it has not ended
  const std::lock_guard lock(mutex_);
  try {
    put(records_, oldest_record_, most_, r, &lost_);
  } catch (...) {
    ++lost_;
  }
}

void DeviceRecords::called(u32 external_kind, u64 id, u32 correlation) noexcept {
  const std::lock_guard lock(mutex_);
  if (external_kind != external_kind_ || id >> 32 != run_) return;
  try {
    put(calls_, oldest_call_, kCallsARecord * most_, Call{correlation, u32(id)}, nullptr);
  } catch (...) {
    ++lost_;
  }
}

void DeviceRecords::lost(i64 records) noexcept {
  const std::lock_guard lock(mutex_);
  lost_ += records;
}

void DeviceRecords::uses(Device d, void* stream) {
  const std::pair<Device, void*> used(d, stream);
  const std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), used) == streams_.end()) streams_.push_back(used);
}

void DeviceRecords::replays(u32 id, std::shared_ptr<const wt::detail::GraphKernels> kernels) {
  const std::lock_guard lock(mutex_);
  replays_.emplace(id, std::move(kernels));
}

void DeviceRecords::wait() {
  if (!on_) return;
  std::vector<std::pair<Device, void*>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  for (const auto& [d, stream] : streams) stream_backend(d)->stream_wait(d, stream);
  cupti::flush();
  last_ = cupti::moment();
}

void DeviceRecords::fill_in(Profile::Data& d, u32 next_id) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  std::unordered_map<u32, u32> ids;
  ids.reserve(calls_.size());
  for (const Call& c : calls_) ids[c.correlation] = c.id;
  std::sort(records_.begin(), records_.end(), [](const cupti::Record& a, const cupti::Record& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Tie(d, ids, replays_).all(records_, Clock(first_, last_), next_id);
  d.lost_records = lost_;
}

void DeviceRecords::stop() {
  if (on_) cupti::stop(*this);
  on_ = false;
  const std::lock_guard lock(mutex_);
  std::vector<cupti::Record>().swap(records_);
  std::vector<Call>().swap(calls_);
  oldest_record_ = oldest_call_ = 0;
  lost_ = 0;
  streams_.clear();
  replays_.clear();
}

}  // namespace wt::profiler
