// Device memory of the emulated GPUs, and page-locked memory of the host.
//
// A block's address is real but not readable: the program gets addresses in a range without rights,
// and the bytes lie `alias` further on, where the emulator reads and writes. Host code that
// dereferences a device pointer faults, as on hardware, and the fault is reported with the block's
// history. New memory is filled with bytes 0xff: NaN in every floating type, so that values never
// written show. Addresses go round: a freed one is not soon given again.
#pragma once
#include "basic.h"
#include "report.h"

namespace emu {

enum class BlockKind : u8 { device, pinned, managed };

struct Block {
  u64 begin = 0, end = 0;  // as the program sees it; end is exclusive
  i64 alias = 0;   // added to an address: where the emulator may touch it; 0 for host memory
  int device = 0;  // pinned: the device that was current
  BlockKind kind = BlockKind::device;
  u64 serial = 0;           // of the allocation, from 1
  bool registered = false;  // by cudaHostRegister: the program's own memory
  bool internal = false;    // the runtime's: variables of modules; it is never a leak
  bool pooled = false;      // of cudaMallocAsync
  bool freeing = false;     // a cudaFreeAsync is queued
  bool of_graph = false;    // allocated while a stream was captured: lives as long as the process
  u32 flags = 0;            // of cudaHostAlloc, cudaHostRegister or cudaMallocManaged
  CallSite from;
  u64 bytes() const { return end - begin; }
};

// The live block that holds `address`, or null. The pointer holds until that block is freed.
const Block* find_block(u64 address);
// The same if all of `bytes` lie in one block.
const Block* find_block(u64 address, u64 bytes);

// "16 bytes past block #12 (1024 bytes of cuda:0)", "in block #12, freed", "no block near": for
// findings.
std::string describe_address(u64 address);

// Whether kernels of `device` may use the block: its own, the host's, or of a peer with access.
bool reachable(const Block& block, int device);

// --- for the runtime ---
// Null: no room. Memory of the host may be huge; pages are taken when touched.
Block* take_block(BlockKind kind, int device, u64 bytes);
Block* register_block(u64 address, u64 bytes, int device);  // null: it overlaps another
void free_block(u64 begin);
Block* block_at(u64 begin);  // that begins there
void set_peer_access(int device, int peer, bool on);
bool has_peer_access(int device, int peer);
u64 memory_used(int device);
void for_each_block(const std::function<void(Block&)>& visit);
// Of an address that is or was device memory; for the signal handler: takes no lock.
bool in_device_space(u64 address);
bool in_host_space(u64 address);
void watch_host_accesses();  // installs the signal handler where another took its place

// --- order between streams (order.cpp) ---
// Every stretch of 32 bytes remembers who wrote and read it last; an access that no stream order,
// event or synchronisation puts after the last conflicting one is a race, whatever the interleaving
// happened to be. `op`: the queued operation that makes the access (device/op.h); true when all is
// well, else what to report. `atomic`: accesses that may meet others of their kind.
// Cost: a few ns for each stretch; up to 16 bytes of shadow for each 32 touched.
struct QueuedOp;
struct Conflict {
  const QueuedOp* other = nullptr;  // valid until the next call of the runtime; null: long ago
  bool other_wrote = false;
};
bool note_access(const QueuedOp& op, u64 address, u32 bytes, bool write, Conflict* found,
                 bool atomic = false);
// The same for copies and fills.
bool note_range(const QueuedOp& op, u64 address, u64 bytes, bool write, Conflict* found);
// "kernel f, operation 12 of stream 3, queued" with its call site: for findings.
std::string describe_op(const QueuedOp* op);
// Whether all accesses to the range so far are known by the host to be over; else one that is not.
bool host_knows(u64 address, u64 bytes, Conflict* found);

struct Sector {
  u32 writer, written, reader, read;  // operations, and which bytes
};
Sector* shadow_of(u64 address);  // null: host memory of the program's own

}  // namespace emu
