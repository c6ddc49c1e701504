// Which warp steps, and which of its lanes. A GPU promises little about either, so both are drawn:
// a program that counts on more than barriers and votes promise fails under some seed.
#include <immintrin.h>

#include "exec/block.h"

namespace emu {

bool arrive(ThreadBlock& t, Warp& w, Fragment& f, const Op& op);  // block.cpp

namespace {

using State = Fragment::State;

// Lanes that execute `op` of those of a fragment.
u32 guarded(const Warp& w, const Op& op, u32 mask) {
  if (op.guard < 0) return mask;
  const u32 p = w.preds[op.guard];
  return mask & (op.guard_negated ? ~p : p);
}

void run_moded(Warp& w, const Op& op) {
  const u32 before = _mm_getcsr();
  _mm_setcsr(op.csr);
  op.run(w, op);
  _mm_setcsr(before);
}

// Fragments at the same instruction and in the same state become one. The merged one's index.
u32 merge(Warp& w, u32 index) {
  for (u32 i = 0; i < w.fragments.size(); ++i) {
    const Fragment &f = w.fragments[index], &o = w.fragments[i];
    if (i == index || o.pc != f.pc || o.state != f.state) continue;
    if (f.state == State::at_barrier && f.barrier != o.barrier) continue;
    w.fragments[std::min(i, index)].mask = f.mask | o.mask;
    w.fragments.erase(w.fragments.begin() + std::max(i, index));
    return merge(w, std::min(i, index));
  }
  return index;
}

// True when every lane that a member mask names, and that has not exited, is here.
bool all_here(const Warp& w, const Op& op, u32 lanes) {
  if (op.control == Control::warp_aligned) {
    if (w.live != kAllLanes)
      fault(KernelFault::Kind::barrier, u32(__builtin_ctz(lanes)),
            "an instruction of the whole warp, some lanes of which have exited");
    return lanes == kAllLanes;
  }
  if (op.c == kNoSlot) return true;
  const u32* members = w.at<u32>(op.c);
  bool all = true;
  for_lanes(lanes, [&](u32 l) {
    if (!(members[l] >> l & 1))
      fault(KernelFault::Kind::barrier, l, "the member mask of a .sync does not name this lane");
    all &= (members[l] & w.live & ~lanes) == 0;
  });
  return all;
}

struct Turn {
  ThreadBlock& t;
  Warp& w;
  u32 at;  // of the fragment in w.fragments
  u32 budget;
  u64 lanes = 0;

  Fragment& f() { return w.fragments[at]; }

  // Runs a .sync for the merged fragment if all are here. False: it waits.
  bool sync(const Op& op) {
    f().state = State::at_sync;
    at = merge(w, at);
    const u32 mask = guarded(w, op, f().mask);
    if (mask && !all_here(w, op, mask)) return false;
    f().state = State::running;
    w.mask = mask;
    if (mask) op.run(w, op);
    ++f().pc;
    return true;
  }

  // Lanes whose guard fails go on by themselves: those of an exit, a branch or a barrier do not.
  void split(u32 leaving, u32 pc) {
    w.fragments.push_back({pc, leaving, State::running, 0});
    f().mask &= ~leaving;
  }

  bool branch(const Op& op, u32 mask) {
    const u32 stay = f().mask & ~mask;
    if (!mask) {
      ++f().pc;
    } else if (!stay) {
      f().pc = op.target;
    } else {
      const u32 next = f().pc + 1;
      // Either side first.
      if (t.random->next() & 1) {
        split(stay, next);
        f().pc = op.target;
      } else {
        split(mask, op.target);
        f().pc = next;
      }
    }
    return true;
  }

  // Parks at a meeting point until the others are there too. True: it goes on.
  bool join() {
    if (t.random->below(64) == 0) return true;  // nothing promises that lanes meet
    f().state = State::at_join;
    at = merge(w, at);
    if (w.fragments.size() > 1) return false;
    f().state = State::running;
    return true;
  }

  bool exit(u32 mask) {
    w.mask = mask;
    t.exit_lanes(w, mask);
    // exit_lanes() may release a barrier, which moves no fragments.
    if (mask == f().mask) {
      w.fragments.erase(w.fragments.begin() + at);
      return false;
    }
    f().mask &= ~mask;
    ++f().pc;
    return true;
  }

  bool barrier(const Op& op, u32 mask) {
    if (!mask) {
      ++f().pc;
      return true;
    }
    if (mask != f().mask) split(f().mask & ~mask, f().pc + 1);
    const u32 pc = f().pc;
    const bool waits = arrive(t, w, f(), op);
    if (waits && f().state == State::at_barrier) at = merge(w, at);
    return !waits || f().pc != pc;
  }

  template <bool Profiled>
  void run(bool resumed) {
    const Op* code = t.kernel->code.data();
    u64 steps = 0;
    for (bool on = true; on && budget; --budget) {
      const Op& op = code[f().pc];
      if (op.is_join && w.fragments.size() > 1 && !resumed && !join()) break;
      resumed = false;
      const u32 here = f().mask, mask = guarded(w, op, here);
      if (op.control == Control::plain) [[likely]] {
        // The common case, with as little around it as can be.
        if (mask) {
          w.mask = mask;
          op.run(w, op);
        }
        ++f().pc;
      } else {
        on = other(op, mask);
      }
      ++steps;
      lanes += u32(__builtin_popcount(mask));
      if (Profiled) {  // a branch that no lane takes was asked of all
        LineCounts& line = (*t.request->profile)[op.source];
        ++line.executed;
        line.lanes += u32(__builtin_popcount(op.control == Control::branch ? here : mask));
      }
    }
    w.instructions += steps;
    t.clock += steps;
    t.counts->warp_instructions += steps;
    t.counts->lane_instructions += lanes;
  }

  // False: the turn is over.
  bool other(const Op& op, u32 mask) {
    switch (op.control) {
      case Control::plain:
        return true;
      case Control::moded:
        w.mask = mask;
        if (mask) run_moded(w, op);
        ++f().pc;
        return true;
      case Control::branch:
        return branch(op, mask);
      case Control::exit:
        if (mask) return exit(mask);
        ++f().pc;
        return true;
      case Control::trap:
        w.mask = mask;
        if (mask) op.run(w, op);
        ++f().pc;
        return true;
      case Control::yield:
        w.mask = mask;
        if (mask) op.run(w, op);
        ++f().pc;
        return t.random->below(4) != 0;
      case Control::warp_sync:
      case Control::warp_aligned:
        return sync(op);
      case Control::barrier:
        return barrier(op, mask);
    }
    return true;
  }
};

// A fragment of the warp that can run: a running one, else one that waits at a meeting point, the
// first in the code, so that inner branches meet before outer ones. -1: none.
i32 choose(ThreadBlock& t, Warp& w, bool* resumed) {
  *resumed = false;
  const u32 n = u32(w.fragments.size());
  u32 running = 0;
  for (const Fragment& f : w.fragments) running += f.state == State::running;
  // Those that run may wait, in a loop, for what one at a meeting point would do next.
  const bool in_turn = running && running < n && t.random->below(32) == 0;
  if (running && !in_turn) {
    u32 pick = running == 1 ? 0 : t.random->below(running);
    for (u32 i = 0; i < n; ++i)
      if (w.fragments[i].state == State::running && pick-- == 0) return i32(i);
  }
  i32 best = -1;
  for (u32 i = 0; i < n; ++i)
    if (w.fragments[i].state == State::at_join &&
        (best < 0 || w.fragments[i].pc < w.fragments[u32(best)].pc))
      best = i32(i);
  if (best >= 0) {
    w.fragments[u32(best)].state = State::running;
    *resumed = true;
    return best;
  }
  if (in_turn) {
    for (u32 i = 0; i < n; ++i)
      if (w.fragments[i].state == State::running) return i32(i);
  }
  // Lanes that exited meanwhile are waited for no longer.
  for (u32 i = 0; i < n; ++i) {
    const Fragment& f = w.fragments[i];
    if (f.state != State::at_sync) continue;
    const Op& op = t.kernel->code[f.pc];
    const u32 mask = guarded(w, op, f.mask);
    if (!mask || all_here(w, op, mask)) {
      w.fragments[i].state = State::running;
      return i32(i);
    }
  }
  return -1;
}

std::string lines_waiting(const ThreadBlock& t) {
  std::string text;
  u32 told = 0;
  for (const Warp& w : t.warps)
    for (const Fragment& f : w.fragments) {
      if (++told > 4) continue;
      const ptx::Instruction& in = t.kernel->body.code[t.kernel->code[f.pc].source];
      text += (text.empty() ? "" : "; ") + std::string("warp ") + std::to_string(w.index) + ", " +
              std::to_string(__builtin_popcount(f.mask)) + " lanes, at line " +
              std::to_string(in.at.outer_line ? in.at.outer_line : in.at.line) + " (" +
              std::string(in.opcode[0]) + (in.opcode.size() > 1 ? "." : "") +
              std::string(in.opcode.size() > 1 ? in.opcode[1] : "") + ")";
    }
  return text + (told > 4 ? "; and others" : "");
}

}  // namespace

bool ThreadBlock::step() {
  if (done) return false;
  const u32 n = u32(warps.size()), first = n == 1 ? 0 : random->below(n);
  for (u32 i = 0; i < n; ++i) {
    Warp& w = warps[(first + i) % n];
    if (w.fragments.empty()) continue;
    bool resumed;
    const i32 at = choose(*this, w, &resumed);
    if (at < 0) continue;
    current = w.index;
    Turn turn{*this, w, u32(at), 32u << random->below(6)};
    if (request->profile)
      turn.run<true>(resumed);
    else
      turn.run<false>(resumed);
    return true;
  }
  current = 0;
  u32 lane = 0;
  for (const Warp& w : warps)
    if (!w.fragments.empty()) current = w.index, lane = u32(__builtin_ctz(w.fragments[0].mask));
  fault(KernelFault::Kind::barrier, lane,
        "threads of the block wait for each other for ever: " + lines_waiting(*this));
}

}  // namespace emu
