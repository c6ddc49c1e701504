// Launches as the export sees them: which contracts' arguments it reads. Internal to
// autograd/onnx.h.
#pragma once
#include "warptape/autograd/onnx/trace.h"

namespace wt::onnx {

// Of a contract that is not listed, the name alone.
TracedKernel traced_kernel(const char* contract, const void* args);

}  // namespace wt::onnx
