// Sequences of numbers on the cpu.
#include "warptape/kernels/sequence.h"

#include "warptape/kernels/common/number.h"
#include "warptape/kernels/copy/sequence_values.h"

namespace wt {
namespace {

void sequence_reference(const SequenceArgs& a, const Launch&) {
  const SequenceValues values(a);
  for (i64 i = 0; i < a.out.numel(); ++i)
    values.element(i, [&](i64 at, auto v) { HostNumbers::put(a.out.dtype(), a.out.data, at, v); });
}

}  // namespace

WT_VARIANTS(cpu, sequence, SequenceArgs, {.name = "reference", .launch = sequence_reference});

}  // namespace wt
