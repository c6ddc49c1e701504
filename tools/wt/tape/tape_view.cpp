#include "warptape/tools/wt/tape/tape_view.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/live_graph.h"
#include "warptape/core/profile.h"
#include "warptape/core/random.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"

namespace wt::tools {
namespace {

std::string tensor_text(DType t, const Shape& s) { return str(dtype_name(t), " ", s); }

class Collector {
 public:
  explicit Collector(const nn::ModuleBase& model) {
    for (const nn::NamedTensor& p : model.named_parameters()) {
      names_[p.tensor.impl()->node] = p.name;
      parameters_.insert(p.tensor.impl()->storage);
    }
  }

  std::vector<TapeNode> from(Node* end) {
    std::vector<Node*> found{end};
    std::set<const Node*> seen{end};
    for (size_t k = 0; k < found.size(); ++k)
      for (u32 i = 0; i < found[k]->n_edges; ++i)
        if (Node* n = found[k]->edges[i].node; n && !n->is_leaf() && seen.insert(n).second)
          found.push_back(n);
    std::sort(found.begin(), found.end(),
              [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
    std::vector<TapeNode> nodes;
    for (const Node* n : found) {
      index_[n] = int(nodes.size());
      nodes.push_back(one(n));
    }
    return nodes;
  }

 private:
  TapeNode one(const Node* n) {
    TapeNode t{.sequence = n->sequence,
               .op = n->info->name,
               .module = module_path_of(n->mode_id),
               .line = describe_frame(n->frame)};
    for (u32 i = 0; i < n->n_outputs; ++i) {
      const OutputInfo& o = n->output_info(i);
      t.outputs.push_back(tensor_text(DType(o.key & 0xFF), Shape(o.shape, o.ndim)));
    }
    for (u32 i = 0; i < n->n_edges; ++i) {
      const Node* const from = n->edges[i].node;
      if (!from) continue;
      if (from->is_leaf())
        t.parameters.push_back(name_of(from));
      else
        t.inputs.push_back(index_.at(from));
    }
    for (u32 i = 0; i < n->n_slots; ++i) add_slot(n->slots[i], t);
    return t;
  }

  std::string name_of(const Node* leaf) const {
    const auto at = names_.find(leaf);
    return at == names_.end() ? "a leaf" : at->second;
  }

  void add_slot(const SavedSlot& slot, TapeNode& to) {
    if (slot.kind == SlotKind::empty) return;
    if (slot.kind == SlotKind::forgotten) {
      to.saved.push_back({"", "its output, overwritten since: reading it is an error"});
      return;
    }
    if (slot.kind == SlotKind::packed) {
      if (const SignBits* const bits = slot.packed->sign_bits()) {
        add(bits->bits.impl(), "the signs, a bit an element", to);
        return;
      }
      const detail::HeldTensors held = detail::held_by(slot);
      if (held.empty()) to.saved.push_back({"", "in another form"});
      for (const detail::HeldTensor& h : held)
        add(h.tensor, h.part.empty() ? "in another form" : h.part, to);
      return;
    }
    add(slot.tensor, what_of(slot), to);
  }

  std::string what_of(const SavedSlot& slot) const {
    if (const Leaf* const leaf = leaf_of(slot.tensor)) return name_of(leaf);
    if (slot.kind == SlotKind::raw_output || slot.edge == kSelf) return "its output";
    return slot.edge == kNoEdge ? "a tensor without a node" : str("operand ", int(slot.edge));
  }

  void add(const TensorImpl* p, const std::string& what, TapeNode& to) {
    TapeSaved s{.tensor = tensor_text(dtype_of(p), Shape(p->geometry.shape, p->geometry.ndim)),
                .what = what};
    s.bytes = p->storage->bytes;
    s.counts = !parameters_.contains(p->storage) && counted_.insert(p->storage).second;
    if (s.counts) to.saved_bytes += s.bytes;
    to.saved.push_back(std::move(s));
  }

  std::unordered_map<const Node*, std::string> names_;
  std::unordered_map<const Node*, int> index_;
  std::set<const Storage*> parameters_, counted_;
};

void count(std::vector<TapeKernel>& in, const profiler::Event& kernel) {
  const std::string name =
      kernel.variant ? str(kernel.name, ":", kernel.variant) : std::string(kernel.name);
  for (TapeKernel& k : in)
    if (k.name == name) return void(++k.launches);
  in.push_back({name, 1});
}

// An operator that recorded a node and that node's backward have its number.
void add_kernels(std::vector<TapeNode>& nodes, const profiler::Profile& p) {
  std::unordered_map<u64, TapeNode*> by_sequence;
  for (TapeNode& n : nodes) by_sequence[n.sequence] = &n;
  std::unordered_map<u32, const profiler::Event*> by_id;
  for (const profiler::Event& e : p.events()) by_id[e.id] = &e;
  const auto around = [&](const profiler::Event& e) -> const profiler::Event* {
    const auto at = by_id.find(e.parent);
    return at == by_id.end() ? nullptr : at->second;
  };
  for (const profiler::Event& e : p.events()) {
    if (e.kind != profiler::Kind::kernel) continue;
    const profiler::Event* of = around(e);
    while (of && !by_sequence.contains(of->node)) of = around(*of);
    if (!of) continue;
    TapeNode& n = *by_sequence[of->node];
    count(of->kind == profiler::Kind::backward ? n.backward : n.forward, e);
  }
}

}  // namespace

i64 TapeView::saved_bytes() const {
  i64 bytes = 0;
  for (const TapeNode& n : nodes) bytes += n.saved_bytes;
  return bytes;
}

TapeView tape_of(const MemoryJob& job) {
  const Device device = device_for(job.options.device);
  const DType precision = precision_of(job.options.precision);
  manual_seed(job.options.seed);
  const std::unique_ptr<Recipe> recipe = job.make();
  const i64 batch = resolve(job.options, *recipe).batch;
  TapeView v{.recipe = job.options.recipe,
             .device = to_string(device),
             .precision = job.options.precision,
             .batch = batch};
  recipe->model().to(device);
  recipe->model().train();
  const data::Batch made = made_up_batch(*recipe, batch);
  const data::Batch b{made.x.to(device), made.y.to(device)};
  const auto step = [&] {
    std::optional<AutocastScope> half;
    if (precision != DType::f32) half.emplace(precision);
    const Loss loss = recipe->loss(b);
    v.nodes = Collector(recipe->model()).from(loss.sum.impl()->node);
    half.reset();
    loss.backward();
  };
  add_kernels(v.nodes, profiler::profile(step, {.memory = false, .device_times = false}));
  return v;
}

std::string kernels_text(const std::vector<TapeKernel>& kernels) {
  std::string text;
  for (const TapeKernel& k : kernels)
    text += str(text.empty() ? "" : ", ", k.name, k.launches > 1 ? str(" x", k.launches) : "");
  return text;
}

}  // namespace wt::tools
