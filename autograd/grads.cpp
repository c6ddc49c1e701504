// How users start a walk: backward(), grad(), grads(); and the hooks on tensors.
#include "warptape/autograd/grads.h"

#include <optional>

#include "warptape/autograd/engine.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"

namespace wt {
namespace {

void check_root(const char* op, const Tensor& t) {
  if (!t.defined())
    throw UsageError(
        str("[", op, "] the tensor is undefined (never assigned, or moved from)", at_line()));
  if (!t.impl()->node)
    throw UsageError(str("[", op, "] this tensor does not require grad: ", describe(t), at_line()));
}

Tensor seed_for(const char* op, const Tensor& root) {
  if (root.numel() != 1)
    throw ShapeError(str("[", op, "] only a one-element tensor starts a backward by itself, got ",
                         describe(root), at_line(),
                         "\n  Try .sum() or give the gradient of the output"));
  return ones(root.shape(), {.dtype = root.dtype(), .device = root.device()});
}

void check_seed(const char* op, const Tensor& root, const Tensor& seed) {
  if (seed.shape() != root.shape() || seed.impl()->key != root.impl()->key)
    throw ShapeError(str("[", op, "] the gradient of the output must look like the output\n  ",
                         "output ", describe(root), "\n  gradient ", describe(seed), at_line()));
}

// A loss with a derivative in it that is a constant to the graph: its share of the gradient would
// silently be zero.
void check_derivatives(const Tensor& root) {
  if (!(root.impl()->flags & kConstantDerivative)) return;
  throw UsageError(
      str("[backward] this loss contains a derivative that grad() or grads() took without "
          "create_graph: it has no graph, so parameters would get no gradient through it",
          at_line(), "\n  Try {.create_graph = true} there, or .detach() if a constant is meant"));
}

// From `seed`, whose scale is that of `scaler` (Leaf::scaler).
void walk_from(const Tensor& root, Tensor seed, BackwardOptions options, u32 scaler) {
  check_derivatives(root);
  walk({&root, 1}, {&seed, 1}, {.retain = options.retain_graph, .scaler = scaler}, nullptr);
  mode.slow &= ~u32(kSlowConstant);  // what is made from here on belongs to another loss
}

}  // namespace

void Tensor::backward(BackwardOptions options, Frame at) const {
  const FrameScope frame(at);
  check_root("backward", *this);
  walk_from(*this, seed_for("backward", *this), options, 0);
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options, Frame at) const {
  const FrameScope frame(at);
  check_root("backward", *this);
  check_seed("backward", *this, gradient);
  walk_from(*this, gradient.detach(), options, 0);
}

void detail::backward_scaled(const Tensor& root, const Tensor& seed, u32 scaler,
                             BackwardOptions options, Frame at) {
  const FrameScope frame(at);
  check_root("backward", root);
  check_seed("backward", root, seed);
  walk_from(root, seed.detach(), options, scaler);
}

std::span<const Tensor> TensorList::span() const { return {first_, count_}; }

std::vector<Tensor> grads(const TensorList& outputs, const TensorList& inputs,
                          const GradOptions& options, Frame at) {
  const FrameScope frame(at);
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size())
    throw UsageError(str("[grads] ", outputs.size(), " outputs but ", options.grad_outputs.size(),
                         " grad_outputs", at_line()));
  std::vector<Tensor> seeds(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_root("grads", outputs[i]);
    if (!options.grad_outputs.empty() && options.grad_outputs[i].defined()) {
      check_seed("grads", outputs[i], options.grad_outputs[i]);
      seeds[i] = options.create_graph ? options.grad_outputs[i] : options.grad_outputs[i].detach();
    } else {
      seeds[i] = seed_for("grads", outputs[i]);
    }
  }
  std::vector<Tensor> results(inputs.size());
  std::vector<Engine::Capture> captures;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_root("grads", inputs[i]);
    captures.push_back({inputs[i].impl()->node, inputs[i].impl()->output_index, &results[i]});
  }
  walk(outputs.span(), seeds, {options.create_graph, options.retain_graph}, &captures);
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined() && !options.allow_unused)
      throw UsageError(str("[grads] no output depends on input ", i, ": ", describe(inputs[i]),
                           at_line(), "\n  Try {.allow_unused = true}"));
  if (!options.create_graph) {
    // Operators hand the mark on from here on, and backward() refuses what bears it.
    for (const Tensor& r : results)
      if (r.defined()) r.impl()->flags |= kConstantDerivative;
    mode.slow |= kSlowConstant;
  }
  return results;
}

Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options, Frame at) {
  return grads(output, input, options, at)[0];
}

// --- hooks ---

namespace {
std::vector<HookEntry>& hooks_of(const Tensor& t) {
  Node* n = t.impl()->node;
  if (n->is_leaf()) return static_cast<Leaf*>(n)->hooks;
  if (!n->spill) n->spill = new NodeSpill;
  return n->spill->hooks;
}
constinit std::atomic<u64> hook_ids{0};
}  // namespace

u64 detail::add_hook(const Tensor& t, TensorHook call, void* context, void (*deleter)(void*)) {
  if (!t.defined() || !t.impl()->node) {
    deleter(context);
    throw UsageError("[register_hook] the tensor does not require grad");
  }
  const u64 id = ++hook_ids;
  hooks_of(t).push_back({id, t.impl()->output_index, call, context, deleter});
  return id;
}

void remove_hook(const Tensor& t, u64 id) {
  if (!t.defined() || !t.impl()->node) return;
  std::erase_if(hooks_of(t), [id](const HookEntry& h) {
    if (h.id != id) return false;
    if (h.deleter) h.deleter(h.context);
    return true;
  });
}

}  // namespace wt
