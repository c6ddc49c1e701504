#include "warptape/kernels/dispatch/run_first_use.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"
#include "warptape/core/storage.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/dispatch/run_first_use_file.h"
#include "warptape/kernels/dispatch/run_first_use_lists.h"

namespace wt {
namespace detail {

constinit std::atomic<u32> first_uses_on{0};

// The sets of all contracts that hold something. Under the mutex of FirstUses.
class AgreedEverywhere {
 public:
  // Where the set is full the kind is asked for again, which is right and slow.
  void add(AgreedKinds& set, u64 kind) {
    if (!set.listed_) {
      set.next_ = std::exchange(first_, &set);
      set.listed_ = true;
    }
    for (u32 at = AgreedKinds::first_slot(kind), n = 0; n < AgreedKinds::kSlots; ++n, ++at) {
      std::atomic<u64>& slot = set.slots_[at % AgreedKinds::kSlots];
      const u64 there = slot.load(std::memory_order_relaxed);
      if (there == 0) slot.store(kind, std::memory_order_relaxed);
      if (there == 0 || there == kind) return;
    }
  }
  // Every launch asks again: what agreed is in the files.
  void clear() {
    for (AgreedKinds* set = first_; set; set = set->next_)
      for (std::atomic<u64>& slot : set->slots_) slot.store(0, std::memory_order_relaxed);
  }

 private:
  AgreedKinds* first_ = nullptr;
};

namespace {

// One trial at a time: what it finds is for all threads.
struct FirstUses {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::unique_ptr<FirstUseFile>> files;
  AgreedEverywhere agreed;
};
FirstUses& first_uses() {
  static auto* all = new FirstUses;
  return *all;
}

FirstUseFile& file_of(Device d) {
  std::unique_ptr<FirstUseFile>& file = first_uses().files[{d.kind, d.index}];
  if (!file) file = std::make_unique<FirstUseFile>(d);
  return *file;
}

bool is_verbose() {
  const char* text = std::getenv("WT_VERBOSE");
  return text && *text && std::strcmp(text, "0") != 0;
}

const void* variant(const FirstUse& u, int row) {
  return u.contract.variant(u.launch.device.kind, row);
}
int count(const FirstUse& u) { return u.contract.count(u.launch.device.kind); }
const char* name(const FirstUse& u, int row) { return u.contract.described(variant(u, row)).name; }
// Below 0: it does not take the arguments.
int rank(const FirstUse& u, int row) {
  return rank_for(u.contract, variant(u, row), u.args, u.launch.device);
}

// A launch of one of the variants, with workspace of its own but for the chosen one.
void launch(const FirstUse& u, int row) {
  Launch l = u.launch;
  std::unique_ptr<Storage, void (*)(Storage*)> workspace(nullptr, release);
  if (row != u.row) {
    l.workspace = nullptr;
    if (const i64 bytes = u.contract.workspace(variant(u, row), u.args)) {
      const CategoryScope scope(Category::workspace);
      workspace.reset(allocate(l.device, bytes));
      l.workspace = workspace->data;
    }
  }
  u.contract.launch(variant(u, row), u.args, l);
}

bool is_off(const FirstUse& u, const FirstUseFile& file, int row) {
  return !file.off(u.contract.name, name(u, row)).empty();
}

void warn_off(const FirstUse& u, const FirstUseFile& file, int row) {
  const char *contract = u.contract.name, *off = name(u, row);
  const std::string d = to_string(u.launch.device);
  warn_once(
      str(contract, " ", off, " ", d),
      str("variant ", off, " of ", contract, " is not used on ", d, ": ", file.off(contract, off),
          file.path().empty() ? "" : str(". Please report ", file.path())));
}

// What every device has proved by being simple: `naive`, else the last of those that take the
// arguments. -1: there is none.
int plainest(const FirstUse& u, const FirstUseFile& file) {
  int found = -1;
  for (int i = count(u) - 1; i >= 0; --i) {
    if (rank(u, i) < 0 || is_off(u, file, i)) continue;
    if (same_name(name(u, i), "naive")) return i;
    if (found < 0) found = i;
  }
  return found;
}

// The chosen variant, or the best of the others where that one is off. -1: all are.
int not_off(const FirstUse& u, const FirstUseFile& file) {
  if (!is_off(u, file, u.row)) return u.row;
  warn_off(u, file, u.row);
  int best = -1, score = -1;
  for (int i = 0; i < count(u); ++i) {
    const int r = rank(u, i);
    if (r <= score) continue;
    if (is_off(u, file, i))
      warn_off(u, file, i);
    else
      best = i, score = r;
  }
  return best;
}

bool is_tuned(const FirstUse& u, const char* name) {
  const TunedSize* known = tuned_size(u.contract.name, u.launch.device, u.dtype, u.bytes);
  return known &&
         std::find(known->fastest.begin(), known->fastest.end(), name) != known->fastest.end();
}

class Trial {
 public:
  Trial(const FirstUse& u, FirstUseFile& file, int row, int plain, ListTouched list)
      : u_(u),
        file_(file),
        row_(row),
        plain_(plain),
        kind_{u.contract.name, name(u, row), u.dtype, size_class(i64(u.bytes)), u.layout} {
    args_.resize(u.contract.args_size);
    std::memcpy(args_.data(), u.args, args_.size());
    list(args_.data(), touched_);  // may change its copy
  }

  // Launches both; what is in memory then is the plain one's. True: they agree.
  bool run() {
    if (touched_.outs.empty()) {
      launch(u_, row_);
      return false;
    }
    // All memory before the first launch: a launch that adds to its results is not made thrice.
    Bytes before, got, want;
    try {
      before = got = want = Bytes(bytes_of(touched_.outs));
    } catch (const std::bad_alloc&) {  // another time
      launch(u_, plain_);
      return false;
    }
    const SyncGuard may_wait(false);
    const Device d = u_.launch.device;
    read_blocks(d, touched_.outs, before);
    const bool ran = tried(got);
    write_blocks(d, touched_.outs, before);
    launch(u_, plain_);
    if (!ran) return false;
    read_blocks(d, touched_.outs, want);
    return judged(before, got, want);
  }

 private:
  // The variant's own launch. False: it failed.
  bool tried(Bytes& got) {
    file_.trying(kind_);
    try {
      launch(u_, row_);
      read_blocks(u_.launch.device, touched_.outs, got);
      file_.ran(kind_);
      return true;
    } catch (const OutOfMemory&) {
      file_.ran(kind_);  // says nothing of the variant
      throw;
    } catch (const DeviceError& e) {
      put_off(str("it failed: ", e.what()));
      throw DeviceError(str(e.what(), "\n  This was the first use of variant ", kind_.variant,
                            " of ", kind_.contract, " on ", to_string(u_.launch.device),
                            ": it is off from now on",
                            file_.path().empty() ? "" : str("; please report ", file_.path())));
    } catch (const Error& e) {
      put_off(str("it failed: ", e.what()));
      return false;
    }
  }

  // At every kind of arguments, also where it agreed.
  void put_off(const std::string& why) {
    file_.put_off(kind_, why);
    first_uses().agreed.clear();
    warn_off(u_, file_, row_);
  }

  bool judged(const Bytes& before, const Bytes& got, const Bytes& want) {
    i64 written = 0;
    for (const Touched::Block& b : touched_.outs) written += b.elements;
    const double terms = u_.flops / 2 / double(std::max<i64>(written, 1));
    Comparison c = compare_blocks(touched_.outs, before, got, want, terms, 0);
    if (c.verdict == Verdict::differs)  // reading the operands is only now worth its while
      c = compare_blocks(touched_.outs, before, got, want, terms,
                         largest_summand(u_.launch.device, touched_.ins, terms));
    const char* plain = name(u_, plain_);
    if (c.verdict == Verdict::differs && !touched_.is_sensitive)
      put_off(str("its first results differ from those of ", plain, " (", dtype_name(kind_.dtype),
                  ", ", i64(u_.bytes), " bytes, by up to ", c.error, " of their size)"));
    if (c.verdict != Verdict::agrees) return false;
    file_.put_agreed(kind_);
    if (is_verbose())
      std::fprintf(stderr,
                   "warptape: first use of %s of %s (%s, %lld bytes) on %s agrees with %s, to %.1e "
                   "of the size\n",
                   kind_.variant.c_str(), kind_.contract.c_str(), dtype_name(kind_.dtype),
                   (long long)(u_.bytes), to_string(u_.launch.device).c_str(), plain, c.error);
    return true;
  }

  const FirstUse& u_;
  FirstUseFile& file_;
  int row_, plain_;
  TriedKind kind_;
  std::vector<char> args_;
  Touched touched_;
};

}  // namespace

void launch_first_use(const FirstUse& u) {
  const std::lock_guard lock(first_uses().mutex);
  FirstUseFile& file = file_of(u.launch.device);
  const int row = not_off(u, file);
  if (row < 0)
    throw NotAvailable(str("[", u.contract.name, "] every variant that takes these arguments ",
                           "is off on ", to_string(u.launch.device), "; please report ",
                           file.path(), ". WT_FIRST_USE=off runs them nevertheless"));
  const char* chosen = name(u, row);
  const int plain = plainest(u, file);
  const TriedKind kind{u.contract.name, chosen, u.dtype, size_class(i64(u.bytes)), u.layout};
  const ListTouched list = touched_by(u.contract.name);
  bool agreed = true;
  if (recording_graph() && row != plain && plain >= 0 && list && !file.agreed(kind) &&
      !is_tuned(u, chosen)) {
    launch(u, plain);  // comparing would wait
    return;
  }
  if (row == plain || plain < 0 || !list || file.agreed(kind) || is_tuned(u, chosen))
    launch(u, row);
  else
    agreed = Trial(u, file, row, plain, list).run();
  if (agreed && row == u.row) first_uses().agreed.add(u.agreed, u.kind);
}

bool proved_by_first_use(const ErasedContract& c, const void* args, const Launch& l, int row) {
  if (!(first_uses_on.load(std::memory_order_relaxed) >> int(l.device.kind) & 1)) return true;
  const ErasedContract::Facts f = c.facts(args);
  AgreedKinds& agreed = c.agreed[int(l.device.kind)];
  const u64 kind = kind_of_arguments(row, f.dtype, f.bytes, f.layout, l.device.index);
  if (agreed.has(kind)) return true;
  const FirstUse u{c, args, l, row, f.dtype, f.layout, double(f.bytes), f.flops, agreed, kind};
  const std::lock_guard lock(first_uses().mutex);
  FirstUseFile& file = file_of(l.device);
  if (is_off(u, file, row)) return false;
  const char* chosen = name(u, row);
  const int plain = plainest(u, file);
  const ListTouched list = touched_by(c.name);
  return row == plain || plain < 0 || !list ||
         file.agreed({c.name, chosen, f.dtype, size_class(f.bytes), f.layout}) ||
         is_tuned(u, chosen) || Trial(u, file, row, plain, list).run();
}

bool launched_as_first_use(const ErasedContract& c, const void* args, const Launch& l,
                           const void* variant) {
  AgreedKinds& agreed = c.agreed[int(l.device.kind)];
  const int row = c.row(l.device.kind, variant);
  const ErasedContract::Facts f = c.facts(args);
  const u64 kind = kind_of_arguments(row, f.dtype, f.bytes, f.layout, l.device.index);
  if (agreed.has(kind)) return false;
  launch_first_use({c, args, l, row, f.dtype, f.layout, double(f.bytes), f.flops, agreed, kind});
  return true;
}

void start_first_uses(DeviceKind k) {
  const char* text = std::getenv("WT_FIRST_USE");
  const bool named = text && *text, off = named && !std::strcmp(text, "off");
  if (k == DeviceKind::cuda ? !off : named && !off)
    first_uses_on.fetch_or(1u << int(k), std::memory_order_relaxed);
}
void stop_first_uses(DeviceKind k) {
  first_uses_on.fetch_and(~(1u << int(k)), std::memory_order_relaxed);
}

void forget_first_uses() {
  const std::lock_guard lock(first_uses().mutex);
  first_uses().files.clear();
  first_uses().agreed.clear();
}

}  // namespace detail

std::string describe_first_uses(Device d) {
  const char* text = std::getenv("WT_FIRST_USE");
  if (text && !std::strcmp(text, "off")) return "off (WT_FIRST_USE)";
  try {
    const detail::FirstUseFile f(d);
    return str(f.count_agreed(), " agreed, ", f.count_off(), " variants off",
               f.count_agreed() + f.count_off() ? str(" (", f.path(), ")") : "");
  } catch (const UsageError& e) {
    return str("not used: ", e.what());
  }
}

}  // namespace wt
