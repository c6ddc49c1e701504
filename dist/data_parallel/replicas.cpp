#include "warptape/dist/data_parallel/replicas.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/dist/agreement.h"
#include "warptape/optim/arena.h"

namespace wt::dist::detail {

using optim::detail::Arena;
using optim::detail::Arenas;
using optim::detail::Slot;

// --- what a rank is ---

std::string describe_model(const nn::ModuleBase& net, const optim::Optimizer& opt) {
  std::string text;
  for (const nn::NamedTensor& p : net.named_parameters())
    text += str(p.name, " ", p.tensor.shape(), " ", dtype_name(p.tensor.dtype()),
                p.tensor.requires_grad() ? "" : ", frozen", "\n");
  for (const nn::NamedTensor& b : net.named_buffers())
    if (b.tensor.defined())
      text +=
          str("buffer ", b.name, " ", b.tensor.shape(), " ", dtype_name(b.tensor.dtype()), "\n");
  for (const nn::NamedTensor& p : opt.parameters()) text += str("optimized ", p.name, "\n");
  return text;
}

// Without item(), which would throw a bad label of this rank's before the others know of it.
static std::string text_of(const Tensor& scalar) {
  double number = 0;
  i64 count = 0;
  const bool counts = scalar.dtype() == DType::i64;
  void* const to = counts ? static_cast<void*>(&count) : &number;
  copy_bytes(to, Device::cpu(), scalar.impl()->data, scalar.device(), sizeof number);
  return counts ? str(count) : str(number);
}

std::string describe_optimizer(const optim::Optimizer& opt) {
  std::string text;
  for (const nn::NamedTensor& s : opt.state()) {
    const bool scalar = s.tensor.ndim() == 0 && s.name.rfind("optim.", 0) == 0;
    if (scalar && s.name.find("optim.kind.") != 0)
      text += str(s.name, " ", text_of(s.tensor), "\n");
    else
      text += s.name + "\n";
  }
  return text;
}

std::string precision_of(const optim::Optimizer& opt) {
  for (const Arena& a : opt.arenas().all())
    if (a.half) return dtype_name(a.half_dtype);
  return "f32";
}

// --- from rank 0 to all ---

void broadcast_parameters(Communicator& comm, const nn::ModuleBase& net,
                          const optim::Optimizer& opt) {
  const NoGrad no_grad;
  for (const Arena& a : opt.arenas().all()) {
    comm.broadcast(Arenas::flat(a, a.param.get(), a.dtype), 0, Frame{});
    if (a.average) comm.broadcast(Arenas::flat(a, a.average.get(), a.dtype), 0, Frame{});
    // 16-bit copies are of an older version from here on: the next step makes them anew.
    for (const Slot& s : a.slots) s.entry.tensor.impl()->cell->wrote(mode.frame);
  }
  const std::vector<nn::NamedTensor> laid_out = opt.parameters();
  for (const nn::NamedTensor& p : net.named_parameters()) {
    const bool in_arena = std::any_of(laid_out.begin(), laid_out.end(),
                                      [&](const auto& q) { return q.tensor.same_as(p.tensor); });
    if (in_arena) continue;
    Tensor dense = p.tensor.contiguous();
    comm.broadcast(dense, 0, Frame{});
    Tensor to = p.tensor;
    if (!dense.same_as(to)) to.copy_(dense, Frame{});
  }
}

namespace {

using Parts = std::vector<Tensor>;

void share_flat(Communicator& comm, const Parts& parts, Buffers policy) {
  i64 n = 0;
  for (const Tensor& t : parts) n += t.numel();
  const DType dtype = parts.front().dtype();
  const bool averages = policy == Buffers::mean && is_floating(dtype) && computes(dtype);
  Tensor flat = empty({n}, {.dtype = dtype, .device = parts.front().device()}, Frame{});
  const auto each = [&](const auto& f) {
    i64 at = 0;
    for (Tensor t : parts) {
      Tensor part = flat.narrow(0, at, t.numel()).reshape(t.shape());
      f(t, part);
      at += t.numel();
    }
  };
  if (averages || comm.rank() == 0) each([](Tensor& t, Tensor& part) { part.copy_(t, Frame{}); });
  if (averages)
    comm.all_reduce(flat, ReduceOp::mean, Frame{});
  else
    comm.broadcast(flat, 0, Frame{});
  if (averages || comm.rank() != 0) each([](Tensor& t, Tensor& part) { t.copy_(part, Frame{}); });
}

}  // namespace

void share_buffers(Communicator& comm, const nn::ModuleBase& net, Buffers policy) {
  if (comm.size() == 1 || policy == Buffers::each_own) return;
  const NoGrad no_grad;
  const CategoryScope scope(Category::buffer);
  std::map<DType, Parts> by_dtype;
  for (const nn::NamedTensor& b : net.named_buffers())
    if (b.tensor.defined() && comm.takes(b.tensor.device()))
      by_dtype[b.tensor.dtype()].push_back(b.tensor);
  for (const auto& [dtype, parts] : by_dtype) share_flat(comm, parts, policy);
}

// --- replicas compared ---

namespace {

std::vector<u32> checksums(const optim::Optimizer& opt) {
  std::vector<u32> sums;
  for (const Arena& a : opt.arenas().all()) {
    const Tensor values = Arenas::flat(a, a.param.get(), a.dtype).to(Device::cpu(), Frame{});
    const char* const begin = static_cast<const char*>(values.impl()->data);
    for (const Slot& s : a.slots)
      sums.push_back(crc32c(begin + s.offset * item_size(a.dtype),
                            size_t(s.entry.tensor.numel() * item_size(a.dtype))));
  }
  return sums;
}

// Ranks that have something else than most; of equally many, than rank 0.
std::vector<int> minority(const std::vector<u32>& sums) {
  std::map<u32, int> count;
  for (const u32 s : sums) ++count[s];
  u32 usual = sums[0];
  for (const auto& [sum, n] : count)
    if (n > count[usual]) usual = sum;
  std::vector<int> ranks;
  for (size_t r = 0; r < sums.size(); ++r)
    if (sums[r] != usual) ranks.push_back(int(r));
  return ranks;
}

}  // namespace

void check_replicas(Communicator& comm, const optim::Optimizer& opt, i64 step) {
  if (comm.size() == 1) return;
  const NoGrad no_grad;
  const SyncGuard counted(OnSync::allow);
  const std::vector<u32> mine = checksums(opt);
  const size_t n = mine.size(), ranks = size_t(comm.size());
  const std::vector<char> all =
      gather_bytes(comm, {reinterpret_cast<const char*>(mine.data()), n * sizeof(u32)});
  std::string text;
  int first = -1, more = 0;
  size_t i = 0;
  for (const Arena& a : opt.arenas().all())
    for (const Slot& s : a.slots) {
      std::vector<u32> of_ranks(ranks);
      for (size_t r = 0; r < ranks; ++r)
        std::memcpy(&of_ranks[r], all.data() + (r * n + i) * sizeof(u32), sizeof(u32));
      ++i;
      const std::vector<int> other = minority(of_ranks);
      if (other.empty()) continue;
      if (first < 0) {
        first = other.front();
        text = str(s.entry.name, " is another one on ", rank_list(other));
      } else {
        ++more;
      }
    }
  if (first < 0) return;
  throw_disagreement(first, step,
                     str("replicas have drifted apart before step ", step, ": ", text,
                         more ? str(", and ", more, " more parameters differ") : ""));
}

}  // namespace wt::dist::detail
