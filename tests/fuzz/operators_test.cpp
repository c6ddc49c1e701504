// Every operator with arguments of any kind: random shapes, views and dtypes, attributes that are
// small, negative, at the ends of 32 and 64 bits, NaN and infinite. What may come out is an error
// of ours that is not our bug, or a result; the same call on contiguous copies with the reference
// kernels must come out alike. In the asan flavour a sanitizer watches, and no call of such small
// operands takes a second.
//
//   WT_FUZZ_CASES=N WT_FUZZ_SEED=S    N calls from seed S (tools/fuzz.sh --operators); else 5 CPU
//                                     seconds, under a sanitizer 15
//   WT_FUZZ_CALL=pad:123              this call alone: what a failure prints
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "warptape/autograd/op_list.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/fuzz/operators.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*f)());

using namespace wt;
using namespace wt_test;

namespace {

bool sanitized() { return __sanitizer_set_death_callback != nullptr; }

constexpr i64 kLargestRequest = i64{1} << 26;  // bytes: what is larger is out of memory here
constexpr double kSeconds = 1, kHangs = 60;

const Callers& callers() {
  static const Callers all = [] {
    Callers c;
    add_pointwise_callers(c);
    add_shape_callers(c);
    add_signal_callers(c);
    add_product_callers(c);
    add_structured_callers(c);
    return c;
  }();
  return all;
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

// --- a call that ends the process still says which it was ---
char present[200];

void say_present() {
  const ssize_t written = write(STDERR_FILENO, present, std::strlen(present));
  (void)written;
}
void fatal(int signal_number) {
  say_present();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}
struct Watch {
  Watch() {
    if (sanitized()) {
      __sanitizer_set_death_callback(say_present);
    } else {
      for (const int s : {SIGSEGV, SIGFPE, SIGABRT, SIGILL, SIGBUS}) signal(s, fatal);
    }
    signal(SIGPROF, fatal);
  }
  ~Watch() {
    set_timer(0);
    for (const int s : {SIGSEGV, SIGFPE, SIGABRT, SIGILL, SIGBUS})
      if (!sanitized()) signal(s, SIG_DFL);
    present[0] = 0;
  }
  static void set_timer(long seconds) {
    const itimerval t{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &t, nullptr);
  }
};

// --- one call ---
struct Outcome {
  std::string error;  // its kind; empty: none
  std::string message;
  bool bug = false;       // nothing that a user's arguments may bring about
  bool extremes = false;  // values may be NaN or infinite on one way and not on the other
  std::vector<Tensor> tensors{};
};

void take_gradients(const std::vector<Tensor>& results, const std::vector<Tensor>& leaves,
                    std::vector<Tensor>& to) {
  Tensor total;
  for (const Tensor& y : results) {
    if (!y.defined() || !y.requires_grad() || y.device().is_meta || y.numel() > 10000) continue;
    const Tensor part = sum(y).to(f64);
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return;
  total.backward();
  for (const Tensor& x : leaves) to.push_back(x.grad());
}

Outcome outcome_of(const Caller& call, u64 seed, bool plain) {
  Outcome r;
  manual_seed(seed);
  std::optional<VariantScope> reference;
  if (plain) reference.emplace("*", "reference");
  try {
    Draw d(seed, plain);
    Results y = call(d);
    r.extremes = d.has_extremes();
    r.tensors = std::move(y.tensors);
    std::vector<Tensor> gradients;
    take_gradients(r.tensors, d.leaves(), gradients);
    for (Tensor& g : gradients) r.tensors.push_back(std::move(g));
  } catch (const InternalError& e) {
    r = {e.kind(), e.what(), true, false, {}};
  } catch (const DeviceError& e) {
    r = {e.kind(), e.what(), true, false, {}};
  } catch (const Error& e) {
    r = {e.kind(), e.what(), false, false, {}};
  } catch (const std::exception& e) {
    r = {"std::exception", e.what(), true, false, {}};
  }
  return r;
}

double allowed(DType t) {
  return t == f64 ? 1e-6 : t == f32 ? 2e-3 : t == f16 ? 5e-2 : t == bf16 ? 0.25 : 0;
}

std::string difference(const Tensor& a, const Tensor& b, bool extremes) {
  if (a.defined() != b.defined()) return "only one of them is there";
  if (!a.defined()) return "";
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return str(describe(a), " and ", describe(b));
  if (a.device().is_meta || a.numel() > 10000) return "";
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 1;
  for (const double v : y)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (extremes || (is_floating(a.dtype()) && std::fabs(y[i]) > 1e30)) continue;
    if (!(std::fabs(x[i] - y[i]) <= allowed(a.dtype()) * largest))
      return str("element ", i, " of ", describe(a), " is ", x[i], ", with the reference ", y[i]);
  }
  return "";
}

// Whether it works may depend on the layout, and on what a kernel needs beside its operands.
bool may_differ(const std::string& op, const Outcome& a, const Outcome& b) {
  const auto is = [&](const char* error) { return a.error == error || b.error == error; };
  return op == "view" || op.ends_with("_") || is("InplaceError") || is("OutOfMemory");
}

struct Counts {
  i64 calls = 0, errors = 0;
  double slowest = 0;
  std::string slowest_call;
};

// "", or what is wrong.
std::string check_call(const std::string& op, u64 seed, Counts& counts) {
  std::snprintf(present, sizeof present, "\nthe call was WT_FUZZ_CALL=%s:%llu\n", op.c_str(),
                static_cast<unsigned long long>(seed));
  const Caller& call = callers().at(op);
  Watch::set_timer(long(kHangs) * (sanitized() ? 4 : 1));
  const double begin = cpu_seconds();
  const Outcome got = outcome_of(call, seed, false);
  const double seconds = cpu_seconds() - begin;
  ++counts.calls;
  counts.errors += !got.error.empty();
  if (seconds > counts.slowest) counts.slowest = seconds, counts.slowest_call = str(op, ":", seed);
  if (got.bug) return str(got.error, ": ", got.message);
  if (seconds > kSeconds * (sanitized() ? 4 : 1)) return str("it took ", seconds, " CPU seconds");
  const Outcome want = outcome_of(call, seed, true);
  if (want.bug) return str("with the reference: ", want.error, ": ", want.message);
  if (got.error.empty() != want.error.empty())
    return may_differ(op, got, want)
               ? ""
               : str("it gave '", got.message, "', contiguous '", want.message, "'");
  for (size_t i = 0; i < got.tensors.size() && i < want.tensors.size(); ++i)
    if (const std::string d = difference(got.tensors[i], want.tensors[i], got.extremes); !d.empty())
      return str("tensor ", i, ": ", d);
  if (got.tensors.size() != want.tensors.size()) return "other numbers of tensors";
  return "";
}

// How long a test goes on: a number of calls, or of CPU seconds.
struct Plan {
  i64 calls = 0;
  double seconds = sanitized() ? 15 : 5;
  u64 seed = 1;
  Plan() {
    if (const char* c = std::getenv("WT_FUZZ_CASES")) calls = std::atoll(c);
    if (const char* s = std::getenv("WT_FUZZ_SEED")) seed = std::strtoull(s, nullptr, 10);
  }
  bool goes_on(i64 done, double since) const {
    return calls ? done < calls : cpu_seconds() - since < seconds;
  }
};

}  // namespace

TEST_CASE("fuzz: each operator has a caller", "[fuzz][ops]") {
  for (const OpInfo* op : all_ops()) {
    INFO("add a caller to tests/fuzz: " << op->name);
    CHECK(callers().count(op->name) == 1);
  }
  CHECK(callers().size() == all_ops().size());
}

TEST_CASE("operators: whatever they are called with, they refuse or are right", "[fuzz][ops]") {
  memory::fail_requests_above(kLargestRequest);
  const Watch watch;
  Counts counts;
  int failures = 0;
  const auto check = [&](const std::string& op, u64 seed) {
    const std::string wrong = check_call(op, seed, counts);
    if (wrong.empty()) return;
    ++failures;
    UNSCOPED_INFO(wrong);
    FAIL_CHECK("WT_FUZZ_CALL=" << op << ":" << seed);
  };
  if (const char* one = std::getenv("WT_FUZZ_CALL")) {
    const std::string text = one;
    const size_t colon = text.find(':');
    REQUIRE(colon != std::string::npos);
    check(text.substr(0, colon), std::strtoull(text.c_str() + colon + 1, nullptr, 10));
  } else {
    const Plan plan;
    const double begin = cpu_seconds();
    std::vector<std::string> names;
    const char* only = std::getenv("WT_FUZZ_OP");
    for (const auto& [name, call] : callers())
      if (!only || name == only) names.push_back(name);
    for (i64 i = 0; plan.goes_on(i, begin) && failures < 20; ++i)
      check(names[size_t(i) % names.size()], mix64(plan.seed * 0x9e3779b97f4a7c15ull + u64(i)));
    std::printf(
        "operators: %lld calls, %lld of them refused, %.0f CPU s; the slowest took %.3f s: %s\n",
        static_cast<long long>(counts.calls), static_cast<long long>(counts.errors),
        cpu_seconds() - begin, counts.slowest, counts.slowest_call.c_str());
  }
  memory::fail_requests_above(0);
}
