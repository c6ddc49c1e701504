// The interpreter's memory for its own tests: blocks of malloc, exactly as long as asked for, so
// that the sanitizers see what the interpreter's checks let through.
#include <cstdlib>
#include <map>

#include "run_ptx.h"

namespace {

std::map<emu::u64, emu::Block>& blocks() {
  static std::map<emu::u64, emu::Block> all;
  return all;
}
emu::u64 serial = 0;
std::vector<ptx_test::Noted>* noted = nullptr;

}  // namespace

namespace ptx_test {

void* take_plain(u64 bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 256, bytes ? bytes : 1) != 0) std::abort();
  emu::Block b;
  b.begin = reinterpret_cast<u64>(p);
  b.end = b.begin + bytes;
  b.serial = ++serial;
  blocks()[b.begin] = b;
  return p;
}

void give_plain(void* p) {
  blocks().erase(reinterpret_cast<u64>(p));
  std::free(p);
}

emu::Block& plain_block(const void* p) { return blocks().at(reinterpret_cast<u64>(p)); }

void note_into(std::vector<Noted>* list) { noted = list; }

}  // namespace ptx_test

namespace emu {

const Block* find_block(u64 address) {
  auto it = blocks().upper_bound(address);
  if (it == blocks().begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

const Block* find_block(u64 address, u64 bytes) {
  const Block* b = find_block(address);
  return b && address + bytes <= b->end ? b : nullptr;
}

std::string describe_address(u64 address) {
  const Block* b = find_block(address);
  return b ? "in block #" + std::to_string(b->serial) : "no block near";
}

std::string describe_op(const QueuedOp*) { return "an operation"; }

// Every access is in order, but for those of a test that says otherwise.
bool reachable(const Block& block, int device) { return block.device == device; }
bool note_access(const QueuedOp&, u64 address, u32 bytes, bool write, Conflict*, bool atomic) {
  if (noted) noted->push_back({address, bytes, write, atomic});
  return true;
}

}  // namespace emu
