#include "warptape/kernels/dispatch/run_tuned.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>

#include "warptape/core/cache_folder.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/mode.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/dispatch/run_shipped.h"
#include "warptape/kernels/dispatch/run_tune_file.h"

namespace wt {
namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;

std::string asked_for() {
  const char* text = std::getenv("WT_TUNE");
  return text ? text : "";
}

std::string read_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw DataError(str(path, " cannot be read: ", error.message()));
  if (bytes > kMostBytes) throw DataError(str(path, " is no tune file: it has ", bytes, " bytes"));
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw DataError(str(path, " cannot be read"));
  return text.str();
}

// --- what is known of a device ---
struct Known {
  // contract, dtype: sizes in ascending order
  std::map<std::string, std::vector<detail::TunedSize>, std::less<>> sizes;
};

constexpr const char* kAnyDtype = "*";
std::string key_of(std::string_view contract, std::string_view dtype) {
  return str(contract, " ", dtype);
}

Known known_of(TuneFile file) {
  Known known;
  std::stable_sort(file.rows.begin(), file.rows.end(), [](const TuneRow& a, const TuneRow& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.median_us < b.median_us;
  });
  // What is wrong anywhere is off everywhere, whatever the dtype: nobody knows where else it is.
  std::map<std::string, std::vector<std::string>, std::less<>> off;
  for (const TuneRow& r : file.rows)
    if (r.verdict != TuneVerdict::right) off[r.contract].push_back(r.variant);
  for (const TuneRow& r : file.rows) {
    const std::vector<std::string>& bad = off[r.contract];
    if (r.median_us <= 0 || std::find(bad.begin(), bad.end(), r.variant) != bad.end()) continue;
    std::vector<detail::TunedSize>& sizes = known.sizes[key_of(r.contract, r.dtype)];
    const double log_bytes = std::log2(double(r.bytes) + 1);
    if (sizes.empty() || sizes.back().log_bytes != log_bytes) sizes.push_back({log_bytes, {}, bad});
    sizes.back().fastest.push_back(r.variant);
  }
  for (const auto& [contract, bad] : off)
    if (!bad.empty()) known.sizes[key_of(contract, kAnyDtype)] = {{0, {}, bad}};
  return known;
}

struct Tuning {
  std::mutex mutex;
  std::optional<bool> may;  // whether there are files; empty: nobody has looked
  std::map<std::pair<int, int>, std::unique_ptr<const Known>> of;  // (kind, index)
};
Tuning& tuning() {
  static auto* t = new Tuning;
  return *t;
}

// --- what warptape ships with ---

const char* const*& planted() {
  static const char* const* texts = nullptr;
  return texts;
}
const char* const* shipped() { return planted() ? planted() : detail::kShippedTuning; }

constinit std::atomic<bool> simt_by_its_own_cost{false};

// Nothing that a user could mend: a text that cannot be read is a bug of ours, and thrown as it is.
std::optional<TuneFile> shipped_file(Device d) {
  if (d.kind == DeviceKind::simt && simt_by_its_own_cost)
    return TuneFile::parse(detail::kSimtTuning, "simt's tune file that warptape ships with");
  if (d.kind != DeviceKind::cuda && !planted()) return std::nullopt;
  const std::string name = tune_device_name(d);
  for (const char* const* text = shipped(); *text; ++text) {
    TuneFile file = TuneFile::parse(*text, "a tune file that warptape ships with");
    if (file.device == name) return file;
  }
  return std::nullopt;
}

const Known* load(Device d) {
  const std::string asked = asked_for(), path = tune_path(d);
  if (asked == "off") return nullptr;
  std::error_code error;
  const bool is_there = !path.empty() && std::filesystem::exists(path, error);
  if (!is_there && (asked.empty() || benchmark())) {  // which makes the file that WT_TUNE names
    std::optional<TuneFile> file = shipped_file(d);
    return file ? new Known(known_of(*std::move(file))) : nullptr;
  }
  try {
    TuneFile file = read_tune_file(d, path);
    std::erase_if(file.rows, timed_at_first_use);
    if (asked.empty() && file.rows.empty())  // of benchmark() alone
      if (std::optional<TuneFile> ours = shipped_file(d)) file = *std::move(ours);
    return new Known(known_of(std::move(file)));
  } catch (const DataError& e) {
    if (!asked.empty()) throw UsageError(str("WT_TUNE: ", e.what()));
    warn_once(path, str("not used: ", e.what(), "; `wt tune` writes it anew"));
    return nullptr;
  }
}

}  // namespace

TuneFile read_tune_file(Device d, const std::string& path) {
  TuneFile file = TuneFile::parse(read_file(path), path);
  if (const std::string name = tune_device_name(d); file.device != name)
    throw DataError(
        str(path, " is of another device: ", file.device, ", and ", to_string(d), " is ", name));
  return file;
}

std::string tune_device_name(Device d) {
  return d.kind == DeviceKind::cuda ? cuda::properties(d.index).name : device_kind_name(d.kind);
}

std::string tune_path(Device d) {
  const std::string asked = asked_for();
  if (asked == "off") return {};
  if (!asked.empty()) return asked;
  if (d.kind != DeviceKind::cuda) return {};
  const std::string folder = user_cache_folder();
  if (folder.empty()) return {};
  std::string name = tune_device_name(d);
  for (char& c : name)
    if (!std::isalnum(u8(c))) c = '-';
  return str(folder, "/tune-", name, ".tsv");
}

static std::string describe(const std::string& from, const TuneFile& f) {
  i64 off = 0;
  for (const TuneRow& r : f.rows) off += r.verdict != TuneVerdict::right;
  const i64 timed = std::count_if(f.rows.begin(), f.rows.end(), timed_at_first_use);
  return str(from, ", ", f.date, ", ", f.rows.size(), " rows", off ? str(", ", off, " off") : "",
             timed ? str(", ", timed, " by WT_BENCHMARK") : "", f.complete ? "" : ", not complete");
}

std::string describe_tuning(Device d) {
  const std::string path = tune_path(d);
  if (asked_for() == "off") return "off (WT_TUNE)";
  std::error_code error;
  if (asked_for().empty() && (path.empty() || !std::filesystem::exists(path, error))) {
    const std::optional<TuneFile> f = shipped_file(d);
    if (f) return describe("shipped with warptape", *f);
    return path.empty() ? "none" : "none yet: wt tune makes it";
  }
  try {
    return describe(path, read_tune_file(d, path));
  } catch (const DataError& e) {
    return str("not used: ", e.what());
  }
}

namespace detail {

// Whether a shipped file may be of a device of this machine. That is not asked of CUDA, for the
// same reason as below: where the driver has put no device, there is none.
static bool may_be_shipped_for() {
  if (!*shipped()) return false;
  if (planted()) return true;
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error) ||
         std::filesystem::exists("/dev/dxg", error);  // WSL
}

static bool look_for_files() {
  const std::string asked = asked_for();
  if (!asked.empty()) return asked != "off";
  if (simt_by_its_own_cost || may_be_shipped_for()) return true;
  // The names of devices are not asked for here: a program for the cpu never starts CUDA.
  const std::string folder = user_cache_folder();
  if (folder.empty()) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator f(folder, error), end; !error && f != end;
       f.increment(error))
    if (f->path().filename().string().starts_with("tune-")) return true;
  return false;
}

bool may_be_tuned() {
  const std::lock_guard lock(tuning().mutex);
  if (!tuning().may) tuning().may = look_for_files();
  return *tuning().may;
}

const TunedSize* tuned_size(const char* contract, Device d, DType t, double bytes) {
  if (!may_be_tuned()) return nullptr;
  Tuning& all = tuning();
  const std::lock_guard lock(all.mutex);
  const auto [at, is_new] = all.of.try_emplace({int(d.kind), d.index}, nullptr);
  if (is_new) {
    try {
      at->second.reset(load(d));
    } catch (...) {
      all.of.erase(at);
      throw;
    }
  }
  if (!at->second) return nullptr;
  const auto& sizes = at->second->sizes;
  auto found = sizes.find(key_of(contract, dtype_name(t)));
  if (found == sizes.end()) found = sizes.find(key_of(contract, kAnyDtype));
  if (found == sizes.end()) return nullptr;
  const double wanted = std::log2(bytes + 1);
  return &*std::min_element(
      found->second.begin(), found->second.end(), [&](const TunedSize& a, const TunedSize& b) {
        return std::fabs(a.log_bytes - wanted) < std::fabs(b.log_bytes - wanted);
      });
}

void all_variants_off(const char* contract, Device d) {
  throw NotAvailable(str("[", contract, "] wt tune found every variant on ", to_string(d),
                         " wrong that takes these arguments (", tune_path(d),
                         "); please report it. WT_TUNE=off runs them nevertheless"));
}

void ship_tuning(const char* const* texts) {
  planted() = texts;
  forget_tuning();
}

void rank_simt_by_its_own_cost(bool on) {
  simt_by_its_own_cost = on;
  forget_tuning();
}

void forget_tuning() {
  const std::lock_guard lock(tuning().mutex);
  tuning().of.clear();
  tuning().may.reset();
  mode.slow |= kSlowEnvironment;
}

}  // namespace detail
}  // namespace wt
