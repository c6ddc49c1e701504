// An epilogue of the matrix product, or of a convolution, as a pass of its own, for variants that
// multiply elsewhere or have no place for it in their tiles: by the elementwise contracts of the
// device.
#pragma once
#include "warptape/kernels/conv.h"
#include "warptape/kernels/matmul.h"

namespace wt {

// What g's epilogue leaves to the product alone.
MatmulArgs without_epilogue(const MatmulArgs& g);
// The rest, once that product is made.
void run_epilogue(const MatmulArgs& g, const Launch& l);

// A variant whose launch `Multiply` knows of no epilogue, with one.
template <void (*Multiply)(const MatmulArgs&, const Launch&)>
void with_epilogue(const MatmulArgs& g, const Launch& l) {
  if (!g.epilogue) [[likely]]
    return Multiply(g, l);
  Multiply(without_epilogue(g), l);
  run_epilogue(g, l);
}

// The same of a convolution.
ConvForwardArgs without_epilogue(const ConvForwardArgs& a);
void run_epilogue(const ConvForwardArgs& a, const Launch& l);
template <void (*Convolve)(const ConvForwardArgs&, const Launch&)>
void with_epilogue(const ConvForwardArgs& a, const Launch& l) {
  if (!a.epilogue) return Convolve(a, l);
  Convolve(without_epilogue(a), l);
  run_epilogue(a, l);
}

}  // namespace wt
