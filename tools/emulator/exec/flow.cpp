// Branches, ends and barriers, and where diverged lanes meet again.
#include <algorithm>

#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {
namespace {

void nothing(Warp&, const Op&) {}

void decode_branch(Decoder& d) {
  Op& op = d.op();
  if (d.operand(0).kind != ptx::Operand::Kind::label) d.unknown("bra");
  op.control = Control::branch;
  op.target = d.operand(0).index;
}

// bar.sync a{, b}; barrier.sync without .aligned; bar.arrive; bar.red.
// aux: bit 0 arrive only, 1 aligned, 2-3 red (1 popc, 2 and, 3 or), 4 predicate negated.
void decode_barrier(Decoder& d) {
  Op& op = d.op();
  if (d.has("warp")) {  // bar.warp.sync mask
    op.c = d.slot(0, ptx::Type::b32);
    op.control = Control::warp_sync;
    op.run = nothing;
    return;
  }
  if (d.has("cluster")) {  // clusters of one block: the block's own barrier
    if (d.has("wait")) {
      op.run = nothing;
      return;
    }
    if (!d.has("arrive")) d.unknown("barrier.cluster");
    op.a = d.constant(15, 4);
    op.aux = 2;
    op.control = Control::barrier;
    return;
  }
  const bool red = d.has("red"), arrive = d.has("arrive");
  const bool aligned = d.in().opcode[0] == "bar" || d.has("aligned");
  u32 at = red ? 1 : 0;
  op.aux = u32(arrive) | u32(aligned) << 1;
  if (red) {
    const bool counts = d.has("popc");
    op.aux |= (counts ? 1u : d.has("and") ? 2u : 3u) << 2;
    if (op.aux >> 2 == 3 && !d.has("or")) d.unknown("bar.red");
    op.d = counts ? d.slot(0, ptx::Type::b32) : d.pred(d.operand(0));
  }
  op.a = d.slot(at++, ptx::Type::b32);
  if (d.operands() - at > (red ? 1u : 0u)) op.b = d.slot(at++, ptx::Type::b32);
  if (red) {
    op.c = d.pred(d.operand(at));
    if (d.operand(at).negated) op.aux |= 16;
  }
  const ptx::Operand& id = d.operand(red ? 1 : 0);
  const bool whole = op.b == kNoSlot && id.kind == ptx::Operand::Kind::immediate && id.bits == 0;
  if (!whole || !aligned) d.kernel().checks_shared_races = false;
  op.control = Control::barrier;
}

// --- post-dominators, after Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm" ---
struct Graph {
  std::vector<u32> begin;  // first instruction of each block; the last block is the exit
  std::vector<std::vector<u32>> after;
};

Graph blocks_of(const std::vector<Op>& code) {
  const u32 n = u32(code.size());
  std::vector<bool> leads(n + 1, false);
  leads[0] = leads[n] = true;
  const auto ends = [&](const Op& op) {
    return op.control == Control::branch || op.control == Control::exit ||
           op.control == Control::trap;
  };
  for (u32 i = 0; i < n; ++i) {
    if (!ends(code[i])) continue;
    leads[i + 1] = true;
    if (code[i].control == Control::branch) leads[code[i].target] = true;
  }
  Graph g;
  std::vector<u32> block_of(n + 1);
  for (u32 i = 0; i <= n; ++i) {
    if (leads[i]) g.begin.push_back(i);
    block_of[i] = u32(g.begin.size()) - 1;
  }
  const u32 exit = block_of[n];
  g.after.resize(g.begin.size());
  for (u32 b = 0; b < exit; ++b) {
    const u32 last = g.begin[b + 1] - 1;
    const Op& op = code[last];
    const bool falls = !ends(op) || op.guard >= 0;
    if (falls) g.after[b].push_back(b + 1);
    if (op.control == Control::branch) g.after[b].push_back(block_of[op.target]);
    if (op.control == Control::exit || op.control == Control::trap) g.after[b].push_back(exit);
  }
  return g;
}

std::vector<u32> post_dominators(const Graph& g) {
  const u32 n = u32(g.begin.size()), exit = n - 1, none = ~0u;
  std::vector<std::vector<u32>> before(n);
  for (u32 b = 0; b < n; ++b)
    for (u32 s : g.after[b]) before[s].push_back(b);
  // Reverse postorder of the reversed graph.
  std::vector<u32> order, number(n, none);
  std::vector<u8> state(n, 0);
  std::vector<std::pair<u32, u32>> stack = {{exit, 0}};
  state[exit] = 1;
  while (!stack.empty()) {
    auto& [b, next] = stack.back();
    if (next < before[b].size()) {
      const u32 p = before[b][next++];
      if (!state[p]) state[p] = 1, stack.push_back({p, 0});
    } else {
      order.push_back(b);
      stack.pop_back();
    }
  }
  std::reverse(order.begin(), order.end());
  for (u32 i = 0; i < order.size(); ++i) number[order[i]] = i;
  std::vector<u32> dominator(n, none);
  dominator[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (const u32 b : order) {
      if (b == exit) continue;
      u32 meet = none;
      for (u32 s : g.after[b]) {
        if (dominator[s] == none) continue;
        if (meet == none) {
          meet = s;
          continue;
        }
        u32 x = s;
        while (x != meet) {
          while (number[x] > number[meet]) x = dominator[x];
          while (number[meet] > number[x]) meet = dominator[meet];
        }
      }
      if (meet != dominator[b]) dominator[b] = meet, changed = true;
    }
  }
  return dominator;
}

}  // namespace

void mark_joins(std::vector<Op>& code) {
  const Graph g = blocks_of(code);
  const std::vector<u32> dominator = post_dominators(g);
  for (u32 b = 0; b + 1 < g.begin.size(); ++b) {
    const Op& last = code[g.begin[b + 1] - 1];
    if (last.control != Control::branch || last.guard < 0) continue;
    const u32 meet = dominator[b];  // none: no way out of an endless loop
    if (meet != ~0u && g.begin[meet] < code.size()) code[g.begin[meet]].is_join = true;
  }
}

std::vector<OpcodeEntry> flow_opcodes() {
  const auto ends = [](Decoder& d) { d.op().control = Control::exit; };
  return {
      {"bra", decode_branch},
      {"ret", ends},
      {"exit", ends},
      {"trap",
       [](Decoder& d) {
         d.op().control = Control::trap;
         d.op().run = [](Warp& w, const Op&) {
           fault(KernelFault::Kind::assertion, u32(__builtin_ctz(w.mask)), "trap");
         };
       }},
      {"brkpt", [](Decoder& d) { d.op().run = nothing; }},
      {"pmevent",
       [](Decoder& d) {
         d.take_all();
         d.op().run = nothing;
       }},
      {"bar", decode_barrier},
      {"barrier", decode_barrier},
  };
}

}  // namespace emu
