// Two variants of a kernel timed beside each other, for `wt bench compare`, and all of them, for
// `wt bench ladder`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/gpu/problems.h"

namespace wt::bench {

// The cpu's kernels are timed on one thread.
class [[nodiscard]] OneThread {
 public:
  explicit OneThread(Device d);
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

struct PairedTimes {
  std::string shape;
  std::vector<double> a_us, b_us;  // a pair each round
};
struct PairOptions {
  std::string contract, a, b;
  Device device;
  DType dtype = DType::f32;
  Scale scale = Scale::host;
  int rounds = 7;
};
// For each shape that both take: rounds of A B B A, the two of a kind added up, so that what rises
// or falls evenly is in both. On the cpu one thread's processor time. UsageError for unknown
// variants and those that take no shape.
std::vector<PairedTimes> time_in_pairs(const PairOptions& o);

// A contract's variants at one size, the plainest first.
struct Rung {
  std::string variant;
  std::string why_not;  // not empty: it does not take the operands, and was not timed
  Timing time;
  bool chosen = false;  // by `run`
};
struct Ladder {
  std::string contract, shape;
  double bytes = 0, flops = 0;  // of one call
  std::vector<Rung> rungs;
};
// A line of --json for each variant that was timed.
void print_json_lines(const Ladder& l, const std::string& dtype, const Machine& m);
// On the cpu one thread's processor time, on cuda cold; what takes longer than a second runs once,
// and variants that are not wanted (if that is asked) never.
Ladder time_ladder(const Problem& p, int windows,
                   const std::function<bool(const std::string& variant)>& wanted = {});
// Of all problems of these contracts.
std::vector<Ladder> time_ladders(const std::vector<std::string>& contracts, Device d, DType t,
                                 Scale scale, int windows);

}  // namespace wt::bench
