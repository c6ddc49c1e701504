#include "warptape/bench/allreduce.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"

namespace wt::bench {
namespace {

using Kind = dist::Call::Kind;
using Clock = std::chrono::steady_clock;

constexpr i64 kPeriod = 4099;          // prime: parts of ranks begin anywhere in it
constexpr i64 kSmall = i64{64} << 10;  // bytes; below, a sample is several calls
constexpr int kSmallCalls = 8;

char* bytes_of(const Tensor& t) { return static_cast<char*>(t.impl()->data); }

// Small whole numbers, whose sums are exact in every dtype.
double value(int rank, i64 i, bool is_signed) {
  return double((i % kPeriod * 7 + rank * 3) % 5) - (is_signed ? 2 : 0);
}

// A period of what rank `rank` sends; of the sum of `ranks` ranks for rank -1.
Tensor pattern(int rank, int ranks, DType t) {
  const bool is_signed = t != DType::u8;
  std::vector<double> v(size_t(kPeriod), 0.0);
  for (i64 i = 0; i < kPeriod; ++i) {
    if (rank >= 0) v[size_t(i)] = value(rank, i, is_signed);
    for (int r = 0; rank < 0 && r < ranks; ++r) v[size_t(i)] += value(r, i, is_signed);
    if (!is_signed) v[size_t(i)] = std::fmod(v[size_t(i)], 256);
  }
  return tensor(v).to(t);
}

// Calls visit(place in t, place in the pattern, bytes) for pieces that lie in one period; the
// tensor's element 0 is element `phase` of the pattern.
template <class F>
void in_pieces(const Tensor& t, i64 phase, const F& visit) {
  const i64 item = item_size(t.dtype()), all = t.numel();
  for (i64 i = 0; i < all;) {
    const i64 at = (phase + i) % kPeriod, n = std::min(all - i, kPeriod - at);
    visit(i * item, at * item, size_t(n * item));
    i += n;
  }
}

void fill(const Tensor& t, const Tensor& with, i64 phase) {
  in_pieces(t, phase, [&](i64 to, i64 from, size_t n) {
    std::memcpy(bytes_of(t) + to, bytes_of(with) + from, n);
  });
}

i64 wrong_elements(const Tensor& t, const Tensor& wanted, i64 phase) {
  const size_t item = size_t(item_size(t.dtype()));
  i64 wrong = 0;
  in_pieces(t, phase, [&](i64 is, i64 should, size_t n) {
    const char *const a = bytes_of(t) + is, *const b = bytes_of(wanted) + should;
    if (std::memcmp(a, b, n) == 0) return;
    for (size_t i = 0; i < n; i += item) wrong += std::memcmp(a + i, b + i, item) != 0;
  });
  return wrong;
}

// One collective of one rank over tensors of one size.
class Collective {
 public:
  Collective(const AllReduceOptions& o, dist::Communicator& comm, i64 elements)
      : kind_(o.collective), comm_(comm), elements_(elements) {
    const i64 n = comm.size(), part = elements / n;
    const TensorOptions as{.dtype = o.dtype, .device = Device::cpu()};
    mine_ = pattern(comm.rank(), comm.size(), o.dtype);
    in_ = empty({kind_ == Kind::all_gather ? part : elements}, as);
    if (kind_ == Kind::all_gather) out_ = empty({elements}, as);
    if (kind_ == Kind::reduce_scatter) out_ = empty({part}, as);
  }
  // The tensors as before the first call.
  void reset() const {
    fill(in_, mine_, 0);
    if (out_.defined())
      std::memset(bytes_of(out_), 0x55, size_t(out_.numel() * item_size(out_.dtype())));
  }
  void call() const {
    switch (kind_) {
      case Kind::reduce_scatter:
        return comm_.reduce_scatter(out_, in_);
      case Kind::all_gather:
        return comm_.all_gather(out_, in_);
      case Kind::broadcast:
        return comm_.broadcast(in_);
      default:
        return comm_.all_reduce(in_);
    }
  }
  // Of this rank, after one call.
  i64 errors(bool plant) const {
    const Tensor& result = out_.defined() ? out_ : in_;
    if (plant && result.numel())
      bytes_of(result)[result.numel() * item_size(result.dtype()) - 1] ^= 0x40;
    const DType t = in_.dtype();
    const i64 part = elements_ / comm_.size();
    if (kind_ == Kind::broadcast) return wrong_elements(result, pattern(0, 1, t), 0);
    const i64 phase = kind_ == Kind::reduce_scatter ? comm_.rank() * part : 0;
    if (kind_ != Kind::all_gather)
      return wrong_elements(result, pattern(-1, comm_.size(), t), phase);
    i64 wrong = 0;
    for (int r = 0; r < comm_.size(); ++r)
      wrong += wrong_elements(result.slice(0, {r * part, (r + 1) * part}), pattern(r, 1, t), 0);
    return wrong;
  }

 private:
  Kind kind_;
  dist::Communicator& comm_;
  i64 elements_;
  Tensor mine_, in_, out_;
};

// The largest of each element over the ranks.
std::vector<double> slowest(dist::Communicator& comm, const std::vector<double>& us) {
  const Tensor t = tensor(us);
  comm.control().all_reduce(t, dist::ReduceOp::max);
  return t.to_vector<double>();
}

std::vector<double> timed(dist::Communicator& comm, int samples, int calls,
                          const std::function<void()>& before, const std::function<void()>& work) {
  std::vector<double> us;
  for (int s = 0; s < samples; ++s) {
    before();
    comm.control().barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) work();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls);
  }
  return slowest(comm, us);
}

// 1e9 bytes a second that this rank copies, while all of them do: it ends when the last one has
// ended, for on few processors the ranks copy in turns. Beyond the caches.
double memcpy_gb_s(dist::Communicator& comm, int samples) {
  constexpr int kTimes = 2;
  const size_t bytes = size_t((i64{512} << 20) / std::max(comm.size(), 16));
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const Timing t = summarize(timed(
      comm, samples, 1, [] {},
      [&] {
        for (int i = 0; i < kTimes; ++i) {
          std::memcpy(to.data(), from.data(), bytes);
          std::atomic_signal_fence(std::memory_order_seq_cst);  // each copy is made
        }
        comm.control().barrier();
      }));
  return t.median_us > 0 ? kTimes * double(bytes) / t.median_us * 1e-3 : 0;
}

i64 sum_over_ranks(dist::Communicator& comm, i64 v) {
  const Tensor t = tensor(std::vector<i64>{v});
  comm.control().all_reduce(t);
  return t.item<i64>();
}

// The same on all ranks: processes on several hosts may have room for different ones.
std::vector<i64> sizes(const AllReduceOptions& o, dist::Communicator& comm) {
  const Tensor least = tensor(std::vector<i64>{o.to});
  comm.control().all_reduce(least, dist::ReduceOp::min);
  const i64 to = least.item<i64>();
  std::vector<i64> all;
  for (i64 bytes = o.from; bytes <= to; bytes *= o.factor) {
    all.push_back(bytes);
    if (bytes > to / o.factor) break;
  }
  return all;
}

void check(const AllReduceOptions& o) {
  if (o.from < 1 || o.to < o.from)
    throw UsageError(str("[wt bench allreduce] --from ", o.from, " and --to ", o.to));
  if (o.factor < 2) throw UsageError(str("[wt bench allreduce] --factor ", o.factor, ", not 2"));
}

}  // namespace

double bus_factor(Kind collective, int ranks) {
  const double others = double(ranks - 1) / ranks;
  switch (collective) {
    case Kind::all_reduce:
      return 2 * others;
    case Kind::reduce_scatter:
    case Kind::all_gather:
      return others;
    default:
      return 1;
  }
}

double AllReduceRow::algorithm_gb_s() const {
  return time.median_us > 0 ? double(bytes) / time.median_us * 1e-3 : 0;
}
double AllReduceRow::bus_gb_s(Kind collective) const {
  return algorithm_gb_s() * bus_factor(collective, ranks);
}

i64 allreduce_memory(i64 bytes, int ranks) { return 3 * bytes * ranks; }

i64 measure_allreduce(const AllReduceOptions& o,
                      const std::function<void(const AllReduceRow&)>& each) {
  check(o);
  i64 all_errors = 0;
  for (const dist::Algorithm algorithm : o.algorithms) {
    WorldOptions world = o.world;
    world.algorithm = algorithm;
    on_each_rank(world, [&](dist::Communicator& comm) {
      const double copy = memcpy_gb_s(comm, std::min(o.samples, 5));
      for (const i64 wanted : sizes(o, comm)) {
        const i64 item = item_size(o.dtype), n = comm.size();
        AllReduceRow row;
        row.algorithm = algorithm, row.backend = comm.backend(), row.ranks = comm.size();
        row.elements = std::max(wanted / item / n, i64{1}) * n;
        row.bytes = row.elements * item, row.memcpy_gb_s = copy;
        const Collective c(o, comm, row.elements);
        c.reset();
        c.call();
        const bool plant = o.plant_error && comm.rank() == comm.size() - 1;
        row.errors = sum_over_ranks(comm, c.errors(plant));
        row.time = summarize(timed(
            comm, o.samples, row.bytes <= kSmall ? kSmallCalls : 1, [&] { c.reset(); },
            [&] { c.call(); }));
        if (comm.rank() == 0) all_errors += row.errors, each(row);
      }
      // Every process has to know what rank 0 knows.
      if (ranks_are_processes()) all_errors = sum_over_ranks(comm, comm.rank() ? 0 : all_errors);
    });
  }
  return all_errors;
}

}  // namespace wt::bench
