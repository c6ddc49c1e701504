#include "warptape/dist/partition.h"

#include <algorithm>
#include <limits>

#include "warptape/core/error.h"
#include "warptape/core/suggest.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/module_state.h"

namespace wt::dist {
namespace {

// What the net's children are called; a function is none, and has its number.
std::vector<std::string> step_names(const nn::Sequential& net) {
  const auto& children = net.state()->children;
  std::vector<std::string> names;
  size_t next = 0;
  for (size_t i = 0; i < net.size(); ++i) {
    const bool is_child = next < children.size() && net[i64(i)].state() == children[next].second;
    names.push_back(is_child ? children[next++].first : std::to_string(i));
  }
  return names;
}

i64 parameter_bytes(const nn::ModuleBase& m) {
  i64 bytes = 0;
  for (const Tensor& p : m.parameters()) bytes += bytes_for(p.numel(), p.dtype());
  return bytes;
}

void check_shared(const std::vector<nn::Sequential>& stages) {
  std::vector<std::pair<nn::NamedTensor, size_t>> seen;
  for (size_t s = 0; s < stages.size(); ++s)
    for (nn::NamedTensor& p : stages[s].named_parameters()) {
      for (const auto& [other, stage] : seen)
        if (other.tensor.same_as(p.tensor))
          throw UsageError(str("[partition] stages ", stage, " and ", s,
                               " would share a parameter, ", other.name, " and ", p.name,
                               ": each would train its own", at_line()));
      seen.emplace_back(std::move(p), s);
    }
}

// Stage s has steps [begins[s], begins[s + 1]).
std::vector<nn::Sequential> cut_at(const nn::Sequential& net, std::vector<size_t> begins) {
  begins.push_back(net.size());
  const std::vector<std::string> names = step_names(net);
  std::vector<nn::Sequential> stages;
  for (size_t s = 0; s + 1 < begins.size(); ++s) {
    nn::Sequential stage;
    for (size_t i = begins[s]; i < begins[s + 1]; ++i) stage.push_back(names[i], net[i64(i)]);
    stages.push_back(std::move(stage));
  }
  check_shared(stages);
  return stages;
}

// Where `n` runs begin that cost least: join(cost(begin, end), what the runs behind it cost). The
// last ones of equal cuts.
template <class Cost, class Join>
std::vector<size_t> cheapest_begins(size_t steps, size_t n, Cost cost, Join join, double& least) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(n + 1, std::vector<double>(steps + 1, kNone));
  std::vector<std::vector<size_t>> next(n + 1, std::vector<size_t>(steps + 1, steps));
  best[0][steps] = 0;
  for (size_t r = 1; r <= n; ++r)
    for (size_t i = 0; i < steps; ++i)
      for (size_t j = i + 1; j <= steps; ++j) {
        const double c = join(cost(i, j), best[r - 1][j]);
        if (c < kNone && c <= best[r][i]) best[r][i] = c, next[r][i] = j;
      }
  least = best[n][0];
  std::vector<size_t> begins;
  for (size_t r = n, i = 0; r > 0; i = next[r][i], --r) begins.push_back(i);
  return begins;
}

// The smallest largest run; of those that have it the most even ones.
std::vector<size_t> balanced_begins(const std::vector<i64>& bytes, size_t n) {
  std::vector<double> sums(1, 0);
  for (const i64 b : bytes) sums.push_back(sums.back() + double(b));
  const auto run = [&](size_t i, size_t j) { return sums[j] - sums[i]; };
  double largest = 0, squares = 0;
  cheapest_begins(
      bytes.size(), n, run, [](double a, double b) { return std::max(a, b); }, largest);
  const auto square = [&](size_t i, size_t j) {
    const double b = run(i, j);
    return b <= largest ? b * b : std::numeric_limits<double>::infinity();
  };
  return cheapest_begins(
      bytes.size(), n, square, [](double a, double b) { return a + b; }, squares);
}

}  // namespace

std::vector<nn::Sequential> partition(const nn::Sequential& net, int stages, Frame at) {
  const FrameScope frame(at);
  if (stages < 1 || size_t(stages) > net.size())
    throw UsageError(str("[partition] stages must be from 1 to ", net.size(),
                         ", the steps of the net, got ", stages, at_line()));
  std::vector<i64> bytes;
  for (size_t i = 0; i < net.size(); ++i) bytes.push_back(parameter_bytes(net[i64(i)]));
  return cut_at(net, balanced_begins(bytes, size_t(stages)));
}

std::vector<nn::Sequential> partition(const nn::Sequential& net,
                                      const std::vector<std::string>& begins, Frame at) {
  const FrameScope frame(at);
  const std::vector<std::string> names = step_names(net);
  std::vector<size_t> cuts{0};
  for (const std::string& name : begins) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw UsageError(str("[partition] the net has no child '", printable(name), "'",
                           did_you_mean(name, names), at_line()));
    const size_t i = size_t(found - names.begin());
    if (i <= cuts.back())
      throw UsageError(str("[partition] a stage cannot begin at '", name, "', step ", i,
                           ": the one before it begins at step ", cuts.back(), at_line()));
    cuts.push_back(i);
  }
  return cut_at(net, cuts);
}

}  // namespace wt::dist
