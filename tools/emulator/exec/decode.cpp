#include "exec/decode.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <unordered_set>

namespace emu {

namespace {

const std::unordered_map<std::string_view, DecodeFunction>& opcodes() {
  static const auto* all = [] {
    auto* map = new std::unordered_map<std::string_view, DecodeFunction>;
    for (const auto family :
         {move_opcodes, integer_opcodes, bit_opcodes, float_opcodes, approx_opcodes,
          compare_opcodes, convert_opcodes, memory_opcodes, atomic_opcodes, warp_opcodes,
          mma_opcodes, async_opcodes, flow_opcodes, call_opcodes})
      for (const OpcodeEntry& e : family()) map->emplace(e.name, e.decode);
    return map;
  }();
  return *all;
}

// An instruction that is not understood stops the kernel when it is reached, not before: a
// library's kernel may hold some that no test comes to.
void unknown_instruction(Warp& w, const Op&) {
  fault(KernelFault::Kind::illegal_instruction, u32(__builtin_ctz(w.mask)),
        "the emulator does not know this instruction or form of it");
}

u32 round_up(u64 n, u32 to) { return u32((n + to - 1) / to * to); }

u32 log2_bytes(u32 bytes) { return bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0; }

// Bits of an immediate as a lane of `t`.
u64 immediate_bits(const ptx::Operand& o, ptx::Type t) {
  constexpr ptx::Type f32 = ptx::Type::f32, f64 = ptx::Type::f64;
  const bool floating = o.type == f32 || o.type == f64;
  const auto value = [&] {
    if (o.type == f32) {
      float f;
      const u32 bits = u32(o.bits);
      std::memcpy(&f, &bits, 4);
      return double(f);
    }
    if (o.type == f64) {
      double d;
      std::memcpy(&d, &o.bits, 8);
      return d;
    }
    return double(i64(o.bits));
  };
  if (t == f32) {
    if (o.type == f32) return o.bits;
    const float f = float(value());
    u32 bits;
    std::memcpy(&bits, &f, 4);
    return bits;
  }
  if (t == f64) {
    const double d = value();
    u64 bits;
    std::memcpy(&bits, &d, 8);
    return bits;
  }
  if (floating && ptx::type_bytes(t) == 8 && o.type == f32) return o.bits;
  return o.bits;
}

}  // namespace

void fault(KernelFault::Kind kind, u32 lane, std::string what) {
  throw FaultError{kind, lane, std::move(what)};
}

Decoder::Decoder(const ptx::Module& module, Program::Kernel& kernel)
    : module_(module), kernel_(kernel) {
  for (u32 l = 0; l < 4; ++l) constants_[l].reserve(64);
}

// Registers that are never alive together share a place. A guarded or diverged write touches its
// own lanes alone, so those of the others keep what another register has there.
void Decoder::place_registers() {
  const ptx::Function& f = kernel_.body;
  const Liveness live = liveness(f);
  kernel_.info.registers = live.registers;
  std::vector<u32> order(f.registers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](u32 a, u32 b) { return live.ranges[a].first < live.ranges[b].first; });
  registers_.resize(order.size());
  struct Place {
    u32 until;
    Slot slot;
    bool operator<(const Place& o) const { return until > o.until; }
  };
  std::priority_queue<Place> used[5];  // by log2 of a lane's bytes
  for (const u32 r : order) {
    if (f.registers[r].type == ptx::Type::pred) {
      registers_[r] = kernel_.predicates++;
      continue;
    }
    const u32 bytes = std::max(ptx::type_bytes(f.registers[r].type), 2u);
    auto& queue = used[__builtin_ctz(bytes)];
    if (!queue.empty() && queue.top().until < live.ranges[r].first) {
      registers_[r] = queue.top().slot;
      queue.pop();
    } else {
      registers_[r] = scratch(bytes);
    }
    queue.push({std::max(live.ranges[r].second, live.ranges[r].first), registers_[r]});
  }
}

namespace {

void add_names(const ptx::Operand& o, std::unordered_set<std::string_view>& names) {
  if (!o.name.empty()) names.insert(o.name);
  for (const ptx::Operand& e : o.elements) add_names(e, names);
}
std::unordered_set<std::string_view> names_in(const ptx::Function& f) {
  std::unordered_set<std::string_view> names;
  for (const ptx::Instruction& in : f.code)
    for (const ptx::Operand& o : in.operands) add_names(o, names);
  return names;
}

}  // namespace

// Shared, local and parameter space get their places. What a module declares outside of functions
// takes shared memory of the kernels that name it alone.
void Decoder::lay_out() {
  const ptx::Function& f = kernel_.body;
  place_registers();
  const std::unordered_set<std::string_view> named = names_in(f);
  u64 shared = kSharedBegin, local = 0;
  const auto put = [](u64& at, const ptx::Variable& v) {
    at = round_up(at, std::max(v.align, 1u));
    const i64 begin = i64(at);
    at += v.bytes;
    return begin;
  };
  bool dynamic = false;
  u32 dynamic_align = 16;
  for (const std::vector<ptx::Variable>* list : {&module_.variables, &f.variables})
    for (const ptx::Variable& v : *list) {
      if (list == &module_.variables && !named.contains(v.name)) continue;
      if (v.space == ptx::Space::shared && v.bytes == 0) {
        dynamic = true;
        dynamic_align = std::max(dynamic_align, v.align);
      } else if (v.space == ptx::Space::shared) {
        places_[v.name] = {ptx::Space::shared, put(shared, v)};
      } else if (v.space == ptx::Space::local || v.space == ptx::Space::param) {
        places_[v.name] = {ptx::Space::local, put(local, v)};
      } else if (v.space == ptx::Space::global || v.space == ptx::Space::constant) {
        places_[v.name] = {ptx::Space::global, 0};
      }
    }
  kernel_.info.static_shared = u32(shared - kSharedBegin);
  kernel_.shared_dynamic_at = round_up(shared, dynamic ? dynamic_align : 16);
  for (const std::vector<ptx::Variable>* list : {&module_.variables, &f.variables})
    for (const ptx::Variable& v : *list)
      if (v.space == ptx::Space::shared && v.bytes == 0)
        places_[v.name] = {ptx::Space::shared, kernel_.shared_dynamic_at};
  kernel_.info.local_bytes = round_up(local, 16);
  u64 at = 0;
  for (const ptx::Variable& p : f.params) {
    const i64 begin = put(at, p);
    places_[p.name] = {ptx::Space::param, begin};
    kernel_.info.param_at.push_back(u32(begin));
    kernel_.info.param_bytes.push_back(u32(p.bytes));
  }
  kernel_.info.params_bytes = u32(at);
}

void Decoder::run() {
  lay_out();
  const ptx::Function& f = kernel_.body;
  kernel_.code.resize(f.code.size() + 1);
  for (u32 i = 0; i < f.code.size(); ++i) decode_one(i);
  Op& end = kernel_.code.back();  // a body may end in a label
  end.control = Control::exit;
  end.source = u32(f.code.size()) - (f.code.empty() ? 0 : 1);
  mark_joins(kernel_.code);
}

void Decoder::decode_one(u32 index) {
  in_ = &kernel_.body.code[index];
  op_ = &kernel_.code[index];
  op_->source = index;
  op_->guard = in_->guard < 0 ? -1 : i32(registers_[u32(in_->guard)]);
  op_->guard_negated = in_->guard_negated;
  const auto found = opcodes().find(in_->opcode[0]);
  const Op before = *op_;
  asked_ = 0;
  try {
    if (found == opcodes().end()) unknown("");
    found->second(*this);
    check_modifiers();
    use_mode();
  } catch (const std::invalid_argument&) {
    *op_ = before;
    op_->run = unknown_instruction;
  }
}

void Decoder::unknown(const std::string& why) const { throw std::invalid_argument(why); }

// Rounding and flushing by the processor's own control register: only for what computes in f32 or
// f64 in one step.
void Decoder::use_mode() {
  if (op_->control != Control::plain || op_->csr == 0) return;
  op_->control = Control::moded;
}

bool Decoder::has(std::string_view modifier) const {
  u64 found = 0;
  for (size_t i = 1; i < in_->opcode.size(); ++i)
    if (in_->opcode[i] == modifier) found |= u64(1) << (i & 63);
  asked_ |= found;
  return found;
}

void Decoder::check_modifiers() const {
  // What is the default where it may be said, or speaks of caches, scopes and weaker orders than
  // ours.
  static const std::unordered_set<std::string_view> harmless = {
      "rn",     "rni",      "noftz",   "lo",      "to",      "sync",    "aligned", "uni",
      "v2",     "v4",       "idx",     "ballot",  "cta",     "gpu",     "sys",     "cluster",
      "weak",   "volatile", "relaxed", "acquire", "release", "acq_rel", "sc",      "mmio",
      "nc",     "ca",       "cg",      "cs",      "lu",      "cv",      "wb",      "wt",
      "global", "local",    "const",   "generic", "x1",      "x2",      "x4"};
  ptx::Type t;
  for (size_t i = 1; i < in_->opcode.size(); ++i) {
    const std::string_view part = in_->opcode[i];
    if (asked_ >> (i & 63) & 1 || harmless.contains(part) || ptx::parse_type(part, &t)) continue;
    if (part.starts_with("shared") || part.starts_with("param") || part.starts_with("L1::") ||
        part.starts_with("L2::"))
      continue;
    unknown("modifier");
  }
}

Decoder::Shape Decoder::shape() const {
  Shape s{};
  for (const std::string_view part : in_->opcode)
    if (std::sscanf(std::string(part).c_str(), "m%un%uk%u", &s.m, &s.n, &s.k) == 3) {
      (void)has(part);
      return s;
    }
  unknown("shape");
}

ptx::Type Decoder::type(u32 n) const {
  ptx::Type t;
  for (size_t i = 1; i < in_->opcode.size(); ++i)
    if (ptx::parse_type(in_->opcode[i], &t) && n-- == 0) return t;
  unknown("type");
}
u32 Decoder::types() const {
  ptx::Type t;
  u32 n = 0;
  for (size_t i = 1; i < in_->opcode.size(); ++i) n += ptx::parse_type(in_->opcode[i], &t);
  return n;
}

const ptx::Operand& Decoder::operand(u32 n) const {
  if (n >= in_->operands.size()) unknown("operands");
  return in_->operands[n];
}

Slot Decoder::scratch(u32 bytes) {
  const Slot s = kernel_.register_bytes;
  kernel_.register_bytes += bytes * kLanes;
  return s;
}

Slot Decoder::constant(u64 bits, u32 bytes) {
  if (bytes < 8) bits &= (u64(1) << bytes * 8) - 1;
  auto& known = constants_[log2_bytes(bytes)];
  if (const auto it = known.find(bits); it != known.end()) return it->second;
  const u32 at = u32(kernel_.constants.size());
  kernel_.constants.resize(at + round_up(bytes * kLanes, 64));
  for (u32 l = 0; l < kLanes; ++l) std::memcpy(&kernel_.constants[at + l * bytes], &bits, bytes);
  return known[bits] = at + 1;
}

u32 Decoder::lane_bytes(const ptx::Operand& o, ptx::Type t) const {
  if (o.kind == ptx::Operand::Kind::reg)
    return std::max(ptx::type_bytes(kernel_.body.registers[o.index].type), 2u);
  return ptx::type_bytes(t);
}

const Decoder::Place* Decoder::place(const std::string& name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : &it->second;
}

Slot Decoder::slot(const ptx::Operand& o, ptx::Type t) {
  using Kind = ptx::Operand::Kind;
  const u32 bytes = std::max(ptx::type_bytes(t), 1u);
  switch (o.kind) {
    case Kind::reg:
      return registers_[o.index];
    case Kind::sink:
      return scratch(std::max(bytes, 2u));
    case Kind::immediate:
      return constant(immediate_bits(o, t), bytes);
    case Kind::special:
      return special(o.name, t);
    case Kind::symbol: {
      const Place* p = place(o.name);
      if (!p) unknown("symbol");
      if (p->space != ptx::Space::global) return constant(u64(p->offset + o.offset), bytes);
      const u32 at = u32(kernel_.constants.size());
      kernel_.constants.resize(at + 8 * kLanes);
      kernel_.symbols.push_back({at, o.name, o.offset});
      return at + 1;
    }
    default:
      unknown("operand");
  }
}

u32 Decoder::pred(const ptx::Operand& o) {
  if (o.kind == ptx::Operand::Kind::sink) return kNoSlot;
  if (o.kind != ptx::Operand::Kind::reg || kernel_.body.registers[o.index].type != ptx::Type::pred)
    unknown("predicate");
  return registers_[o.index];
}

u32 Decoder::list(const std::vector<Slot>& slots) {
  const u32 at = u32(kernel_.lists.size());
  kernel_.lists.insert(kernel_.lists.end(), slots.begin(), slots.end());
  return at;
}

Slot Decoder::special(const std::string& name, ptx::Type t) {
  static const std::unordered_map<std::string_view, Special> known = {
      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%smid", Special::smid},
      {"%nsmid", Special::nsmid},
      {"%gridid", Special::gridid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%dynamic_smem_size", Special::dynamic_smem_size},
      {"%total_smem_size", Special::total_smem_size},
      // Where cooperative groups find the barrier of the grid.
      {"%envreg1", Special::grid_workspace_high},
      {"%envreg2", Special::grid_workspace_low},
      // A grid without clusters is one of clusters of one block.
      {"%clusterid.x", Special::ctaid_x},
      {"%clusterid.y", Special::ctaid_y},
      {"%clusterid.z", Special::ctaid_z},
      {"%nclusterid.x", Special::nctaid_x},
      {"%nclusterid.y", Special::nctaid_y},
      {"%nclusterid.z", Special::nctaid_z},
      {"%cluster_ctaid.x", Special::zero},
      {"%cluster_ctaid.y", Special::zero},
      {"%cluster_ctaid.z", Special::zero},
      {"%cluster_ctarank", Special::zero},
      {"%cluster_nctaid.x", Special::one},
      {"%cluster_nctaid.y", Special::one},
      {"%cluster_nctaid.z", Special::one},
      {"%cluster_nctarank", Special::one},
  };
  const bool wide = ptx::type_bytes(t) == 8;
  const std::string key = name + (wide ? "/8" : "");
  if (const auto it = specials_.find(key); it != specials_.end()) return it->second;
  auto it = known.find(name);
  if (it == known.end()) unknown("special register");
  const Slot s = scratch(wide ? 8 : 4);
  kernel_.specials.push_back({it->second, s, wide});
  return specials_[key] = s;
}

Decoder::Address Decoder::address(const ptx::Operand& o, ptx::Space space) {
  Address a;
  a.space = space;
  a.offset = o.offset;
  if (o.kind != ptx::Operand::Kind::address) unknown("address");
  if (o.has_base) {
    a.base = registers_[o.index];
    a.base_bytes = lane_bytes(o, ptx::Type::b64);
    if (o.kind == ptx::Operand::Kind::address)
      a.base_bytes = ptx::type_bytes(kernel_.body.registers[o.index].type);
    return a;
  }
  if (o.name.empty()) return a;  // an absolute address
  const Place* p = place(o.name);
  if (!p) unknown("symbol");
  if (p->space == ptx::Space::global) {
    ptx::Operand symbol = o;
    symbol.kind = ptx::Operand::Kind::symbol;
    symbol.offset = 0;
    a.base = slot(symbol, ptx::Type::b64);
    if (space == ptx::Space::constant) a.space = ptx::Space::global;
    return a;
  }
  a.space = p->space;
  a.offset += p->offset;
  return a;
}

}  // namespace emu
