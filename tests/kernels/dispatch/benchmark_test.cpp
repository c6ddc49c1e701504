// benchmark(): what is launched at the first use of some sizes and afterwards, what stays in
// memory, what the tune file has. On a contract of the test's own, and by a clock of the test's
// own.
#include "warptape/kernels/dispatch/run_benchmark.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/machine/launch_timer.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/dispatch/run_first_use_lists.h"
#include "warptape/kernels/dispatch/run_tune_file.h"
#include "warptape/kernels/pool.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

namespace {

// out[i] = in[i] + 1 (+ out[i])
struct TimedArgs {
  wt::View out, in;
  bool accumulate = false;
  const char* what = "";
  wt::DType dtype = wt::DType::f32;
  wt::i64 bytes() const { return 2 * in.bytes(); }
  double flops() const { return double(in.numel()); }
};
std::string ran;

void add(const TimedArgs& a, char name) {
  ran += name;
  wt::synchronize(wt::Device::simt());  // what is queued before a launch runs before it
  const float *in = a.in.as<float>(), *const end = in + a.in.numel();
  for (float* out = a.out.as<float>(); in != end; ++in, ++out)
    *out = *in + 1 + (a.accumulate ? *out : 0);
}
void ranked(const TimedArgs& a, const wt::Launch& l) {
  CHECK(l.workspace != nullptr);
  add(a, 'r');
}
void quick(const TimedArgs& a, const wt::Launch& l) {
  CHECK(l.workspace != nullptr);
  if (std::string(a.what) == "quick throws") throw wt::NotAvailable("no plan");
  add(a, 'q');
  if (std::string(a.what) == "quick is wrong") a.out.as<float>()[0] = 0;
}
void loose(const TimedArgs& a, const wt::Launch&) { add(a, 'l'); }
void naive(const TimedArgs& a, const wt::Launch&) { add(a, 'n'); }
const char* seven_only(const TimedArgs& a) {
  return a.in.numel() == 7 ? nullptr : "takes 7 elements only";
}
wt::i64 some(const TimedArgs&) { return 64; }

constexpr wt::Variant<TimedArgs> kSimt[] = {
    {.name = "ranked", .rank = 30, .workspace = some, .launch = ranked},
    {.name = "loose", .rank = 25, .why_not = seven_only, .launch = loose, .deterministic = false},
    {.name = "quick", .rank = 20, .workspace = some, .launch = quick},
    {.name = "naive", .rank = 10, .launch = naive}};
const wt::Variants<TimedArgs> simt_rows{kSimt, 4};

}  // namespace

namespace wt {
template <>
struct ContractTable<TimedArgs> {
  static constexpr const char* kName = "a_benchmark_test";
  static const Variants<TimedArgs>* const rows[kNumDeviceKinds];
  static const detail::ErasedContract erased;
};
constinit const detail::ErasedContract ContractTable<TimedArgs>::erased =
    detail::erased_contract<TimedArgs>();
const Variants<TimedArgs>* const ContractTable<TimedArgs>::rows[kNumDeviceKinds] = {
    nullptr, &simt_rows, nullptr};
}  // namespace wt

using namespace wt;
using wt_test::warnings;

namespace {

// Microseconds by the variant that ran last; the others take 9.
std::map<char, double> microseconds;
double made_up(Device, const std::function<void()>& once, double) {
  once();
  const auto found = microseconds.find(ran.empty() ? ' ' : ran.back());
  return found == microseconds.end() ? 9 : found->second;
}

class Benchmarking {
 public:
  Benchmarking() {
    detail::touched_lists().add<TimedArgs>([](auto& a, auto& t) { t.out(a.out).in(a.in); });
    set_benchmark(true);
    next_process();
    (void)zeros({1}, {.device = Device::simt()});  // started
    microseconds = {{'q', 2}, {'l', 1}};
    std::filesystem::remove_all(folder() + "/new");
    next_process();
  }
  ~Benchmarking() {
    set_benchmark(false);
    tune_.set(nullptr);
    next_process(nullptr);
  }
  std::string file() const { return dir_ / "new/tune.tsv"; }
  std::string folder() const { return dir_.path; }
  // Of this test's contract.
  TuneFile rows() const {
    TuneFile all = read_tune_file(Device::simt(), file());
    std::erase_if(all.rows, [](const TuneRow& r) { return r.contract != "a_benchmark_test"; });
    return all;
  }
  void next_process(detail::LaunchTimer timer = made_up) {
    detail::forget_tuning();
    detail::forget_warnings();
    detail::plant_launch_timer(timer);
    detail::forget_timings();
  }

 private:
  TempDir dir_;
  wt_test::Environment tune_{"WT_TUNE", (dir_ / "new/tune.tsv").c_str()};
  wt_test::Warnings heard_;
};

// Which variants a launch over n elements runs; results go to `out`.
std::string runs(const Tensor& in, const char* what, Tensor& out, bool accumulate = false) {
  ran.clear();
  const i64 n = in.numel();
  if (!out.defined()) out = zeros({n}, {.device = Device::simt()});
  TimedArgs a;
  a.out = view_of(out.impl()), a.in = view_of(in.impl()), a.accumulate = accumulate, a.what = what;
  run(a, Launch{nullptr, nullptr, nullptr, Device::simt()});
  return ran;
}
std::string runs(i64 n, const char* what, Tensor& out, bool accumulate = false) {
  return runs(ones({n}).to(Device::simt()), what, out, accumulate);
}
std::string runs(i64 n, const char* what = "") {
  Tensor out;
  const std::string variants = runs(n, what, out);
  CHECK(out.to_vector<float>() == std::vector<float>(size_t(n), 2.0f));
  return variants;
}

}  // namespace

TEST_CASE("benchmark: every variant is timed at the first use, then the fastest is launched",
          "[benchmark]") {
  const LeakGuard guard;
  const Benchmarking on;
  CHECK(runs(100) == "rqnq");
  CHECK(runs(100) == "q");
  CHECK(runs(101) == "rqnq");  // other sizes, however near
  CHECK(runs(7) == "rlqnl");
  CHECK(runs(100) == "q");
  set_benchmark(false);
  CHECK(runs(100) == "r");
  CHECK(warnings().empty());
}

TEST_CASE("benchmark: tensors of equal bytes and other sizes have rankings of their own",
          "[benchmark]") {
  Benchmarking on;
  const auto of = [](const Shape& shape) {
    Tensor out;
    return runs(ones(shape).to(Device::simt()), "", out);
  };
  CHECK(of({4, 25}) == "rqnq");
  microseconds = {{'n', 1}};
  CHECK(of({25, 4}) == "rqnn");
  CHECK(of({100}) == "rqnn");
  CHECK(of({4, 25}) == "q");
  on.next_process();
  CHECK(of({25, 4}) == "n");
  CHECK(of({4, 25}) == "q");
}

TEST_CASE("benchmark: f32 products that may be rounded have rankings of their own", "[benchmark]") {
  const Benchmarking on;
  CHECK(runs(100) == "rqnq");
  set_matmul_precision(MatmulPrecision::high);
  microseconds = {{'n', 1}};
  CHECK(runs(100) == "rqnn");
  set_matmul_precision(MatmulPrecision::highest);
  CHECK(runs(100) == "q");
}

TEST_CASE("benchmark: what a product, a convolution and a pooling measure", "[benchmark]") {
  MatmulArgs m;
  m.m = 4, m.n = 6, m.k = 8;
  const u64 tall = detail::sizes_of(m);
  std::swap(m.m, m.k);
  CHECK(detail::sizes_of(m) != tall);
  ConvForwardArgs c{};
  for (int d = 0; d < 3; ++d)
    c.shape.in[d] = c.shape.out[d] = c.shape.kernel[d] = c.shape.stride[d] = 3,
    c.shape.padding[d] = c.shape.dilation[d] = 1;
  const u64 dense = detail::sizes_of(c);
  c.shape.dilation[2] = 2;
  CHECK(detail::sizes_of(c) != dense);
  PoolShape p{};
  for (int d = 0; d < 3; ++d)
    p.in[d] = p.out[d] = p.kernel[d] = p.stride[d] = p.padding[d] = p.dilation[d] = 1;
  AvgPoolForwardArgs a{p, {}, {}};
  const u64 pooled = detail::sizes_of(a);
  a.shape.stride[1] = 2;
  CHECK(detail::sizes_of(a) != pooled);
}

TEST_CASE("benchmark: results that are added to what is there are added once", "[benchmark]") {
  const Benchmarking on;
  Tensor out;
  CHECK(runs(20, "", out, true) == "rqnq");
  CHECK(out.to_vector<float>() == std::vector<float>(20, 2.0f));
  CHECK(runs(20, "", out, true) == "q");
  CHECK(out.to_vector<float>() == std::vector<float>(20, 4.0f));
}

TEST_CASE("benchmark: the tune file keeps what was found for the next process", "[benchmark]") {
  Benchmarking on;
  CHECK(runs(100) == "rqnq");
  const TuneFile file = on.rows();
  CHECK(file.device == "simt");
  REQUIRE(file.rows.size() == 3);
  CHECK(file.rows[0].contract == "a_benchmark_test");
  CHECK(file.rows[0].variant == "quick");
  CHECK(file.rows[0].bytes == 800);
  CHECK(file.rows[0].median_us == 2);
  CHECK(timed_at_first_use(file.rows[0]));
  CHECK(mentions(describe_tuning(Device::simt()), " by WT_BENCHMARK"));
  microseconds = {{'n', 1}};
  on.next_process();
  CHECK(runs(100) == "q");
  // Rows of another build say nothing, and go as the file is written anew.
  TuneFile other = on.rows();
  for (TuneRow& r : other.rows) r.shape = "0.0 other";
  std::ofstream(on.file(), std::ios::binary) << other.text();
  on.next_process();
  CHECK(runs(100) == "rqnn");
  CHECK(on.rows().rows.size() == 3);
  CHECK(on.rows().rows[0].variant == "naive");
}

TEST_CASE("benchmark: its rows are of their own sizes alone, those of wt tune stay",
          "[benchmark]") {
  Benchmarking on;
  CHECK(runs(100) == "rqnq");
  TuneFile file = on.rows();
  file.rows.push_back(
      {"a_benchmark_test", "f32", "small", "", "naive", 8000, TuneVerdict::right, 1});
  std::ofstream(on.file(), std::ios::binary) << file.text();
  on.next_process();
  CHECK(runs(200) == "rqnq");
  CHECK(on.rows().rows.size() == 7);
  set_benchmark(false);
  on.next_process();
  CHECK(runs(100) == "n");  // the nearest that wt tune has measured
}

TEST_CASE("benchmark: what the user names is launched as it is", "[benchmark]") {
  const Benchmarking on;
  {
    const VariantScope named("*", "naive");
    CHECK(runs(100) == "n");
  }
  CHECK(runs(100) == "rqnq");
  const DeterminismScope strict(Determinism::strict);
  CHECK(runs(7) == "rqnq");
}

TEST_CASE("benchmark: a fastest that is not deterministic gives way under strict determinism",
          "[benchmark]") {
  const Benchmarking on;
  CHECK(runs(7) == "rlqnl");
  const DeterminismScope strict(Determinism::strict);
  CHECK(runs(7) == "q");
}

TEST_CASE("benchmark: a variant that cannot, or is wrong, is none of the fastest", "[benchmark]") {
  Benchmarking on;
  CHECK(runs(100, "quick throws") == "rnr");
  const wt_test::Environment file("WT_FIRST_USE", (on.folder() + "/first.tsv").c_str());
  detail::forget_first_uses();
  detail::start_first_uses(DeviceKind::simt);
  CHECK(runs(3000, "quick is wrong").back() == 'r');
  CHECK(warnings().size() == 1);
  CHECK(mentions(warnings().at(0), "variant quick of a_benchmark_test is not used on simt"));
  CHECK(on.rows().rows.size() == 4);
  detail::stop_first_uses(DeviceKind::simt);
  detail::forget_first_uses();
}

TEST_CASE("benchmark: a file that cannot be used is named and left, and timings hold here",
          "[benchmark]") {
  Benchmarking on;
  std::ofstream(on.folder() + "/new") << "no folder";
  CHECK(runs(100) == "rqnq");
  CHECK(runs(100) == "q");
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0], "timings of kernels are not kept: "));
  std::ifstream there(on.folder() + "/new");
  std::string text;
  std::getline(there, text);
  CHECK(text == "no folder");
}

TEST_CASE("benchmark: nothing is timed on simt without a file, and nothing on the cpu",
          "[benchmark]") {
  Benchmarking on;
  const wt_test::Environment none("WT_TUNE", nullptr);
  on.next_process();
  CHECK(runs(100) == "r");
}

TEST_CASE("benchmark: the clock launches a slow variant no more than it must", "[benchmark]") {
  const Device d = Device::simt();
  int launches = 0;
  CHECK(detail::time_launches(
            d, [&] { ++launches; }, 0) > 0);
  CHECK(launches > 6);
  launches = 0;
  CHECK(detail::time_launches(
            d, [&] { ++launches; }, 1e-9) > 0);
  CHECK(launches == 2);
}

TEST_CASE("benchmark: WT_BENCHMARK begins it, set_benchmark() has the last word", "[benchmark]") {
  for (const auto& [text, on] : std::vector<std::pair<const char*, bool>>{
           {nullptr, false}, {"", false}, {"0", false}, {"1", true}}) {
    const wt_test::Environment asked("WT_BENCHMARK", text);
    detail::forget_benchmark();
    CHECK(benchmark() == on);
    set_benchmark(!on);
    CHECK(benchmark() == !on);
  }
  set_benchmark(false);
}
