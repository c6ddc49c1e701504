#include "warptape/tools/grade/memory.h"

#include <cstring>
#include <new>

#include "warptape/kernels/simt/queues.h"

namespace wt::grade {

using namespace simt_runtime;

namespace {

void* new_block(size_t bytes, void* stream) {
  void* const p = arena_alloc(bytes, stream);
  if (!p) throw std::bad_alloc();
  return p;
}

// Under AddressSanitizer the red zones are not to be touched, and need no canary.
void zone(void* at, bool write, u8* to) {
  if (has_asan()) {
    if (!write) std::memset(to, kCanary, size_t(kZoneBytes));
    return;
  }
  if (write)
    std::memset(at, kCanary, size_t(kZoneBytes));
  else
    std::memcpy(to, at, size_t(kZoneBytes));
}

}  // namespace

void CaseMemory::make(const Case& c, void* stream) {
  drop();
  case_ = c;
  blocks_.assign(size_t(c.operands), nullptr);
  sentinel_ = new_block(1, stream);
  for (int i = 0; i < c.operands; ++i) {
    const OperandLayout& o = case_.operand[i];
    views_[i] = {};
    if (!o.there()) continue;
    char* const block = static_cast<char*>(new_block(size_t(o.bytes), stream));
    blocks_[size_t(i)] = block;
    views_[i] = {block + o.begin, &case_.operand[i].geometry};
  }
  fill_canaries();
}

void CaseMemory::fill_canaries() {
  const ArenaOpen open;
  for (int i = 0; i < case_.operands; ++i) {
    char* const block = static_cast<char*>(blocks_[size_t(i)]);
    if (!block) continue;
    zone(block - kZoneBytes, true, nullptr);
    zone(block + case_.operand[i].bytes, true, nullptr);
  }
}

void CaseMemory::drop() {
  for (void* block : blocks_) simt_arena_free(block);
  simt_arena_free(sentinel_);
  blocks_.clear();
  sentinel_ = nullptr;
}

bool CaseMemory::fits(const Case& c) const {
  return !blocks_.empty() && std::memcmp(&c, &case_, sizeof c) == 0;
}

void CaseMemory::write(const std::vector<std::vector<u8>>& images, void* stream) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::vector<u8>& from = images[i];
    if (!blocks_[i] || from.empty()) continue;
    if (lazy()) {
      queue_copy({blocks_[i], from.data(), from.size(), false, true}, stream);
    } else {
      const ArenaOpen open;
      std::memcpy(blocks_[i], from.data(), from.size());
    }
  }
}

void CaseMemory::read(std::vector<std::vector<u8>>& images, void* stream) {
  images.assign(blocks_.size(), {});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i]) continue;
    const size_t bytes = size_t(case_.operand[i].bytes);
    images[i].assign(bytes + 2 * size_t(kZoneBytes), 0);
    if (lazy() && bytes)
      queue_copy({images[i].data() + kZoneBytes, blocks_[i], bytes, true, false}, stream);
  }
  if (lazy()) wait_for(queue_mark(stream));
  const ArenaOpen open;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i]) continue;
    char* const block = static_cast<char*>(blocks_[i]);
    const i64 bytes = case_.operand[i].bytes;
    u8* const to = images[i].data();
    if (!lazy()) std::memcpy(to + kZoneBytes, block, size_t(bytes));
    zone(block - kZoneBytes, false, to);
    zone(block + bytes, false, to + kZoneBytes + bytes);
  }
}

}  // namespace wt::grade
