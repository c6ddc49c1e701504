#include "warptape/core/matmul_precision.h"

#include <atomic>

namespace wt {
namespace {
constinit std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};
}

void set_matmul_precision(MatmulPrecision p) { precision.store(p, std::memory_order_relaxed); }
MatmulPrecision matmul_precision() { return precision.load(std::memory_order_relaxed); }

}  // namespace wt
