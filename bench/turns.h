// Times of several things that ranks do in turns, so that whatever else the machine does is in all
// of them. Internal.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

#include "warptape/dist/communicator.h"

namespace wt::bench {

using TurnClock = std::chrono::steady_clock;

inline double us_between(TurnClock::time_point a, TurnClock::time_point b) {
  return std::chrono::duration<double, std::micro>(b - a).count();
}

// Of one rank in one turn.
struct Span {
  TurnClock::time_point begin, end;
};

// All ranks begin at once.
template <class F>
Span timed_with_others(dist::Communicator& comm, const F& work) {
  comm.barrier();
  Span s{TurnClock::now(), {}};
  work();
  s.end = TurnClock::now();
  return s;
}

// By turn: us from the first rank's begin to the last one's end.
inline std::vector<double> together_us(const std::vector<std::vector<Span>>& ranks) {
  std::vector<double> us;
  for (size_t turn = 0; turn < ranks[0].size(); ++turn) {
    Span all = ranks[0][turn];
    for (const std::vector<Span>& r : ranks) {
      all.begin = std::min(all.begin, r[turn].begin);
      all.end = std::max(all.end, r[turn].end);
    }
    us.push_back(us_between(all.begin, all.end));
  }
  return us;
}

inline size_t place_of_median(const std::vector<double>& v) {
  std::vector<size_t> order(v.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
  return order[(order.size() - 1) / 2];
}

// Of a / b in the same turn.
inline std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(b[i] > 0 ? a[i] / b[i] : 0);
  return all;
}
inline double median(const std::vector<double>& v) { return v[place_of_median(v)]; }

}  // namespace wt::bench
