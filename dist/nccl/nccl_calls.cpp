#include "warptape/dist/nccl/nccl_calls.h"

#include "warptape/core/tensor_impl.h"

namespace wt::dist {
namespace {

struct Elements {
  int type;
  size_t count;
};

// Types that NCCL lacks, or that its older versions lack, are bytes: they are moved only.
Elements elements_of(const Tensor& t) {
  const size_t n = size_t(t.numel());
  switch (t.dtype()) {
    case DType::f64:
      return {kNcclFloat64, n};
    case DType::f32:
      return {kNcclFloat32, n};
    case DType::f16:
      return {kNcclFloat16, n};
    case DType::bf16:
      return {kNcclBfloat16, n};
    case DType::i64:
      return {kNcclInt64, n};
    case DType::i32:
      return {kNcclInt32, n};
    case DType::u8:
    case DType::boolean:  // 0 and 1: the minimum is all, the maximum any
      return {kNcclUint8, n};
    default:
      return {kNcclUint8, n * size_t(item_size(t.dtype()))};
  }
}

int op_of(ReduceOp op) {
  constexpr int kOps[] = {kNcclSum, kNcclAvg, kNcclMin, kNcclMax};
  return kOps[int(op)];
}

}  // namespace

NcclCallNote NcclCallNote::of(const Call& c) {
  NcclCallNote n{.kind = c.kind, .op = c.op, .peer = c.peer, .number = c.number, .frame = c.frame};
  if (c.in.defined()) n.dtype = c.in.dtype(), n.numel = c.in.numel();
  return n;
}

std::string to_string(const NcclCallNote& n) {
  using Kind = Call::Kind;
  if (n.kind == Kind::barrier) return "barrier";
  const bool reduces = n.kind == Kind::all_reduce || n.kind == Kind::reduce_scatter;
  std::string text = to_string(n.kind);
  if (reduces) text += str(" (", to_string(n.op), ")");
  text += str(" of ", n.numel, " ", dtype_name(n.dtype));
  if (n.kind == Kind::broadcast || n.kind == Kind::recv) text += str(" from rank ", n.peer);
  if (n.kind == Kind::send) text += str(" to rank ", n.peer);
  return text;
}

NcclAnswer issue(const NcclApi& api, const Call& c, void* comm, void* stream) {
  const void* in = c.in.impl()->data;
  void* out = c.out.impl()->data;
  const auto [type, n] = elements_of(c.in);
  switch (c.kind) {
    case Call::Kind::all_reduce:
      return {api.all_reduce(in, out, n, type, op_of(c.op), comm, stream), "ncclAllReduce"};
    case Call::Kind::reduce_scatter:
      return {
          api.reduce_scatter(in, out, elements_of(c.out).count, type, op_of(c.op), comm, stream),
          "ncclReduceScatter"};
    case Call::Kind::all_gather:
      return {api.all_gather(in, out, n, type, comm, stream), "ncclAllGather"};
    case Call::Kind::broadcast:
      return {api.broadcast(in, out, n, type, c.peer, comm, stream), "ncclBroadcast"};
    case Call::Kind::send:
      return {api.send(in, n, type, c.peer, comm, stream), "ncclSend"};
    case Call::Kind::recv:
      return {api.recv(out, n, type, c.peer, comm, stream), "ncclRecv"};
    case Call::Kind::barrier:
      break;
  }
  return {kNcclInvalidUsage, "barrier"};
}

}  // namespace wt::dist
