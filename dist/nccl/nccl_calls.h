// A call of a communicator in NCCL's terms. Internal.
#pragma once
#include <string>

#include "warptape/dist/communicator.h"
#include "warptape/dist/nccl/nccl_api.h"

namespace wt::dist {

// What there is to tell of a call when its tensors are gone.
struct NcclCallNote {
  Call::Kind kind = Call::Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  int peer = -1;
  i64 numel = 0;  // of `in`
  i64 number = 0;
  FrameId frame = 0;
  static NcclCallNote of(const Call& c);
};
// "all_reduce (mean) of 1000 f32", "send of 12 i64 to rank 3".
std::string to_string(const NcclCallNote& n);

// Queues the call on the stream; its result, and the function's name.
struct NcclAnswer {
  int result;
  const char* function;
};
NcclAnswer issue(const NcclApi& api, const Call& c, void* comm, void* stream);

}  // namespace wt::dist
