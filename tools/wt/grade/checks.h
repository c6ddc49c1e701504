// The checks of one variant, one after the other until one fails. Internal.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/build.h"
#include "warptape/tools/wt/grade/grade.h"
#include "warptape/tools/wt/grade/ops.h"
#include "warptape/tools/wt/grade/session.h"

namespace wt::grade {

// What lies in memory that is to be written: NaN to floats, and a number.
constexpr u8 kPoisonNaN = 0xFF, kPoisonNumber = 0x45;

// A variant of the file, as it says of itself.
struct Found {
  int number = 0;  // in the contract's table
  std::string name;
  bool deterministic = true;
};

class Checks {
 public:
  Checks(const GradeOptions& o, const GradedOp& op, const Found& variant, Build& build,
         Verdict& verdict);
  // Whether it passed; the verdict says more.
  bool run();

 private:
  using Images = std::vector<std::vector<u8>>;
  struct Launched {
    Session::Reply reply;
    std::optional<Finding> finding;
  };
  // One problem on a session: what was wrong with it, if anything. A refusal is for the caller.
  Launched launch(Session& s, const Problem& p, const Request& r, u8 poison,
                  const std::vector<std::vector<double>>& before, bool required);
  // The same of a problem that the variant has taken: it has to take it again.
  Launched relaunch(Session& s, const Problem& p, const Request& r, u8 poison,
                    const std::vector<std::vector<double>>& before, bool required);
  bool values();  // right values, in all orders, at fresh inputs
  bool value_case(Session& s, size_t plan);
  bool streams();           // on a stream whose work comes late
  bool flavour(Flavour f);  // under AddressSanitizer, under the race checker
  bool score();             // what it asks of memory
  bool device();            // what nvcc makes of it, on the emulated device
  // judged: false where the emulator, not the kernel, comes to its end.
  bool device_session(u64 seed, bool all, confined::Clock::time_point begin, bool& judged);
  bool device_launch(Session& s, size_t plan, bool& judged);
  bool device_end(Session& s);
  bool fail(Finding f);
  Finding explained(Finding f, const Problem& p, const Request& r);
  Problem problem(size_t plan, Draws& draws) const;
  Problem problem_of(const Plan& plan, Draws& draws) const;
  Request request(const Problem& p) const;
  Draws draws_of(size_t plan) const { return Draws(o_.seed * 1000003 + plan); }
  Session session(Flavour f, bool lazy, u64 seed);
  confined::Clock::time_point deadline() const { return begin_ + limit_ + build_.spent(); }

  const GradeOptions& o_;
  const GradedOp& op_;
  const Found& variant_;
  Build& build_;
  Verdict& v_;
  std::vector<Plan> plans_;
  std::vector<size_t> taken_;                                // of plans_
  std::map<std::string, std::vector<std::string>> refused_;  // labels by reasons
  confined::Clock::time_point begin_ = confined::Clock::now();
  confined::Clock::duration limit_;
};

// What the answer to a counted launch says (tools/grade/counts_text.h).
Score score_of(const std::string& counts, i64 contract_bytes, const std::string& program,
               const std::string& own);

}  // namespace wt::grade
