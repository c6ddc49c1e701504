// run: which variant launches, what an override may do, where the workspace comes from. On a
// contract of the test's own, whose rows only write down that they ran.
#include "warptape/kernels/dispatch/run_erased.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/memory.h"
#include "warptape/kernels/dispatch/run_shipped.h"
#include "warptape/kernels/dispatch/run_tune_file.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

namespace {
struct Args {
  int size = 0;
  wt::i64 bytes() const { return size; }
  wt::i64 flops() const { return 0; }
};
std::string ran;
const void* workspace_seen = nullptr;
const wt::OpInfo* op_seen = nullptr;

template <char name>
void launch(const Args&, const wt::Launch& l) {
  ran += name;
  workspace_seen = l.workspace;
  op_seen = l.op;
}
const char* small_only(const Args& a) { return a.size > 10 ? "more than 10 elements" : nullptr; }
int rank_by_size(const Args& a) { return a.size >= 100 ? 30 : 1; }
wt::i64 bytes_of(const Args& a) { return a.size * 8; }

constexpr wt::Variant<Args> kCpu[] = {
    {.name = "warp", .rank = 30, .rank_of = rank_by_size, .launch = launch<'w'>},
    {.name = "vectorized", .rank = 20, .why_not = small_only, .launch = launch<'v'>},
    {.name = "naive", .rank = 10, .workspace = bytes_of, .launch = launch<'n'>},
    {.name = "reference", .launch = launch<'r'>}};
constexpr wt::Variant<Args> kSimt[] = {
    {.name = "vectorized", .rank = 15, .launch = launch<'S'>, .deterministic = false},
    {.name = "naive", .rank = 10, .why_not = small_only, .launch = launch<'N'>}};
const wt::Variants<Args> cpu_rows{kCpu, 4}, simt_rows{kSimt, 2};
}  // namespace

namespace wt {
template <>
struct ContractTable<Args> {
  static constexpr const char* kName = "a_test";
  static const Variants<Args>* const rows[kNumDeviceKinds];
  static const detail::ErasedContract erased;
};
constinit const detail::ErasedContract ContractTable<Args>::erased =
    detail::erased_contract<Args>();
const Variants<Args>* const ContractTable<Args>::rows[kNumDeviceKinds] = {&cpu_rows, &simt_rows,
                                                                          nullptr};
}  // namespace wt

using namespace wt;

namespace {
constexpr OpInfo kOp{.name = "an_op"};
std::string runs(int size, Device d = Device::cpu()) {
  ran.clear();
  run(Args{size}, Launch{&kOp, nullptr, nullptr, d});
  return ran;
}
}  // namespace

TEST_CASE("run: the highest rank that takes the arguments wins", "[wall][run]") {
  CHECK(runs(5) == "v");
  CHECK(runs(50) == "n");   // vectorized refuses, warp ranks itself low
  CHECK(runs(100) == "w");  // a rank that depends on the arguments
  CHECK(op_seen == &kOp);
  CHECK(runs(5, Device::simt()) == "S");
}

TEST_CASE("run: under strict determinism a variant that promises no order is not the default",
          "[wall][run][mode]") {
  const DeterminismScope strict(Determinism::strict);
  CHECK(runs(5, Device::simt()) == "N");
  CHECK(
      mentions(message_of([] { (void)runs(50, Device::simt()); }),
               "the kernel 'a_test' has no variant on simt that takes these arguments: more than"));
  const VariantScope scope("*", "vectorized");  // named, it runs
  CHECK(runs(5, Device::simt()) == "S");
}

TEST_CASE("run: an override beats rank, never why_not, whose text is the error", "[wall][run]") {
  {
    const VariantScope scope("*", "naive");
    CHECK(runs(5) == "n");
    CHECK(runs(100) == "n");
    {
      const VariantScope inner("*", "reference");  // the innermost wins
      CHECK(runs(5) == "r");
      CHECK(runs(5, Device::simt()) == "S");  // simt has no such rung: left alone
    }
    CHECK(runs(5) == "n");
  }
  CHECK(runs(5) == "v");
  const VariantScope scope("*", "vectorized");
  CHECK(message_of([] { (void)runs(11); }) ==
        "UsageError: [a_test] variant \"vectorized\" on cpu does not take these arguments: more "
        "than 10 elements");
  const VariantScope other("softmax_forward", "naive");  // another contract's
  CHECK(runs(5) == "v");
}

TEST_CASE("run: the workspace comes from the allocator, and meta only prices it", "[wall][run]") {
  const LeakGuard guard;
  const VariantScope scope("*", "naive");
  const auto peak = [](Device d) {
    memory::reset_peak(d);
    const i64 live = memory::stats(d).live;
    const std::string variants = runs(50, d);
    CHECK(memory::stats(d).live == live);
    CHECK(variants == (d.is_meta ? "" : "n"));  // nothing is launched on meta
    const memory::Stats s = memory::stats(d);
    CHECK(s.peak_by_category[int(Category::workspace)] >= 400);
    return s.peak - live;
  };
  CHECK(peak(Device::cpu()) == 400);
  CHECK(workspace_seen != nullptr);
  CHECK(peak(Device::meta()) == 400);
  memory::fail_nth_request(1);
  CHECK_THROWS_AS((void)runs(50), OutOfMemory);
  CHECK(ran.empty());  // before the launch
}

TEST_CASE("run: a device that has no kernel says so", "[wall][run]") {
  const std::string lacks = why_without("cuda");
  CHECK(mentions(message_of([] { (void)runs(5, Device::cuda()); }),
                 lacks.empty()
                     ? "[an_op] has no kernel for cuda yet: 'a_test' is written for cpu, simt only"
                     : "[an_op] has no kernel for cuda: this build has no cuda: " + lacks));
}

TEST_CASE("run: every contract has a reference on cpu and two rungs on simt", "[wall][run]") {
  for (const ContractInfo& c : all_contracts()) {
    INFO(c.name);
    bool reference = false;
    for (int i = 0; i < c.count(DeviceKind::cpu); ++i)
      reference |= std::string(c.variant(DeviceKind::cpu, i).name) == "reference";
    CHECK(reference);
    for (const DeviceKind d : {DeviceKind::cpu, DeviceKind::simt, DeviceKind::cuda})
      for (int i = 1; i < c.count(d); ++i)  // best_variant stops at the first that ranks lower
        CHECK(c.variant(d, i).rank <= c.variant(d, i - 1).rank);
  }
}

// --- by what `wt tune` has measured ---
namespace {

class TunedBy {
 public:
  explicit TunedBy(const std::string& text) {
    const std::string path = dir_ / "tune.tsv";
    std::ofstream(path, std::ios::binary) << text;
    use(path);
  }
  ~TunedBy() {
    ::unsetenv("WT_TUNE");
    detail::forget_tuning();
  }
  static void use(const std::string& file) {
    ::setenv("WT_TUNE", file.c_str(), 1);
    detail::forget_tuning();
  }

 private:
  TempDir dir_;
};

TuneRow tuned(const char* variant, i64 bytes, double us, TuneVerdict verdict = TuneVerdict::right) {
  return {"a_test", "u8", "small 0", "", variant, bytes, verdict, us};
}
std::string tune_text(std::vector<TuneRow> rows, const char* device = "simt") {
  TuneFile f;
  f.device = device, f.complete = true, f.rows = std::move(rows);
  return f.text();
}

}  // namespace

TEST_CASE("run: the fastest variant by the tune file, at the nearest size") {
  const Device simt = Device::simt();
  CHECK(runs(5, simt) == "S");
  {
    const TunedBy file(tune_text({tuned("naive", 1, 2.0), tuned("vectorized", 1, 3.0),
                                  tuned("naive", 10, 3.0), tuned("vectorized", 10, 2.0)}));
    CHECK(runs(1, simt) == "N");
    CHECK(runs(2, simt) == "N");
    CHECK(runs(9, simt) == "S");
    CHECK(runs(50, simt) == "S");  // naive would not take it
    CHECK(runs(5) == "v");         // the cpu is not tuned
    const DeterminismScope strict(Determinism::strict);
    CHECK(runs(9, simt) == "N");
  }
  CHECK(runs(1, simt) == "S");
}

TEST_CASE("run: a ranking that warptape ships with holds until the user has one") {
  const Device simt = Device::simt();
  struct Shipped {
    explicit Shipped(const char* const* texts) { detail::ship_tuning(texts); }
    ~Shipped() { detail::ship_tuning(nullptr); }
  };
  const std::string other = tune_text({tuned("vectorized", 10, 1.0)}, "NVIDIA Other"),
                    ours = tune_text({tuned("naive", 1, 2.0), tuned("vectorized", 1, 3.0),
                                      tuned("strict", 1, 0, TuneVerdict::wrong)});
  {
    const char* const texts[] = {other.c_str(), nullptr};
    const Shipped shipped(texts);
    CHECK(runs(5, simt) == "S");  // of another device
    CHECK(mentions(describe_tuning(simt), "none"));
  }
  const char* const texts[] = {other.c_str(), ours.c_str(), nullptr};
  const Shipped shipped(texts);
  CHECK(runs(1, simt) == "N");
  CHECK(runs(5) == "v");  // the cpu is not tuned
  CHECK(mentions(describe_tuning(simt), "shipped with warptape, "));
  CHECK(mentions(describe_tuning(simt), "3 rows, 1 off"));
  {
    const TunedBy file(tune_text({tuned("vectorized", 1, 2.0)}));
    CHECK(runs(1, simt) == "S");
    CHECK(!mentions(describe_tuning(simt), "shipped"));
  }
  CHECK(runs(1, simt) == "N");
  TunedBy::use("off");
  CHECK(runs(1, simt) == "S");
  ::unsetenv("WT_TUNE");
}

TEST_CASE("run: simt is ranked by its own cost where a program asks, and as a GPU elsewhere") {
  const Device simt = Device::simt();
  const TuneFile file = TuneFile::parse(detail::kSimtTuning, "it");
  CHECK(file.device == tune_device_name(simt));
  REQUIRE(!file.rows.empty());
  const auto first = [&](const TuneRow& r) -> std::string {
    for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::u8, DType::i64})
      if (r.dtype == dtype_name(t))
        if (const detail::TunedSize* s =
                detail::tuned_size(r.contract.c_str(), simt, t, double(r.bytes)))
          return s->fastest.at(0);
    return "";
  };
  const auto is_listed = [&](const TuneRow& r) {
    for (const ContractInfo& c : all_contracts())
      for (int i = 0; c.name == r.contract && i < c.count(DeviceKind::simt); ++i)
        if (c.variant(DeviceKind::simt, i).name == r.variant) return true;
    return false;
  };
  struct ByItsCost {
    ByItsCost() { detail::rank_simt_by_its_own_cost(true); }
    ~ByItsCost() { detail::rank_simt_by_its_own_cost(false); }
  };
  for (const TuneRow& r : file.rows) {
    CAPTURE(r.contract, r.dtype, r.bytes);
    CHECK(is_listed(r));
    CHECK(first(r).empty());
    const ByItsCost by;
    CHECK(first(r) == r.variant);
  }
  const ByItsCost by;
  CHECK(mentions(describe_tuning(simt), "shipped with warptape, "));
  CHECK(runs(1, simt) == "S");  // of which it says nothing
  {
    const TunedBy user(tune_text({tuned("naive", 1, 2.0)}));
    CHECK(first(file.rows[0]).empty());
    CHECK(runs(1, simt) == "N");
  }
  TunedBy::use("off");
  CHECK(first(file.rows[0]).empty());
  ::unsetenv("WT_TUNE");
}

TEST_CASE("run: a variant that was found wrong is not chosen") {
  const Device simt = Device::simt();
  const TunedBy file(tune_text({tuned("vectorized", 10, 0, TuneVerdict::wrong)}));
  CHECK(runs(5, simt) == "N");
  const std::string text = message_of([&] { (void)runs(50, simt); });
  CHECK(mentions(text, "NotAvailable"));
  CHECK(mentions(text, "found every variant on simt wrong"));
  CHECK(ran.empty());
  TunedBy::use("off");
  CHECK(runs(50, simt) == "S");
}

TEST_CASE("run: a tune file that cannot be used is named") {
  const Device simt = Device::simt();
  const auto message = [&](const std::string& text) {
    const TunedBy file(text);
    return message_of([&] { (void)runs(5, simt); });
  };
  CHECK(mentions(message(tune_text({}, "NVIDIA H100")), "is of another device: NVIDIA H100"));
  CHECK(mentions(message("not one\n"), "UsageError: WT_TUNE: "));
  TunedBy::use("/no/such/file");
  CHECK(mentions(message_of([&] { (void)runs(5, simt); }), "cannot be read"));
  ::unsetenv("WT_TUNE");
  detail::forget_tuning();
  CHECK(runs(5, simt) == "S");
}
