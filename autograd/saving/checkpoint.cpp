#include "warptape/autograd/checkpoint.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/live_graph.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/checkpoint_logs.h"
#include "warptape/core/random.h"
#include "warptape/core/stream.h"

namespace wt {
namespace detail {

struct Segment;

// A slot that holds nothing until the function ran again.
struct RecomputedSlot final : PackedSlot {
  std::shared_ptr<Segment> segment;
  u32 number;  // among the slots of the segment, in the order of saving
  u32 key;
  Shape shape;
  Tensor again{};  // from a recomputation, waiting for this slot's node
  RecomputedSlot(std::shared_ptr<Segment> s, u32 i, const TensorImpl* p)
      : segment(std::move(s)), number(i), key(p->key), shape(shape_of(p->geometry)) {}
  ~RecomputedSlot() override;
  Tensor unpack(Backward&) override;
};

// A tensor that the recomputation reads, and as which version.
struct Seen {
  Tensor tensor;
  u32 version;
  bool wants_grad;
};

// A checkpointed function with what it takes to run it again.
struct Segment : std::enable_shared_from_this<Segment> {
  CheckpointFunction f;
  std::vector<Seen> inputs, leaves;
  std::vector<RecomputedSlot*> slots{};  // null: kept, or dead
  std::vector<RandomCall> draws{};
  const Mode ambience = mode;
  FrameId line = 0;

  void note(const TensorImpl* leaf);
  void run_again();
};

}  // namespace detail

// One run of a segment's function, the first or a later one; the mode's innermost.
struct Recomputation {
  detail::Segment& segment;
  const bool replaying;
  Recomputation* const outer = mode.recomputation;
  u32 slot = 0;
  std::string trouble{};
  RandomLog log;
  detail::StorageLog storages{{}, detail::thread_memory.log};

  Recomputation(detail::Segment& s, bool again)
      : segment(s), replaying(again), log{{}, 0, again, mode.random_log} {
    if (again) log.calls = s.draws;
    detail::ThreadMemory& t = detail::thread_memory;
    t.slow |= detail::kSlowLogged;
    t.log = &storages;
    mode.recomputation = this;
    mode.random_log = &log;
    mode.save = SavePolicy::recompute;
    mode.slow |= kSlowSaving;
  }
  ~Recomputation() {
    const u64 sequence = mode.sequence;
    StreamState* const last = mode.stream;
    mode = before_;
    mode.sequence = sequence;
    if (last != mode.stream) detail::follow_stream_quietly(last, mode.stream);
    detail::ThreadMemory& t = detail::thread_memory;
    t.log = storages.outer;
    if (!t.log) t.slow &= ~u32(detail::kSlowLogged);
  }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  const Mode before_ = mode;
};

namespace detail {

RecomputedSlot::~RecomputedSlot() { segment->slots[number] = nullptr; }

void add_held(const PackedSlot* form, HeldTensors& out) {
  const auto* slot = dynamic_cast<const RecomputedSlot*>(form);
  if (!slot) return;  // what other forms hold is their own copy
  const Segment& segment = *slot->segment;
  const std::string where = " of checkpoint <- " + describe_frame(segment.line);
  const auto add = [&](const Tensor& t, const char* part) {
    out.push_back({t.impl(), part + where, &segment});
  };
  for (const Seen& s : segment.inputs) add(s.tensor, "an input");
  for (const Seen& s : segment.leaves) add(s.tensor, "a leaf");
  if (slot->again.defined()) out.push_back({slot->again.impl(), "recomputed" + where, slot});
}

Tensor RecomputedSlot::unpack(Backward&) {
  if (!again.defined()) segment->run_again();
  if (!again.defined())
    throw UsageError(str("[checkpoint] the recomputation saved fewer tensors than the forward: ",
                         "the function must do the same each time\n  at ",
                         describe_frame(segment->line)));
  return std::move(again);
}

void Segment::note(const TensorImpl* leaf) {
  for (const Seen& s : leaves)
    if (s.tensor.impl() == leaf) return;
  leaves.push_back(
      {Tensor(detail::retained(const_cast<TensorImpl*>(leaf))), leaf->cell->version, true});
}

static void check_unchanged(const std::vector<Seen>& all, const char* what, FrameId line) {
  for (const Seen& s : all)
    if (s.tensor.impl()->cell->version != s.version)
      throw InplaceError(str("[checkpoint] ", what, " ", describe(s.tensor),
                             " was modified in place: it is at version ",
                             s.tensor.impl()->cell->version, ", version ", s.version,
                             " is needed to recompute\n  at ", describe_frame(line)));
}

void Segment::run_again() {
  check_unchanged(inputs, "an input", line);
  check_unchanged(leaves, "a leaf that the function reads", line);
  const std::shared_ptr<Segment> self = shared_from_this();
  Recomputation run(*this, true);
  const u32 slow = mode.slow & ~u32(kSlowInference | kSlowAutocast);
  mode.slow = slow | (ambience.slow & kSlowAutocast);
  mode.autocast_dtype = ambience.autocast_dtype;
  mode.autocast_cache = nullptr;
  mode.default_dtype = ambience.default_dtype;
  mode.default_device = ambience.default_device;
  mode.category = ambience.category;
  mode.frame = ambience.frame;
  mode.grad = true;
  mode.anomaly = false;
  mode.op = nullptr;
  mode.operand = nullptr;
  restore_mode(ambience.id);
  std::vector<Tensor> in;
  for (const Seen& s : inputs) {
    TensorImpl* p = in.emplace_back(alias_of(s.tensor.impl())).impl();
    if (s.wants_grad) make_leaf(p, frame_of(line));
  }
  f(in);
  if (run.trouble.empty() && run.slot != slots.size())
    run.trouble = str("the recomputation saved ", run.slot, " tensors, the forward ", slots.size());
  if (!run.trouble.empty())
    throw UsageError(str("[checkpoint] ", run.trouble,
                         ": the function must do the same each time\n  at ", describe_frame(line)));
}

void recompute_slot(Node* n, SavedSlot& s) {
  Recomputation& run = *mode.recomputation;
  Segment& segment = run.segment;
  const u32 i = run.slot++;
  if (!run.replaying) {
    if (!segment.line) segment.line = n->frame;  // checkpoint() itself cannot know its caller
    segment.slots.push_back(nullptr);
    if (!can_pack(s)) return;
    auto form = std::make_unique<RecomputedSlot>(segment.shared_from_this(), i, s.tensor);
    segment.slots[i] = form.get();
    return replace_by(n, s, std::move(form));
  }
  if (i >= segment.slots.size() || !segment.slots[i]) return;
  RecomputedSlot& wanted = *segment.slots[i];
  const bool has = (s.kind == SlotKind::owned || s.kind == SlotKind::raw_output) && s.tensor;
  if (!has || s.tensor->key != wanted.key || shape_of(s.tensor->geometry) != wanted.shape) {
    if (run.trouble.empty())
      run.trouble = str("tensor ", i, " that ", describe(n), " saves differs from the forward's");
    return;
  }
  wanted.again = Tensor(alias_of(s.tensor));
}

void note_operands(const In* const* in, int n) {
  for (Recomputation* r = mode.recomputation; r; r = r->outer)
    if (!r->replaying)
      for (int i = 0; i < n; ++i)
        if (leaf_of(in[i]->impl())) r->segment.note(in[i]->impl());
}

bool made_outside(const TensorImpl* p) { return !mode.recomputation->storages.has(p->storage); }

bool leaves_alone(const TensorImpl* p) {
  for (const Recomputation* r = mode.recomputation; r; r = r->outer)
    if (r->replaying && !r->storages.has(p->storage)) return true;
  return false;
}

std::vector<Tensor> checkpoint(CheckpointFunction f, std::vector<Tensor> inputs) {
  if (!mode.grad) return f(inputs);
  auto segment = std::make_shared<Segment>();
  for (const Tensor& t : inputs) {
    if (!t.defined()) use_of_undefined();
    // A slot keeps the user's tensor for leaves only; so does this.
    Tensor held = leaf_of(t.impl()) ? t : Tensor(alias_of(t.impl()));
    segment->inputs.push_back({std::move(held), t.impl()->cell->version, t.requires_grad()});
  }
  segment->f = std::move(f);
  segment->line = mode.frame;
  Recomputation run(*segment, false);
  std::vector<Tensor> out = segment->f(inputs);
  segment->draws = std::move(run.log.calls);
  return out;
}

}  // namespace detail

bool recomputing() {
  for (const Recomputation* r = mode.recomputation; r; r = r->outer)
    if (r->replaying) return true;
  return false;
}

}  // namespace wt
