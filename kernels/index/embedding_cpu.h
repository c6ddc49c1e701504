// The fast variant of kernels/index/embedding.cpp (index/embedding_cpu.cpp): gradients of 32 and 64
// bits are added where they belong, without a list in the order of the rows.
#pragma once
#include "warptape/kernels/embedding.h"

namespace wt {

const char* embedding_backward_why_not(const EmbeddingBackwardArgs& a);
void embedding_backward_direct(const EmbeddingBackwardArgs& a, const Launch& l);

}  // namespace wt
