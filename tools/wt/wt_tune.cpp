// wt tune: proves and times every variant on a device, for `run` to choose by.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "warptape/bench/gpu/measure.h"
#include "warptape/core/build_info.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/op_info.h"
#include "warptape/core/progress.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/measure/op_facts.h"
#include "warptape/tools/wt/measure/tuner.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/append_file.h"
#include "warptape/tools/wt/training/run_signals.h"
#include "warptape/tools/wt/wt.h"
#include "warptape/tools/wt/wt_tune_tasks.h"

namespace wt::tools {
namespace {

constexpr int kMostRestarts = 64;
constexpr int kExitLeft = 3;          // the time of --for was over
constexpr double kDeathSeconds = 20;  // that the driver may take to end a killed process

// --- the file ---

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

double copy_rate(Device d) {
  if (d.kind != DeviceKind::cuda) return 0;
  const i64 bytes = i64{1} << 30;
  const Tensor from = zeros({bytes / 4}, {.device = d}), to = empty({bytes / 4}, {.device = d});
  const bench::Timing t = bench::time_batch(
      d, 5, [&](int) { copy_bytes(to.impl()->data, d, from.impl()->data, d, bytes); });
  return 2.0 * double(bytes) / t.median_us * 1e-3;
}

// What is there already and was stopped halfway goes on; of a complete one only the kernels that
// are asked for are measured again.
TuneFile begin_file(const WtTuneOptions& o, Device d, const std::string& path) {
  const bench::Machine m = bench::describe_machine(d);
  TuneFile fresh{.device = tune_device_name(d),
                 .driver = m.driver,
                 .runtime = m.runtime,
                 .version = str(build_info().version, " ", build_info().commit),
                 .date = today()};
  std::error_code error;
  if (!o.fresh && std::filesystem::exists(path, error)) {
    try {
      std::ifstream in(path, std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      TuneFile old = TuneFile::parse(text.str(), path);
      const bool same = old.device == fresh.device && old.driver == fresh.driver &&
                        old.runtime == fresh.runtime && old.version == fresh.version;
      if (same && !old.complete) return old;
      if (same && !o.only.empty()) {
        std::erase_if(old.rows, [&](const TuneRow& r) {
          return std::find(o.only.begin(), o.only.end(), r.contract) != o.only.end();
        });
        return old;
      }
    } catch (const DataError& e) {
      std::fprintf(stderr, "written anew: %s\n", printable_lines(e.what()).c_str());
    }
  }
  if (o.small) return fresh;
  fresh.copy_gb_s = known_ceilings(o, d).copy_gb_s;
  if (fresh.copy_gb_s == 0) fresh.copy_gb_s = copy_rate(d);
  return fresh;
}

// --- running ---

std::string path_of(const WtTuneOptions& o, Device d) {
  const std::string path = o.output.empty() ? tune_path(d) : o.output;
  if (path.empty()) throw UsageError("no HOME and no XDG_CACHE_HOME: --output FILE says where");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw CheckpointError(str(folder.string(), " cannot be made: ", error.message()));
  return path;
}

bench::Row json_row(const TuneRow& t) {
  bench::Row r{.bench = t.contract, .impl = t.variant, .shape = t.shape, .dtype = t.dtype};
  r.time.median_us = t.median_us;
  r.ratio = t.fraction, r.bound = t.bound;
  r.bytes = t.median_us > 0 ? double(t.bytes) : 0;
  r.check = tune_verdict_name(t.verdict);
  r.words = {{"size", t.size}};
  return r;
}

// Whether the last line of a file was being written as its process ended.
bool ends_within_a_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return in.seekg(-1, std::ios::end) && in.get() != '\n';
}

// Whoever ends the process, at any time, finds whole lines.
class JsonRows {
 public:
  JsonRows(const std::string& path, Device d) {
    if (path.empty()) return;
    const bool torn = ends_within_a_line(path);
    file_.emplace(path);
    if (torn) file_->append("\n");
    machine_ = bench::describe_machine(d);
  }
  void add(const TuneRow& r) {
    if (file_) file_->append(to_json(json_row(r), machine_) + "\n");
  }

 private:
  std::optional<AppendFile> file_;
  bench::Machine machine_;
};

int work(const WtTuneOptions& o, Device d, const std::string& path) {
  const RunSignals signals;
  TuneFile file = begin_file(o, d, path);
  const std::vector<TuneTask> tasks = tune_tasks(o, d, file);
  JsonRows rows(o.json, d);
  bool all;
  size_t done = 0;
  {
    Progress bar({.desc = "tune", .total = i64(tasks.size()), .unit = "size"});
    all = tune(tasks, file,
               {.path = path,
                .stopped = [&] { return signals.stop_requested() || o.time_is_over(); },
                .done =
                    [&](size_t n) {
                      done = n;
                      bar.update(i64(n) - bar.count());
                    },
                .found = [&](const TuneRow& r) { rows.add(r); }});
  }
  const std::string page = std::filesystem::path(path).replace_extension(".html").string();
  write_file_atomically(page, tune_page(file));
  std::printf("%s%s\n%s\n", tune_table(file).c_str(), path.c_str(), page.c_str());
  const bool late = !all && !signals.stop_requested();
  if (late)
    std::printf("LEFT: %zu of %zu sizes; the same command goes on\n", tasks.size() - done,
                tasks.size());
  else if (!all)
    std::printf("stopped: the same command goes on\n");
  flush_stdout();
  return all ? int(kExitOk) : late ? kExitLeft : signals.exit_code();
}

// The child's part: nothing of the device is touched before it.
int child_work(const WtTuneOptions& o, Device d, int path_to) {
  try {
    require_available(d);
    const std::string path = path_of(o, d);
    if (::write(path_to, path.data(), path.size()) != ssize_t(path.size())) return kExitBug;
    return work(o, d, path);
  } catch (const std::exception& e) {
    end_progress_line();
    std::fprintf(stderr, "wt: %s\n", printable_lines(e.what()).c_str());
    return exit_code_of(e);
  }
}

// What the parent knows of the child that works.
struct Child {
  pid_t pid;
  int path_from;
  std::string path = {};  // of the file, as the child said
  bool hung = false;      // and was ended for that
};

Child begin_child(const WtTuneOptions& o, Device d) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw DeviceError("[tune] no pipe can be made");
  std::fflush(nullptr);
  Child child{.pid = ::fork(), .path_from = ends[0]};
  if (child.pid < 0) throw DeviceError("[tune] no process can be made");
  if (child.pid == 0) {
    ::close(ends[0]);
    const int code = child_work(o, d, ends[1]);
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  return child;
}

// Seconds that the child has been trying the same variant; 0 where it tries none.
double trying_for(const std::string& path) {
  std::error_code error;
  const auto begun = std::filesystem::last_write_time(path + ".trying", error);
  if (path.empty() || error) return 0;
  return std::chrono::duration<double>(decltype(begun)::clock::now() - begun).count();
}

// Waits for its end, which comes by force where it hangs. False: not even then.
bool wait_for(Child& child, const WtTuneOptions& o, int& status) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> killed;
  for (char piece[256];;) {
    pollfd from{child.path_from, POLLIN, 0};
    if (::poll(&from, 1, 100) > 0) {
      const ssize_t n = ::read(child.path_from, piece, sizeof piece);
      if (n > 0) child.path.append(piece, size_t(n));
      if (n == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it is ending
    }
    if (::waitpid(child.pid, &status, WNOHANG) == child.pid) return true;
    if (killed) {
      if (Clock::now() - *killed > std::chrono::duration<double>(kDeathSeconds)) return false;
    } else if (trying_for(child.path) > o.patience) {
      std::fprintf(stderr, "wt: nothing for %g s: the variant hangs, and its process is ended\n",
                   o.patience);
      ::kill(child.pid, SIGKILL);
      child.hung = true;
      killed = Clock::now();
    }
  }
}

// Whether what the child tried ended it, not somebody else: the system without memory, Ctrl-C.
bool at_fault(const Child& child, int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status) == kExitDevice;
  const int own[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP};
  return child.hung || std::find(std::begin(own), std::end(own), WTERMSIG(status)) != std::end(own);
}

// A kernel that faults takes the device away from its whole process, and one that hangs all of its
// time: the work is done by a child, and another one goes on behind the variant that ended it.
int work_in_children(WtTuneOptions o, Device d) {
  for (int restart = 0; restart < kMostRestarts; ++restart, o.fresh = false) {
    Child child = begin_child(o, d);
    const RunSignals held;  // Ctrl-C is the child's, which ends in order
    int status = 0;
    const bool ended = wait_for(child, o, status);
    ::close(child.path_from);
    if (!ended) throw DeviceError("[tune] a process that hangs on the device cannot be ended");
    std::error_code error;
    const std::string note = child.path + ".trying";
    if (!at_fault(child, status) || child.path.empty() || !std::filesystem::exists(note, error))
      return WIFSIGNALED(status) ? int(kExitBug) : WEXITSTATUS(status);
    blame_noted(child.path, child.hung ? kTuneHung : kTuneEnded);
  }
  std::fprintf(stderr, "wt: %d variants ended the process; no more are tried\n", kMostRestarts);
  return kExitDevice;
}

int tune_device(WtTuneOptions o) {
  o.only = contracts_of(o.only);
  const Device d = Device::parse(o.device.c_str());
  if (d.kind == DeviceKind::cpu)
    throw UsageError("--device: the cpu is what the others are held against");
  if (d.kind == DeviceKind::simt && o.output.empty())
    throw UsageError(
        "--output FILE is needed on simt, whose times mean nothing: `run` reads such a file only "
        "where WT_TUNE names it");
  if (d.kind == DeviceKind::cuda) return work_in_children(o, d);
  return work(o, d, path_of(o, d));
}

}  // namespace

std::vector<std::string> contracts_of(const std::vector<std::string>& names) {
  std::vector<std::string> all, wanted;
  for (const ContractInfo& c : all_contracts()) all.push_back(c.name);
  for (const std::string& n : names) {
    bool known = false;
    // An operator's name stands for its contracts: softmax for softmax_forward, softmax_backward,
    // and conv2d, whose kernels are not called so, for those that it runs.
    for (const std::string& c : all)
      if (c == n || c.starts_with(n + "_")) wanted.push_back(c), known = true;
    if (!known) {
      const std::vector<std::string> run = contracts_of_operator(n);
      wanted.insert(wanted.end(), run.begin(), run.end());
      known = !run.empty();
    }
    if (!known) throw UsageError(str("--op: no kernel is called '", n, "'", did_you_mean(n, all)));
  }
  return wanted;
}

void add_tune(Command app, int& code) {
  const Command c = app.add_subcommand(
      "tune",
      "proves every kernel variant on a device against the cpu, times those that are right, and "
      "writes the file by which the library chooses from then on");
  auto o = std::make_shared<WtTuneOptions>();
  c.add_option("--device", o->device, "cuda:N, or simt, where values are proved and nothing timed")
      .show_default();
  c.add_flag("--quick", o->quick, "one size a kernel, short measurements");
  c.add_option("--op", o->only, "this kernel or operator, and those of further --op");
  c.add_option("--output", o->output, "the file, if not the one in the cache folder");
  c.add_flag("--small", o->small, "small sizes alone, which are proved and not timed");
  c.add_option("--seconds", o->seconds, "time of one measurement").show_default().check(positive());
  c.add_option("--for", o->most,
               "seconds after which nothing is begun: exit code 3, and the same command goes on")
      .check(positive());
  c.add_option("--patience", o->patience,
               "seconds after which a variant hangs: its process is ended, and it is off")
      .show_default()
      .check(positive());
  c.add_option("--json", o->json, "each result as a line of JSON at the end of this file");
  c.add_flag("--fresh", o->fresh, "nothing is taken over from the file that is there");
  c.callback([o, &code] { code = tune_device(*o); });
}

}  // namespace wt::tools
