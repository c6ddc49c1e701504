// `run`: from arguments to a launched kernel. Host code only.
#pragma once
#include <algorithm>

#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/dispatch/run_first_use.h"
#include "warptape/kernels/dispatch/run_slices.h"
#include "warptape/kernels/dispatch/run_tuned.h"

namespace wt {

namespace detail {
// The variant that the innermost override names for `contract`, or null when none does.
const char* overriding_variant(const char* contract);
[[noreturn]] void refuse_override(const char* contract, const char* variant, DeviceKind d,
                                  const char* why);
// `built`: a bit for each kind of device that has variants.
[[noreturn]] WT_COLD void no_variant(const char* contract, const OpInfo* op, DeviceKind d,
                                     u32 built, const char* why);
template <class Args>
WT_COLD u32 built_on() {
  u32 bits = 0;
  for (int d = 0; d < kNumDeviceKinds; ++d)
    bits |= u32(ContractTable<Args>::rows[d] != nullptr) << d;
  return bits;
}
bool same_name(const char* a, const char* b);

template <class Args>
WT_COLD const Variant<Args>* overridden(const Args& a, const Variants<Args>& list,
                                        const Device& d) {
  const char* contract = ContractTable<Args>::kName;
  const char* wanted = overriding_variant(contract);
  if (!wanted) return nullptr;
  for (int i = 0; i < list.count; ++i) {
    const Variant<Args>& v = list.rows[i];
    if (!same_name(v.name, wanted)) continue;
    if (const char* why = refusal(v, a, d)) refuse_override(contract, wanted, d.kind, why);
    return &v;
  }
  return nullptr;  // this device has no such rung (a scope for simt's rungs leaves cpu alone)
}

template <class Args>
WT_COLD bool refused_on(const Variant<Args>& v, const Args& a, const Device& d) {
  return v.why_not_on(a, device_limits(d)) != nullptr;
}

template <class Args>
WT_HOT const Variant<Args>* best_variant(const Args& a, const Variants<Args>& list,
                                         const Device& d) {
  const Variant<Args>* best = nullptr;
  int score = -1;
  for (int i = 0; i < list.count; ++i) {
    const Variant<Args>& v = list.rows[i];
    if (best && v.rank <= score) break;
    if (v.why_not && v.why_not(a)) continue;
    if (v.plain) [[likely]]
      return &v;
    if (v.why_not_on && refused_on(v, a, d)) continue;
    if (!v.deterministic && mode.determinism == Determinism::strict) continue;
    if (!v.rank_of) return &v;  // the rest rank lower
    const int r = v.rank_of(a);
    if (r > score) {
      score = r;
      best = &v;
    }
  }
  return best;
}

// The fastest variant that takes the arguments, by what was measured on this device, and never one
// that was found wrong there. Null: nothing is known.
template <class Args>
WT_COLD const Variant<Args>* tuned_variant(const Args& a, const Variants<Args>& list,
                                           const Device& d) {
  if (d.kind == DeviceKind::cpu || d.is_meta) return nullptr;
  const char* contract = ContractTable<Args>::kName;
  const TunedSize* known = tuned_size(contract, d, args_dtype(a), double(a.bytes()));
  if (!known) return nullptr;
  for (const std::string& name : known->fastest)
    for (int i = 0; i < list.count; ++i)
      if (name == list.rows[i].name && takes(list.rows[i], a, d)) return &list.rows[i];
  if (known->off.empty()) return nullptr;
  bool any = false;
  for (int i = 0; i < list.count; ++i) {
    if (!takes(list.rows[i], a, d)) continue;
    any = true;
    if (std::find(known->off.begin(), known->off.end(), list.rows[i].name) == known->off.end())
      return &list.rows[i];
  }
  if (any) all_variants_off(contract, d);
  return nullptr;
}

// Before a launch while process_slow says that there are several streams or cuda devices: tells the
// allocator that `l.stream` uses every block that the arguments point into, and makes l.device the
// thread's current one. A current stream of another device is not l.device's: its default one is
// taken. `args`: any struct of arguments; each of its words that is the address of
// device memory counts, so nothing that a contract has can be forgotten, and what merely looks like
// one costs a block's reuse some time.
WT_COLD void prepare_launch(const void* args, size_t bytes, Launch& l);

template <class Args>
void launch_known(const Args& a, const Launch& l, const Variant<Args>& v) {
  v.launch(a, l);
}
// As the device's variants are launched that nobody has tried on it yet.
template <class Args>
WT_COLD void launch_tried(const Args& a, const Launch& l, const Variant<Args>& v) {
  if ((mode.slow & (kSlowOverride | kSlowEnvironment)) &&
      overriding_variant(ContractTable<Args>::kName))
    return v.launch(a, l);  // as it was named
  const bool launched = l.device.kind == DeviceKind::cuda
                            ? launched_as_first_use<Args, DeviceKind::cuda>(a, l, v)
                            : launched_as_first_use<Args, DeviceKind::simt>(a, l, v);
  if (!launched) v.launch(a, l);
}

// Whatever has more to it than calling the kernel: all devices but the cpu, and profiling.
template <class Args>
WT_COLD void launch_slowly(const Args& a, const Launch& given, const Variant<Args>& v) {
  if (given.device.is_meta) return;
  if (v.launch == &launch_slices<Args>) return launch_slices(a, given);
  Launch l = given;
  if (process_slow.load(std::memory_order_relaxed) & (kSlowStreams | kSlowDevices))
    prepare_launch(&a, sizeof a, l);
  const bool tried = first_uses_on.load(std::memory_order_relaxed) >> int(l.device.kind) & 1;
  const auto launch = tried ? &launch_tried<Args> : &launch_known<Args>;
  if (!(mode.slow & kSlowProfile)) return launch(a, l, v);
  const profiler::RangeScope range({profiler::Kind::kernel, ContractTable<Args>::kName, v.name,
                                    l.op, mode.frame, mode.id, l.device, l.stream,
                                    double(a.bytes()), double(a.flops()), &a});
  launch(a, l, v);
}
}  // namespace detail

// The variant that would run; `op`, if any, gives errors its name. Throws UsageError for an
// override that cannot, NotAvailable when the device is not built or nothing supports the
// arguments.
template <class Args>
WT_HOT const Variant<Args>& choose(const Args& a, const Device& d, const OpInfo* op = nullptr) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  if (!list) [[unlikely]]
    detail::no_variant(ContractTable<Args>::kName, op, d.kind, detail::built_on<Args>(), nullptr);
  const Variant<Args>* v = nullptr;
  if (mode.slow & (kSlowOverride | kSlowEnvironment | kSlowSliced)) [[unlikely]] {
    if (detail::points_into_slices(&a, sizeof a)) return detail::kSlicesVariant<Args>;
    v = detail::overridden(a, *list, d);
    if (!v) v = detail::tuned_variant(a, *list, d);
  }
  if (!v) v = detail::best_variant(a, *list, d);
  if (!v) [[unlikely]] {
    const Variant<Args>& last = list->rows[list->count - 1];
    detail::no_variant(ContractTable<Args>::kName, op, d.kind, detail::built_on<Args>(),
                       refusal(last, a, d));
  }
  return *v;
}

// Launches the best variant. On meta devices only prices the workspace.
template <class Args>
WT_HOT void run(const Args& a, Launch l) {
  const Variant<Args>& v = choose(a, l.device, l.op);
  Storage* workspace = nullptr;
  if (v.workspace) {
    if (const i64 bytes = v.workspace(a)) {
      const CategoryScope scope(Category::workspace);
      workspace = allocate(l.device, bytes);
      l.workspace = workspace->data;
    }
  }
  struct Free {
    Storage* s;
    WT_HOT ~Free() {
      if (s) release(s);
    }
  } free{workspace};
  const u32 device = u32(l.device.kind) | u32(l.device.is_meta);  // 0: the cpu
  if ((device | (mode.slow & kSlowProfile)) == 0) [[likely]]
    v.launch(a, l);
  else
    detail::launch_slowly(a, l, v);
}

// --- the list of all contracts, for tests, benchmarks and `wt ops` ---
struct VariantRow {
  const char* name;
  int rank;
  bool deterministic;
};
struct ContractInfo {
  const char* name;
  int (*count)(DeviceKind d);  // 0: not built
  VariantRow (*variant)(DeviceKind d, int i);
};
// All contracts, in the order of their headers' names.
struct ContractList {
  const ContractInfo* rows;
  int count;
  const ContractInfo* begin() const { return rows; }
  const ContractInfo* end() const { return rows + count; }
};
ContractList all_contracts();

namespace detail {
template <class Args>
void launch_slices(const Args& a, const Launch& given) {
  const Launch l{given.op, given.stream, nullptr, given.device};
  Args all = a;
  SlicedLaunch s(&all, sizeof all, l.op, ContractTable<Args>::kName);
  if (s.levels() == 0 || lead_slices(all, s)) return run(all, l);
  s.tell_of_loop();
  for (bool more = s.first(); more; more = s.next()) {
    Args one = a;
    s.move(&one);
    run(one, l);
  }
}
}  // namespace detail

}  // namespace wt
