// What one operation of the fake NCCL is and does to memory.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace wt_test {

struct FakeNcclOp {
  enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, recv };
  Kind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0;
  int op = 0;
  int peer = -1;         // or the root
  bool arrived = false;  // its stream has come to it
  bool done = false;
};
size_t fake_nccl_bytes(int type);
std::string to_string(const FakeNcclOp& op);  // "all_reduce f32 3 sum"
// Of the same kind, count and so on.
bool agree(const FakeNcclOp& a, const FakeNcclOp& b);
// A collective, by its part on each rank, in their order.
void fake_nccl_compute(const std::vector<FakeNcclOp*>& parts);

}  // namespace wt_test
