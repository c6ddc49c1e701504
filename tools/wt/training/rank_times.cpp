#include "warptape/tools/wt/training/rank_times.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {

std::vector<StepTimes::Shares> gather_shares(dist::Communicator& ranks,
                                             const StepTimes::Shares& mine) {
  const TensorOptions numbers{.dtype = DType::f64, .device = Device::cpu()};
  const Tensor all = empty({2 * i64(ranks.size())}, numbers);
  ranks.control().all_gather(all, tensor({mine.own, mine.waited}, numbers));
  const double* const v = all.data<double>();
  std::vector<StepTimes::Shares> times;
  for (int r = 0; r < ranks.size(); ++r) times.push_back({v[2 * r], v[2 * r + 1]});
  return times;
}

std::string shares_text(const std::vector<StepTimes::Shares>& ranks) {
  const auto [least, most] = std::minmax_element(
      ranks.begin(), ranks.end(),
      [](const StepTimes::Shares& a, const StepTimes::Shares& b) { return a.own < b.own; });
  double own = 0, waited = 0;
  for (const StepTimes::Shares& t : ranks) {
    own += t.own;
    waited += t.waited;
  }
  return str("ranks' own work: ", three_digits(1e3 * least->own), " to ",
             three_digits(1e3 * most->own), " ms a step, most by rank ", most - ranks.begin(), "; ",
             std::lround(100 * waited / std::max(own + waited, 1e-9)),
             " % of their time is waiting for others");
}

}  // namespace wt::tools
