#include "warptape/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "warptape/core/copy_bytes.h"
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

// Schedule values uploaded at a time, and so the most steps in flight.
constexpr i64 kTableSize = 256;
// Host-written fields come first, counts and derived ones behind them.
constexpr size_t kHostBytes = offsetof(OptimBlock, applied);
constexpr i64 kNormAt = sizeof(OptimBlock), kFactorAt = kNormAt + 8, kBlockBytes = kFactorAt + 8;

// A device scalar as a kernel takes it; `keep` owns a converted one.
const void* scalar_pointer(const char* what, const Tensor& t, DType wanted, Device d,
                           Tensor& keep) {
  if (!t.defined()) return nullptr;
  if (t.numel() != 1)
    throw ShapeError(str("[step] ", what, " must be one element, got ", describe(t)));
  if (t.device() != d)
    throw PlacementError(str("[step] ", what, " is on ", to_string(t.device()),
                             ", the parameters are on ", to_string(d)));
  if (t.dtype() == wanted) return t.impl()->data;
  const NoGrad no_grad;
  keep = wanted == DType::i32 ? t.to(DType::boolean).to(DType::i32) : t.to(wanted);
  return keep.impl()->data;
}

}  // namespace

// What lies on the device beside the arenas.
struct Optimizer::Memory {
  Device device;
  StorageRef block;  // OptimBlock, norm, clip factor
  StorageRef table, partials;
  OptimBlock host;     // what the host writes
  i64 table_left = 0;  // steps until the table must be looked at

  OptimBlock* on_device() const { return static_cast<OptimBlock*>(block->data); }
  Launch launch() const { return {&info::step, mode.native_stream, nullptr, device}; }
};
Launch Optimizer::launch() const { return memory_->launch(); }

Optimizer::Optimizer(std::vector<Entry> entries, const Kind& kind, const OptimBlock& hyper)
    : kind_(kind),
      arenas_((check(hyper),
               std::make_unique<detail::Arenas>(std::move(entries), int(kind.slots.size())))) {
  make_memory(hyper);
}
Optimizer::~Optimizer() = default;

std::vector<Entry> Optimizer::entries_of(const nn::ModuleBase& m) { return detail::trainable(m); }
std::vector<Entry> Optimizer::entries_of(std::span<const nn::NamedTensor> parameters) {
  std::vector<Entry> entries;
  for (const nn::NamedTensor& p : parameters) {
    if (!p.tensor.defined() || !leaf_of(p.tensor.impl()))
      throw UsageError(str("[optimizer] ", p.name, " is not a leaf that requires grad"));
    entries.push_back({p.name, p.tensor});
  }
  return entries;
}

void Optimizer::make_memory(const OptimBlock& values) {
  auto made = std::make_unique<Memory>();
  const Device d = arenas_->device();
  made->device = d;
  made->block = detail::zeroed(d, kBlockBytes, Category::optimizer);
  made->partials = detail::zeroed(d, arenas_->partials() * 8, Category::optimizer);
  if (schedule_) made->table = detail::zeroed(d, kTableSize * 8, Category::optimizer);
  const i32* mailbox = mailbox_flag(d);
  memory_ = std::move(made);
  mailbox_ = mailbox;
  write_block(values);
}

// --- the block -----------------------------------------------------------------------------------

const OptimBlock& Optimizer::hyper() const { return memory_->host; }
const OptimBlock* Optimizer::block() const { return memory_->on_device(); }
Device Optimizer::device() const { return arenas_->device(); }

OptimBlock Optimizer::read_block() const {
  OptimBlock b = memory_->host;
  if (!memory_->device.is_meta)
    copy_bytes(&b, Device::cpu(), memory_->on_device(), memory_->device, sizeof b);
  return b;
}
double Optimizer::rate() const { return read_block().rate; }
i64 Optimizer::applied() const { return read_block().applied; }
i64 Optimizer::attempted() const { return memory_->host.attempted; }

// Everything, counts included.
void Optimizer::write_block(const OptimBlock& values) {
  Memory& m = *memory_;
  if (!m.device.is_meta) copy_bytes(m.on_device(), m.device, &values, Device::cpu(), sizeof values);
  set_hyper(values);
  if (schedule_) refill_schedule();
}

// One check for options, setters and loaded state.
void Optimizer::check(const OptimBlock& b) const {
  for (const auto& [name, field] : kind_.scalars) {
    const bool is_beta = name[0] == 'b';
    const double v = b.*field;
    if (!(v >= 0) || (is_beta && v >= 1))
      throw UsageError(str("[", kind_.name, "] ", name, " must be ",
                           is_beta ? "in [0, 1)" : "at least 0", ", got ", v));
  }
}

void Optimizer::set_hyper(const OptimBlock& values) {
  check(values);
  Memory& m = *memory_;
  m.host = values;
  m.host.schedule = m.table ? static_cast<const double*>(m.table->data) : nullptr;
  m.host.schedule_size = m.table ? kTableSize : 0;
  if (!m.device.is_meta)
    copy_bytes(m.on_device(), m.device, &m.host, Device::cpu(), i64(kHostBytes));
  run(StepAdvanceArgs{m.on_device(), nullptr, false, {}}, m.launch());
}

void Optimizer::refill_schedule() {
  Memory& m = *memory_;
  const i64 from = m.device.is_meta ? 0 : read_block().applied;
  double values[kTableSize];
  for (i64 i = 0; i < kTableSize; ++i) values[i] = schedule_.at(from + i);
  if (!m.device.is_meta) copy_bytes(m.table->data, m.device, values, Device::cpu(), sizeof values);
  m.host.schedule_begin = from;
  m.table_left = kTableSize;
  set_hyper(m.host);
}

void Optimizer::set_schedule(Schedule schedule) {
  StorageRef table;
  if (schedule) table = detail::zeroed(memory_->device, kTableSize * 8, Category::optimizer);
  schedule_ = std::move(schedule);
  memory_->table = std::move(table);
  if (schedule_)
    refill_schedule();
  else
    set_hyper(memory_->host);
}

void Optimizer::set_lr(double lr) {
  OptimBlock b = hyper();
  b.lr = lr;
  set_hyper(b);
}

void Optimizer::set_lr_factor(double factor) {
  OptimBlock b = hyper();
  b.lr_factor = factor;
  set_hyper(b);
}

// --- steps ---------------------------------------------------------------------------------------

void Optimizer::zero_grad() { arenas_->zero_grad(); }

const std::vector<Run>& Optimizer::prepare() {
  arenas_->sync();
  if (memory_->device != arenas_->device()) [[unlikely]]
    make_memory(read_block());
  if (schedule_ && memory_->table_left == 0) [[unlikely]]
    refill_schedule();
  return arenas_->collect();
}

i64 Optimizer::add_norm() {
  const Memory& m = *memory_;
  auto* partials = static_cast<double*>(m.partials->data);
  i64 n = 0;
  for (const Run& r : arenas_->runs()) {
    const Arena& a = *r.arena;
    wt::run(GradNormArgs{a.at(a.grad, r.begin), r.count, a.dtype, partials + n}, m.launch());
    n += norm_chunks(r.count);
  }
  return n;
}
const double* Optimizer::partials() const {
  return static_cast<const double*>(memory_->partials->data);
}

void Optimizer::apply(const double* grad_factor, const StepFlags& flags, StepBlock* record,
                      i64 dropout_calls) {
  for (const Run& r : arenas_->runs()) update(r, grad_factor, flags);
  arenas_->bump_versions();
  wt::run(StepAdvanceArgs{memory_->on_device(), record, true, flags, dropout_calls},
          memory_->launch());
  ++memory_->host.attempted;  // no device decides about this one
  --memory_->table_left;
}

void Optimizer::step(const StepOptions& options, Frame at) {
  const FrameScope frame(at);
  prepare();
  Tensor keep_factor, keep_skip;
  const Device d = memory_->device;
  const auto* factor = static_cast<const double*>(
      scalar_pointer("grad_factor", options.grad_factor, DType::f64, d, keep_factor));
  const auto* skip =
      static_cast<const i32*>(scalar_pointer("skip", options.skip, DType::i32, d, keep_skip));
  apply(factor, {{skip, mailbox_, nullptr}}, nullptr);
}

double* Optimizer::own_norm() const {
  char* b = static_cast<char*>(memory_->block->data);
  return b ? reinterpret_cast<double*>(b + kNormAt) : nullptr;
}
Tensor Optimizer::own_factor() const {
  return detail::scalar_over(memory_->block.get(), kFactorAt, DType::f64);
}

// --- state ---------------------------------------------------------------------------------------

std::vector<nn::NamedTensor> Optimizer::parameters() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order()) all.push_back({s->entry.name, s->entry.tensor});
  return all;
}

std::vector<nn::NamedTensor> Optimizer::state() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order())
    for (size_t k = 0; k < kind_.slots.size(); ++k)
      all.push_back({str("optim.", kind_.slots[k], ".", s->entry.name),
                     detail::tensor_over(a->state[k].get(), s->offset * item_size(a->dtype),
                                         s->entry.tensor.impl()->geometry)});
  Storage* block = memory_->block.get();
  const auto scalar = [&](const char* name, size_t at, DType t) {
    all.push_back({str("optim.", name), detail::scalar_over(block, i64(at), t)});
  };
  const OptimBlock& b = memory_->host;
  for (const auto& [name, field] : kind_.scalars)
    scalar(name,
           size_t(reinterpret_cast<const char*>(&(b.*field)) - reinterpret_cast<const char*>(&b)),
           DType::f64);
  scalar("applied", offsetof(OptimBlock, applied), DType::i64);
  scalar("attempted", offsetof(OptimBlock, attempted), DType::i64);
  return all;
}

void Optimizer::load_state(const std::vector<nn::NamedTensor>& values) {
  prepare();
  const std::vector<nn::NamedTensor> mine = state();
  const auto find = [](const std::vector<nn::NamedTensor>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const auto& t) { return t.name == name; });
  };
  std::string problems;
  for (const nn::NamedTensor& m : mine) {
    const auto v = find(values, m.name);
    if (v == values.end())
      problems += str("\n  missing ", m.name, " ", m.tensor.shape());
    else if (v->tensor.shape() != m.tensor.shape())
      problems += str("\n  ", m.name, " is ", m.tensor.shape(), " here and ", v->tensor.shape(),
                      " in the state");
  }
  for (const nn::NamedTensor& v : values)
    if (find(mine, v.name) == mine.end()) problems += "\n  unexpected " + v.name;
  if (!problems.empty())
    throw UsageError(str("[load_state] the names or shapes do not fit", problems));

  OptimBlock loaded = hyper();
  for (const auto& [name, field] : kind_.scalars)
    loaded.*field = find(values, str("optim.", name))->tensor.item();
  check(loaded);

  const NoGrad no_grad;
  std::vector<Tensor> converted;  // all allocations before the first write
  for (const nn::NamedTensor& m : mine)
    converted.push_back(find(values, m.name)->tensor.to(m.tensor.dtype()).to(m.tensor.device()));
  for (size_t i = 0; i < mine.size(); ++i)
    wt::run(CopyArgs{view_of(mine[i].tensor.impl()), view_of(converted[i].impl())},
            memory_->launch());
  write_block(read_block());
}

}  // namespace wt::optim
