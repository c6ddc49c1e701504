#include "warptape/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "warptape/core/async_copy.h"
#include "warptape/core/at_line.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph_capture.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"

namespace wt::optim {

using detail::Arena;
using detail::Entry;
using detail::Run;
using detail::Slot;
using detail::StorageRef;

namespace info {
constexpr OpInfo step{.name = "optimizer_step", .derivative = Derivative::none};
}

namespace {

// Schedule values uploaded at a time.
constexpr i64 kTableSize = 256;
// Host-written fields come first, counts and derived ones behind them.
constexpr size_t kHostBytes = offsetof(OptimBlock, applied);
constexpr i64 kBlock = sizeof(OptimBlock);
// The blocks of the groups, then these.
constexpr i64 kNormAt = 0, kFactorAt = 8, kMarkAt = 16, kFoundAt = 24, kTailBytes = 32;
// The value of optim.kind.<optimizer>: what the state's names and scalars mean.
constexpr i64 kMark = 1;

// Where a field lies in a block.
size_t offset_of(double OptimBlock::*field) {
  const OptimBlock b;
  return size_t(reinterpret_cast<const char*>(&(b.*field)) - reinterpret_cast<const char*>(&b));
}

// The name of an option of a group in state(), after "optim.".
std::string scalar_name(const char* name, i64 group) {
  return group == 0 ? name : str("group", group, ".", name);
}

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

// What lies on the device beside the arenas.
struct Optimizer::Memory {
  Device device;
  StorageRef block;  // an OptimBlock a group; norm, clip factor, mark
  StorageRef table, partials;
  std::vector<OptimBlock> host;  // what the host writes
  i64 table_left = 0;            // steps until the table must be looked at
  Tensor applied_then{};         // the count when the table was filled, on its way to the host

  OptimBlock* on_device(size_t group) const {
    return block->data ? static_cast<OptimBlock*>(block->data) + group : nullptr;
  }
  i64 tail(i64 at) const { return i64(host.size()) * kBlock + at; }
  Launch launch() const { return {&info::step, mode.native_stream, nullptr, device}; }
};
Launch Optimizer::launch() const { return memory_->launch(); }

Optimizer::Optimizer(std::vector<Entry> entries, const Kind& kind, const OptimBlock& hyper,
                     const std::vector<ParamGroup>& groups)
    : Optimizer(std::move(entries), kind, blocks_of(kind, hyper, groups, entries)) {}
Optimizer::Optimizer(std::vector<Entry>&& entries, const Kind& kind, const Blocks& blocks)
    : kind_(kind),
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

// --- the blocks ---

i64 Optimizer::group_count() const { return i64(memory_->host.size()); }
const OptimBlock& Optimizer::hyper(i64 group) const {
  if (group < 0 || group >= group_count())
    throw IndexError(str("[", kind_.name, "] group ", group, " of ", group_count(),
                         " (group 0 included)", at_line()));
  return memory_->host[size_t(group)];
}
const OptimBlock* Optimizer::block(const Run& run) const {
  return memory_->on_device(size_t(run.arena->group));
}
Device Optimizer::device() const { return arenas_->device(); }

Optimizer::Blocks Optimizer::read_blocks() const {
  Blocks b = memory_->host;
  if (!memory_->device.is_meta)
    copy_bytes(b.data(), Device::cpu(), memory_->on_device(0), memory_->device,
               i64(b.size()) * kBlock);
  return b;
}
double Optimizer::rate(i64 group) const {
  hyper(group);
  return read_blocks()[size_t(group)].rate;
}
i64 Optimizer::applied() const { return read_blocks()[0].applied; }
i64 Optimizer::attempted() const { return memory_->host[0].attempted; }

// Everything, counts included.
void Optimizer::write_blocks(const Blocks& values) {
  Memory& m = *memory_;
  if (!m.device.is_meta)
    copy_bytes(m.on_device(0), m.device, values.data(), Device::cpu(), i64(values.size()) * kBlock);
  for (size_t i = 0; i < values.size(); ++i) set_hyper(values[i], i64(i));
  if (schedule_) refill_schedule(true);
}

// One check for options, setters and loaded state.
void Optimizer::check(const Kind& kind, const OptimBlock& b) {
  for (const auto& [name, field] : kind.scalars) {
    const bool below_1 = name[0] == 'b' || name == std::string_view("alpha");
    const double v = b.*field;
    if (!(v >= 0) || (below_1 && v >= 1) || std::isinf(v))
      throw UsageError(str("[", kind.name, "] ", name, " must be ",
                           below_1         ? "in [0, 1)"
                           : std::isinf(v) ? "finite"
                                           : "at least 0",
                           ", got ", v, at_line()));
  }
}

void Optimizer::set_hyper(const OptimBlock& values, i64 group) {
  check(kind_, values);
  Memory& m = *memory_;
  OptimBlock& host = m.host[size_t(group)];
  host = values;
  host.mu_base = std::pow(0.96, host.momentum_decay);
  host.schedule = m.table ? static_cast<const double*>(m.table->data) : nullptr;
  host.schedule_size = m.table ? kTableSize : 0;
  OptimBlock* const to = m.on_device(size_t(group));
  if (!m.device.is_meta) copy_bytes(to, m.device, &host, Device::cpu(), i64(kHostBytes));
  run(StepAdvanceArgs{to, nullptr, false, {}}, m.launch());
}

void Optimizer::set(double OptimBlock::*field, double v, i64 group) {
  OptimBlock b = hyper(group);
  b.*field = v;
  set_hyper(b, group);
}

// The host does not know how many of its steps were applied, and asking a device with a queue would
// wait for all that is queued. So it looks at the count of the refill before, which has come long
// ago, and a table reaches over two refills. `now`: the host wrote the count.
void Optimizer::refill_schedule(bool now) {
  Memory& m = *memory_;
  const bool queued = stream_backend(m.device) != nullptr;
  i64 from = 0;
  if (queued && !now) {
    const SyncGuard may_wait(false);  // for a device that is half a table behind
    from = m.applied_then.data<i64>()[0];
  } else if (!m.device.is_meta) {
    from = applied();
  }
  Tensor then;
  if (queued)  // first: it may fail
    then = copy_async(
        detail::scalar_over(m.block.get(), i64(offsetof(OptimBlock, applied)), DType::i64),
        Device::cpu());
  double values[kTableSize];
  for (i64 i = 0; i < kTableSize; ++i) values[i] = schedule_.at(from + i);
  if (!m.device.is_meta) copy_bytes(m.table->data, m.device, values, Device::cpu(), sizeof values);
  m.table_left = queued ? kTableSize / 2 : kTableSize;
  m.applied_then = std::move(then);
  for (size_t g = 0; g < m.host.size(); ++g) {
    m.host[g].schedule_begin = from;
    set_hyper(OptimBlock(m.host[g]), i64(g));
  }
}

void Optimizer::set_schedule(Schedule schedule) {
  StorageRef table;
  if (schedule) table = detail::zeroed(memory_->device, kTableSize * 8, Category::optimizer);
  schedule_ = std::move(schedule);
  memory_->table = std::move(table);
  if (schedule_)
    refill_schedule(true);
  else
    for (i64 g = 0; g < group_count(); ++g) set_hyper(OptimBlock(hyper(g)), g);
}

void Optimizer::set_lr(double lr, i64 group) { set(&OptimBlock::lr, lr, group); }
void Optimizer::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void Optimizer::write_betas(Betas v, i64 group) {
  OptimBlock b = hyper(group);
  b.beta1 = v.first;
  b.beta2 = v.second;
  set_hyper(b, group);
}
void Optimizer::set_lr_factor(double factor, i64 group) {
  set(&OptimBlock::lr_factor, factor, group);
}
void Optimizer::set_lr_factor(double factor) {
  for (i64 g = 0; g < group_count(); ++g) set_lr_factor(factor, g);
}

// --- steps ---

void Optimizer::zero_grad(const ZeroGradOptions& options, Frame at) {
  if (windows_.equal > 1 && windows_.length > 1 && !options.discard) {
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
}

const std::vector<Run>& Optimizer::prepare() {
  if (averaged_) [[unlikely]]
    throw UsageError(str("[", kind_.name,
                         "] a step inside an EmaScope: the parameters are their averages there",
                         at_line()));
  arenas_->sync();
  if (memory_->device != arenas_->device()) [[unlikely]]
    make_memory(read_blocks());
  mailbox_ = mailbox_flag(memory_->device);  // of the thread that steps
  if (schedule_ && memory_->table_left == 0) [[unlikely]]
    refill_schedule(false);
  return arenas_->collect();
}

i64 Optimizer::add_norm() {
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
    const Arena& a = *r.arena;
    wt::run(GradNormArgs{a.at(a.grad, r.begin), r.count, a.dtype, partials + n}, m.launch());
    n += norm_chunks(r.count);
  }
  if (!shards) return n;
  Geometry g{};
  set_contiguous(g, &all, 1, DType::f64);
  shards->sum(detail::tensor_over(m.partials.get(), 0, g));
  return all;
}

// After the update of this rank's pieces.
void Optimizer::gather_parameters() {
  Sharding* const shards = arenas_->sharding();
  for (const Arena& a : arenas_->all()) {
    shards->gather(detail::Arenas::flat(a, a.param.get(), a.dtype));
    if (a.half) shards->gather(detail::Arenas::flat(a, a.half.get(), a.half_dtype));
  }
}

void Optimizer::shard(std::shared_ptr<Sharding> s, Frame at) {
  const FrameScope frame(at);
  if (s && !is_elementwise())
    throw NotAvailable(str("[shard] ", kind_.name, " needs whole matrices on every rank, and its ",
                           "state cannot be kept in parts", at_line()));
  prepare();
  arenas_->shard(std::move(s));
  make_memory(read_blocks());
}
const double* Optimizer::partials() const {
  return static_cast<const double*>(memory_->partials->data);
}

void Optimizer::apply(const double* grad_factor, const StepFlags& flags, StepBlock* record,
                      i64 dropout_calls, LossScale* scaler) {
  Memory& m = *memory_;
  begin_update(grad_factor);
  for (const Run& r : arenas_->steps()) update(r, grad_factor, flags);
  if (arenas_->sharding()) [[unlikely]]
    gather_parameters();
  if (arenas_->has_average()) update_average(flags);
  // Group 0 writes the record and counts the dropout calls.
  for (size_t g = 0; g < m.host.size(); ++g)
    wt::run(StepAdvanceArgs{m.on_device(g), g == 0 ? record : nullptr, true, flags, dropout_calls,
                            g == 0 ? scaler : nullptr},
            m.launch());
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
    refuse_step(kind_.name, caller, "without a gradient: no backward() came since zero_grad()",
                "loss.backward() before it");
  for (const Slot* s : {w.first, w.other}) {
    const u32 of = s ? leaf_of(s->entry.tensor.impl())->scaler : kAnyScaler;
    if (of == kAnyScaler || (of & ~kUnscaledBit) == scaler) continue;
    if (scaler == 0)
      refuse_step(kind_.name, caller,
                  "with gradients that a GradScaler has scaled: that of " + s->entry.name,
                  "scaler.step(opt), which divides by the scale and skips inf");
    refuse_step(kind_.name, caller,
                "of a GradScaler that has not scaled the gradient of " + s->entry.name,
                "scaler.scale(loss).backward() for every loss");
  }
}

void Optimizer::check_step(const char* caller, u32 scaler) {
  check_gradients(caller, scaler);
  const detail::Written& w = arenas_->written();
  if (w.from_f16 && scaler == 0)
    refuse_step(kind_.name, caller,
                str("with gradients that went through f16 without loss scaling: that of ",
                    w.from_f16->entry.name, "; what is below 6e-8 has become zero"),
                "optim::GradScaler, TrainStep's {.precision = f16}, or bf16");
  if (!w.fresh)
    refuse_step(kind_.name, caller,
                "a second time with the same gradients: no backward() came since the last step",
                "zero_grad() and loss.backward() between two steps");
  Windows next = windows_;
  if (next.steps++ == 0) next.first = w.backwards;
  next.equal = next.length == w.backwards ? next.equal + 1 : 1;
  next.length = w.backwards;
  if (next.steps == 3 && next.first == 1 && next.length > 1 && next.equal == 2)
    refuse_step(kind_.name, caller,
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

// --- state ---

std::vector<nn::NamedTensor> Optimizer::parameters() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order()) all.push_back({s->entry.name, s->entry.tensor});
  return all;
}

std::vector<std::vector<StorageRef>> Optimizer::whole_states() const {
  std::vector<std::vector<StorageRef>> all;
  if (!arenas_->sharding()) return all;
  for (const Arena& a : arenas_->all()) {
    std::vector<StorageRef>& states = all.emplace_back();
    for (size_t k = 0; k < kind_.slots_of(a.group).size(); ++k)
      states.push_back(arenas_->whole_state(a, int(k)));
  }
  return all;
}

std::vector<nn::NamedTensor> Optimizer::state() const { return state_over(whole_states()); }

std::vector<nn::NamedTensor> Optimizer::state_over(
    const std::vector<std::vector<StorageRef>>& gathered) const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order())
    for (size_t k = 0; k < kind_.slots_of(a->group).size(); ++k) {
      const StorageRef& memory =
          gathered.empty() ? a->state[k] : gathered[size_t(a - arenas_->all().data())][k];
      all.push_back({str("optim.", kind_.slots_of(a->group)[k], ".", s->entry.name),
                     detail::tensor_over(memory.get(), s->offset * item_size(a->dtype),
                                         s->entry.tensor.impl()->geometry)});
    }
  for (nn::NamedTensor& t : ema()) all.push_back({"ema." + t.name, std::move(t.tensor)});
  Storage* block = memory_->block.get();
  const auto scalar = [&](const std::string& name, i64 at, DType t) {
    all.push_back({"optim." + name, detail::scalar_over(block, at, t)});
  };
  for (i64 g = 0; g < group_count(); ++g)
    for (const auto& [name, field] : kind_.scalars)
      scalar(scalar_name(name, g), g * kBlock + i64(offset_of(field)), DType::f64);
  if (has_ema()) scalar("ema_decay", i64(offset_of(&OptimBlock::ema_decay)), DType::f64);
  scalar(str("kind.", kind_.name), memory_->tail(kMarkAt), DType::i64);
  scalar("applied", offsetof(OptimBlock, applied), DType::i64);
  scalar("attempted", offsetof(OptimBlock, attempted), DType::i64);
  return all;
}

void Optimizer::load_state(const std::vector<nn::NamedTensor>& values, Frame at) {
  const FrameScope frame(at);
  prepare();
  const std::vector<std::vector<StorageRef>> gathered = whole_states();
  const std::vector<nn::NamedTensor> mine = state_over(gathered);
  detail::check_state(kind_.name, mine, values);
  const auto find = [&](const std::string& name) {
    return std::find_if(values.begin(), values.end(),
                        [&](const auto& t) { return t.name == name; });
  };
  for (i64 g = 0; g < group_count(); ++g) {
    OptimBlock loaded = hyper(g);
    for (const auto& [name, field] : kind_.scalars)
      loaded.*field = find("optim." + scalar_name(name, g))->tensor.item();
    check(kind_, loaded);
  }
  if (has_ema()) check_decay(find("optim.ema_decay")->tensor.item());
  const i64 applied = detail::count_of(values, "optim.applied");
  const i64 attempted = detail::count_of(values, "optim.attempted");
  if (applied > attempted)
    throw UsageError(
        str("[load_state] ", applied, " of ", attempted, " steps were applied", at_line()));

  const NoGrad no_grad;
  std::vector<Tensor> converted;  // all allocations before the first write
  for (const nn::NamedTensor& m : mine)
    converted.push_back(find(m.name)->tensor.to(m.tensor.dtype()).to(m.tensor.device()));
  for (size_t i = 0; i < mine.size(); ++i)
    wt::run(CopyArgs{view_of(mine[i].tensor.impl()), view_of(converted[i].impl())},
            memory_->launch());
  for (size_t i = 0; i < gathered.size(); ++i)
    for (size_t k = 0; k < gathered[i].size(); ++k)
      arenas_->take_state(arenas_->all()[i], int(k), *gathered[i][k].get());
  Blocks blocks = read_blocks();
  for (OptimBlock& b : blocks) {  // the counts are group 0's
    b.applied = blocks[0].applied;
    b.attempted = blocks[0].attempted;
    b.ema_decay = blocks[0].ema_decay;
  }
  write_blocks(blocks);
}

}  // namespace wt::optim
