// First uses of variants: what is launched, what stays in memory, what is remembered. On a contract
// of the test's own, whose rows add, one of them wrongly.
#include "warptape/kernels/dispatch/run_first_use.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/dispatch/run_first_use_file.h"
#include "warptape/kernels/dispatch/run_first_use_lists.h"
#include "warptape/kernels/muon.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

namespace {

// out[i] = in[i] + 1 (+ out[i])
struct AddArgs {
  wt::View out, in;
  bool accumulate = false;
  const char* what = "";  // what the variant `best` does
  wt::DType dtype = wt::DType::f32;
  wt::i64 bytes() const { return 2 * in.bytes(); }
  double flops() const { return double(in.numel()); }
};
std::string ran;

void add(const AddArgs& a) {
  wt::synchronize(wt::Device::simt());  // what is queued before a launch runs before it
  const float *in = a.in.as<float>(), *const end = in + a.in.numel();
  for (float* out = a.out.as<float>(); in != end; ++in, out += a.out.stride(0))
    *out = *in + 1 + (a.accumulate ? *out : 0);
}
void naive(const AddArgs& a, const wt::Launch&) {
  ran += 'n';
  add(a);
}
void middle(const AddArgs& a, const wt::Launch& l) {
  ran += 'm';
  CHECK(l.workspace != nullptr);
  add(a);
  if (std::string(a.what) == "middle wrong") a.out.as<float>()[0] = 0;
}
void best(const AddArgs& a, const wt::Launch& l) {
  const std::string what = a.what;
  ran += 'b';
  CHECK(l.workspace != nullptr);
  if (what == "throws") throw wt::NotAvailable("no plan");
  if (what == "faults") throw wt::DeviceError("illegal address");
  if (what == "no memory") throw wt::OutOfMemory("none left");
  add(a);
  float* const out = a.out.as<float>();
  if (what == "last wrong" || what == "sensitive") out[(a.in.numel() - 1) * a.out.stride(0)] += 1;
  if (what == "rounds") out[0] *= 1 + 1e-6f;
  if (what == "NaN") out[0] = std::nanf("");
  if (what == "beyond") out[1] = -1;  // between the strides
}
void loose(const AddArgs& a, const wt::Launch&) {
  ran += 'l';
  add(a);
}
const char* seven_only(const AddArgs& a) {
  return a.in.numel() == 7 ? nullptr : "takes 7 elements only";
}
int never_first(const AddArgs&) { return 0; }
wt::i64 some(const AddArgs&) { return 64; }

constexpr wt::Variant<AddArgs> kSimt[] = {
    {.name = "best", .rank = 30, .workspace = some, .launch = best},
    {.name = "loose", .rank = 25, .why_not = seven_only, .launch = loose, .deterministic = false},
    {.name = "middle", .rank = 20, .workspace = some, .launch = middle},
    {.name = "unproved", .rank = 15, .rank_of = never_first, .launch = loose},
    {.name = "naive", .rank = 10, .launch = naive}};
const wt::Variants<AddArgs> simt_rows{kSimt, 5};

}  // namespace

namespace wt {
template <>
struct ContractTable<AddArgs> {
  static constexpr const char* kName = "a_first_use_test";
  static const Variants<AddArgs>* const rows[kNumDeviceKinds];
  static const detail::ErasedContract erased;
};
constinit const detail::ErasedContract ContractTable<AddArgs>::erased =
    detail::erased_contract<AddArgs>();
const Variants<AddArgs>* const ContractTable<AddArgs>::rows[kNumDeviceKinds] = {nullptr, &simt_rows,
                                                                                nullptr};
}  // namespace wt

using namespace wt;
using wt_test::warnings;

namespace {

// First uses on simt, with a file of their own.
class FirstUses {
 public:
  FirstUses() {
    detail::touched_lists().add<AddArgs>([](auto& a, auto& t) {
      t.out(a.out).in(a.in);
      if (std::string(a.what).starts_with("sensitive")) t.sensitive();
    });
    (void)zeros({1}, {.device = Device::simt()});  // started
    start();
  }
  ~FirstUses() {
    detail::stop_first_uses(DeviceKind::simt);
    detail::forget_first_uses();
  }
  std::string file() const { return dir_ / "first.tsv"; }
  std::string text() const {
    std::ifstream in(file(), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  // As a new process would.
  void start() {
    asked_.set(file().c_str());
    detail::forget_first_uses();
    detail::forget_warnings();
    detail::start_first_uses(DeviceKind::simt);
  }

 private:
  TempDir dir_;
  wt_test::Environment asked_{"WT_FIRST_USE", "off"};
  wt_test::Warnings heard_;
};

// Which variants a launch over n elements runs; results go to `out`.
std::string runs(i64 n, const char* what, Tensor& out, bool accumulate = false) {
  ran.clear();
  const Tensor in = ones({n}).to(Device::simt());
  if (!out.defined()) out = zeros({n}, {.device = Device::simt()});
  AddArgs a;
  a.out = view_of(out.impl()), a.in = view_of(in.impl()), a.accumulate = accumulate, a.what = what;
  run(a, Launch{nullptr, nullptr, nullptr, Device::simt()});
  return ran;
}
std::string runs(i64 n, const char* what) {
  Tensor out;
  const std::string variants = runs(n, what, out);
  CHECK(out.to_vector<float>() == std::vector<float>(size_t(n), 2.0f));
  return variants;
}

}  // namespace

TEST_CASE("first use: a variant is launched beside the plainest one, once a kind of arguments",
          "[first_use]") {
  const LeakGuard guard;
  const FirstUses tried;
  CHECK(runs(100, "") == "bn");
  CHECK(runs(100, "") == "b");
  CHECK(runs(120, "") == "b");    // the same size to a factor of four
  CHECK(runs(5000, "") == "bn");  // another size
  CHECK(runs(100, "") == "b");
  CHECK(warnings().empty());
  CHECK(mentions(tried.text(), "agreed\ta_first_use_test\tbest\tf32\t"));
}

TEST_CASE("first use: what agreed is remembered by the next process", "[first_use]") {
  FirstUses tried;
  CHECK(runs(100, "") == "bn");
  tried.start();
  CHECK(runs(100, "") == "b");
  // Another build's file says nothing.
  std::string text = tried.text();
  text.replace(text.find('\t'), 1, "\tother");
  std::ofstream(tried.file(), std::ios::binary) << text;
  tried.start();
  CHECK(runs(100, "") == "bn");
  CHECK(!mentions(tried.text(), "other"));
}

TEST_CASE("first use: a variant with other results is off, its results are replaced",
          "[first_use]") {
  FirstUses tried;
  CHECK(runs(100, "last wrong") == "bn");
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0],
                 "variant best of a_first_use_test is not used on simt: its first "
                 "results differ from those of naive (f32, 800 bytes"));
  CHECK(mentions(warnings()[0], "Please report " + tried.file()));
  CHECK(runs(100, "") == "mn");  // the next one in rank has its own first use
  CHECK(runs(100, "") == "m");
  CHECK(runs(5000, "") == "mn");  // wrong anywhere is off everywhere
  tried.start();
  CHECK(runs(100, "") == "m");
  CHECK(warnings().size() == 2);  // and is named once more
}

TEST_CASE("first use: what is off is off where it agreed before, too", "[first_use]") {
  const FirstUses tried;
  CHECK(runs(100, "") == "bn");
  CHECK(runs(100, "") == "b");
  CHECK(runs(5000, "last wrong") == "bn");
  CHECK(runs(100, "") == "mn");
}

TEST_CASE("first use: in the place of what is off comes the best of the others", "[first_use]") {
  const FirstUses tried;
  CHECK(runs(7, "throws") == "bn");
  {
    const DeterminismScope strict(Determinism::strict);
    CHECK(runs(7, "") == "mn");
  }
  CHECK(runs(7, "") == "ln");
  // Of `middle` off: not what ranks itself below the plainest one.
  CHECK(runs(5000, "middle wrong") == "mn");
  CHECK(runs(5000, "") == "n");
}

TEST_CASE("first use: where rounding may make a large difference, none turns a variant off",
          "[first_use]") {
  const FirstUses tried;
  CHECK(runs(100, "sensitive") == "bn");
  CHECK(runs(100, "sensitive") == "bn");  // and none is used
  CHECK(warnings().empty());
  CHECK(runs(100, "sensitive, right") == "bn");
  CHECK(runs(100, "sensitive, right") == "b");
}

TEST_CASE("first use: integers are equal or not", "[first_use]") {
  const i64 before[] = {0, 0}, want[] = {i64{1} << 60, 3}, got[] = {(i64{1} << 60) + 1, 3};
  const auto bytes = [](const i64* v) {
    const char* p = reinterpret_cast<const char*>(v);
    return detail::Bytes(p, p + 2 * sizeof(i64));
  };
  const std::vector<detail::Touched::Block> blocks{{nullptr, 2, DType::i64}};
  const auto verdict = [&](const i64* v) {
    return detail::compare_blocks(blocks, bytes(before), bytes(v), bytes(want), 1, 0).verdict;
  };
  CHECK(verdict(want) == detail::Verdict::agrees);
  CHECK(verdict(got) == detail::Verdict::differs);
}

TEST_CASE("first use: differences that rounding explains are none, NaN is one", "[first_use]") {
  const FirstUses tried;
  CHECK(runs(100, "rounds") == "bn");
  CHECK(warnings().empty());
  CHECK(runs(5000, "NaN") == "bn");
  CHECK(warnings().size() == 1);
}

TEST_CASE("first use: results that are added to what is there are added once", "[first_use]") {
  const FirstUses tried;
  Tensor out = full({100}, 10.0f).to(Device::simt());
  CHECK(runs(100, "", out, true) == "bn");
  CHECK(out.to_vector<float>() == std::vector<float>(100, 12.0f));
  CHECK(runs(100, "", out, true) == "b");
  CHECK(out.to_vector<float>() == std::vector<float>(100, 14.0f));
}

TEST_CASE("first use: of Muon's matrices that are not square all is put back, and no more",
          "[first_use]") {
  for (const i64 rows : {i64{4}, i64{64}}) {
    const FirstUses tried;
    const Tensor x = full({rows, 256 / rows}, 1.0f).to(Device::simt()),
                 y = full({rows, 256 / rows}, 2.0f).to(Device::simt());
    const MuonPolynomialArgs a{.square = x.impl()->data,
                               .gram = y.impl()->data,
                               .rows = rows,
                               .b = 1,
                               .c = 1,
                               .columns = 256 / rows,
                               .bf16 = true};
    run(a, Launch{nullptr, nullptr, nullptr, Device::simt()});
    CHECK(x.to_vector<float>() == std::vector<float>(256, 3.0f));
  }
}

TEST_CASE("first use: what a variant writes between strided results is found and undone",
          "[first_use]") {
  const FirstUses tried;
  const Tensor all = full({200}, 5.0f).to(Device::simt());
  Tensor out = slice(all, 0, {0, 200, 2});
  CHECK(runs(100, "beyond", out) == "bn");
  CHECK(warnings().size() == 1);
  const std::vector<float> v = all.to_vector<float>();
  CHECK(v[0] == 2);
  CHECK(v[1] == 5);
  CHECK(v[198] == 2);
}

TEST_CASE("first use: values that overflow decide nothing", "[first_use]") {
  const FirstUses tried;
  Tensor out = full({100}, std::numeric_limits<float>::infinity()).to(Device::simt());
  CHECK(runs(100, "last wrong", out, true) == "bn");  // inf + 1 is inf: they agree
  CHECK(warnings().empty());
}

TEST_CASE("first use: a variant that throws is off, and the launch is made nevertheless",
          "[first_use]") {
  const FirstUses tried;
  CHECK(runs(100, "throws") == "bn");
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0], "it failed: "));
  CHECK(mentions(warnings()[0], "no plan"));
  CHECK(runs(100, "") == "mn");
}

TEST_CASE("first use: memory that is missing says nothing of a variant", "[first_use]") {
  const FirstUses tried;
  Tensor out;
  CHECK_THROWS_AS(runs(100, "no memory", out), OutOfMemory);
  CHECK(runs(100, "") == "bn");
  CHECK(warnings().empty());
}

TEST_CASE("first use: a fault is thrown with the variant's name, which is off afterwards",
          "[first_use]") {
  FirstUses tried;
  Tensor out;
  const std::string text = message_of([&] { (void)runs(100, "faults", out); });
  CHECK(mentions(text, "DeviceError: illegal address"));
  CHECK(mentions(text,
                 "This was the first use of variant best of a_first_use_test on simt: it is "
                 "off from now on; please report " +
                     tried.file()));
  tried.start();
  CHECK(runs(100, "") == "mn");
}

TEST_CASE("first use: what a process tried when it ended is off in the next one", "[first_use]") {
  FirstUses tried;
  CHECK(runs(100, "") == "bn");
  std::string text = tried.text(), line = text.substr(text.rfind("trying"));
  line = line.substr(0, line.find('\n'));
  const std::string dead = line.substr(0, line.rfind('\t') + 1) + "999999999";
  // Of a process that lives it may be on its way.
  std::ofstream(tried.file(), std::ios::app) << line << "\n";
  tried.start();
  CHECK(runs(100, "") == "b");
  std::ofstream(tried.file(), std::ios::app) << dead << "\n";
  tried.start();
  CHECK(runs(100, "") == "mn");
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0], "the process ended while it ran"));
}

TEST_CASE("first use: what the user names is launched as it is", "[first_use]") {
  const FirstUses tried;
  const VariantScope scope("*", "naive");
  CHECK(runs(100, "last wrong") == "n");
  CHECK(tried.text().find("trying") == std::string::npos);
}

TEST_CASE("first use: no results, nothing to compare", "[first_use]") {
  const FirstUses tried;
  CHECK(runs(0, "") == "b");
}

TEST_CASE("first use: a file that cannot be used", "[first_use]") {
  FirstUses tried;
  std::ofstream(tried.file(), std::ios::binary) << "notes of mine\n";
  tried.start();
  Tensor out;
  CHECK(mentions(message_of([&] { (void)runs(100, "", out); }),
                 tried.file() + " is no file of first uses"));
  CHECK(tried.text() == "notes of mine\n");
  // A line that was cut off is none, and nothing else.
  tried.start();
  std::remove(tried.file().c_str());
  tried.start();
  CHECK(runs(100, "") == "bn");
  std::ofstream(tried.file(), std::ios::app) << "off\ta_first_use_test\tmid";
  tried.start();
  CHECK(runs(100, "") == "b");
}

TEST_CASE("first use: a file that cannot be written", "[first_use]") {
  const FirstUses tried;
  const wt_test::Environment nowhere("WT_FIRST_USE", "/proc/no/such/folder/first.tsv");
  detail::forget_first_uses();
  Tensor out;
  CHECK(mentions(message_of([&] { (void)runs(100, "", out); }), "UsageError: WT_FIRST_USE: "));
  CHECK(ran.empty());
}

TEST_CASE("first use: a file that several processes begin has the lines of all", "[first_use]") {
  const FirstUses tried;
  const Device simt = Device::simt();
  const detail::TriedKind one{"a", "x", f32, 3, 0}, other{"b", "y", f16, 4, 1};
  std::remove(tried.file().c_str());
  detail::FirstUseFile first(simt), second(simt);
  first.put_agreed(one);
  second.put_agreed(other);
  const detail::FirstUseFile both(simt);
  CHECK(both.agreed(one));
  CHECK(both.agreed(other));
}

TEST_CASE("first use: every contract with several variants on a device says what it writes",
          "[first_use]") {
  for (const ContractInfo& c : all_contracts()) {
    INFO(c.name);
    const bool once = std::string(c.name) == "step_decide";  // lowers a mailbox
    if (c.count(DeviceKind::simt) > 1) CHECK((detail::touched_by(c.name) != nullptr) != once);
  }
}
