#include "warptape/optim/rules/line_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wt::optim::detail {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1, c2

// The minimum of the cubic through two points and their slopes, within [low, high].
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const LinePoint &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double t = right.t - (right.t - left.t) *
                                 ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

class Search {
 public:
  Search(const std::function<LinePoint(double)>& at, const LinePoint& start, i64 limit)
      : at_(at), start_(start), limit_(limit) {}

  LineResult run(double t, double longest, double tolerance_change) {
    bracket(t);
    if (!done_) zoom(longest, tolerance_change);
    return {points_[size_t(low_)], evaluations_};
  }

 private:
  LinePoint evaluate(double t) {
    LinePoint p = at_(t);
    if (!std::isfinite(p.loss)) p.loss = std::numeric_limits<double>::infinity();
    ++evaluations_;
    return p;
  }
  bool too_high(const LinePoint& p) const {
    return p.loss > start_.loss + kDecrease * p.t * start_.slope;
  }
  bool flat_enough(const LinePoint& p) const {
    return std::abs(p.slope) <= -kCurvature * start_.slope;
  }
  void order() { low_ = points_[0].loss <= points_[1].loss ? 0 : 1; }
  void set_bracket(const LinePoint& a, const LinePoint& b) {
    points_[0] = a;
    points_[1] = b;
    order();
  }

  // Goes out until a minimum is enclosed or the point will do.
  void bracket(double t) {
    LinePoint before = start_, now = evaluate(t);
    for (; tries_ < limit_; ++tries_) {
      if (too_high(now) || (tries_ > 1 && now.loss >= before.loss)) return set_bracket(before, now);
      if (flat_enough(now)) {
        done_ = true;
        return set_bracket(now, now);
      }
      if (now.slope >= 0) return set_bracket(before, now);
      const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = now;
      now = evaluate(next);
    }
    set_bracket(start_, now);
  }

  // Shrinks the bracket.
  void zoom(double longest, double tolerance_change) {
    bool stuck = false;
    while (!done_ && tries_ < limit_) {
      const auto [left, right] = std::minmax(points_[0].t, points_[1].t);
      if ((right - left) * longest < tolerance_change) return;
      double t = cubic_minimum(points_[0], points_[1], left, right);
      // So near to an end that the bracket would hardly shrink: twice, or at the end itself, it
      // goes a tenth inwards.
      const double margin = 0.1 * (right - left);
      if (std::min(right - t, t - left) < margin) {
        if (stuck || t >= right || t <= left) {
          t = std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
          stuck = false;
        } else {
          stuck = true;
        }
      } else {
        stuck = false;
      }
      const LinePoint now = evaluate(t);
      ++tries_;
      LinePoint &low = points_[size_t(low_)], &high = points_[size_t(1 - low_)];
      if (too_high(now) || now.loss >= low.loss) {
        high = now;
        order();
      } else {
        if (flat_enough(now))
          done_ = true;
        else if (now.slope * (high.t - low.t) >= 0)
          high = low;
        low = now;
      }
    }
  }

  const std::function<LinePoint(double)>& at_;
  const LinePoint& start_;
  i64 limit_, tries_ = 0, evaluations_ = 0;
  LinePoint points_[2];
  int low_ = 0;
  bool done_ = false;
};

}  // namespace

LineResult strong_wolfe(const std::function<LinePoint(double)>& at, const LinePoint& start,
                        double t, double longest, double tolerance_change, i64 max_evaluations) {
  return Search(at, start, max_evaluations).run(t, longest, tolerance_change);
}

}  // namespace wt::optim::detail
