#include "device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>

#include "device/gpu.h"
#include "device/settings.h"

namespace emu {
namespace {

constexpr u64 kPage = 4096;
constexpr u64 kLarge = u64(256) << 10;    // from here on blocks are filled by mapping
constexpr u64 kTemplate = u64(8) << 20;   // bytes 0xff that large blocks begin as
constexpr u64 kHostSpace = u64(1) << 38;  // addresses of page-locked and managed memory
constexpr u64 kTrim = 8192;               // frees after which unused shadow goes back
constexpr size_t kRemembered = 20000;     // freed blocks that findings can name

u64 round_up(u64 x, u64 to) { return (x + to - 1) / to * to; }

void* at(u64 address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void no_space(u64 bytes) {
  std::fprintf(stderr, "emulator: no %llu GiB of address space for device memory\n",
               static_cast<unsigned long long>(bytes >> 30));
  _exit(2);
}

u64 reserve(u64 bytes, int rights) {  // 0: there is no room
  void* p = mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return 0;
  // Pages are touched one by one and given back: huge ones would cost what sparse blocks save.
  madvise(p, bytes, MADV_NOHUGEPAGE);
  return reinterpret_cast<u64>(p);
}

// Addresses that blocks are cut from, and the shadow beside them.
struct Region {
  u64 base = 0, size = 0, cursor = 0, frees = 0;
  i64 alias = 0;
  Sector* shadow = nullptr;
  bool has(u64 address) const { return address - base < size; }
};

// As much of `size` as the process may have, and at least `least`.
Region make_region(u64 size, u64 least, bool host) {
  for (; size >= least; size /= 2) {
    Region r;
    const int rights = PROT_READ | PROT_WRITE;
    const u64 shadow_bytes = size / 32 * sizeof(Sector);
    const u64 bytes = host ? 0 : reserve(size, rights), shadow = reserve(shadow_bytes, rights);
    r.size = size;
    r.base = r.cursor = reserve(size, PROT_NONE);
    r.alias = host ? 0 : i64(bytes - r.base);
    r.shadow = static_cast<Sector*>(at(shadow));
    if (r.base && shadow && (host || bytes)) return r;
    if (r.base) munmap(at(r.base), size);
    if (shadow) munmap(at(shadow), shadow_bytes);
    if (bytes) munmap(at(bytes), size);
  }
  no_space(least);
}

struct Freed {
  u64 end, serial;
  int device;
  BlockKind kind;
  CallSite from, at;
};

struct Memory {
  Region devices[16], host;
  bool started[16] = {};
  u64 used[16] = {};
  bool peer[16][16] = {};
  std::map<u64, Block> blocks;  // by begin
  std::map<u64, Freed> freed;
  std::deque<u64> freed_order;
  u64 serial = 0;
  int fill = -1;  // file of kTemplate bytes 0xff

  Region& device(int d) {
    // Going round a space many times the memory keeps freed addresses apart from new ones.
    if (!started[d]) {
      const u64 memory = gpu_model().memory;
      devices[d] = make_region(std::max<u64>(16 * memory, u64(4) << 30), memory, false);
      started[d] = true;
    }
    return devices[d];
  }
  Region& host_region() {
    if (!host.size) host = make_region(kHostSpace, u64(1) << 32, true);
    return host;
  }
  const Region* region_of(u64 address) const {
    for (int d = 0; d < 16; ++d)
      if (started[d] && devices[d].has(address)) return &devices[d];
    return host.size && host.has(address) ? &host : nullptr;
  }
};
Memory& memory() {
  static Memory* m = new Memory;
  return *m;
}

// Below 0: this process may make none (a sandbox), and blocks are filled byte by byte.
int template_file() {
  int& file = memory().fill;
  if (file >= 0) return file;
  file = memfd_create("emulator", MFD_CLOEXEC);
  if (file < 0) return file;
  if (ftruncate(file, kTemplate) != 0) no_space(kTemplate);
  void* p = mmap(nullptr, kTemplate, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) no_space(kTemplate);
  std::memset(p, 0xff, kTemplate);
  munmap(p, kTemplate);
  return file;
}

void map_fixed(u64 where, u64 bytes, int rights, int flags, int file) {
  if (mmap(at(where), bytes, rights, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | flags, file, 0) ==
      MAP_FAILED)
    no_space(bytes);
}

void begin_block(const Block& b) {
  const u64 where = b.begin + u64(b.alias), pages = round_up(b.bytes(), kPage);
  if (b.bytes() >= kLarge && template_file() >= 0) {
    for (u64 done = 0; done < pages; done += kTemplate)
      map_fixed(where + done, std::min(kTemplate, pages - done), PROT_READ | PROT_WRITE, 0,
                template_file());
    return;
  }
  if (b.kind != BlockKind::device) mprotect(at(where), pages, PROT_READ | PROT_WRITE);
  std::memset(at(where), 0xff, b.bytes());
}

// Pages go back at once. Blocks never share one: the gaps between them are that large.
void end_block(const Block& b) {
  const u64 first = (b.begin + u64(b.alias)) / kPage * kPage;
  const u64 bytes = round_up(b.end + u64(b.alias), kPage) - first;
  const bool own = b.kind == BlockKind::device;
  if (own && b.bytes() < kLarge) {
    madvise(at(first), bytes, MADV_DONTNEED);
    return;
  }
  map_fixed(first, bytes, own ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_ANONYMOUS, -1);
  // Alike to what surrounds it, so that the kernel makes one mapping of them again.
  madvise(at(first), bytes, MADV_NOHUGEPAGE);
}

void clear_shadow(const Region& r, u64 begin, u64 end) {
  Sector* from = r.shadow + (begin - r.base) / 32;
  const u64 bytes = ((end - r.base + 31) / 32 - (begin - r.base) / 32) * sizeof(Sector);
  if (bytes < kLarge) {
    std::memset(static_cast<void*>(from), 0, bytes);
    return;
  }
  const u64 first = reinterpret_cast<u64>(from), inner = round_up(first, kPage);
  const u64 last = (first + bytes) / kPage * kPage;
  std::memset(static_cast<void*>(from), 0, inner - first);
  std::memset(at(last), 0, first + bytes - last);
  madvise(at(inner), last - inner, MADV_DONTNEED);
}

// Gives back the shadow between live blocks: small blocks share its pages, so it stays at a free.
void trim_shadow(Region& r) {
  constexpr u64 kCovered = kPage / sizeof(Sector) * 32;  // by a page of the shadow
  const auto& blocks = memory().blocks;
  u64 from = r.base;
  const auto give_back = [&](u64 to) {
    const u64 first = round_up(from - r.base, kCovered), last = (to - r.base) / kCovered * kCovered;
    if (first < last)
      madvise(r.shadow + first / 32, (last - first) / 32 * sizeof(Sector), MADV_DONTNEED);
  };
  for (auto b = blocks.lower_bound(r.base); b != blocks.end() && r.has(b->first); ++b) {
    give_back(b->second.begin);
    from = b->second.end;
  }
  give_back(r.base + r.size);
}

// The next place after the cursor, going round once; 0: none. A gap on both sides makes small
// strides past a block visible.
u64 find_place(Region& r, u64 bytes, u64 align) {
  const auto& blocks = memory().blocks;
  const u64 gap = std::clamp<u64>(round_up(bytes / 8, kPage), kPage, u64(1) << 20);
  const auto search = [&](u64 from, u64 to) -> u64 {
    u64 begin = round_up(from + gap, align);
    auto next = blocks.lower_bound(begin);
    if (next != blocks.begin())
      if (const Block& before = std::prev(next)->second; before.end + gap > begin)
        begin = round_up(before.end + gap, align);
    for (; begin + bytes + gap <= to; ++next) {
      if (next == blocks.end() || next->second.begin >= begin + bytes + gap) return begin;
      begin = round_up(next->second.end + gap, align);
    }
    return 0;
  };
  const u64 end = r.base + r.size;
  u64 place = search(r.cursor, end);
  if (!place) place = search(r.base, end);
  if (place) r.cursor = place + bytes;
  return place;
}

std::string name_of(int device, BlockKind kind) {
  if (kind == BlockKind::pinned) return "page-locked memory";
  if (kind == BlockKind::managed) return "managed memory";
  return "cuda:" + std::to_string(device);
}
std::string size_text(u64 bytes, u64 serial, int device, BlockKind kind) {
  return "block #" + std::to_string(serial) + " (" + std::to_string(bytes) + " bytes of " +
         name_of(device, kind) + ")";
}

}  // namespace

Block* take_block(BlockKind kind, int device, u64 bytes) {
  Memory& m = memory();
  const bool own = kind == BlockKind::device;
  if (own && bytes > gpu_model().memory - m.used[device]) return nullptr;
  Region& r = own ? m.device(device) : m.host_region();
  if (bytes > r.size / 2) return nullptr;
  // Small blocks of a device are aligned to 512 and no more, which is what may be counted on.
  const u64 align = !own || bytes >= kLarge ? kPage : 512;
  const u64 place = find_place(r, bytes, align);
  if (!place) return nullptr;
  Block b;
  b.begin = place;
  b.end = place + bytes;
  b.alias = r.alias;
  b.device = device;
  b.kind = kind;
  b.serial = ++m.serial;
  b.from = CallSite::here();
  begin_block(b);
  clear_shadow(r, b.begin, b.end);
  if (own) m.used[device] += round_up(bytes, 512);
  return &(m.blocks[place] = b);
}

Block* register_block(u64 address, u64 bytes, int device) {
  Memory& m = memory();
  const auto next = m.blocks.lower_bound(address);
  if (next != m.blocks.end() && next->second.begin < address + bytes) return nullptr;
  if (next != m.blocks.begin() && std::prev(next)->second.end > address) return nullptr;
  Block b;
  b.begin = address;
  b.end = address + bytes;
  b.device = device;
  b.kind = BlockKind::pinned;
  b.serial = ++m.serial;
  b.registered = true;
  b.from = CallSite::here();
  return &(m.blocks[address] = b);
}

void free_block(u64 begin) {
  Memory& m = memory();
  const auto found = m.blocks.find(begin);
  if (found == m.blocks.end()) return;
  const Block& b = found->second;
  if (!b.registered) {
    end_block(b);
    const bool own = b.kind == BlockKind::device;
    if (own) m.used[b.device] -= round_up(b.bytes(), 512);
    Region& r = own ? m.devices[b.device] : m.host;
    if (m.freed
            .insert_or_assign(begin,
                              Freed{b.end, b.serial, b.device, b.kind, b.from, CallSite::here()})
            .second)
      m.freed_order.push_back(begin);
    if (m.freed_order.size() > kRemembered) {
      m.freed.erase(m.freed_order.front());
      m.freed_order.pop_front();
    }
    if (++r.frees % kTrim == 0) trim_shadow(r);
  }
  m.blocks.erase(found);
}

Block* block_at(u64 begin) {
  const auto found = memory().blocks.find(begin);
  return found == memory().blocks.end() ? nullptr : &found->second;
}

const Block* find_block(u64 address) {
  const auto& blocks = memory().blocks;
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  const Block& b = std::prev(next)->second;
  return address < b.end ? &b : nullptr;
}
const Block* find_block(u64 address, u64 bytes) {
  const Block* b = find_block(address);
  return b && bytes <= b->end - address ? b : nullptr;
}

std::string describe_address(u64 address) {
  const Memory& m = memory();
  auto next = m.blocks.upper_bound(address);
  const Block* before = next == m.blocks.begin() ? nullptr : &std::prev(next)->second;
  const Block* after = next == m.blocks.end() ? nullptr : &next->second;
  const auto text = [](const Block& b) { return size_text(b.bytes(), b.serial, b.device, b.kind); };
  if (before && address < before->end)
    return "byte " + std::to_string(address - before->begin) + " of " + text(*before);
  if (auto f = m.freed.upper_bound(address); f != m.freed.begin()) {
    const auto& [begin, freed] = *--f;
    if (address < freed.end)
      return "byte " + std::to_string(address - begin) + " of " +
             size_text(freed.end - begin, freed.serial, freed.device, freed.kind) +
             ", which was freed" + describe(freed.at);
  }
  constexpr u64 kNear = u64(16) << 20;
  const u64 past = before ? address - before->end : ~u64(0);
  const u64 ahead = after ? after->begin - address : ~u64(0);
  if (past < kNear && past <= ahead)
    return std::to_string(past) + " bytes past " + text(*before) + describe(before->from);
  if (ahead < kNear)
    return std::to_string(ahead) + " bytes before " + text(*after) + describe(after->from);
  if (address < 65536) return "near the null pointer";
  return m.region_of(address) ? "no block near" : "no memory of the device";
}

bool reachable(const Block& b, int device) {
  return b.kind != BlockKind::device || b.device == device || memory().peer[device][b.device];
}
void set_peer_access(int device, int peer, bool on) { memory().peer[device][peer] = on; }
bool has_peer_access(int device, int peer) { return memory().peer[device][peer]; }
u64 memory_used(int device) { return memory().used[device]; }

void for_each_block(const std::function<void(Block&)>& visit) {
  for (auto& [begin, block] : memory().blocks) visit(block);
}

bool in_device_space(u64 address) {
  const Region* r = memory().region_of(address);
  return r && r != &memory().host;
}
bool in_host_space(u64 address) { return memory().region_of(address) == &memory().host; }

Sector* shadow_of(u64 address) {
  static const Region* last = nullptr;  // regions stay where they are
  if (!last || !last->has(address)) {
    const Region* r = memory().region_of(address);
    if (!r) return nullptr;
    last = r;
  }
  return last->shadow + (address - last->base) / 32;
}

}  // namespace emu
