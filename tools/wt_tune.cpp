// wt tune: proves and times every variant on a device, for `run` to choose by.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/gpu/problems.h"
#include "warptape/core/atomic_file.h"
#include "warptape/core/build_info.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/factories.h"
#include "warptape/core/op_info.h"
#include "warptape/core/progress.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/exit_codes.h"
#include "warptape/tools/run_signals.h"
#include "warptape/tools/std_output.h"
#include "warptape/tools/tuner.h"
#include "warptape/tools/wt.h"

namespace wt::tools {
namespace {

using bench::Problem;
using bench::ProblemRow;
using bench::Scale;

constexpr int kMostRestarts = 64;

struct Options {
  std::string device = "cuda:0", output;
  std::vector<std::string> only;
  bool quick = false, fresh = false;
};

// --- what is proved and timed ---

bool deterministic(const std::string& contract, DeviceKind d, const std::string& variant) {
  for (const ContractInfo& c : all_contracts()) {
    if (contract != c.name) continue;
    for (int i = 0; i < c.count(d); ++i)
      if (variant == c.variant(d, i).name) return c.variant(d, i).deterministic;
  }
  return true;
}

std::vector<double> launch_once(Problem& p, const bench::VariantRun& v) {
  if (!p.in_place) bench::poison_outputs(p);
  v.launch(0);
  synchronize(p.device);
  return bench::sample_outputs(p);
}

// Rates of products so far, in FLOP/us by dtype: the ceiling of those that follow. Products of
// matrices come first.
std::map<DType, double>& product_rates() {
  static std::map<DType, double> rates;
  return rates;
}

TuneTime time_of(const Problem& p, const bench::VariantRun& v, const TuneFile& file, bool quick) {
  bench::TimingLimits limits{.seconds = quick ? 0.02 : 0.15};
  limits.loaded = true;
  bench::Row r{.bench = p.contract, .dtype = dtype_name(p.dtype)};
  r.bytes = p.bytes, r.flops = p.flops;
  r.time = bench::time_cold(p.device, v.launch, limits);
  double& rate = product_rates()[p.dtype];
  if (p.contract == "matmul") rate = std::max(rate, r.flops / r.time.median_us);
  bench::Ceilings c;
  c.copy_gb_s = file.copy_gb_s;
  (p.dtype == DType::f32 ? c.gemm_32_tflop_s : c.gemm_16_tflop_s) = rate * 1e-6;
  bench::compare_with_roof(r, p.dtype, c);
  return {r.time.median_us, (r.time.p90_us - r.time.p10_us) / r.time.median_us, r.ratio, r.bound};
}

// At small sizes the cpu says what is right, at large ones the plainest variant of the device.
TuneSubject subject_of(const ProblemRow& row, Device d, DType t, Scale scale, int shape,
                       const TuneFile& file, bool quick) {
  const bool small = scale == Scale::small;
  const auto made = [&row, d, t, scale, shape] {
    return std::make_shared<Problem>(row.make(d, t, scale, shape, 1));
  };
  TuneSubject s;
  const std::shared_ptr<Problem> p = made();
  s.shape = p->shape, s.bytes = i64(p->bytes), s.tolerance = bench::tolerance(t);
  for (size_t i = p->variants.size(); i-- > 0;) {
    const bench::VariantRun& v = p->variants[i];
    if (v.why_not()) continue;
    TuneVariant one{v.name, deterministic(row.contract, d.kind, v.name), {}, {}};
    one.values = [p, i, small, made] {
      // What works in place has to begin with the same operands each time.
      const std::shared_ptr<Problem> own = p->in_place && small ? made() : p;
      return p->in_place && !small ? std::vector<double>() : launch_once(*own, own->variants[i]);
    };
    if (!small)
      one.time = [p, i, &file, quick] { return time_of(*p, p->variants[i], file, quick); };
    s.variants.push_back(one);
  }
  if (s.variants.empty()) return s;
  if (!small) {
    s.want = s.variants[0].values();
    return s;
  }
  Problem cpu = row.make(Device::cpu(), t, scale, shape, 1);
  for (const bench::VariantRun& v : cpu.variants)
    if (!v.why_not() && (v.name == "reference" || &v == &cpu.variants.back()))
      s.want = launch_once(cpu, v);
  return s;
}

std::string size_name(Scale scale, int shape) {
  return str(scale == Scale::small ? "small " : scale == Scale::host ? "host " : "real ", shape);
}

std::vector<TuneTask> tasks_of(const Options& o, Device d, const TuneFile& file) {
  std::vector<TuneTask> tasks;
  std::vector<Scale> scales{Scale::small};
  if (d.kind == DeviceKind::cuda) scales.push_back(Scale::host);
  if (d.kind == DeviceKind::cuda && !o.quick) scales.push_back(Scale::real);
  std::vector<ProblemRow> rows = bench::problem_rows();
  std::stable_partition(rows.begin(), rows.end(),
                        [](const ProblemRow& r) { return r.contract == "matmul"; });
  for (const ProblemRow& row : rows) {
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.contract) == o.only.end())
      continue;
    for (const Scale scale : scales)
      for (const DType t : row.dtypes)
        for (int shape = 0; shape < (o.quick ? 1 : row.shapes); ++shape)
          tasks.push_back({row.contract, dtype_name(t), size_name(scale, shape),
                           [row, d, t, scale, shape, &file, quick = o.quick] {
                             return subject_of(row, d, t, scale, shape, file, quick);
                           }});
  }
  return tasks;
}

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
TuneFile begin_file(const Options& o, Device d, const std::string& path) {
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
  fresh.copy_gb_s = copy_rate(d);
  return fresh;
}

// --- running ---

std::string path_of(const Options& o, Device d) {
  const std::string path = o.output.empty() ? tune_path(d) : o.output;
  if (path.empty()) throw UsageError("no HOME and no XDG_CACHE_HOME: --output FILE says where");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw CheckpointError(str(folder.string(), " cannot be made: ", error.message()));
  return path;
}

int work(const Options& o, Device d, const std::string& path) {
  const RunSignals signals;
  TuneFile file = begin_file(o, d, path);
  const std::vector<TuneTask> tasks = tasks_of(o, d, file);
  bool all;
  {
    Progress bar({.desc = "tune", .total = i64(tasks.size()), .unit = "size"});
    all = tune(tasks, file,
               {.path = path,
                .stopped = [&] { return signals.stop_requested(); },
                .done = [&](size_t n) { bar.update(i64(n) - bar.count()); }});
  }
  const std::string page = std::filesystem::path(path).replace_extension(".html").string();
  write_file_atomically(page, tune_page(file));
  std::printf("%s%s\n%s\n", tune_table(file).c_str(), path.c_str(), page.c_str());
  if (!all) std::printf("stopped: the same command goes on\n");
  flush_stdout();
  return all ? int(kExitOk) : signals.exit_code();
}

// The child's part: nothing of the device is touched before it.
int child_work(const Options& o, Device d, int path_to) {
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

// A kernel that faults takes the device away from its whole process: the work is done by a child,
// and another one goes on behind the variant that ended it.
int work_in_children(Options o, Device d) {
  for (int restart = 0; restart < kMostRestarts; ++restart, o.fresh = false) {
    int ends[2];
    if (::pipe(ends) != 0) throw DeviceError("[tune] no pipe can be made");
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw DeviceError("[tune] no process can be made");
    if (child == 0) {
      ::close(ends[0]);
      const int code = child_work(o, d, ends[1]);
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(ends[1]);
    const RunSignals held;  // Ctrl-C is the child's, which ends in order
    std::string path;
    char piece[256];
    for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) != 0;)
      if (n > 0) path.append(piece, size_t(n));
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {}
    const bool died = WIFSIGNALED(status) || WEXITSTATUS(status) == kExitDevice;
    std::error_code error;
    if (!died || path.empty() || !std::filesystem::exists(path + ".trying", error))
      return WIFSIGNALED(status) ? int(kExitBug) : WEXITSTATUS(status);
  }
  std::fprintf(stderr, "wt: %d variants ended the process; no more are tried\n", kMostRestarts);
  return kExitDevice;
}

int tune_device(Options o) {
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

void add_tune(CLI::App& app, int& code) {
  CLI::App* c = app.add_subcommand(
      "tune",
      "proves every kernel variant on a device against the cpu, times those that are right, and "
      "writes the file by which the library chooses from then on");
  auto o = std::make_shared<Options>();
  c->add_option("--device", o->device, "cuda:N, or simt, where values are proved and nothing timed")
      ->capture_default_str();
  c->add_flag("--quick", o->quick, "one size a kernel, short measurements");
  c->add_option("--op", o->only, "this kernel or operator, and those of further --op");
  c->add_option("--output", o->output, "the file, if not the one in the cache folder");
  c->add_flag("--fresh", o->fresh, "nothing is taken over from the file that is there");
  c->callback([o, &code] { code = tune_device(*o); });
}

}  // namespace wt::tools
