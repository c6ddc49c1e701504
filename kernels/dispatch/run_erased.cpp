#include "warptape/kernels/dispatch/run_erased.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/at_line.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"
#include "warptape/core/str.h"
#include "warptape/kernels/dispatch/run_benchmark.h"
#include "warptape/kernels/dispatch/run_kernel_file.h"

namespace wt {

int ContractInfo::count(DeviceKind d) const { return erased->count(d); }
VariantRow ContractInfo::variant(DeviceKind d, int i) const {
  return erased->described(erased->variant(d, i));
}

namespace detail {
namespace {

const void* overridden(const ErasedContract& c, const void* args, const Device& d) {
  const char* wanted = overriding_variant(c.name);
  if (!wanted) return nullptr;
  if (const void* const v = file_variant(c, wanted, args, d)) return v;
  for (int i = 0; i < c.count(d.kind); ++i) {
    const void* v = c.variant(d.kind, i);
    if (!same_name(c.described(v).name, wanted)) continue;
    int rank;
    if (const char* why = c.refusal(v, args, d, rank))
      throw UsageError(str("[", c.name, "] variant \"", wanted, "\" on ", device_kind_name(d.kind),
                           " does not take these arguments: ", why));
    return v;
  }
  return nullptr;  // this device has no such rung (a scope for simt's rungs leaves cpu alone)
}

// The fastest variant that takes the arguments, by what was measured on this device, and never one
// that was found wrong there. Null: nothing is known.
const void* tuned(const ErasedContract& c, const void* args, const Device& d) {
  if (d.kind == DeviceKind::cpu || d.is_meta) return nullptr;
  const ErasedContract::Facts facts = c.facts(args);
  const TunedSize* known = tuned_size(c.name, d, facts.dtype, double(facts.bytes));
  if (!known) return nullptr;
  const int count = c.count(d.kind);
  for (const std::string& name : known->fastest)
    for (int i = 0; i < count; ++i) {
      const void* v = c.variant(d.kind, i);
      if (name == c.described(v).name && rank_for(c, v, args, d) >= 0) return v;
    }
  if (known->off.empty()) return nullptr;
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const void* v = c.variant(d.kind, i);
    if (rank_for(c, v, args, d) < 0) continue;
    any = true;
    const auto off = std::find(known->off.begin(), known->off.end(), c.described(v).name);
    if (off == known->off.end()) return v;
  }
  if (any) all_variants_off(c.name, d);
  return nullptr;
}

// As the device's variants are launched that nobody has tried on it yet.
void launch_tried(const ErasedContract& c, const void* args, const Launch& l, const void* variant) {
  const bool named = (mode.slow & (kSlowOverride | kSlowEnvironment)) && overriding_variant(c.name);
  if (named || !launched_as_first_use(c, args, l, variant)) c.launch(variant, args, l);
}

}  // namespace

int rank_for(const ErasedContract& c, const void* variant, const void* args, const Device& d) {
  if (mode.determinism == Determinism::strict && !c.described(variant).deterministic) return -1;
  int rank = -1;
  return c.refusal(variant, args, d, rank) ? -1 : rank;
}

const void* named_or_tuned(const ErasedContract& c, const void* args, const Device& d) {
  if (points_into_slices(args, c.args_size)) return c.slices;
  const void* v = overridden(c, args, d);
  return v ? v : tuned(c, args, d);
}

void no_variant(const ErasedContract& c, const void* args, const Device& d, const OpInfo* op) {
  const std::string name = str("[", op ? op->name : c.name, "] ");
  const char* const device = device_kind_name(d.kind);
  const std::string at = at_line();
  if (const int count = c.count(d.kind)) {
    int rank;
    const char* why = c.refusal(c.variant(d.kind, count - 1), args, d, rank);
    throw NotAvailable(str(name, "the kernel '", c.name, "' has no variant on ", device,
                           " that takes these arguments", why ? ": " : "", why ? why : "", at));
  }
  const char* const hint = c.count(DeviceKind::cpu) ? "\n  Try .to(Device::cpu())" : "";
  // Nobody is to write a kernel that was only left out of this build.
  if (const std::string lacks = why_without(device); !lacks.empty())
    throw NotAvailable(str(name, "has no kernel for ", device, ": this build has no ", device, ": ",
                           lacks, at, hint));
  std::string others;
  for (int k = 0; k < kNumDeviceKinds; ++k)
    if (c.count(DeviceKind(k)))
      others += str(others.empty() ? "" : ", ", device_kind_name(DeviceKind(k)));
  throw NotAvailable(str(name, "has no kernel for ", device, " yet: '", c.name, "' is written for ",
                         others.empty() ? "nothing" : others, " only", at, hint));
}

// What would be launched: observers count bytes and FLOPs of a model that has no numbers.
static void tell_of_meta(const ErasedContract& c, const void* args, const Launch& l,
                         const void* variant) {
  if (!(mode.slow & kSlowProfile)) return;
  const ErasedContract::Facts facts = c.facts(args);
  const profiler::RangeScope range({profiler::Kind::kernel, c.name, c.described(variant).name, l.op,
                                    mode.frame, mode.id, l.device, l.stream, double(facts.bytes),
                                    facts.flops});
}

LaunchWorkspace::~LaunchWorkspace() {
  if (storage_) release(storage_);
}

// Null where it asks for none.
void* LaunchWorkspace::allocate_for(const ErasedContract& c, const void* variant, const void* args,
                                    Device d) {
  const i64 bytes = c.workspace(variant, args);
  if (bytes == 0) return nullptr;
  const CategoryScope scope(Category::workspace);
  storage_ = allocate(d, bytes);
  return storage_->data;
}

void launch_slowly(const ErasedContract& c, const void* args, const Launch& given,
                   const void* variant) {
  if (given.device.is_meta) return tell_of_meta(c, args, given, variant);
  if (variant == c.slices) return launch_slices(c, args, given);
  Launch l = given;
  if (process_slow.load(std::memory_order_relaxed) & (kSlowStreams | kSlowDevices))
    prepare_launch(args, c.args_size, l);
  LaunchWorkspace workspace;
  if (benchmark()) {
    const void* const fastest = timed_variant(c, args, l, variant);
    if (fastest != variant) l.workspace = workspace.allocate_for(c, fastest, args, l.device);
    variant = fastest;
  }
  const bool tried = first_uses_on.load(std::memory_order_relaxed) >> int(l.device.kind) & 1;
  const auto launch = [&] {
    if (tried)
      launch_tried(c, args, l, variant);
    else
      c.launch(variant, args, l);
  };
  if (!(mode.slow & kSlowProfile)) return launch();
  const ErasedContract::Facts facts = c.facts(args);
  const profiler::RangeScope range({profiler::Kind::kernel, c.name, c.described(variant).name, l.op,
                                    mode.frame, mode.id, l.device, l.stream, double(facts.bytes),
                                    facts.flops, args});
  launch();
}

void launch_slices(const ErasedContract& c, const void* args, const Launch& given) {
  const Launch l{given.op, given.stream, nullptr, given.device};
  alignas(std::max_align_t) char all[kMostArgs];
  std::memcpy(all, args, c.args_size);
  SlicedLaunch s(all, c.args_size, l.op, c.name);
  if (s.levels() == 0 || c.lead_slices(all, s)) return run_erased(c, all, l);
  s.tell_of_loop();
  alignas(std::max_align_t) char one[kMostArgs];
  for (bool more = s.first(); more; more = s.next()) {
    std::memcpy(one, args, c.args_size);
    s.move(one);
    run_erased(c, one, l);
  }
}

const void* best_erased(const ErasedContract& c, const void* args, const Device& d) {
  const void* best = nullptr;
  int score = -1;
  const int count = c.count(d.kind);
  for (int i = 0; i < count; ++i) {
    const void* const v = c.variant(d.kind, i);
    if (best && c.described(v).rank <= score) break;  // so do the others
    const int rank = rank_for(c, v, args, d);
    if (rank > score) best = v, score = rank;
  }
  return best;
}

const void* choose_erased(const ErasedContract& c, const void* args, const Device& d,
                          const OpInfo* op) {
  const void* v = nullptr;
  if (c.count(d.kind) && (mode.slow & (kSlowOverride | kSlowEnvironment | kSlowSliced)))
    v = named_or_tuned(c, args, d);
  if (!v) v = best_erased(c, args, d);
  if (!v) no_variant(c, args, d, op);
  return v;
}

void run_erased(const ErasedContract& c, const void* args, Launch l) {
  const void* const v = choose_erased(c, args, l.device, l.op);
  LaunchWorkspace workspace;
  if (void* const data = workspace.allocate_for(c, v, args, l.device)) l.workspace = data;
  const u32 device = u32(l.device.kind) | u32(l.device.is_meta);  // 0: the cpu
  if ((device | (mode.slow & kSlowProfile)) == 0)
    c.launch(v, args, l);
  else
    launch_slowly(c, args, l, v);
}

}  // namespace detail
}  // namespace wt
