#include "warptape/tools/wt/recipes/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/nn/evaluate.h"

namespace wt::tools {
namespace {

void check(const Recipe& r, const GenerateOptions& o) {
  if (r.context() == 0) throw UsageError("[generate] the model is not one of text");
  if (o.prompt.empty()) throw UsageError("[generate] the prompt is empty");
  if (o.bytes < 0) throw UsageError(str("[generate] bytes must be at least 0, got ", o.bytes));
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    throw UsageError(str("[generate] temperature must be at least 0, got ", o.temperature));
  if (o.top_k < 0) throw UsageError(str("[generate] top_k must be at least 0, got ", o.top_k));
}

// Logits of the byte after `text`, of which the model sees the end.
std::vector<double> next_logits(Recipe& r, const std::string& text, Device device) {
  const size_t n = std::min(text.size(), size_t(r.context()));
  std::vector<i64> bytes;
  for (size_t i = text.size() - n; i < text.size(); ++i) bytes.push_back(u8(text[i]));
  const Tensor x = reshape(tensor(bytes, {.device = Device::cpu()}), {1, i64(n)}).to(device);
  const Tensor last = select(select(r.logits(x), 0, 0), 0, i64(n) - 1);
  return last.to(DType::f64).to_vector<double>();
}

// One class by softmax(logits / temperature) among the top_k, from one uniform number in [0, 1).
size_t draw(const std::vector<double>& logits, const GenerateOptions& o, double uniform) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (o.temperature == 0) return order[0];
  if (o.top_k > 0) order.resize(std::min(order.size(), size_t(o.top_k)));
  std::vector<double> sums;
  double sum = 0;
  for (const size_t k : order)
    sums.push_back(sum += std::exp((logits[k] - logits[order[0]]) / o.temperature));
  const size_t at =
      size_t(std::upper_bound(sums.begin(), sums.end(), uniform * sum) - sums.begin());
  return order[std::min(at, order.size() - 1)];
}

}  // namespace

std::string generate(Recipe& r, const GenerateOptions& o, const std::function<bool(char)>& show) {
  check(r, o);
  const nn::EvalScope eval(r.model());
  const NoGrad no_grad;
  const Device device = wt::detail::device_of_model(r.model()).value_or(Device::cpu());
  const PhiloxKey key = philox_key(o.seed, RandomStream::user);
  std::string text = o.prompt;
  for (i64 i = 0; i < o.bytes; ++i) {
    const PhiloxBlock bits = philox(key, u64(i), 0);
    text += char(draw(next_logits(r, text, device), o, uniform53(bits.v[0], bits.v[1])));
    if (show && !show(text.back())) break;
  }
  return text.substr(o.prompt.size());
}

}  // namespace wt::tools
