// What a module has in it, and the shapes that come out, as text.
#include <map>
#include <ostream>
#include <set>

#include "warptape/nn/module.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {
namespace {

using detail::ModuleState;
// What a module's call gave, "[2, 10] f32"; empty where that is no tensor.
using Outputs = std::map<const ModuleState*, std::string>;

struct Counts {
  i64 all = 0, frozen = 0;
};

void count_below(const ModuleState& m, std::set<const TensorImpl*>& seen, Counts& n) {
  for (const auto& s : m.slots) {
    if (s->is_buffer || !s->tensor.defined() || !seen.insert(s->tensor.impl()).second) continue;
    n.all += s->tensor.numel();
    if (!s->tensor.requires_grad()) n.frozen += s->tensor.numel();
  }
  for (const auto& c : m.children) count_below(*c.second, seen, n);
}
Counts count_of(const ModuleState& m) {
  std::set<const TensorImpl*> seen;
  Counts n;
  count_below(m, seen, n);
  return n;
}

std::string grouped(i64 n) {
  std::string digits = std::to_string(n);
  for (int i = int(digits.size()) - 3; i > 0; i -= 3) digits.insert(size_t(i), 1, ',');
  return digits;
}

// " -> [2, 10] f32", empty where nothing is known.
std::string arrow(const ModuleState& m, const Outputs* outputs) {
  if (!outputs) return "";
  const auto found = outputs->find(&m);
  return found == outputs->end() || found->second.empty() ? "" : str("  -> ", found->second);
}

void print_tree(const ModuleState& m, const std::string& indent, const Outputs* outputs,
                std::string& out) {
  for (const auto& s : m.slots)
    if (s->tensor.defined())
      out += str(indent, s->name, "  ", s->tensor.shape(), " ", dtype_name(s->tensor.dtype()),
                 s->tensor.is_contiguous() || !s->tensor.is_contiguous(MemoryFormat::channels_last)
                     ? ""
                     : " channels_last",
                 s->is_buffer                            ? "  (buffer)"
                 : outputs && !s->tensor.requires_grad() ? "  (frozen)"
                                                         : "",
                 "\n");
  for (const auto& [name, child] : m.children) {
    const i64 n = count_of(*child).all;
    out += str(indent, name, ": ", child->type);
    if (n) out += str("  ", grouped(n));
    out += arrow(*child, outputs) + "\n";
    print_tree(*child, indent + "  ", outputs, out);
  }
}

std::string summary_of(const ModuleState& m, const Outputs* outputs) {
  std::string out = str(m.type, arrow(m, outputs), "\n");
  print_tree(m, "  ", outputs, out);
  const Counts n = count_of(m);
  out += str("parameters: ", grouped(n.all));
  if (outputs)
    out += str(" (", grouped(n.all - n.frozen), " trainable, ", grouped(n.frozen), " frozen)");
  return out + "\n";
}

}  // namespace

std::string ModuleBase::summary() const { return summary_of(*state_, nullptr); }

std::ostream& operator<<(std::ostream& out, const ModuleBase& m) { return out << m.summary(); }

namespace detail {

struct OutputShapes::Seen {
  explicit Seen(const ModuleBase& m) : root(m), eval(m) {}

  ModuleBase root;
  EvalScope eval;
  NoGrad no_grad{};
  Outputs outputs{};
  std::vector<std::pair<ModuleBase, u64>> hooks{};
};

OutputShapes::OutputShapes(const ModuleBase& root) : seen_(new Seen(root)) {
  const auto watch = [outputs = &seen_->outputs](const ModuleBase& m, const Tensor&,
                                                 const Tensor& y) -> Tensor {
    outputs->try_emplace(m.state().get(),
                         y.defined() ? str(y.shape(), " ", dtype_name(y.dtype())) : "");
    return {};
  };
  root.eval();
  for (const ModuleBase& m : root.modules())
    seen_->hooks.emplace_back(m, m.add_hook(HookKind::watch, watch));
}

OutputShapes::~OutputShapes() {
  for (const auto& [m, id] : seen_->hooks) m.remove_hook(id);
}

std::string OutputShapes::summary() const {
  return summary_of(*seen_->root.state(), &seen_->outputs);
}

}  // namespace detail
}  // namespace wt::nn
