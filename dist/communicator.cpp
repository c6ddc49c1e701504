#include "warptape/dist/communicator.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist {

const char* to_string(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "mean", "min", "max"};
  return kNames[int(op)];
}

const char* to_string(Call::Kind k) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "send",       "recv",           "barrier"};
  return kNames[int(k)];
}

namespace {

using Kind = Call::Kind;

void check_tensor(const Communicator& c, const char* call, const char* what, const Tensor& t) {
  if (!t.defined()) throw UsageError(str("[", call, "] ", what, " is undefined"));
  if (t.device().is_meta || !c.takes(t.device()))
    throw PlacementError(str("[", call, "] ", what, " is on ", to_string(t.device()),
                             ", whose memory the backend ", c.backend(), " does not send"));
  if (!t.is_contiguous())
    throw UsageError(str("[", call, "] ", what, " must be contiguous: ", describe(t),
                         "\n  Try a contiguous() copy of it"));
}

void check_written(const char* call, const char* what, const Tensor& t) {
  if (mode.grad && t.requires_grad())
    throw InplaceError(str("[", call, "] ", what, " requires grad, and what other ranks write is ",
                           "not recorded: ", describe(t), "\n  Try it under NoGrad"));
}

void check_reduced(const char* call, ReduceOp op, DType t) {
  const bool sums = op == ReduceOp::sum || op == ReduceOp::mean;
  const bool computes = wt::computes(t);
  if (!computes || (sums && t == DType::boolean) || (op == ReduceOp::mean && !is_floating(t)))
    throw DtypeError(str("[", call, "] there is no ", to_string(op), " of ", dtype_name(t)));
}

void check_rank(const Communicator& c, const char* call, const char* what, int rank) {
  if (rank < 0 || rank >= c.size())
    throw UsageError(
        str("[", call, "] ", what, " must be a rank from 0 to ", c.size() - 1, ", got ", rank));
}

// `all` has a part of `part`'s size for each rank.
void check_parts(const Communicator& c, const char* call, const Tensor& part, const Tensor& all) {
  if (part.dtype() != all.dtype() || part.device() != all.device())
    throw DtypeError(str("[", call, "] in and out must be of one dtype and device: ",
                         describe(part), ", ", describe(all)));
  if (part.numel() * c.size() != all.numel())
    throw ShapeError(str("[", call, "] the larger tensor must have ", c.size(),
                         " times the elements of the other one, a part a rank: ", all.numel(),
                         " beside ", part.numel()));
}

}  // namespace

Communicator::~Communicator() = default;

void Communicator::set_deadline(std::chrono::milliseconds d) {
  if (d.count() < 1)
    throw UsageError(str("[set_deadline] must be at least 1 ms, got ", d.count(), " ms"));
  deadline_ = d;
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  const TensorOptions words{.dtype = DType::i64, .device = Device::cpu()};
  const Tensor all = empty({2 * i64(size_)}, words, Frame{});
  const Tensor mine = all.narrow(0, 2 * i64(rank_), 2);
  mine.mutable_data<i64>()[0] = color;
  mine.mutable_data<i64>()[1] = key;
  control().all_gather(all, mine, Frame{});
  const i64* const said = all.data<i64>();
  Group group{.members = {}, .place = 0, .number = splits_++, .color = color};
  if (color < 0) return nullptr;
  for (int r = 0; r < size_; ++r)
    if (said[2 * r] == color) group.members.push_back(r);
  std::stable_sort(group.members.begin(), group.members.end(),
                   [&](int a, int b) { return said[2 * a + 1] < said[2 * b + 1]; });
  group.place =
      int(std::find(group.members.begin(), group.members.end(), rank_) - group.members.begin());
  auto made = make_group(group);
  made->set_deadline(deadline_);
  return made;
}

std::unique_ptr<Communicator> Communicator::make_group(const Group&) {
  throw NotAvailable(str("[split] the backend ", backend(), " has no groups"));
}

Work Communicator::begin(Call call, const char* name, Frame at) {
  const FrameScope frame(at);
  const bool writes = call.kind != Kind::barrier && call.kind != Kind::send;
  if (call.kind != Kind::barrier) {
    check_tensor(*this, name, "in", call.in);
    check_tensor(*this, name, "out", call.out);
  }
  if (writes) check_written(name, "out", call.out);
  switch (call.kind) {
    case Kind::all_reduce:
      check_reduced(name, call.op, call.in.dtype());
      break;
    case Kind::reduce_scatter:
      check_reduced(name, call.op, call.in.dtype());
      check_parts(*this, name, call.out, call.in);
      break;
    case Kind::all_gather:
      check_parts(*this, name, call.in, call.out);
      break;
    case Kind::broadcast:
      check_rank(*this, name, "root", call.peer);
      break;
    case Kind::send:
    case Kind::recv:
      check_rank(*this, name, call.kind == Kind::send ? "to" : "from", call.peer);
      if (call.peer == rank_)
        throw UsageError(str("[", name, "] rank ", rank_, " cannot exchange a tensor with itself"));
      break;
    case Kind::barrier:
      break;
  }
  if (call.kind != Kind::barrier && process_slow.load(std::memory_order_relaxed)) [[unlikely]] {
    wt::detail::prepare_operand(call.in.impl());
    if (call.out.impl() != call.in.impl()) wt::detail::prepare_operand(call.out.impl());
  }
  call.frame = mode.frame;
  call.number = calls_++;
  if (writes) call.out.impl()->cell->wrote(mode.frame);
  return start(call);
}

void Communicator::run(Call call, const char* name, Frame at) {
  call.waited = true;
  begin(std::move(call), name, at).wait();
}

namespace {

Call all_reduce_of(const Tensor& t, ReduceOp op) {
  return {.kind = Kind::all_reduce, .op = op, .in = t, .out = t};
}
Call reduce_scatter_of(const Tensor& out, const Tensor& in, ReduceOp op) {
  return {.kind = Kind::reduce_scatter, .op = op, .in = in, .out = out};
}
Call all_gather_of(const Tensor& out, const Tensor& in) {
  return {.kind = Kind::all_gather, .in = in, .out = out};
}
Call call_with(Kind kind, int peer, const Tensor& t) {
  return {.kind = kind, .peer = peer, .in = t, .out = t};
}

}  // namespace

Work Communicator::start_all_reduce(const Tensor& t, ReduceOp op, Frame at) {
  return begin(all_reduce_of(t, op), "all_reduce", at);
}
Work Communicator::start_reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op,
                                        Frame at) {
  return begin(reduce_scatter_of(out, in, op), "reduce_scatter", at);
}
Work Communicator::start_all_gather(const Tensor& out, const Tensor& in, Frame at) {
  return begin(all_gather_of(out, in), "all_gather", at);
}
Work Communicator::start_broadcast(const Tensor& t, int root, Frame at) {
  return begin(call_with(Kind::broadcast, root, t), "broadcast", at);
}
Work Communicator::start_send(const Tensor& t, int to, Frame at) {
  return begin(call_with(Kind::send, to, t), "send", at);
}
Work Communicator::start_recv(const Tensor& t, int from, Frame at) {
  return begin(call_with(Kind::recv, from, t), "recv", at);
}

void Communicator::all_reduce(const Tensor& t, ReduceOp op, Frame at) {
  run(all_reduce_of(t, op), "all_reduce", at);
}
void Communicator::reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op, Frame at) {
  run(reduce_scatter_of(out, in, op), "reduce_scatter", at);
}
void Communicator::all_gather(const Tensor& out, const Tensor& in, Frame at) {
  run(all_gather_of(out, in), "all_gather", at);
}
void Communicator::broadcast(const Tensor& t, int root, Frame at) {
  run(call_with(Kind::broadcast, root, t), "broadcast", at);
}
void Communicator::send(const Tensor& t, int to, Frame at) {
  run(call_with(Kind::send, to, t), "send", at);
}
void Communicator::recv(const Tensor& t, int from, Frame at) {
  run(call_with(Kind::recv, from, t), "recv", at);
}
void Communicator::barrier(Frame at) { run({}, "barrier", at); }

}  // namespace wt::dist
