#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "warptape/core/build_info.h"
#include "warptape/core/cache_folder.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/core/machine.h"
#include "warptape/core/machine/sources.h"
#include "warptape/core/warning.h"

namespace wt::machine {
namespace {

constexpr u64 kMostBytes = u64{1} << 20;  // a hundred figures have ten thousand

std::string asked_file() {
  const char* text = std::getenv("WT_MACHINE");
  return text ? text : "";
}

// A kind of machine a file: the home folder of a cluster is one for all of its nodes.
std::string file_name(const Measured& m) {
  std::string name = str("machine-", m.processor, "-", m.processors);
  for (char& c : name)
    if (!std::isalnum(u8(c))) c = '-';
  return name + ".tsv";
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

// True: a cuda device that is not the one that was measured.
bool another_gpu(const MeasuredDevice& d, Device now) {
  if (now.kind != DeviceKind::cuda) return false;
  return now.index >= cuda::device_count() || cuda::properties(now.index).name != d.name;
}

double value_of(const Measured& m, Device d, const char* what, const char* how,
                const char* dtype = "") {
  const std::string place = to_string(d);
  for (const MeasuredDevice& known : m.devices)
    if (known.place == place && another_gpu(known, d)) return 0;
  const Figure* f = m.find(place, what, how, dtype);
  return f ? f->value : 0;
}

}  // namespace

const Figure* Measured::find(const std::string& place, const std::string& what,
                             const std::string& how, const std::string& dtype) const {
  for (const Figure& f : figures)
    if (f.place == place && f.what == what && (how.empty() || f.how == how) &&
        (dtype.empty() || f.dtype == dtype))
      return &f;
  return nullptr;
}

double Measured::copy_gb_s(Device d) const { return value_of(*this, d, "copy", ""); }
double Measured::product_gflop_s(Device d, DType t, bool tf32) const {
  return value_of(*this, d, "product", tf32 ? "tf32" : "exact", dtype_name(t));
}
double Measured::to_device_gb_s(Device d, bool pinned) const {
  return value_of(*this, d, "to device", pinned ? "pinned" : "pageable");
}
double Measured::to_host_gb_s(Device d, bool pinned) const {
  return value_of(*this, d, "to host", pinned ? "pinned" : "pageable");
}
double Measured::launch_us(Device d) const { return value_of(*this, d, "launch", "back to back"); }

double Measured::disk_read_gb_s(bool cold) const {
  const Figure* f = find("disk", "read", cold ? "cold" : "warm");
  return f ? f->value : 0;
}

bool Measured::stands_in(Device d) const {
  const std::string place = to_string(d);
  return std::any_of(devices.begin(), devices.end(), [&](const MeasuredDevice& known) {
    return known.place == place && known.stands_in;
  });
}

Measured this_machine() {
  HostCounters counters;
  const Host h = host_now({}, counters);
  Measured m;
  m.processor = h.processor;
  m.processors = h.processors;
  m.memory_bytes = std::max<i64>(0, h.memory_total);
  m.version = build_info().version;
  m.date = date_text();
  return m;
}

std::string differs_from_here(const Measured& m) {
  const Measured here = this_machine();
  if (m.processor != here.processor)
    return str("it is of a machine with the processor ", printable(m.processor), ", this one has ",
               here.processor);
  if (m.processors != here.processors)
    return str("it is of a machine with ", m.processors, " processors, here there are ",
               here.processors);
  // A few per cent differ from boot to boot.
  const double there = double(m.memory_bytes), ours = double(here.memory_bytes);
  if (std::max(there, ours) > 1.1 * std::min(there, ours))
    return str("it is of a machine with ", m.memory_bytes >> 20, " MiB of memory, this one has ",
               here.memory_bytes >> 20);
  return {};
}

std::string measured_file() {
  const std::string asked = asked_file();
  if (asked == "off") return {};
  if (!asked.empty()) return asked;
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : str(folder, "/", file_name(this_machine()));
}

void keep_measured(const Measured& m) {
  const std::string path = measured_file();
  if (path.empty())
    throw UsageError(asked_file() == "off" ? "WT_MACHINE=off: what was measured has no file"
                                           : "there is no home folder to keep it in\n  Try "
                                             "WT_MACHINE=FILE");
  std::error_code error;  // the write names what is wrong
  std::filesystem::create_directories(std::filesystem::absolute(path, error).parent_path(), error);
  write_file_atomically(path, m.text(), {.durable = false});
}

Known measured() {
  Known known{.figures = {}, .path = measured_file(), .why_not = {}};
  std::error_code error;
  if (known.path.empty()) {
    known.why_not = asked_file() == "off" ? "off (WT_MACHINE)" : "there is no home folder for it";
    return known;
  }
  if (!std::filesystem::exists(known.path, error)) {
    known.why_not = str("there is no ", known.path, ": wt bench machine makes it");
    return known;
  }
  try {
    const InputFile in(known.path);
    if (in.size() > kMostBytes)
      throw DataError(
          str(known.path, " is no file of wt bench machine: it has ", in.size(), " bytes"));
    std::string text(size_t(in.size()), ' ');
    in.read(0, text.data(), text.size(), "the figures");
    Measured m = Measured::parse(text, known.path);
    if (const std::string other = differs_from_here(m); !other.empty())
      throw DataError(str(known.path, " is not used: ", other));
    known.figures = std::move(m);
  } catch (const DataError& e) {
    known.why_not = str(e.what(), "\n  Try wt bench machine, which makes it anew");
    warn_once(known.path, known.why_not);
  }
  return known;
}

}  // namespace wt::machine
