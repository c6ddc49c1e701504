#include "warptape/optim/optimizer.h"

#include <algorithm>
#include <iterator>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/mailbox_lane.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer_memory.h"

namespace wt::optim {

using detail::Arena;
using detail::Entry;
using detail::kFactorAt;
using detail::kFoundAt;
using detail::kMark;
using detail::kMarkAt;
using detail::kNormAt;
using detail::kTableSize;
using detail::kTailBytes;
using detail::Run;
using detail::Slot;
using detail::StorageRef;

namespace {

// A device scalar as a kernel takes it; `keep` owns a converted one.
const void* scalar_pointer(const char* what, const Tensor& t, DType wanted, Device d,
                           Tensor& keep) {
  if (!t.defined()) return nullptr;
  if (t.numel() != 1)
    throw ShapeError(str("[step] ", what, " must be one element, got ", describe(t), at_line()));
  if (t.device() != d)
    throw PlacementError(str("[step] ", what, " is on ", to_string(t.device()),
                             ", the parameters are on ", to_string(d), at_line()));
  if (t.dtype() == wanted) return t.impl()->data;
  const NoGrad no_grad;
  keep = wanted == DType::i32 ? t.to(DType::boolean).to(DType::i32) : t.to(wanted);
  return keep.impl()->data;
}

}  // namespace

Launch Optimizer::launch() const { return memory_->launch(); }

Optimizer::Optimizer(std::vector<Entry> entries, const Kind& kind, const OptimBlock& hyper,
                     const std::vector<ParamGroup>& groups)
    : Optimizer(std::move(entries), kind, blocks_of(kind, hyper, groups, entries)) {}
Optimizer::Optimizer(std::vector<Entry>&& entries, const Kind& kind, const Blocks& blocks)
    : kind_(new Kind(kind)),
      arenas_(std::make_unique<detail::Arenas>(std::move(entries), state_counts(kind))) {
  make_memory(blocks);
}
std::vector<int> Optimizer::state_counts(const Kind& kind) {
  std::vector<int> counts;
  for (const auto& slots : kind.group_slots) counts.push_back(int(slots.size()));
  if (counts.empty()) counts.push_back(int(kind.slots.size()));
  return counts;
}
Optimizer::~Optimizer() = default;

std::vector<Entry> Optimizer::entries_of(const nn::ModuleBase& m) { return detail::trainable(m); }
std::vector<Entry> Optimizer::entries_of(std::span<const nn::NamedTensor> parameters) {
  return detail::leaves(parameters);
}

void Optimizer::make_memory(const Blocks& values) {
  auto made = std::make_unique<Memory>();
  const Device d = arenas_->device();
  made->device = d;
  made->host = values;
  made->block = detail::zeroed(d, made->tail(kTailBytes), Category::optimizer);
  if (memory_) made->cohorts = memory_->cohorts.moved(*arenas_);
  const Sharding* const shards = arenas_->sharding();
  made->partials = detail::zeroed(d, arenas_->partials() * (shards ? shards->world() : 1) * 8,
                                  Category::optimizer);
  if (schedule_) made->table = detail::zeroed(d, kTableSize * 8, Category::optimizer);
  (void)mailbox_flag(d);  // whose first use may throw
  memory_ = std::move(made);
  if (!d.is_meta)
    copy_bytes(static_cast<char*>(memory_->block->data) + memory_->tail(kMarkAt), d, &kMark,
               Device::cpu(), sizeof kMark);
  write_blocks(values);
}

void Optimizer::fill_state(size_t slot, double value) {
  const NoGrad no_grad;
  for (const auto& [a, s] : arenas_->in_order()) {
    const Geometry& g = s->entry.tensor.impl()->geometry;
    Tensor t = detail::tensor_over(a->state[slot].get(), s->offset * item_size(a->dtype), g);
    const Tensor from = full(t.shape(), value, {.dtype = a->dtype, .device = t.device()});
    wt::run(CopyArgs{view_of(t.impl()), view_of(from.impl())}, memory_->launch());
  }
}

// --- steps ---

void Optimizer::zero_grad(const ZeroGradOptions& options, Frame at) {
  if (windows_.equal > 1 && windows_.length > 1 && !windows_.stepped && !options.discard) {
    const FrameScope frame(at);
    const u32 pending = arenas_->pending_backwards();
    if (pending > 0 && pending < windows_.length)
      throw UsageError(str("[zero_grad] the gradients of ", pending,
                           " backward() calls would be "
                           "lost: steps came after every ",
                           windows_.length, " so far, and this last window is shorter", at_line(),
                           "\n  Try a step() for it, with its own number of micro-batches in the "
                           "mean, or TrainStep's micro_batches; zero_grad({.discard = true}) drops "
                           "them"));
  }
  if (options.set_to_none)
    arenas_->zero_grad();
  else
    arenas_->fill_grad_zero();
  windows_.stepped = false;
}

const std::vector<Run>& Optimizer::prepare() {
  if (averaged_) [[unlikely]]
    throw UsageError(str("[", kind_->name,
                         "] a step inside an EmaScope: the parameters are their averages there",
                         at_line()));
  arenas_->sync();
  if (memory_->device != arenas_->device()) [[unlikely]]
    make_memory(read_blocks());
  if (const u32 lane = wt::detail::mailbox_lane(); memory_->mailbox_lane != lane) [[unlikely]] {
    mailbox_ = mailbox_flag(memory_->device);  // of the thread that steps
    memory_->mailbox_lane = lane;
  }
  if (schedule_ && memory_->table_left == 0) [[unlikely]]
    refill_schedule(false);
  return arenas_->collect();
}

i64 Optimizer::add_norm() {
  return add_norm([this](const Run& r, double* partials) {
    wt::run(GradNormArgs{r.grad(), r.count, r.arena->dtype, partials}, memory_->launch());
  });
}

i64 Optimizer::add_norm(const std::function<void(const Run&, double*)>& f) {
  const Memory& m = *memory_;
  auto* partials = static_cast<double*>(m.partials->data);
  Sharding* const shards = arenas_->sharding();
  const i64 room = arenas_->partials(), all = shards ? room * shards->world() : 0;
  i64 n = 0;
  if (shards) {
    if (!m.device.is_meta) fill_zero(partials, m.device, all * 8);
    n = room * shards->rank();
  }
  for (const Run& r : arenas_->steps()) {
    f(r, partials + n);
    n += norm_chunks(r.count);
  }
  if (!shards) return n;
  shards->sum(detail::flat_over(m.partials.get(), 0, all, DType::f64));
  return all;
}

// After the update of this rank's pieces.
void Optimizer::gather_parameters() {
  Sharding* const shards = arenas_->sharding();
  for (const Arena& a : arenas_->all()) {
    shards->gather(detail::Arenas::flat(a, a.param.get(), a.dtype), a.ranges);
    if (a.half) shards->gather(detail::Arenas::flat(a, a.half.get(), a.half_dtype), a.ranges);
  }
}

void Optimizer::shard(std::shared_ptr<Sharding> s, Frame at) {
  const FrameScope frame(at);
  if (s && !is_elementwise())
    throw NotAvailable(str("[shard] ", kind_->name, " needs whole matrices on every rank, and its ",
                           "state cannot be kept in parts", at_line()));
  prepare();
  arenas_->shard(std::move(s));
  make_memory(read_blocks());
}
const double* Optimizer::partials() const {
  return static_cast<const double*>(memory_->partials->data);
}

// A step of other parameters than ever before: their counts part from now on. The device fills the
// new table from the one before; the host waits for nothing.
void Optimizer::follow_cohorts() {
  Memory& m = *memory_;
  if (m.cohorts.fit(*arenas_)) [[likely]]
    return;
  if (wt::detail::recording_graph())
    wt::detail::not_in_a_graph(kind_->name, "its first step of just these parameters");
  detail::Cohorts next = m.cohorts.cut(*arenas_);
  for (i64 g = 0; g < group_count() && !next.same_table(m.cohorts); ++g) {
    StepAdvanceArgs args{m.on_device(size_t(g)), nullptr, false, {}};
    next.attach(args, g);
    args.lays_out = true;
    args.earlier = m.cohorts.table();
    wt::run(args, m.launch());
  }
  layouts_ += !next.same_table(m.cohorts);
  m.cohorts = std::move(next);
}
u64 Optimizer::generation() const { return arenas_->generation() + layouts_; }
bool Optimizer::needs_cohorts() const {
  return !arenas_->runs().empty() && !memory_->cohorts.fit(*arenas_);
}

// Counts a step of a group: of what all have in common, and of the parameters that took part.
void Optimizer::count_group(i64 group, StepAdvanceArgs& args) {
  const Memory& m = *memory_;
  if (m.cohorts.none()) [[likely]]
    return wt::run(args, m.launch());
  m.cohorts.attach(args, group);
  const std::vector<CohortRange> stepped = m.cohorts.stepped(*arenas_, group);
  size_t done = 0;
  do {
    std::fill(std::begin(args.stepped), std::end(args.stepped), CohortRange{0, 0});
    for (CohortRange& r : args.stepped)
      if (done < stepped.size()) r = stepped[done++];
    wt::run(args, m.launch());
    args.cohorts_alone = true;
  } while (done < stepped.size());
}

void Optimizer::apply(const double* grad_factor, const StepFlags& flags, StepBlock* record,
                      i64 dropout_calls, LossScale* scaler, bool skipped) {
  Memory& m = *memory_;
  follow_cohorts();
  begin_update(grad_factor);
  for (Run r : arenas_->steps()) {
    m.cohorts.attach(*arenas_, r);
    update(r, grad_factor, flags);
  }
  if (arenas_->sharding() && !skipped) [[unlikely]]
    gather_parameters();
  if (arenas_->has_average()) update_average(flags);
  // Group 0 writes the record and counts the dropout calls.
  for (size_t g = 0; g < m.host.size(); ++g) {
    StepAdvanceArgs args{m.on_device(g), g == 0 ? record : nullptr, true, flags,
                         dropout_calls,  g == 0 ? scaler : nullptr};
    count_group(i64(g), args);
  }
  if (!wt::detail::recording_graph()) count_step();
}

void Optimizer::count_step() noexcept {
  Memory& m = *memory_;
  arenas_->bump_versions();
  for (OptimBlock& b : m.host) ++b.attempted;  // no device decides about this one
  --m.table_left;
}

void Optimizer::step(const StepOptions& options, Frame at) {
  const FrameScope frame(at);
  prepare();
  check_step("step", 0);
  apply_step(options, nullptr, nullptr);
}

void Optimizer::apply_step(const StepOptions& options, const double* factor, const i32* found) {
  Tensor keep_factor, keep_skip;
  const Device d = memory_->device;
  if (options.grad_factor.defined())
    factor = static_cast<const double*>(
        scalar_pointer("grad_factor", options.grad_factor, DType::f64, d, keep_factor));
  const auto* skip =
      static_cast<const i32*>(scalar_pointer("skip", options.skip, DType::i32, d, keep_skip));
  apply(factor, {{skip, mailbox_, found}}, nullptr);
}

[[noreturn]] static void refuse_step(const char* kind, const char* caller, const std::string& why,
                                     const std::string& hint) {
  throw UsageError(str("[", kind, "] ", caller, "() ", why, at_line(), "\n  Try ", hint));
}

void Optimizer::check_gradients(const char* caller, u32 scaler) const {
  const detail::Written& w = arenas_->written();
  if (!w.first)
    refuse_step(kind_->name, caller, "without a gradient: no backward() came since zero_grad()",
                "loss.backward() before it");
  for (const Slot* s : {w.first, w.other}) {
    const u32 of = s ? leaf_of(s->entry.tensor.impl())->scaler : kAnyScaler;
    if (of == kAnyScaler || (of & ~kUnscaledBit) == scaler) continue;
    if (scaler == 0)
      refuse_step(kind_->name, caller,
                  "with gradients that a GradScaler has scaled: that of " + s->entry.name,
                  "scaler.step(opt), which divides by the scale and skips inf");
    refuse_step(kind_->name, caller,
                "of a GradScaler that has not scaled the gradient of " + s->entry.name,
                "scaler.scale(loss).backward() for every loss");
  }
}

void Optimizer::check_step(const char* caller, u32 scaler) {
  check_gradients(caller, scaler);
  const detail::Written& w = arenas_->written();
  if (w.from_f16 && scaler == 0)
    refuse_step(kind_->name, caller,
                str("with gradients that went through f16 without loss scaling: that of ",
                    w.from_f16->entry.name, "; what is below 6e-8 has become zero"),
                "optim::GradScaler, TrainStep's {.precision = f16}, or bf16");
  if (!w.fresh)
    refuse_step(kind_->name, caller,
                "a second time with the same gradients: no backward() came since the last step",
                "zero_grad() and loss.backward() between two steps");
  Windows next = windows_;
  if (next.steps++ == 0) next.first = w.backwards;
  next.equal = next.length == w.backwards ? next.equal + 1 : 1;
  next.length = w.backwards;
  next.stepped = true;
  if (next.steps == 3 && next.first == 1 && next.length > 1 && next.equal == 2)
    refuse_step(kind_->name, caller,
                str("after ", next.length,
                    " backward() calls, while the first one came after a "
                    "single one: batch 0 was stepped on alone"),
                str("(i + 1) % ", next.length, " == 0 instead of i % ", next.length,
                    " == 0, or TrainStep's micro_batches"));
  windows_ = next;
}

void Optimizer::keep_half(DType t) { arenas_->keep_half(t); }

i32* Optimizer::own_found() const {
  char* b = static_cast<char*>(memory_->block->data);
  return b ? reinterpret_cast<i32*>(b + memory_->tail(kFoundAt)) : nullptr;
}
double* Optimizer::own_norm() const {
  char* b = static_cast<char*>(memory_->block->data);
  return b ? reinterpret_cast<double*>(b + memory_->tail(kNormAt)) : nullptr;
}
Tensor Optimizer::own_factor() const {
  return detail::scalar_over(memory_->block.get(), memory_->tail(kFactorAt), DType::f64);
}

}  // namespace wt::optim
