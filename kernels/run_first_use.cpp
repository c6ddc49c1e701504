#include "warptape/kernels/run_first_use.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "warptape/core/copy_bytes.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/mode.h"
#include "warptape/core/storage.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/run_first_use_file.h"
#include "warptape/kernels/run_first_use_lists.h"

namespace wt {
namespace detail {

constinit std::atomic<u32> first_uses_on{0};

namespace {

// One trial at a time: what it finds is for all threads.
struct FirstUses {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::unique_ptr<FirstUseFile>> files;
  AgreedKinds* agreed = nullptr;  // those that hold something
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

// A launch of one of the variants, with workspace of its own but for the chosen one.
void launch(const FirstUse& u, int row) {
  Launch l = u.launch;
  std::unique_ptr<Storage, void (*)(Storage*)> workspace(nullptr, release);
  if (row != u.row) {
    l.workspace = nullptr;
    if (const i64 bytes = u.variants.workspace(u.args, row)) {
      const CategoryScope scope(Category::workspace);
      workspace.reset(allocate(l.device, bytes));
      l.workspace = workspace->data;
    }
  }
  u.variants.launch(u.args, l, row);
}

// What every device has proved by being simple: `naive`, else the last of those that take the
// arguments. -1: there is none beside `row`.
int plainest(const FirstUse& u, const FirstUseFile& file) {
  int found = -1;
  for (int i = u.variants.count - 1; i >= 0; --i) {
    const char* name = u.variants.name(i);
    if (u.variants.refusal(u.args, u.launch.device, i)) continue;
    if (!file.off(u.variants.contract, name).empty()) continue;
    if (same_name(name, "naive")) return i;
    if (found < 0) found = i;
  }
  return found;
}

// The chosen variant, or the next one in rank that is not off. -1: all are.
int not_off(const FirstUse& u, const FirstUseFile& file) {
  for (int i = u.row; i < u.variants.count; ++i) {
    const char *contract = u.variants.contract, *name = u.variants.name(i);
    if (i != u.row && u.variants.refusal(u.args, u.launch.device, i)) continue;
    const std::string why = file.off(contract, name);
    if (why.empty()) return i;
    warn_once(
        str(contract, " ", name, " ", to_string(u.launch.device)),
        str("variant ", name, " of ", contract, " is not used on ", to_string(u.launch.device),
            ": ", why, file.path().empty() ? "" : str(". Please report ", file.path())));
  }
  return -1;
}

bool is_tuned(const FirstUse& u, const char* name) {
  const TunedSize* known = tuned_size(u.variants.contract, u.launch.device, u.dtype, u.bytes);
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
        kind_{u.variants.contract, u.variants.name(row), u.dtype, size_class(i64(u.bytes)),
              u.layout} {
    args_.resize(u.variants.args_size);
    std::memcpy(args_.data(), u.args, args_.size());
    list(args_.data(), touched_);  // may change its copy
  }

  // Launches both. True: they agree. What is in memory then is the plain one's.
  bool run() {
    if (touched_.outs.empty()) {
      launch(u_, row_);
      return false;
    }
    const SyncGuard may_wait(false);
    const Device d = u_.launch.device;
    const Bytes before = read_blocks(d, touched_.outs);
    Bytes got;
    if (!tried(before, got)) return false;
    write_blocks(d, touched_.outs, before);
    launch(u_, plain_);
    const Bytes want = read_blocks(d, touched_.outs);
    return judged(before, got, want);
  }

 private:
  // The variant's own launch. False: it failed, and the plain one has taken its place.
  bool tried(const Bytes& before, Bytes& got) {
    file_.trying(kind_);
    try {
      launch(u_, row_);
      got = read_blocks(u_.launch.device, touched_.outs);
      file_.ran(kind_);
      return true;
    } catch (const OutOfMemory&) {
      file_.ran(kind_);  // says nothing of the variant
      throw;
    } catch (const DeviceError& e) {
      file_.put_off(kind_, str("it failed: ", e.what()));
      throw DeviceError(str(e.what(), "\n  This was the first use of variant ", kind_.variant,
                            " of ", kind_.contract, " on ", to_string(u_.launch.device),
                            ": it is off from now on",
                            file_.path().empty() ? "" : str("; please report ", file_.path())));
    } catch (const Error& e) {
      file_.put_off(kind_, str("it failed: ", e.what()));
    }
    write_blocks(u_.launch.device, touched_.outs, before);
    launch(u_, plain_);
    (void)not_off(u_, file_);  // warns
    return false;
  }

  bool judged(const Bytes& before, const Bytes& got, const Bytes& want) {
    i64 written = 0;
    for (const Touched::Block& b : touched_.outs) written += b.elements;
    const double terms = u_.flops / 2 / double(std::max<i64>(written, 1));
    Comparison c = compare_blocks(touched_.outs, before, got, want, terms, 0);
    if (c.verdict == Verdict::differs)  // reading the operands is only now worth its while
      c = compare_blocks(touched_.outs, before, got, want, terms,
                         largest_summand(u_.launch.device, touched_.ins, terms));
    const std::string what =
        str(kind_.variant, " of ", kind_.contract, " (", dtype_name(kind_.dtype), ", ",
            i64(u_.bytes), " bytes) on ", to_string(u_.launch.device));
    if (c.verdict == Verdict::differs) {
      file_.put_off(kind_, str("its first results differ from those of ", u_.variants.name(plain_),
                               " (", dtype_name(kind_.dtype), ", ", i64(u_.bytes),
                               " bytes, by up to ", c.error, " of their size)"));
      (void)not_off(u_, file_);
    }
    if (c.verdict == Verdict::agrees) {
      file_.put_agreed(kind_);
      if (is_verbose())
        std::fprintf(stderr, "warptape: first use of %s agrees with %s, to %.1e of the size\n",
                     what.c_str(), u_.variants.name(plain_), c.error);
    }
    return c.verdict == Verdict::agrees;
  }

  const FirstUse& u_;
  FirstUseFile& file_;
  int row_, plain_;
  TriedKind kind_;
  std::vector<char> args_;
  Touched touched_;
};

}  // namespace

void AgreedKinds::add(u32 kind) {
  const std::lock_guard lock(first_uses().mutex);
  if (!listed_) {
    next_ = std::exchange(first_uses().agreed, this);
    listed_ = true;
  }
  for (u32 at = kind * 0x9E3779B1u, n = 0; n < kSlots; ++n, ++at) {
    std::atomic<u32>& slot = slots_[at % kSlots];
    if (slot.load(std::memory_order_relaxed) == kind) return;
    if (slot.load(std::memory_order_relaxed) != 0) continue;
    slot.store(kind, std::memory_order_relaxed);
    return;
  }
}

bool launch_first_use(const FirstUse& u) {
  const std::lock_guard lock(first_uses().mutex);
  FirstUseFile& file = file_of(u.launch.device);
  const int row = not_off(u, file);
  if (row < 0) all_variants_off(u.variants.contract, u.launch.device);
  const char* name = u.variants.name(row);
  const int plain = plainest(u, file);
  const TriedKind kind{u.variants.contract, name, u.dtype, size_class(i64(u.bytes)), u.layout};
  const ListTouched list = touched_by(u.variants.contract);
  if (row == plain || plain < 0 || !list || file.agreed(kind) || is_tuned(u, name)) {
    launch(u, row);
    return row == u.row;
  }
  try {
    return Trial(u, file, row, plain, list).run() && row == u.row;
  } catch (const std::bad_alloc&) {  // the host has no memory for the results: another time
    launch(u, plain);
    return false;
  }
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
  for (AgreedKinds* a = first_uses().agreed; a; a = a->next_)
    for (std::atomic<u32>& slot : a->slots_) slot.store(0, std::memory_order_relaxed);
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
