#include "warptape/dist/ops.h"

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist {
namespace {

Tensor like_with_shape(const Tensor& x, const Shape& shape) {
  return empty(shape, {.dtype = x.dtype(), .device = x.device()});
}

// A dense copy that nobody else holds.
Tensor dense_copy(const Tensor& x) {
  Tensor y = like_with_shape(x, x.shape());
  y.copy_(x);
  return y;
}

void refuse_second_derivative(const char* name) {
  if (mode.grad)
    throw UsageError(str("[", name, ".backward] create_graph: derivatives of higher order do not ",
                         "follow a tensor to another rank\n  Try broadcast, which they do"));
}

struct AllReduceOp {
  static constexpr OpInfo info{.name = "all_reduce", .derivative = Derivative::linear};
  Communicator* comm;
  ReduceOp op;
  Tensor forward(Save&, const Tensor& x) const {
    Tensor y = dense_copy(x);
    comm->all_reduce(y, op);
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const { return {all_reduce(*comm, gy, op)}; }
};

struct AllGatherOp {
  static constexpr OpInfo info{.name = "all_gather", .derivative = Derivative::linear};
  Communicator* comm;
  Shape part;
  Tensor forward(Save&, const Tensor& x) const {
    Shape all = part;
    if (all.empty())
      all.push_back(comm->size());
    else
      all[0] *= comm->size();
    Tensor y = like_with_shape(x, all);
    comm->all_gather(y, x.contiguous());
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const {
    return {reshape(reduce_scatter(*comm, gy), part)};
  }
};

struct ReduceScatterOp {
  static constexpr OpInfo info{.name = "reduce_scatter", .derivative = Derivative::linear};
  Communicator* comm;
  ReduceOp op;
  Tensor forward(Save&, const Tensor& x) const {
    Shape part = x.shape();
    part[0] /= comm->size();
    Tensor y = like_with_shape(x, part);
    comm->reduce_scatter(y, x.contiguous(), op);
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const {
    Tensor gx = all_gather(*comm, gy);
    if (op == ReduceOp::mean) gx = mul(gx, 1.0 / comm->size());
    return {gx};
  }
};

struct BroadcastOp {
  static constexpr OpInfo info{.name = "broadcast", .derivative = Derivative::linear};
  Communicator* comm;
  int root;
  Tensor forward(Save&, const Tensor& x) const {
    Tensor y = comm->rank() == root ? dense_copy(x) : like_with_shape(x, x.shape());
    comm->broadcast(y, root);
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const { return {reduce(*comm, gy, root)}; }
};

struct ReduceOperator {
  static constexpr OpInfo info{.name = "reduce", .derivative = Derivative::linear};
  Communicator* comm;
  int root;
  Tensor forward(Save&, const Tensor& x) const {
    Tensor y = dense_copy(x);
    comm->all_reduce(y);
    if (comm->rank() != root) y.zero_();
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const { return {broadcast(*comm, gy, root)}; }
};

// The second operand is an empty leaf: it puts the node there, whether x needs a gradient or not.
struct SendOp {
  static constexpr OpInfo info{.name = "send", .derivative = Derivative::linear};
  Communicator* comm;
  int to;
  Shape shape;
  Tensor forward(Save&, const Tensor& x, const Tensor&) const {
    comm->send(x.contiguous(), to);
    return zeros({}, {.dtype = x.dtype(), .device = x.device()});
  }
  Grads backward(const Saved&, const Tensor& token) const {
    refuse_second_derivative("send");
    Tensor gx = like_with_shape(token, shape);
    comm->recv(gx, to);
    return {gx, Tensor()};
  }
};

struct ReceiveOp {
  static constexpr OpInfo info{.name = "recv", .derivative = Derivative::linear};
  Communicator* comm;
  int from;
  Shape shape;
  Tensor forward(Save&, const Tensor& start) const {
    Tensor y = like_with_shape(start, shape);
    comm->recv(y, from);
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const {
    refuse_second_derivative("recv");
    comm->send(gy.contiguous(), from);
    return {Tensor()};
  }
};

struct ReceiveAfterOp : ReceiveOp {
  Tensor forward(Save& save, const Tensor& start, const Tensor&) const {
    return ReceiveOp::forward(save, start);
  }
  Grads backward(const Saved& saved, const Tensor& gy) const {
    ReceiveOp::backward(saved, gy);
    return {Tensor(), zeros({}, {.dtype = gy.dtype(), .device = gy.device()})};
  }
};

// Of the dtype and device of what is sent; needs a gradient where one will come back.
Tensor start_of(const Tensor& like) {
  return empty({0}, {.dtype = like.dtype(),
                     .device = like.device(),
                     .requires_grad = is_floating(like.dtype()) && computes(like.dtype())});
}

Tensor tensor_of(const In& x) {
  if (!x.impl()) return {};
  return Tensor(wt::detail::retained(x.impl()));
}

}  // namespace

Tensor all_reduce(Communicator& comm, const In& x, ReduceOp op) {
  const bool linear = op == ReduceOp::sum || op == ReduceOp::mean;
  if (!linear && mode.grad && x.impl() && x.impl()->node)
    throw UsageError(str("[all_reduce] ", to_string(op),
                         " has no derivative, and x needs one: ", describe(tensor_of(x)), "\n  at ",
                         describe(x.frame()), "\n  Try x.detach()"));
  return apply(AllReduceOp{&comm, op}, x);
}

Tensor all_gather(Communicator& comm, const In& x) {
  return apply(AllGatherOp{&comm, x.impl() ? tensor_of(x).shape() : Shape()}, x);
}

Tensor reduce_scatter(Communicator& comm, const In& x, ReduceOp op) {
  if (op != ReduceOp::sum && op != ReduceOp::mean)
    throw UsageError(str("[reduce_scatter] sum or mean, got ", to_string(op), "\n  at ",
                         describe(x.frame()), "\n  Try Communicator::reduce_scatter"));
  if (const Tensor t = tensor_of(x); t.defined() && (t.ndim() == 0 || t.size(0) % comm.size() != 0))
    throw ShapeError(str("[reduce_scatter] the first axis must be a multiple of ", comm.size(),
                         ", a part a rank: ", describe(t), "\n  at ", describe(x.frame())));
  return apply(ReduceScatterOp{&comm, op}, x);
}

Tensor broadcast(Communicator& comm, const In& x, int root) {
  return apply(BroadcastOp{&comm, root}, x);
}

Tensor reduce(Communicator& comm, const In& x, int root) {
  if (root < 0 || root >= comm.size())
    throw UsageError(
        str("[reduce] root must be a rank from 0 to ", comm.size() - 1, ", got ", root));
  return apply(ReduceOperator{&comm, root}, x);
}

Tensor send(Communicator& comm, const In& x, int to) {
  const Tensor t = tensor_of(x);
  const Tensor start = t.defined() ? start_of(t) : Tensor();
  return apply(SendOp{&comm, to, t.defined() ? t.shape() : Shape()}, x,
               In(start, x.frame().file, x.frame().line));
}

Tensor recv(Communicator& comm, const Tensor& like, int from, const Tensor& after, Frame at) {
  const FrameScope frame(at);
  if (!like.defined()) throw UsageError("[recv] like is undefined");
  const Tensor start = start_of(like);
  const ReceiveOp op{&comm, from, like.shape()};
  return after.defined() ? apply(ReceiveAfterOp{op}, start, after) : apply(op, start);
}

}  // namespace wt::dist
