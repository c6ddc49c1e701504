// Hidden cases of a lab that is written in C++ for the host (docs/labs.md). A lab's check.cpp has
// nothing else; it is linked with a student's file and cases_main.cpp, and each case runs in a
// process of its own, in the sandbox of `wt grade`, with a seed that nobody knows beforehand.
//
//   #include "warptape/labs/support/cases.h"
//   #include "tape.h"  // what the student's file defines
//
//   WT_LAB_CASE("a node that is used twice gets both gradients", 15) {
//     const double x = draws.real(1, 4);
//     wt::lab::expect_close("d(x * x)/dx", derivative(x), 2 * x, 1e-12, "twice");
//   }
//   WT_LAB_CHALLENGE("no node is visited twice in a diamond of depth 40") { ... }
//
// A case fails by its first failed expectation, and by whatever is thrown. Internal.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/str.h"
#include "warptape/core/types.h"

namespace wt::lab {

// Numbers that only depend on the seed and on how many were drawn before.
class Draws {
 public:
  explicit Draws(u64 s) : seed(s) {}
  const u64 seed;                        // of this case alone: for what draws by itself
  i64 whole(i64 low, i64 high);          // low <= n <= high
  double real(double low, double high);  // low <= x < high
  std::vector<float> reals(i64 n, double low, double high);
  // 0 .. n - 1 in an order of the seed's.
  std::vector<i64> order(i64 n);

 private:
  u64 bits();
  u64 drawn_ = 0;
};

// What ends a case. No std::exception, so that a student's own catch clause lets it pass; and what
// was said first is kept, should catch (...) swallow it.
struct Failure {
  std::string reason, hint;
};
[[noreturn]] void fail(std::string reason, std::string_view hint);

// Fails the case unless `right`. `reason`: one sentence with the numbers, without a full stop; it
// may say what is wrong, not how to write it. `hint`: an ID of lab.json's hints.
inline void expect(bool right, std::string reason, std::string_view hint) {
  if (!right) fail(std::move(reason), hint);
}
// |got - want| <= bound, in sentences of the form "WHAT is GOT, not WANT"; NaN is only near NaN.
void expect_close(std::string_view what, double got, double want, double bound,
                  std::string_view hint);
// Of each element; the sizes have to be equal.
void expect_close(std::string_view what, const std::vector<float>& got,
                  const std::vector<float>& want, double bound, std::string_view hint);
// That f() throws an E.
template <class E, class F>
void expect_throws(const F& f, std::string reason, std::string_view hint) {
  try {
    f();
  } catch (const E&) {
    return;
  }
  fail(std::move(reason), hint);
}

struct Case {
  const char* name;
  int points;  // 0: the challenge, apart from the hundred
  void (*run)(Draws& draws);
  int line;
};
// In the order of their lines.
const std::vector<Case>& cases();

namespace detail {
struct Added {
  explicit Added(const Case& c);
};
}  // namespace detail

// What a process that runs one case prints as its last line; `key` comes back, so that a line which
// a student's file prints is none.
int run_case(const Case& c, int number, u64 seed, std::string_view key);

}  // namespace wt::lab

#define WT_LAB_NAME2_(a, b) a##b
#define WT_LAB_NAME_(a, b) WT_LAB_NAME2_(a, b)
#define WT_LAB_CASE(name, points)                                                         \
  static void WT_LAB_NAME_(lab_case_, __LINE__)([[maybe_unused]] wt::lab::Draws & draws); \
  static const wt::lab::detail::Added WT_LAB_NAME_(lab_added_, __LINE__){                 \
      wt::lab::Case{name, points, WT_LAB_NAME_(lab_case_, __LINE__), __LINE__}};          \
  static void WT_LAB_NAME_(lab_case_, __LINE__)([[maybe_unused]] wt::lab::Draws & draws)
#define WT_LAB_CHALLENGE(name) WT_LAB_CASE(name, 0)
