// A grid: blocks in a seeded order, some of them at the same time.
#include <numeric>

#include "exec/block.h"

namespace emu {
namespace {

// Blocks that are there together, so that what one does is seen by another in the middle.
constexpr u32 kBlocksAtOnce = 2;

// The kernel's constants with the addresses of the module's variables.
std::vector<u8> constants_of(const LaunchRequest& r) {
  std::vector<u8> c = r.kernel->constants;
  for (const Program::Kernel::SymbolConstant& s : r.kernel->symbols) {
    const u64 address = (r.symbol_address ? r.symbol_address(s.name) : 0) + u64(s.offset);
    for (u32 l = 0; l < kLanes; ++l) std::memcpy(&c[s.slot + 8 * l], &address, 8);
  }
  return c;
}

// Instructions of a module without variables share one copy.
struct Constants {
  std::vector<u8> own;
  const std::vector<u8>* used;
  explicit Constants(const LaunchRequest& r) : used(&r.kernel->constants) {
    if (r.kernel->symbols.empty()) return;
    own = constants_of(r);
    used = &own;
  }
};

std::string text_of(const ptx::Module& m, const ptx::Instruction& in) {
  if (in.opcode.empty()) return {};
  const char* at = in.opcode[0].data();
  const char *begin = m.text.data(), *end = begin + m.text.size();
  if (at < begin || at >= end) return std::string(in.opcode[0]);
  while (at > begin && at[-1] != '\n') --at;
  const char* stop = at;
  while (stop < end && *stop != '\n') ++stop;
  return std::string(at, stop);
}

u32 pc_of(const Warp& w, u32 lane) {
  for (const Fragment& f : w.fragments)
    if (f.mask >> lane & 1) return f.pc;
  return 0;
}

KernelFault described(const LaunchRequest& r, const ThreadBlock& t, const FaultError& e) {
  KernelFault f;
  f.kind = e.kind;
  f.what = e.what;
  f.kernel = r.kernel->info.name;
  for (u32 i = 0; i < 3; ++i) f.block[i] = t.id[i];
  const u32 thread = t.current * kLanes + e.lane;
  f.thread[0] = thread % r.block.x;
  f.thread[1] = thread / r.block.x % r.block.y;
  f.thread[2] = thread / r.block.x / r.block.y;
  const u32 pc = pc_of(t.warps[t.current], e.lane);
  const ptx::Instruction& in = r.kernel->body.code[r.kernel->code[pc].source];
  const ptx::Module& m = *r.kernel->module;
  f.ptx_line = in.ptx_line;
  f.ptx = text_of(m, in);
  const auto file = [&](u32 n) { return n < m.files.size() ? m.files[n] : std::string(); };
  f.file = file(in.at.file);
  f.line = in.at.line;
  f.outer_file = file(in.at.outer_file);
  f.outer_line = in.at.outer_line;
  return f;
}

// i -> (a * i + b) mod n visits every block once.
struct Order {
  u64 n, a = 1, b = 0;
  Order(u64 blocks, Random& random) : n(blocks) {
    b = random.next() % n;
    do a = random.next() % n | 1;
    while (std::gcd(a, n) != 1);
  }
  u64 at(u64 i) const { return u64((unsigned __int128)(a)*i % n + b) % n; }
};

}  // namespace

void ThreadBlock::tell(KernelFault::Kind kind, u32 lane, const std::string& what) {
  if (!request->warn) fault(kind, lane, what);
  if (told->insert(pc_of(warps[current], lane)).second)
    request->warn(described(*request, *this, {kind, lane, what}));
}

bool run_kernel(const LaunchRequest& r, LaunchCounts* counts, KernelFault* found) {
  const u64 blocks = r.grid.count();
  if (blocks == 0 || r.block.count() == 0) return true;
  Random random{r.seed * 0x9E3779B97F4A7C15u + 1};
  random.next();
  const Order order(blocks, random);
  const Constants constants(r);
  // Kept between launches: a launch of a small kernel would else be mostly allocation.
  static thread_local std::vector<std::unique_ptr<ThreadBlock>> pool;
  const u64 window = std::min<u64>(blocks, r.cooperative ? blocks : kBlocksAtOnce);
  while (pool.size() < window) pool.push_back(std::make_unique<ThreadBlock>());
  if (pool.size() > 64 && window < 64) pool.resize(64);
  u64 next = 0;
  std::set<u32> told;
  std::vector<ThreadBlock*> active;
  const auto start = [&](ThreadBlock* t) {
    t->counts = counts;
    t->random = &random;
    t->told = &told;
    t->constants = constants.used;
    t->begin(*r.kernel, r, order.at(next++));
  };
  for (u64 i = 0; i < window; ++i) {
    active.push_back(pool[i].get());
    start(active.back());
  }
  ThreadBlock* current = nullptr;
  try {
    while (!active.empty()) {
      const u32 i = active.size() == 1 ? 0 : random.below(u32(active.size()));
      current = active[i];
      // A few turns in a row: the registers of one block are in the cache.
      for (u32 turn = 0; turn < 8 && !current->done; ++turn) current->step();
      if (!current->done) continue;
      if (next < blocks) {
        start(current);
      } else {
        active.erase(active.begin() + i);
      }
    }
  } catch (const FaultError& e) {
    *found = described(r, *current, e);
    return false;
  }
  return true;
}

}  // namespace emu
