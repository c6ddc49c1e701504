// From logits to a token, as Hugging Face's logits processors define it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "warptape/core/error.h"
#include "warptape/core/str.h"
#include "warptape/nn/generate.h"

namespace wt::models {
namespace {

constexpr double kOut = -std::numeric_limits<double>::infinity();

// Keskar et al. 2019 (arXiv:1909.05858), section 4.1. A token counts once however often it was
// there.
void penalize(std::span<double> logits, std::span<const i64> text, double penalty) {
  std::vector<i64> seen(text.begin(), text.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const i64 id : seen) {
    double& x = logits[size_t(id)];
    x = x < 0 ? x * penalty : x / penalty;
  }
}

// All odds are beside it: of an infinite one there are none.
double largest_of(std::span<const double> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(most))
    throw NumericError(str("[generate] the largest logit is ", most,
                           ", of which no odds can be made"
                           "\n  Try a temperature nearer to 1"));
  return most;
}

// What equals the k-th largest stays.
void keep_top_k(std::span<double> logits, i64 k) {
  if (k >= i64(logits.size())) return;
  std::vector<double> order(logits.begin(), logits.end());
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), std::greater<>());
  for (double& x : logits)
    if (x < order[size_t(k - 1)]) x = kOut;
}

// A token stays if those that are likelier have odds below p together: the likeliest always.
void keep_top_p(std::span<double> logits, double p) {
  const double most = largest_of(logits);
  double all = 0;
  for (const double x : logits) all += std::exp(x - most);
  std::vector<i64> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](i64 a, i64 b) {
    const double x = logits[size_t(a)], y = logits[size_t(b)];
    return x > y || (x == y && a < b);
  };
  // Few tokens have most of the odds: only as many are put in order as are needed.
  size_t sorted = 0, kept = 0;
  for (double sum = 0; kept < order.size() && sum < p * all; ++kept) {
    if (kept == sorted) {
      const size_t from = sorted;
      sorted = std::min(order.size(), std::max<size_t>(64, 8 * sorted));
      std::partial_sort(order.begin() + i64(from), order.begin() + i64(sorted), order.end(),
                        likelier);
    }
    sum += std::exp(logits[size_t(order[kept])] - most);
  }
  for (size_t i = kept; i < order.size(); ++i) logits[size_t(order[i])] = kOut;
}

}  // namespace

void process_logits(std::span<double> logits, std::span<const i64> text, const GenerateOptions& o) {
  if (o.repetition_penalty != 1) penalize(logits, text, o.repetition_penalty);
  if (!o.do_sample) return;
  if (o.temperature != 1)
    for (double& x : logits) x /= o.temperature;
  if (o.top_k > 0) keep_top_k(logits, o.top_k);
  if (o.top_p < 1) keep_top_p(logits, o.top_p);
}

i64 draw_token(std::span<const double> logits, double uniform) {
  const double most = largest_of(logits);
  double all = 0;
  for (const double x : logits) all += std::exp(x - most);
  double sum = 0;
  i64 last = 0;  // with odds above 0: roundings may leave the sum below all
  for (size_t i = 0; i < logits.size(); ++i) {
    const double odds = std::exp(logits[i] - most);
    if (odds == 0) continue;
    last = i64(i);
    if ((sum += odds) > uniform * all) break;
  }
  return last;
}

}  // namespace wt::models
