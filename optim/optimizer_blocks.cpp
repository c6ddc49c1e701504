// The numbers of a step that lie on the device: an OptimBlock a group, and the schedule's table.
#include <cmath>
#include <cstddef>

#include "warptape/core/async_copy.h"
#include "warptape/core/at_line.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer_memory.h"

namespace wt::optim {

using detail::kBlock;
using detail::kHostBytes;
using detail::kTableSize;
using detail::Run;
using detail::StorageRef;

i64 Optimizer::group_count() const { return i64(memory_->host.size()); }
double Optimizer::lr(i64 group) const { return hyper(group).lr; }
double Optimizer::weight_decay(i64 group) const { return hyper(group).weight_decay; }
double Optimizer::lr_factor(i64 group) const { return hyper(group).lr_factor; }
const OptimBlock& Optimizer::hyper(i64 group) const {
  if (group < 0 || group >= group_count())
    throw IndexError(str("[", kind_->name, "] group ", group, " of ", group_count(),
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
i64 Optimizer::applied(std::string_view parameter) const {
  for (const auto& [a, s] : arenas_->in_order()) {
    if (s->entry.name != parameter) continue;
    const Tensor own =
        memory_->cohorts.field(*arenas_, *a, *s, offsetof(Cohort, applied), DType::i64);
    return own.defined() ? own.item<i64>() : applied();
  }
  std::vector<std::string_view> names;
  const auto all = arenas_->in_order();
  for (const auto& at : all) names.push_back(at.second->entry.name);
  throw UsageError(str("[", kind_->name, "] no parameter is named '", parameter, "'",
                       did_you_mean(parameter, names), at_line()));
}
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
  check(*kind_, values);
  Memory& m = *memory_;
  OptimBlock& host = m.host[size_t(group)];
  host = values;
  host.mu_base = std::pow(0.96, host.momentum_decay);
  host.schedule = m.table ? static_cast<const double*>(m.table->data) : nullptr;
  host.schedule_size = m.table ? kTableSize : 0;
  OptimBlock* const to = m.on_device(size_t(group));
  if (!m.device.is_meta) copy_bytes(to, m.device, &host, Device::cpu(), i64(kHostBytes));
  StepAdvanceArgs args{to, nullptr, false, {}};
  m.cohorts.attach(args, group);
  run(args, m.launch());
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

}  // namespace wt::optim
