#include "warptape/bench/gpu/gpu_bench_jobs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/memory.h"
#include "warptape/core/suggest.h"

namespace wt::bench {
namespace {

std::string two_digits(double v, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, v < 10 ? "%.2f%s" : "%.0f%s", v, unit);
  return text;
}
std::string rate_of(const Row& r) {
  if (!(r.time.median_us > 0)) return "-";
  if (r.bound == "gemm" || (r.flops > 0 && r.bytes == 0))
    return two_digits(r.flops / r.time.median_us * 1e-6, " TFLOP/s");
  return r.bytes > 0 ? two_digits(r.bytes / r.time.median_us * 1e-3, " GB/s") : std::string("-");
}

std::string line_of(const Row& r) {
  char text[256];
  std::snprintf(text, sizeof text, "%-20s %-20s %-22s %-5s", r.bench.c_str(), r.impl.c_str(),
                r.shape.c_str(), r.dtype.c_str());
  std::string line = text;
  if (r.time.samples > 0) {
    std::snprintf(text, sizeof text, " %10.2f us  p10 %.2f  p90 %.2f  %-14s", r.time.median_us,
                  r.time.p10_us, r.time.p90_us, rate_of(r).c_str());
    line += text;
  }
  if (r.ratio > 0) line += two_digits(100 * r.ratio, " % of ") + r.bound;
  for (const auto& [key, value] : r.more) line += str(" ", key, " ", value);
  return line + " " + r.check;
}

std::string in_one_line(std::string text) {
  for (size_t at; (at = text.find('\n')) != std::string::npos;) {
    const size_t end = text.find_first_not_of(" \n", at);
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, "; ");
  }
  return text;
}

bool listed(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

void check_names(const char* option, const std::string& names) {
  std::vector<std::string> known;
  for (const ContractInfo& c : all_contracts()) known.push_back(c.name);
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (!name.empty() && std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(str(option, ": no contract is called '", printable(name), "'",
                           did_you_mean(name, known)));
    begin = end + 1;
  }
}

}  // namespace

RowFile::RowFile(const BenchOptions& o) : path_(o.json), machine_(describe_machine(o.device)) {
  if (path_.empty()) return;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw CheckpointError(printable_path(path_) + " cannot be written: " + std::strerror(errno));
}
RowFile::~RowFile() {
  if (fd_ >= 0) ::close(fd_);
}

void RowFile::keep(const Row& r) {
  keep_silently(r);
  say(line_of(r));
}

// One write a row: other processes may append to the same file.
void RowFile::keep_silently(const Row& r) {
  if (fd_ < 0) return;
  const std::string line = to_json(r, machine_) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw CheckpointError(printable_path(path_) + " cannot be written: " + std::strerror(errno));
    done += size_t(n);
  }
}

bool RowFile::attempt(Row& r, const std::function<void()>& measure) {
  const auto failed = [&](const char* how, const std::exception& e) {
    const std::string text = in_one_line(e.what());
    r.check = str(how, ": ", text);
    r.time = {};
    keep_silently(r);
    say(str(how, ": ", r.bench, " ", r.impl, " ", r.shape, " ", r.dtype, ": ", text));
  };
  try {
    measure();
    return true;
  } catch (const DeviceError& e) {
    failed("FAILED", e);
    throw;
  } catch (const OutOfMemory& e) {
    failed("OUT OF MEMORY", e);
    memory::empty_cache();
  } catch (const std::exception& e) {
    failed("FAILED", e);
  }
  return false;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string walk_contracts(const BenchOptions& o,
                           const std::function<void(const ProblemRow&)>& one) {
  check_names("--only", o.only);
  check_names("--skip", o.skip);
  check_names("--plant", o.plant.place());
  bool begun = o.from.empty(), any = false;
  for (const ProblemRow& row : problem_rows()) {
    begun |= row.contract == o.from;
    if (!begun || listed(o.skip, row.contract)) continue;
    if (!o.only.empty() && !listed(o.only, row.contract)) continue;
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - o.start;
    if (any && o.all_seconds > 0 && gone.count() > o.all_seconds) return row.contract;
    any = true;
    say("BEGIN " + row.contract);
    one(row);
  }
  if (!begun) throw UsageError("--from: no row of bench/gpu is called " + printable(o.from));
  return {};
}

int end_walk(bool good, const std::string& left) {
  if (!left.empty()) say("LEFT: from " + left);
  return !good ? kBenchWrong : left.empty() ? kBenchRight : kBenchLeft;
}

}  // namespace wt::bench
