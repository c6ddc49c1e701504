// `run`: from arguments to a launched kernel. Host code only.
#pragma once
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"
#include "warptape/kernels/contract.h"

namespace wt {

namespace detail {
// The ways that are not hot (kernels/dispatch/run_erased.h), the same for all contracts.

// The variant that an override names, else the fastest by what was measured on this device, as a
// Variant<Args>; that which loops over slices where the arguments point into some. Null: none.
WT_COLD const void* named_or_tuned(const ErasedContract& c, const void* args, const Device& d);
[[noreturn]] WT_COLD void no_variant(const ErasedContract& c, const void* args, const Device& d,
                                     const OpInfo* op);
// Whatever has more to it than calling the kernel: all devices but the cpu, and profiling.
WT_COLD void launch_slowly(const ErasedContract& c, const void* args, const Launch& given,
                           const void* variant);
bool same_name(const char* a, const char* b);

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
    if (v.why_not_on && v.why_not_on(a, device_limits(d))) continue;
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
}  // namespace detail

// The variant that would run; `op`, if any, gives errors its name. Throws UsageError for an
// override that cannot, NotAvailable when the device is not built or nothing supports the
// arguments.
template <class Args>
WT_HOT const Variant<Args>& choose(const Args& a, const Device& d, const OpInfo* op = nullptr) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  if (!list) [[unlikely]]
    detail::no_variant(ContractTable<Args>::erased, &a, d, op);
  const Variant<Args>* v = nullptr;
  if (mode.slow & (kSlowOverride | kSlowEnvironment | kSlowSliced)) [[unlikely]]
    v = static_cast<const Variant<Args>*>(
        detail::named_or_tuned(ContractTable<Args>::erased, &a, d));
  if (!v) v = detail::best_variant(a, *list, d);
  if (!v) [[unlikely]]
    detail::no_variant(ContractTable<Args>::erased, &a, d, op);
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
    detail::launch_slowly(ContractTable<Args>::erased, &a, l, &v);
}

// --- the list of all contracts, for tests, benchmarks and `wt ops` ---
struct VariantRow {
  const char* name;
  int rank;
  bool deterministic;
};
struct ContractInfo {
  const char* name;
  const detail::ErasedContract* erased;
  int count(DeviceKind d) const;  // 0: not built
  VariantRow variant(DeviceKind d, int i) const;
};
// All contracts, in the order of their headers' names.
struct ContractList {
  const ContractInfo* rows;
  int count;
  const ContractInfo* begin() const { return rows; }
  const ContractInfo* end() const { return rows + count; }
};
ContractList all_contracts();

}  // namespace wt
