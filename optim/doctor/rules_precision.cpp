// Dtypes: what tensor cores take, and what 16 bits lose.
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found no_tensor_cores(const Evidence& e) {
  const ProductsSeen& p = e.products;
  if (e.device.kind != DeviceKind::cuda || e.tf32 || p.f32 <= 0.5 * p.all()) return {};
  if (p.f32 < 1e8) return {};  // nothing to gain from less than a tenth of a GFLOP
  return Finding{.severity = Severity::waste,
                 .title = "products do not use tensor cores",
                 .evidence = str(figure(p.f32 / 1e9), " GFLOP a step in f32, ",
                                 percent(p.f32 / p.all()), " of all"),
                 .gain = "docs/mixed_precision.md has what f16 and bf16 bring",
                 .fix = "TrainStepOptions{.precision = bf16}; or set_matmul_precision(high)"};
}

Found odd_sizes(const Evidence& e) {
  const ProductsSeen& p = e.products;
  if (e.device.kind != DeviceKind::cuda || p.half <= 0 || p.odd < 0.1 * p.half) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "16-bit products with sizes that are no multiple of 8",
      .evidence = str(percent(p.odd / p.half), " of their FLOPs, such as ", p.odd_example),
      .gain = "tensor cores load 16 bytes at a time: eight elements",
      .fix = "round channels, vocabulary and classes up to a multiple of 8"};
}

Found double_precision(const Evidence& e) {
  const ProductsSeen& p = e.products;
  if (p.f64 <= 0.1 * p.all() || p.f64 < 1e6) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "products in f64",
      .evidence = str(figure(p.f64 / 1e9), " GFLOP a step, ", percent(p.f64 / p.all()), " of all"),
      .gain = "half of the memory and twice the speed, on GPUs much more",
      .fix = "net.to(f32); x.to(f32)"};
}

Found gradient_underflow(const Evidence& e) {
  if (e.precision != DType::f16 || e.scaled_underflow < 0.25) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "f16 loses gradients",
                 .evidence = str(percent(e.scaled_underflow),
                                 " of the elements are 0 or lose digits with the loss scale, ",
                                 percent(e.underflow), " without one"),
                 .fix = "TrainStepOptions{.precision = bf16}, or a larger loss_scale.init_scale"};
}

Found steps_skipped(const Evidence& e) {
  i64 skipped = 0;
  for (const StepSeen& s : e.steps) skipped += s.skipped;
  if (skipped < 2 || skipped * 10 < i64(e.steps.size())) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "steps are skipped",
                 .evidence = str(skipped, " of ", e.steps.size(),
                                 " steps change nothing: losses or gradients are not finite"),
                 .cost_us = step_us(e) * double(skipped) / double(e.steps.size()),
                 .fix = e.precision == DType::f16
                            ? "a smaller loss_scale.init_scale, or bf16; step.explain() says where"
                            : "step.explain(batch, loss_of) says where it begins"};
}

Found scale_falls(const Evidence& e) {
  if (e.precision != DType::f16 || e.steps.size() < 4) return {};
  const double first = e.steps.front().scale, last = e.steps.back().scale;
  if (!(last <= first / 16) && !(last < 1)) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the loss scale collapses",
                 .evidence = str("from ", figure(first), " to ", figure(last), " in ",
                                 e.steps.size(), " steps"),
                 .fix = "bf16; or find what overflows: step.explain(batch, loss_of)"};
}

constexpr Rule kPrecisionRules[] = {
    {{"no-tensor-cores", "precision", "most products on cuda are f32, without tf32"},
     no_tensor_cores},
    {{"odd-sizes", "precision",
      "a tenth of the 16-bit FLOPs on cuda with sizes not divisible by 8"},
     odd_sizes},
    {{"double-precision", "precision", "a tenth of the FLOPs in f64"}, double_precision},
    {{"gradient-underflow", "precision",
      "a quarter of the gradients below f16's normal numbers, with the scale"},
     gradient_underflow},
    {{"steps-skipped", "precision", "two steps or more, and a tenth of all, are skipped"},
     steps_skipped},
    {{"scale-falls", "precision", "a loss scale that falls to a 16th, or below 1"}, scale_falls}};

}  // namespace

std::span<const Rule> precision_rules() { return kPrecisionRules; }

}  // namespace wt::doctor
