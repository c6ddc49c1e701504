// Hidden cases of the lab on data parallelism. What is sent, when and in which order is read off a
// world of virtual ranks (virtual_ranks.h); nothing here looks at a clock.
#include <cmath>

#include "ddp.h"
#include "virtual_ranks.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/profiler.h"

using namespace wt;
using dist::Call;
using ranks::Begun;
using ranks::World;
using wt::lab::Draws;
using wt::lab::expect;

namespace {

using Numbers = std::vector<float>;
Numbers values(const Tensor& t) { return t.to_vector<float>(); }
bool same_bits(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// --- 1 ---

struct Reduced {
  std::vector<Numbers> got;
  std::vector<std::vector<Begun>> calls;
};
Reduced reduce(int n, const std::vector<Numbers>& inputs) {
  World world(n);
  Reduced r;
  r.got.resize(size_t(n));
  ranks::run(world, [&](dist::Communicator& comm) {
    const Tensor t = tensor(inputs[size_t(comm.rank())], {.dtype = DType::f32});
    ddp::ring_all_reduce(comm, t);
    r.got[size_t(comm.rank())] = values(t);
  });
  r.calls = world.calls;
  return r;
}

std::vector<Numbers> inputs(Draws& draws, int n, i64 count, bool whole) {
  std::vector<Numbers> all;
  for (int r = 0; r < n; ++r) {
    Numbers v;
    for (i64 i = 0; i < count; ++i)
      v.push_back(whole ? float(draws.whole(-50, 50)) : float(draws.real(-1, 1)));
    all.push_back(v);
  }
  return all;
}

Numbers sum_of(const std::vector<Numbers>& all) {
  Numbers s(all[0].size(), 0.0f);
  for (const Numbers& v : all)
    for (size_t i = 0; i < s.size(); ++i) s[i] += v[i];
  return s;
}

void compare_sums(Draws& draws, int n, i64 count) {
  const std::vector<Numbers> in = inputs(draws, n, count, true);
  const Reduced r = reduce(n, in);
  const Numbers want = sum_of(in);
  for (int rank = 0; rank < n; ++rank)
    wt::lab::expect_close(str("the sum over ", n, " ranks on rank ", rank), r.got[size_t(rank)],
                          want, 0, "parts");
}

}  // namespace

WT_LAB_CASE("the ring: sums of whole numbers, also of sizes that do not divide", 9) {
  compare_sums(draws, 1, 5);
  compare_sums(draws, 2, 8);
  compare_sums(draws, 3, 3 * draws.whole(1, 9));
  for (const int n : {3, 4, 5}) compare_sums(draws, n, draws.whole(6, 60));
  compare_sums(draws, 4, 3);  // a part without elements
  compare_sums(draws, 3, 1);
}

WT_LAB_CASE("the ring: what it sends, to whom, and the same bits everywhere", 21) {
  for (const int n : {2, 4, 5}) {
    const i64 count = draws.whole(100, 200);
    const std::vector<Numbers> in = inputs(draws, n, count, false);
    const Reduced r = reduce(n, in);
    const i64 most = 2 * (n - 1) * ((count + n - 1) / n) * i64(sizeof(float));
    const Numbers want = sum_of(in);
    for (int rank = 0; rank < n; ++rank) {
      i64 bytes = 0, messages = 0, elsewhere = 0;
      for (const Begun& b : r.calls[size_t(rank)]) {
        if (b.kind != Call::Kind::send) continue;
        bytes += b.bytes;
        ++messages;
        elsewhere += b.peer != (rank + 1) % n;
      }
      const std::string who = str("rank ", rank, " of ", n, ", with ", count, " numbers, ");
      expect(bytes <= most, str(who, "sent ", bytes, " bytes, and a ring sends ", most), "bytes");
      expect(elsewhere == 0, str(who, "sent ", elsewhere, " messages to others than the next rank"),
             "bytes");
      expect(messages <= 2 * (n - 1), str(who, "sent ", messages, " messages, not ", 2 * (n - 1)),
             "bytes");
      wt::lab::expect_close(str("the sum on rank ", rank), r.got[size_t(rank)], want, 1e-5,
                            "parts");
      expect(same_bits(r.got[size_t(rank)], r.got[0]),
             str("rank ", rank, " and rank 0 have different bits"), "bits");
    }
  }
}

// --- 2 ---

WT_LAB_CASE("make_buckets: from the end, and within the limit", 7) {
  const auto text = [](const std::vector<std::vector<size_t>>& all) {
    std::string s;
    for (const auto& b : all) {
      s += "[";
      for (const size_t i : b) s += str(s.back() == '[' ? "" : " ", i);
      s += "]";
    }
    return s;
  };
  for (int round = 0; round < 12; ++round) {
    std::vector<i64> bytes;
    for (i64 k = draws.whole(1, 9); k > 0; --k) bytes.push_back(4 * draws.whole(1, 40));
    const i64 limit = 4 * draws.whole(10, 60);
    std::vector<std::vector<size_t>> want;
    i64 room = -1;
    for (size_t i = bytes.size(); i-- > 0; room -= bytes[i]) {
      if (room < bytes[i]) want.emplace_back(), room = limit;
      want.back().push_back(i);
    }
    const auto got = ddp::make_buckets(bytes, limit);
    std::string sizes;
    for (const i64 b : bytes) sizes += str(sizes.empty() ? "" : ", ", b);
    expect(got == want,
           str("of ", sizes, " bytes with a limit of ", limit, " the buckets are ", text(got),
               ", not ", text(want)),
           "buckets");
  }
  expect(ddp::make_buckets({}, 100).empty(), "without parameters there is a bucket", "buckets");
}

// --- 3 ---

namespace {

struct Walked : profiler::Observer {
  void begin(const profiler::Range& r) noexcept override {
    ranks::nodes_walked += r.kind == profiler::Kind::backward;
  }
};

using Loss = std::function<Tensor(int rank, const std::vector<Tensor>& parameters)>;

struct Trained {
  std::vector<std::vector<Numbers>> grads;  // by rank and parameter
  std::vector<std::vector<Begun>> calls;    // by rank
  std::vector<i64> nodes;                   // by rank: of all its backwards
};
// `lasts`: a backward each. The parameters are the same numbers on all ranks.
Trained train(int n, const std::vector<Numbers>& start, const std::vector<Shape>& shapes,
              i64 bucket_bytes, const Loss& loss, const std::vector<bool>& lasts = {true}) {
  World world(n);
  world.sums = true;
  world.stuck_hint = "unreached";
  Trained t;
  t.grads.resize(size_t(n));
  t.nodes.resize(size_t(n));
  Walked walked;
  {
    const profiler::ObserverScope watch(walked);
    ranks::run(world, [&](dist::Communicator& comm) {
      std::vector<Tensor> p;
      for (size_t i = 0; i < start.size(); ++i)
        p.push_back(
            tensor(start[i], {.dtype = DType::f32}).reshape(shapes[i]).clone().requires_grad_());
      const int rank = comm.rank();
      ranks::nodes_walked = 0;
      {
        const auto replica = ddp::make_replica(comm, p, bucket_bytes);
        for (const bool last : lasts) replica->backward(loss(rank, p), last);
      }
      t.nodes[size_t(rank)] = ranks::nodes_walked;
      for (const Tensor& x : p)
        t.grads[size_t(rank)].push_back(x.grad().defined() ? values(x.grad()) : Numbers());
      loss(rank, p).backward();  // no hook of a replica that is gone
    });
  }
  t.calls = world.calls;
  return t;
}

// The mean over ranks of the gradients of `times` backwards, computed by one thread.
std::vector<Numbers> expected(int n, const std::vector<Numbers>& start,
                              const std::vector<Shape>& shapes, const Loss& loss, int times = 1) {
  std::vector<Tensor> p;
  for (size_t i = 0; i < start.size(); ++i)
    p.push_back(tensor(start[i], {.dtype = DType::f32}).reshape(shapes[i]).requires_grad_());
  std::vector<Numbers> mean;
  for (const Numbers& s : start) mean.emplace_back(s.size(), 0.0f);
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<Tensor> g = wt::grads(loss(rank, p), p, {.allow_unused = true});
    for (size_t i = 0; i < g.size(); ++i) {
      if (!g[i].defined()) continue;
      const Numbers v = values(g[i]);
      for (size_t k = 0; k < v.size(); ++k) mean[i][k] += v[k] * float(times) / float(n);
    }
  }
  return mean;
}

void compare_gradients(const Trained& t, const std::vector<Numbers>& want, const char* hint) {
  for (size_t rank = 0; rank < t.grads.size(); ++rank)
    for (size_t i = 0; i < want.size(); ++i) {
      wt::lab::expect_close(str("on rank ", rank, " the gradient of parameter ", i),
                            t.grads[rank][i], want[i], 1e-4, hint);
      expect(
          same_bits(t.grads[rank][i], t.grads[0][i]),
          str("the gradient of parameter ", i, " has other bits on rank ", rank, " than on rank 0"),
          "bits");
    }
}

// A chain of square layers: parameter 0 is used first, so its gradient comes last.
struct Chain {
  std::vector<Numbers> start{};
  std::vector<Shape> shapes{};
  std::vector<Numbers> data{};
  i64 width;
  Chain(Draws& draws, int n, int layers) : width(draws.whole(3, 5)) {
    for (int k = 0; k < layers; ++k) {
      start.push_back(draws.reals(width * width, -1, 1));
      shapes.push_back({width, width});
    }
    for (int r = 0; r < n; ++r) data.push_back(draws.reals(2 * width, -1, 1));
  }
  Tensor input(int rank) const { return tensor(data[size_t(rank)]).reshape({2, width}); }
  Loss loss() const {
    return [this](int rank, const std::vector<Tensor>& p) {
      Tensor x = input(rank);
      for (const Tensor& w : p) x = tanh(matmul(x, w));
      return mean(square(x));
    };
  }
  i64 bytes() const { return width * width * i64(sizeof(float)); }
};

}  // namespace

WT_LAB_CASE("a replica: the mean of all ranks' gradients, each sent once", 12) {
  for (const int n : {1, 3}) {
    const Chain chain(draws, n, 5);
    const Trained t =
        train(n, chain.start, chain.shapes, 2 * chain.bytes(), chain.loss(), {true, true});
    compare_gradients(t, expected(n, chain.start, chain.shapes, chain.loss()), "mean");
    if (n == 1) continue;
    i64 bytes = 0;
    for (const Begun& b : t.calls[0]) bytes += b.bytes;
    expect(t.calls[0].size() == 6,
           str("two backwards with three buckets made ", t.calls[0].size(), " all_reduces, not 6"),
           "once");
    expect(
        bytes == 2 * 5 * chain.bytes(),
        str("two backwards sent ", bytes, " bytes, and the gradients have ", 2 * 5 * chain.bytes()),
        "once");
  }
}

WT_LAB_CASE("a replica: a bucket begins while the backward goes on", 21) {
  const int n = 2;
  const Chain chain(draws, n, 4);
  const Trained t = train(n, chain.start, chain.shapes, chain.bytes(), chain.loss());
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<Begun>& calls = t.calls[size_t(rank)];
    const i64 nodes = t.nodes[size_t(rank)];
    expect(calls.size() == 4, str("four buckets made ", calls.size(), " all_reduces"), "once");
    for (size_t k = 0; k < calls.size(); ++k) {
      const std::string what = str("on rank ", rank, " the all_reduce of bucket ", k);
      // Three nodes a layer at least lie between one bucket's last gradient and the next one's.
      if (k < 3)
        expect(calls[k].nodes < nodes,
               str(what, " began when the whole backward was over, ", nodes,
                   " nodes; the buckets before the last one need not wait"),
               "overlap");
      if (k > 0 && k < 3)
        expect(calls[k].nodes > calls[k - 1].nodes,
               str(what, " began together with the one before it"), "overlap");
      expect(calls[k].waited_nodes >= 0, what + " was never waited for", "wait");
      expect(calls[k].waited_nodes == nodes,
             str(what, " was waited for after ", calls[k].waited_nodes, " of ", nodes, " nodes"),
             "blocks");
    }
  }
  compare_gradients(t, expected(n, chain.start, chain.shapes, chain.loss()), "mean");
}

WT_LAB_CASE("a replica: gradients that come in another order on each rank", 21) {
  const int n = 3;
  const i64 a = draws.whole(4, 8), b = a + draws.whole(1, 4);
  const std::vector<Numbers> start{draws.reals(a, -1, 1), draws.reals(b, -1, 1),
                                   draws.reals(a + b, -1, 1)};
  const std::vector<Shape> shapes{{a}, {b}, {a + b}};
  const double factor = draws.real(1, 2);
  // What is computed last is differentiated first.
  const Loss loss = [=](int rank, const std::vector<Tensor>& p) {
    Tensor total = sum(square(p[size_t(rank) % 3])) * factor;
    total = total + sum(sin(p[size_t(rank + 1) % 3]));
    return total + sum(square(p[size_t(rank + 2) % 3])) * sum(p[size_t(rank) % 3]);
  };
  const Trained t = train(n, start, shapes, 4, loss);
  compare_gradients(t, expected(n, start, shapes, loss), "order");
  for (int rank = 1; rank < n; ++rank) {
    std::vector<i64> mine, zeroth;
    for (const Begun& c : t.calls[size_t(rank)]) mine.push_back(c.bytes);
    for (const Begun& c : t.calls[0]) zeroth.push_back(c.bytes);
    expect(mine == zeroth, str("rank ", rank, " and rank 0 begin the buckets in different orders"),
           "order");
  }
}

WT_LAB_CASE("a replica: parameters that one rank, or nobody, has reached", 9) {
  const int n = 3;
  const std::vector<Numbers> start{draws.reals(4, -1, 1), draws.reals(6, -1, 1),
                                   draws.reals(5, -1, 1), draws.reals(3, -1, 1)};
  const std::vector<Shape> shapes{{4}, {6}, {5}, {3}};
  const int alone = int(draws.whole(0, 2));
  const Loss loss = [=](int rank, const std::vector<Tensor>& p) {
    const Tensor total = sum(square(p[0])) + sum(sin(p[3]));
    return rank == alone ? total + sum(square(p[1])) : total;  // nobody has p[2]
  };
  const Trained t = train(n, start, shapes, 24, loss, {true, true});
  compare_gradients(t, expected(n, start, shapes, loss), "unreached");
}

WT_LAB_CHALLENGE("a replica: three backwards, and only the last one sends") {
  const int n = 2;
  const Chain chain(draws, n, 3);
  const Trained t = train(n, chain.start, chain.shapes, chain.bytes(), chain.loss(),
                          {false, false, true, false, false, true});
  expect(t.calls[0].size() == 6,
         str("twice three backwards made ", t.calls[0].size(), " all_reduces, not 6"), "adds_up");
  compare_gradients(t, expected(n, chain.start, chain.shapes, chain.loss(), 3), "adds_up");
}
