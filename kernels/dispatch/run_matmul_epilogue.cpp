#include "warptape/kernels/dispatch/run_matmul_epilogue.h"

#include "warptape/kernels/dispatch/run_inner.h"
#include "warptape/kernels/pointwise.h"

namespace wt {
namespace {

// [.., m, n] as out lies.
Geometry geometry_of_out(const MatmulArgs& g) {
  Geometry all;
  all.ndim = u8(g.batch_ndim + 2);
  all.dtype = g.dtype;
  for (int d = 0; d < g.batch_ndim; ++d)
    all.shape[d] = g.batch[d].size, all.strides[d] = g.batch[d].out;
  all.shape[g.batch_ndim] = g.m, all.strides[g.batch_ndim] = g.out_row;
  all.shape[g.batch_ndim + 1] = g.n, all.strides[g.batch_ndim + 1] = 1;
  finish_geometry(all);
  return all;
}

// [batch, channels, ...] as y lies.
Geometry geometry_of_y(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  Geometry all;
  all.ndim = 5;
  all.dtype = s.dtype;
  all.shape[0] = s.batch, all.strides[0] = a.y.batch;
  all.shape[1] = s.out_channels, all.strides[1] = a.y.channel;
  for (int d = 0; d < 3; ++d) all.shape[2 + d] = s.out[d], all.strides[2 + d] = a.y.at[d];
  finish_geometry(all);
  return all;
}

template <class F>
void pass(const Launch& l, View out, View first, View second = {}) {
  PointwiseArgs<F> k{out, {first}};
  if constexpr (F::kArity == 2) k.in[1] = second;
  inner_run(k, l, nullptr);
}

template <class F>
void activate(const MatmulEpilogue& e, const Launch& l, const View& out, const View& aux) {
  if (e.gradient)
    pass<pw::Grad0<F>>(l, out, out, aux);
  else
    pass<F>(l, out, e.aux ? aux : out);
}

// z is where the product left it: see without_epilogue().
void run_epilogue(const MatmulEpilogue& e, void* to, const Geometry& geometry, const Launch& l) {
  if (geometry.numel == 0) return;
  const View out{to, &geometry}, aux{e.aux, &geometry};
  const View z = e.aux && !e.gradient ? aux : out;
  if (e.residual) pass<pw::Add>(l, z, z, View{const_cast<void*>(e.residual), &geometry});
  switch (e.activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return activate<pw::Relu>(e, l, out, aux);
    case Activation::gelu:
      return activate<pw::Gelu>(e, l, out, aux);
    case Activation::gelu_tanh:
      return activate<pw::GeluTanh>(e, l, out, aux);
    case Activation::silu:
      return activate<pw::Silu>(e, l, out, aux);
    case Activation::relu6:
      return activate<pw::Relu6>(e, l, out, aux);
    case Activation::hardswish:
      return activate<pw::Hardswish>(e, l, out, aux);
  }
}

}  // namespace

MatmulArgs without_epilogue(const MatmulArgs& g) {
  MatmulArgs product = g;
  product.epilogue = {};
  const MatmulEpilogue& e = g.epilogue;
  // z where it is to be left: the activation then reads it from there.
  if (e.aux && !e.gradient) product.out = e.aux;
  return product;
}

void run_epilogue(const MatmulArgs& g, const Launch& l) {
  run_epilogue(g.epilogue, g.out, geometry_of_out(g), l);
}

ConvForwardArgs without_epilogue(const ConvForwardArgs& a) {
  ConvForwardArgs product = a;
  product.epilogue = {};
  if (a.epilogue.aux && !a.epilogue.gradient) product.y.data = a.epilogue.aux;
  return product;
}
void run_epilogue(const ConvForwardArgs& a, const Launch& l) {
  run_epilogue(a.epilogue, a.y.data, geometry_of_y(a), l);
}

}  // namespace wt
