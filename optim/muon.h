// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks").
//
//   optim::Muon opt{net, {.lr = 0.02, .adamw = {.lr = 3e-4, .names = {"token.weight", "head.*"}}}};
//
// Matrices move along the direction of their momentum with all singular values near 1, found by
// Newton-Schulz steps on the device; everything else is AdamW's.
#pragma once
#include "warptape/optim/optimizer.h"

namespace wt::optim {

// AdamW for what Muon leaves out.
struct MuonAdamWOptions {
  double lr = 3e-4;         // the learning rate
  Betas betas{0.9, 0.95};   // of the averages of gradients and of their squares
  double eps = 1e-10;       // added to the root
  double weight_decay = 0;  // decoupled
  // Patterns of parameters that are AdamW's although they are matrices: embeddings, the last layer.
  std::vector<std::string> names{};
};

// What Muon is made with; the defaults are those of its author's program, torch_muon() has
// PyTorch's.
struct MuonOptions {
  double lr = 0.02;         // of the matrices
  double momentum = 0.95;   // beta below
  double weight_decay = 0;  // decoupled, as AdamW's
  bool nesterov = true;     // directions of the momentum one step ahead
  int ns_steps = 5;         // Newton-Schulz steps, 1 to 99
  double eps = 1e-7;        // the least norm that a direction is divided by
  // Of everything else.
  MuonAdamWOptions adamw{};
  // All parameters of a group are Muon's, or all are AdamW's; it sets only what its rule has.
  std::vector<ParamGroup> groups{};
  // Matrices and products of the Newton-Schulz steps have bf16's values (summed in f32), as in
  // PyTorch, where directions differ by some per cent from those of wider products.
  bool bf16_products = false;
  // Steps have the size of AdamW's: 0.2 sqrt(max(rows, columns)) in place of
  // max(1, rows / columns)^0.5 (PyTorch's adjust_lr_fn; Liu et al. 2025, arXiv:2502.16982).
  bool match_rms_adamw = false;
};
// The defaults of torch.optim.Muon: lr 1e-3, weight_decay 0.1, products in bf16. What is no matrix
// is AdamW's as above, which torch.optim.Muon does not take.
WT_API MuonOptions torch_muon();

// Momentum whose matrices are made orthogonal before each step, for hidden layers. A parameter of
// at least two dimensions is a matrix [shape[0], the rest] and Muon's, unless adamw.names name it:
//   momentum += (1 - beta) (g - momentum); d = nesterov ? g + beta (momentum - g) : momentum
//   x = d / max(|d|, eps) (Frobenius norm); ns_steps times: A = x x^T,
//     x = 3.4445 x - 4.7750 A x + 2.0315 A A x
//   p -= lr (weight_decay p + max(1, rows / columns)^0.5 x)
// torch.optim.Muon's formulas. Its products are in bf16 and its defaults others (torch_muon());
// here products are of the parameter's dtype (matmul; f32 in TF32 after
// set_matmul_precision(MatmulPrecision::high)), unless bf16_products.
//
// A step has three products a Newton-Schulz step and matrix, and needs memory for one more copy of
// the matrices for its duration. State: momentum_buffer, of AdamW's parameters exp_avg and
// exp_avg_sq. Group 0 has the matrices that no group names, 1 to n are `groups`, then comes one of
// AdamW's parameters that no group names, if there are any.
//
// Throws UsageError: nothing is Muon's, a group mixes the two rules or sets what its rule does not
// have, ns_steps out of range, a matrix whose first dimension is neither the outermost nor the
// innermost in memory.
class WT_API Muon : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit Muon(const nn::ModuleBase& m, const MuonOptions& o = {}, const CallLine& = {});
  explicit Muon(std::span<const nn::NamedTensor> parameters, const MuonOptions& o = {},
                const CallLine& = {});
  // Whether a group's parameters are Muon's.
  bool is_muon(i64 group) const;
  // The momentum of a group; that of AdamW's means nothing.
  double momentum(i64 group = 0) const;
  // Sets it from the next step on. Throws UsageError for a group of AdamW's, and unless it is
  // finite and at least 0.
  void set_momentum(double v, i64 group = 0);

 private:
  struct Plan;
  static Plan plan(const std::vector<detail::Entry>& entries, const MuonOptions& o);
  Muon(std::vector<detail::Entry> entries, const MuonOptions& o);
  Muon(std::vector<detail::Entry>&& entries, const MuonOptions& o, Plan&& plan);
  void begin_update(const double* grad_factor) override;
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool is_elementwise() const override { return false; }

  struct Buffers;
  Tensor directions(const detail::Run& r, const double* grad_factor, Buffers& b) const;
  Buffers buffers() const;

  std::vector<bool> muon_;  // of each group
  bool nesterov_;
  int ns_steps_;
  double eps_;
  bool bf16_products_, match_rms_adamw_;
  std::vector<Tensor> directions_;  // of this step's runs of Muon's, until they are used
  size_t next_ = 0;
};

}  // namespace wt::optim
