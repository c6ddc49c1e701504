#include "warptape/tests/support/fake_nccl_compute.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/half.h"
#include "warptape/core/str.h"
#include "warptape/dist/nccl/nccl_api.h"

namespace wt_test {
namespace {

using namespace wt::dist;
using Kind = FakeNcclOp::Kind;

// T in memory, sums in A.
template <class T, class A>
void reduce(const std::vector<const void*>& ins, size_t from, size_t count, int op, void* out) {
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    A sum{};
    for (size_t r = 0; r < ins.size(); ++r) {
      const A v = A(static_cast<const T*>(ins[r])[from + i]);
      if (r == 0)
        sum = v;
      else if (op == kNcclMin)
        sum = std::min(sum, v);
      else if (op == kNcclMax)
        sum = std::max(sum, v);
      else
        sum = A(sum + v);
    }
    if (op == kNcclAvg) sum = A(sum / A(ins.size()));
    result[i] = T(sum);
  }
  std::memcpy(out, result.data(), count * sizeof(T));
}

void reduce_any(int type, const std::vector<const void*>& ins, size_t from, size_t count, int op,
                void* out) {
  switch (type) {
    case kNcclUint8:
      return reduce<wt::u8, wt::u8>(ins, from, count, op, out);
    case kNcclInt32:
      return reduce<wt::u32, wt::u32>(ins, from, count, op, out);
    case kNcclInt64:
      return reduce<wt::u64, wt::u64>(ins, from, count, op, out);
    case kNcclFloat16:
      return reduce<wt::Half, float>(ins, from, count, op, out);
    case kNcclBfloat16:
      return reduce<wt::BFloat16, float>(ins, from, count, op, out);
    case kNcclFloat32:
      return reduce<float, float>(ins, from, count, op, out);
    case kNcclFloat64:
      return reduce<double, double>(ins, from, count, op, out);
  }
}

// What all_reduce and reduce_scatter read is read before anything is written: in and out may be
// one.
void reduce_parts(const std::vector<FakeNcclOp*>& parts) {
  const bool scatter = parts[0]->kind == Kind::reduce_scatter;
  const size_t bytes =
      parts[0]->count * fake_nccl_bytes(parts[0]->type) * (scatter ? parts.size() : 1);
  std::vector<std::vector<char>> copies;
  std::vector<const void*> ins;
  for (const FakeNcclOp* p : parts) {
    const char* in = static_cast<const char*>(p->in);
    copies.emplace_back(in, in + bytes);
  }
  for (const auto& c : copies) ins.push_back(c.data());
  for (size_t r = 0; r < parts.size(); ++r)
    reduce_any(parts[r]->type, ins, scatter ? r * parts[r]->count : 0, parts[r]->count,
               parts[r]->op, parts[r]->out);
}

}  // namespace

size_t fake_nccl_bytes(int type) {
  switch (type) {
    case kNcclUint8:
      return 1;
    case kNcclFloat16:
    case kNcclBfloat16:
      return 2;
    case kNcclInt32:
    case kNcclFloat32:
      return 4;
  }
  return 8;
}

std::string to_string(const FakeNcclOp& o) {
  constexpr const char* kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",
                                    "broadcast",  "send",           "recv"};
  constexpr const char* kTypes[] = {"i8",  "u8",  "i32", "u32", "i64",
                                    "u64", "f16", "f32", "f64", "bf16"};
  constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg"};
  std::string text = wt::str(kKinds[int(o.kind)], " ", kTypes[o.type], " ", o.count);
  if (o.kind == Kind::all_reduce || o.kind == Kind::reduce_scatter)
    text += wt::str(" ", kOps[o.op]);
  if (o.peer >= 0) text += wt::str(" ", o.peer);
  return text;
}

bool agree(const FakeNcclOp& a, const FakeNcclOp& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.peer == b.peer;
}

void fake_nccl_compute(const std::vector<FakeNcclOp*>& parts) {
  const size_t bytes = parts[0]->count * fake_nccl_bytes(parts[0]->type);
  switch (parts[0]->kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return reduce_parts(parts);
    case Kind::all_gather: {
      std::vector<char> all;
      for (const FakeNcclOp* p : parts) {
        const char* in = static_cast<const char*>(p->in);
        all.insert(all.end(), in, in + bytes);
      }
      for (const FakeNcclOp* p : parts) std::memcpy(p->out, all.data(), all.size());
      return;
    }
    case Kind::broadcast: {
      const void* root = parts[size_t(parts[0]->peer)]->in;
      for (const FakeNcclOp* p : parts) std::memmove(p->out, root, bytes);
      return;
    }
    case Kind::send:
    case Kind::recv:
      return;
  }
}

}  // namespace wt_test
