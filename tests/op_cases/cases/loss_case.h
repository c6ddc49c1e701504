// For rows of losses: samples of the mean and of the losses one by one from one formula.
#pragma once
#include <functional>
#include <string>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

// One loss, and what its roundings are relative to.
struct LossPart {
  double value, magnitude;
};

// The expression of a mean in PyTorch as that of the losses one by one: "F.f(a)" to "F.f(a,
// reduction='none')".
inline std::string without_reduction(std::string torch) {
  const std::string reduction = "reduction='";
  if (const size_t at = torch.find(reduction); at != std::string::npos) {
    const size_t word = at + reduction.size();
    return torch.replace(word, torch.find('\'', word) - word, "none");
  }
  if (torch.empty()) return torch;
  torch.pop_back();
  return torch + ", reduction='none')";
}

// From the losses one by one, whose terms and magnitudes are set.
inline Array mean_of_losses(const Array& losses) {
  const double n = double(losses.v.size());
  double sum = 0, magnitude = 0;
  for (size_t e = 0; e < losses.v.size(); ++e) sum += losses.v[e], magnitude += losses.magnitude[e];
  return {{}, {sum / n}, losses.terms + n, {magnitude / n}};
}

// What a way of calling a loss has of both: `each` decides.
struct LossWay {
  std::string label, torch;  // of the mean
  std::vector<Input> inputs;
  std::function<Tensor(std::span<const Tensor> in, bool each)> call;
  Oracle losses;  // one by one
  bool second_is_zero = false;
  bool gradients = true;
};

inline void add_loss_way(OpCase& c, const LossWay& way) {
  for (const bool each : {false, true}) {
    Sample s{way.label + (each ? " unreduced" : ""), way.inputs,
             [call = way.call, each](std::span<const Tensor> in) { return call(in, each); },
             [losses = way.losses, each](const std::vector<Array>& in) {
               return each ? losses(in) : mean_of_losses(losses(in));
             }};
    s.torch = each ? without_reduction(way.torch) : way.torch;
    s.second_is_zero = way.second_is_zero;
    s.gradients = way.gradients;
    c.samples.push_back(std::move(s));
  }
}

}  // namespace wt_test
