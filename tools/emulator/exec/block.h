// A thread block while it runs, its shared memory and its barriers.
#pragma once
#include <memory>
#include <set>

#include "exec/kernel.h"

namespace emu {

// Who touched a word of shared memory since the last barrier of the block.
struct SharedWord {
  u32 write_epoch = 0, read_epoch = 0;
  u16 write_warp = 0, read_warp = 0;
  u8 write_bytes = 0, read_bytes = 0;
  bool many_readers = false;
};

struct Barrier {
  u32 arrived = 0;   // threads
  u32 expected = 0;  // 0: all of the block
  u32 votes = 0;     // threads whose predicate was true (bar.red)
  u32 voters = 0;
  u32 pc = 0;
};

// A cp.async that was asked for and has not happened: it happens as late as the rules allow.
struct AsyncCopy {
  u32 lane, group, to;  // `to`: offset in shared memory
  u32 bytes, read_bytes;
  u64 from;
};

struct ThreadBlock {
  const Program::Kernel* kernel = nullptr;
  const LaunchRequest* request = nullptr;
  LaunchCounts* counts = nullptr;
  Random* random = nullptr;
  const std::vector<u8>* constants = nullptr;  // the kernel's, with symbols filled in
  u32 id[3] = {};
  u32 threads = 0, exited = 0;
  u32 shared_end = 0;
  u32 epoch = 1;  // of barriers; never reused by the next block
  u64 clock = 0;
  std::vector<u8> shared, locals;
  std::vector<SharedWord> words;
  std::vector<Warp> warps;
  std::vector<std::vector<u8>> registers;
  std::vector<std::vector<u32>> predicates;
  std::vector<std::vector<AsyncCopy>> copies;  // by warp
  std::vector<std::vector<u32>> groups;        // by warp: the open group of each lane
  Barrier barriers[16];
  std::set<u32>* told = nullptr;  // instructions of this launch that tell() spoke of
  bool done = false;
  u32 current = 0;  // the warp that steps

  void begin(const Program::Kernel& k, const LaunchRequest& r, u64 number);
  // A turn of a warp that can run. False: none can, though the block is not done.
  bool step();
  void exit_lanes(Warp& w, u32 mask);
  // A finding at which hardware would go on, as the kernel does here; once an instruction. A fault
  // where LaunchRequest::warn is not set.
  void tell(KernelFault::Kind kind, u32 lane, const std::string& what);
};

// Pointers to `bytes` for every lane that counts (lanes that do not get a valid pointer too, of
// another lane). Faults where a GPU would. `ordered`: atomics, volatile and such, which may race.
struct Access {
  ptx::Space space;
  u32 bytes;
  bool write = false, ordered = false;
  u32 align = 0;  // of the address, where it is not `bytes`
};
void locate(Warp& w, const Op& op, Slot base, u32 base_bytes, i64 offset, const Access& access,
            u8* (&pointers)[kLanes]);

// Completes copies of a warp up to the group given by lane; lanes by `mask`.
void complete_copies(Warp& w, u32 mask, const u32* last_group);

}  // namespace emu
