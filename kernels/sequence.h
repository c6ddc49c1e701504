// Memory filled with a sequence of numbers: what arange, linspace and eye make, where it is wanted.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/copy/sequence_kind.h"

namespace wt {

// Any dtype but the 8-bit floats. Reals are computed in f64 and rounded once; memory of integers
// holds them cut towards zero, as modulo of its width what fits an i64 and the least i64 beyond.
// `whole` takes first and step within 2^62, and less than 2^31 elements.
struct SequenceArgs {
  View out{};  // contiguous; [n, m] for identity
  SequenceKind kind = SequenceKind::integers;
  i64 first = 0, step = 1;
  double begin = 0, end = 0, stride = 1;
  i64 bytes() const { return out.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(sequence, SequenceArgs);

}  // namespace wt
