#include "warptape/kernels/run_matmul_epilogue.h"

#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/run_inner.h"

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
  const Geometry geometry = geometry_of_out(g);
  if (geometry.numel == 0) return;
  const MatmulEpilogue& e = g.epilogue;
  const View out{g.out, &geometry}, aux{e.aux, &geometry};
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
  }
}

}  // namespace wt
