// Where a kernel's registers are alive, by data flow over its blocks: how many it needs at once, an
// estimate of what ptxas does (it moves instructions, unrolls, and aligns pairs), and which can
// share a place. nvcc gives each value a register of its own; without sharing, the registers of a
// warp would not fit into the cache.
#include <algorithm>

#include "exec/decode.h"

namespace emu {
namespace {

using Kind = ptx::Operand::Kind;
using Bits = std::vector<u64>;

// The first operand is the result, but of those that have none.
bool has_result(const ptx::Instruction& in) {
  const std::string_view name = in.opcode[0];
  return name != "st" && name != "red" && name != "bra" && name != "bar" && name != "call" &&
         name != "stmatrix" && name != "cp" && name != "ret" && name != "exit" &&
         name != "barrier" && name != "nanosleep";
}

template <class F>
void visit(const ptx::Operand& o, F&& f) {
  if (o.kind == Kind::reg || (o.kind == Kind::address && o.has_base)) f(o.index);
  if (o.second >= 0) f(u32(o.second));
  for (const ptx::Operand& e : o.elements) visit(e, f);
}

template <class Def, class Use>
void step(const ptx::Instruction& in, Def&& def, Use&& use) {
  const bool result = has_result(in);
  // A guarded result keeps the lanes that it does not write: it is read too.
  if (result && !in.operands.empty() && in.guard < 0) visit(in.operands[0], def);
  for (size_t i = result ? 1 : 0; i < in.operands.size(); ++i) visit(in.operands[i], use);
  if (result && !in.operands.empty() && in.operands[0].kind == Kind::address)
    visit(in.operands[0], use);
  if (in.guard >= 0) use(u32(in.guard));
}

struct Blocks {
  std::vector<u32> begin, of;  // first instructions, the end last; the block of each instruction
  u32 count() const { return u32(begin.size()) - 1; }
};

bool jumps(const ptx::Instruction& in) {
  return in.opcode[0] == "bra" || in.opcode[0] == "ret" || in.opcode[0] == "exit";
}
bool branches(const ptx::Instruction& in) {
  return in.opcode[0] == "bra" && in.operands[0].kind == Kind::label;
}

Blocks blocks_of(const ptx::Function& f) {
  const u32 n = u32(f.code.size());
  std::vector<u8> leads(n + 1, 0);
  leads[0] = leads[n] = 1;
  for (u32 i = 0; i < n; ++i) {
    if (!jumps(f.code[i])) continue;
    leads[i + 1] = 1;
    if (branches(f.code[i])) leads[f.code[i].operands[0].index] = 1;
  }
  Blocks b;
  b.of.resize(n + 1);
  for (u32 i = 0; i <= n; ++i) {
    if (leads[i]) b.begin.push_back(i);
    b.of[i] = u32(b.begin.size()) - 1;
  }
  return b;
}

void set(Bits& bits, u32 r) { bits[r / 64] |= u64(1) << r % 64; }
void clear(Bits& bits, u32 r) { bits[r / 64] &= ~(u64(1) << r % 64); }

// Walks a block backwards from what is alive at its end; each(i, live): before instruction i.
template <class Each>
void backwards(const ptx::Function& f, const Blocks& blocks, u32 b, Bits& live, Each&& each) {
  for (u32 i = blocks.begin[b + 1]; i-- > blocks.begin[b];) {
    step(
        f.code[i], [&](u32 r) { clear(live, r); }, [&](u32 r) { set(live, r); });
    each(i);
  }
}

// What is alive at the end of each block.
std::vector<Bits> live_at_ends(const ptx::Function& f, const Blocks& blocks) {
  const u32 words = u32(f.registers.size()) / 64 + 1, n = blocks.count();
  std::vector<Bits> in(n + 1, Bits(words, 0)), out = in;
  for (bool changed = true; changed;) {
    changed = false;
    for (u32 b = n; b-- > 0;) {
      const ptx::Instruction& last = f.code[blocks.begin[b + 1] - 1];
      Bits after(words, 0);
      const auto add = [&](u32 s) {
        for (u32 i = 0; i < words; ++i) after[i] |= in[s][i];
      };
      if (!jumps(last) || last.guard >= 0) add(b + 1);
      if (branches(last)) add(blocks.of[last.operands[0].index]);
      out[b] = after;
      backwards(f, blocks, b, after, [](u32) {});
      if (after != in[b]) in[b] = std::move(after), changed = true;
    }
  }
  return out;
}

}  // namespace

Liveness liveness(const ptx::Function& f) {
  Liveness result;
  const u32 n = u32(f.code.size());
  result.ranges.assign(f.registers.size(), {n, 0});
  if (n == 0) return result;
  const Blocks blocks = blocks_of(f);
  std::vector<Bits> out = live_at_ends(f, blocks);
  std::vector<u8> weight(f.registers.size() + 64, 0);
  for (u32 r = 0; r < f.registers.size(); ++r)
    weight[r] = u8((ptx::type_bytes(f.registers[r].type) + 3) / 4);
  const auto touch = [&](u32 r, u32 i) {
    auto& [begin, end] = result.ranges[r];
    begin = std::min(begin, i);
    end = std::max(end, i);
  };
  for (u32 b = 0; b < blocks.count(); ++b) {
    Bits& live = out[b];
    const auto all = [&](auto&& each) {
      for (u32 i = 0; i < live.size(); ++i)
        for (u64 bits = live[i]; bits; bits &= bits - 1) each(i * 64 + u32(__builtin_ctzll(bits)));
    };
    all([&](u32 r) { touch(r, blocks.begin[b + 1] - 1); });
    backwards(f, blocks, b, live, [&](u32 i) {
      u32 sum = 0;
      all([&](u32 r) { sum += weight[r]; });
      result.registers = std::max(result.registers, sum);
      step(
          f.code[i], [&](u32 r) { touch(r, i); }, [&](u32 r) { touch(r, i); });
    });
    all([&](u32 r) { touch(r, blocks.begin[b]); });
  }
  return result;
}

}  // namespace emu
