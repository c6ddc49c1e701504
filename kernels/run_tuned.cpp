#include "warptape/kernels/run_tuned.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/mode.h"
#include "warptape/core/warning.h"

namespace wt {
namespace {

constexpr const char* kFirstLine = "warptape tune 1";
constexpr const char* kColumns =
    "contract\tdtype\tshape\tbytes\tvariant\tverdict\tmedian us\tspread\tfraction\tof";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;

std::vector<std::string_view> split(std::string_view line, char at) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = line.find(at)) != line.npos; line.remove_prefix(end + 1))
    parts.push_back(line.substr(0, end));
  parts.push_back(line);
  return parts;
}

template <class T>
bool read(std::string_view text, T& value) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && at == text.data() + text.size();
}

bool read_verdict(std::string_view text, TuneVerdict& v) {
  for (int i = 0; i < 4; ++i)
    if (text == tune_verdict_name(TuneVerdict(i))) {
      v = TuneVerdict(i);
      return true;
    }
  return false;
}

// A field's text has neither tabs nor ends of lines.
std::string field(std::string text) {
  for (char& c : text)
    if (u8(c) < ' ') c = ' ';
  return text;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

bool read_row(std::string_view line, TuneRow& r) {
  const std::vector<std::string_view> f = split(line, '\t');
  if (f.size() != 10) return false;
  r.contract = f[0], r.dtype = f[1], r.shape = f[2], r.variant = f[4], r.bound = f[9];
  return read(f[3], r.bytes) && r.bytes >= 0 && read_verdict(f[5], r.verdict) &&
         read(f[6], r.median_us) && read(f[7], r.spread) && read(f[8], r.fraction) &&
         std::isfinite(r.median_us) && r.median_us >= 0;
}

std::string cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/')
    return str(xdg, "/warptape");
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return str(home, "/.cache/warptape");
  return {};
}

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

// The file in force for a device; throws DataError or UsageError where it cannot be used.
TuneFile file_of(Device d, const std::string& path) {
  TuneFile file = TuneFile::parse(read_file(path), path);
  if (const std::string name = tune_device_name(d); file.device != name)
    throw DataError(
        str(path, " is of another device: ", file.device, ", and ", to_string(d), " is ", name));
  return file;
}

// --- what is known of a device ---
struct Known {
  // contract, dtype: sizes in ascending order
  std::map<std::string, std::vector<detail::TunedSize>, std::less<>> sizes;
};

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
    std::vector<detail::TunedSize>& sizes = known.sizes[key_of(r.contract, r.dtype)];
    const double log_bytes = std::log2(double(r.bytes) + 1);
    if (sizes.empty() || sizes.back().log_bytes != log_bytes)
      sizes.push_back({log_bytes, {}, off[r.contract]});
    const std::vector<std::string>& bad = sizes.back().off;
    if (r.median_us > 0 && std::find(bad.begin(), bad.end(), r.variant) == bad.end())
      sizes.back().fastest.push_back(r.variant);
  }
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

const Known* load(Device d) {
  const std::string asked = asked_for(), path = tune_path(d);
  if (path.empty()) return nullptr;
  std::error_code error;
  if (asked.empty() && !std::filesystem::exists(path, error)) return nullptr;
  try {
    return new Known(known_of(file_of(d, path)));
  } catch (const DataError& e) {
    if (!asked.empty()) throw UsageError(str("WT_TUNE: ", e.what()));
    warn_once(path, str("not used: ", e.what(), "; `wt tune` writes it anew"));
    return nullptr;
  }
}

}  // namespace

const char* tune_verdict_name(TuneVerdict v) {
  static constexpr const char* kNames[] = {"right", "wrong", "unequal", "failed"};
  return kNames[int(v)];
}

std::string TuneFile::text() const {
  std::string out =
      str(kFirstLine, "\ndevice\t", field(device), "\ndriver\t", field(driver), "\nruntime\t",
          field(runtime), "\nwarptape\t", field(version), "\ndate\t", field(date), "\nstate\t",
          complete ? "complete" : "partial", "\n", kColumns, "\n");
  for (const TuneRow& r : rows)
    out += str(field(r.contract), "\t", field(r.dtype), "\t", field(r.shape), "\t", r.bytes, "\t",
               field(r.variant), "\t", tune_verdict_name(r.verdict), "\t", number(r.median_us),
               "\t", number(r.spread), "\t", number(r.fraction), "\t", field(r.bound), "\n");
  return out + str("end\t", rows.size(), "\n");
}

TuneFile TuneFile::parse(const std::string& text, const std::string& source) {
  int at = 0;
  const auto damaged = [&](const char* what) {
    throw DataError(str(source, ": line ", at, " of a tune file ", what));
  };
  if (!text.ends_with('\n'))
    throw DataError(str(source, " is no tune file, or its end is missing"));
  const std::vector<std::string_view> lines =
      split(std::string_view(text).substr(0, text.size() - 1), '\n');
  const auto next = [&]() -> std::string_view {
    if (size_t(at) == lines.size()) damaged("is missing");
    return lines[size_t(at++)];
  };
  if (next() != kFirstLine) damaged("is not \"warptape tune 1\"");
  TuneFile file;
  std::string state;
  const std::pair<const char*, std::string*> head[] = {
      {"device", &file.device},    {"driver", &file.driver}, {"runtime", &file.runtime},
      {"warptape", &file.version}, {"date", &file.date},     {"state", &state}};
  for (const auto& [key, value] : head) {
    const std::vector<std::string_view> f = split(next(), '\t');
    if (f.size() != 2 || f[0] != key) damaged("is another than expected");
    *value = f[1];
  }
  if (state != "complete" && state != "partial") damaged("has no such state");
  file.complete = state == "complete";
  if (next() != kColumns) damaged("has other columns");
  for (;;) {
    const std::string_view line = next();
    if (line.starts_with("end\t")) {
      size_t rows = 0;
      if (!read(line.substr(4), rows) || rows != file.rows.size()) damaged("counts other rows");
      break;
    }
    TuneRow r;
    if (!read_row(line, r)) damaged("is no row");
    file.rows.push_back(std::move(r));
  }
  if (size_t(at) != lines.size()) damaged("comes after the end");
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
  const std::string folder = cache_folder();
  if (folder.empty()) return {};
  std::string name = tune_device_name(d);
  for (char& c : name)
    if (!std::isalnum(u8(c))) c = '-';
  return str(folder, "/tune-", name, ".tsv");
}

std::string describe_tuning(Device d) {
  const std::string path = tune_path(d);
  if (path.empty()) return asked_for() == "off" ? "off (WT_TUNE)" : "none";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "none yet: wt tune makes it";
  try {
    const TuneFile f = file_of(d, path);
    i64 off = 0;
    for (const TuneRow& r : f.rows) off += r.verdict != TuneVerdict::right;
    return str(path, ", ", f.date, ", ", f.rows.size(), " rows", off ? str(", ", off, " off") : "",
               f.complete ? "" : ", not complete");
  } catch (const DataError& e) {
    return str("not used: ", e.what());
  }
}

namespace detail {

static bool look_for_files() {
  const std::string asked = asked_for();
  if (!asked.empty()) return asked != "off";
  // The names of devices are not asked for here: a program for the cpu never starts CUDA.
  const std::string folder = cache_folder();
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
  const auto found = at->second->sizes.find(key_of(contract, dtype_name(t)));
  if (found == at->second->sizes.end()) return nullptr;
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

void forget_tuning() {
  const std::lock_guard lock(tuning().mutex);
  tuning().of.clear();
  tuning().may.reset();
  mode.slow |= kSlowEnvironment;
}

}  // namespace detail
}  // namespace wt
