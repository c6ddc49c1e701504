#include "warptape/kernels/dispatch/run_benchmark.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "warptape/core/build_info.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/machine/launch_timer.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/mode.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/dispatch/run_first_use_lists.h"
#include "warptape/kernels/dispatch/run_tune_file.h"

namespace wt::detail {
namespace {

// --- what is known ---

struct Key {
  const char* contract;
  const char* dtype;
  i64 bytes;
  std::string size;
};
Key key_of(const ErasedContract& c, const void* args) {
  const ErasedContract::Facts f = c.facts(args);
  char sizes[17];
  std::snprintf(sizes, sizeof sizes, "%016llx", static_cast<unsigned long long>(c.sizes(args)));
  // Products of f32 have variants of their own where operands may be rounded.
  const bool rounded = f.dtype == DType::f32 && matmul_precision() == MatmulPrecision::high;
  return {c.name, dtype_name(f.dtype), f.bytes,
          str(kTimedAtFirstUse, f.layout, " ", sizes, rounded ? " high" : "")};
}
// FNV-1a. Two keys with one hash share a ranking: names that one of them does not have are passed
// by.
u64 hash_of(std::string_view contract, std::string_view dtype, i64 bytes, std::string_view size) {
  u64 h = 0xCBF29CE484222325u;
  const auto add = [&](u64 v) { h = (h ^ v) * 0x100000001B3u; };
  for (const std::string_view text : {contract, dtype, size}) {
    for (const char c : text) add(u8(c));
    add(256);
  }
  for (int i = 0; i < 8; ++i) add(u64(bytes) >> 8 * i & 255);
  return h;
}
// Names of variants, the fastest first. Empty: there is nothing to choose.
using Ranking = std::vector<std::string>;
using Found = std::vector<std::pair<double, std::string>>;  // the same with microseconds
using Rankings = std::unordered_map<u64, Ranking>;

struct Timings {
  std::mutex mutex;  // held while variants are timed: others' launches would be in the way
  std::map<std::pair<DeviceKind, int>, Rankings> of;
};
Timings& timings() {
  static auto* all = new Timings;
  return *all;
}

std::string build_text() { return str(build_info().version, " ", build_info().commit); }

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

// The file of a device, or one without rows. DataError where it is none.
TuneFile file_of(Device d, const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return read_tune_file(d, path);
  TuneFile fresh{.device = tune_device_name(d),
                 .driver = {},
                 .runtime = {},
                 .version = build_text(),
                 .date = today()};
  if (d.kind == DeviceKind::cuda) fresh.driver = str(cuda::properties(d.index).driver);
  return fresh;
}

void cannot_keep(const std::string& path, const char* why) {
  warn_once(path + " timings", str("timings of kernels are not kept: ", why));
}

// Rows of one key stand together, the fastest first, as keep() has written them.
Rankings read_rankings(Device d) {
  Rankings known;
  const std::string path = tune_path(d);
  if (path.empty()) return known;
  try {
    for (const TuneRow& r : file_of(d, path).rows)
      if (timed_at_first_use(r) && r.shape == build_text())
        known[hash_of(r.contract, r.dtype, r.bytes, r.size)].push_back(r.variant);
  } catch (const DataError& e) {
    cannot_keep(path, e.what());
  }
  return known;
}

// Read again before it is written: another process may have added rows.
void keep(Device d, const Key& key, const Found& found) {
  const std::string path = tune_path(d);
  if (path.empty()) return;
  try {
    TuneFile file = file_of(d, path);
    std::erase_if(file.rows, [&](const TuneRow& r) {
      return timed_at_first_use(r) &&
             (r.shape != build_text() || (r.contract == key.contract && r.dtype == key.dtype &&
                                          r.size == key.size && r.bytes == key.bytes));
    });
    for (const auto& [us, variant] : found)
      file.rows.push_back({.contract = key.contract,
                           .dtype = key.dtype,
                           .size = key.size,
                           .shape = build_text(),
                           .variant = variant,
                           .bytes = key.bytes,
                           .median_us = us});
    std::error_code error;  // the write names what is wrong
    std::filesystem::create_directories(std::filesystem::absolute(path, error).parent_path(),
                                        error);
    write_file_atomically(path, file.text(), {.durable = false});
  } catch (const Error& e) {
    cannot_keep(path, e.what());
  }
}

// --- timing ---

// Every variant at one launch's arguments.
class TimingTrial {
 public:
  TimingTrial(const ErasedContract& c, const void* args, const Launch& l, ListTouched list)
      : c_(c), launch_(l), args_(c.args_size) {
    std::memcpy(args_.data(), args, args_.size());
    std::vector<char> copy = args_;
    list(copy.data(), touched_);  // may change its copy
  }

  // Microseconds and names, the fastest first; what is in memory is as it was. bad_alloc and
  // OutOfMemory: nothing was launched, or all was put back.
  Found run() {
    Found found;
    if (touched_.outs.empty()) return found;
    Bytes before(bytes_of(touched_.outs));
    const SyncGuard may_wait(false);
    const TimingScope scope;
    const Device d = launch_.device;
    read_blocks(d, touched_.outs, before);
    double best = 0;
    for (int row = 0; row < c_.count(d.kind); ++row) {
      if (rank_for(c_, c_.variant(d.kind, row), args_.data(), d) < 0) continue;
      const double us = one(row, best);
      write_blocks(d, touched_.outs, before);
      if (us <= 0) continue;
      best = best > 0 ? std::min(best, us) : us;
      found.emplace_back(us, c_.described(c_.variant(d.kind, row)).name);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return found;
  }

 private:
  // 0: it is not to be used, or cannot be here.
  double one(int row, double best) {
    const void* const variant = c_.variant(launch_.device.kind, row);
    LaunchWorkspace workspace;
    try {
      Launch l = launch_;
      l.workspace = workspace.allocate_for(c_, variant, args_.data(), l.device);
      if (!proved_by_first_use(c_, args_.data(), l, row)) return 0;
      const auto once = [&] { c_.launch(variant, args_.data(), l); };
      return time_launches(l.device, once, best);
    } catch (const DeviceError&) {
      throw;
    } catch (const Error&) {  // out of memory, or no plan
      return 0;
    }
  }

  const ErasedContract& c_;
  const Launch& launch_;
  std::vector<char> args_;
  Touched touched_;
};

const void* fastest_of(const Ranking& names, const ErasedContract& c, const void* args,
                       const Device& d, const void* chosen) {
  for (const std::string& name : names)
    for (int i = 0; i < c.count(d.kind); ++i) {
      const void* v = c.variant(d.kind, i);
      if (name == c.described(v).name && rank_for(c, v, args, d) >= 0) return v;
    }
  return chosen;
}

bool may_be_timed(const Device& d) {
  return d.kind == DeviceKind::cuda || (d.kind == DeviceKind::simt && !tune_path(d).empty());
}

}  // namespace

const void* timed_variant(const ErasedContract& c, const void* args, const Launch& l,
                          const void* chosen) {
  if (is_timing() || !may_be_timed(l.device)) return chosen;
  if ((mode.slow & (kSlowOverride | kSlowEnvironment)) && overriding_variant(c.name)) return chosen;
  const Key key = key_of(c, args);
  Timings& all = timings();
  const std::lock_guard lock(all.mutex);
  const auto [at, is_new] = all.of.try_emplace({l.device.kind, l.device.index});
  Rankings& known = at->second;
  if (is_new) known = read_rankings(l.device);
  const u64 hash = hash_of(key.contract, key.dtype, key.bytes, key.size);
  if (const auto found = known.find(hash); found != known.end())
    return fastest_of(found->second, c, args, l.device, chosen);
  if (recording_graph()) return chosen;
  const ListTouched list = touched_by(c.name);
  Ranking names;
  if (list) {
    Found found;
    try {
      found = TimingTrial(c, args, l, list).run();
    } catch (const std::bad_alloc&) {  // another time
      return chosen;
    } catch (const OutOfMemory&) {
      return chosen;
    }
    if (!found.empty()) keep(l.device, key, found);
    for (auto& [us, name] : found) names.push_back(std::move(name));
  }
  return fastest_of(known[hash] = std::move(names), c, args, l.device, chosen);
}

void forget_timings() {
  const std::lock_guard lock(timings().mutex);
  timings().of.clear();
}

}  // namespace wt::detail
