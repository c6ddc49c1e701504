#include "warptape/bench/gpu/nccl_ranks.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/dist/nccl.h"
#include "warptape/dist/nccl/nccl_api.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"

namespace wt::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Each call is a round: every rank puts its part there as a file and reads the others'.
class FileControl final : public dist::Communicator {
 public:
  explicit FileControl(const NcclRanks& r) : Communicator(r.rank, r.world), folder_(r.folder) {}

  const char* backend() const override { return "files"; }
  bool takes(Device d) const override { return d == Device::cpu(); }
  Communicator& control() override { return *this; }
  void at_step(i64 step) override { step_ = step; }
  void abort(const std::string& reason) noexcept override {
    try {
      write_file_atomically(failure_file(), str("rank ", rank(), " gave up: ", reason));
    } catch (const Error&) {  // the others wait until their deadline
    }
  }
  bool failed() const noexcept override {
    std::error_code error;
    return std::filesystem::exists(failure_file(), error);
  }

  dist::Work start(const dist::Call& call) override {
    using Kind = dist::Call::Kind;
    if (call.kind != Kind::all_gather && call.kind != Kind::broadcast && call.kind != Kind::barrier)
      throw NotAvailable("[files] ranks agree through it and compute nothing");
    std::string own;
    if (call.in.defined())
      own.assign(static_cast<const char*>(call.in.impl()->data),
                 size_t(call.in.numel() * item_size(call.in.dtype())));
    write_file_atomically(file(round_, rank()), own, {.durable = false});
    for (int r = 0; r < size(); ++r) {
      const std::string part = part_of(r);
      if (call.kind == Kind::barrier || (call.kind == Kind::broadcast && r != call.peer)) continue;
      char* const out = static_cast<char*>(call.out.impl()->data);
      const size_t at = call.kind == Kind::all_gather ? size_t(r) * part.size() : 0;
      std::memcpy(out + at, part.data(), part.size());
    }
    ++round_;
    return {};
  }

 private:
  std::string file(i64 round, int r) const { return str(folder_, "/", round, ".", r); }
  std::string failure_file() const { return folder_ + "/failure"; }
  std::string part_of(int r) const {
    const auto until = Clock::now() + deadline();
    const std::string path = file(round_, r);
    for (std::error_code error; !std::filesystem::exists(path, error);) {
      if (failed()) throw PeerFailure("another rank gave up", r, "", step_, "gave up");
      if (Clock::now() > until)
        throw PeerFailure(str("rank ", r, " did not come"), r, "", step_, "late");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
  i64 round_ = 0, step_ = -1;
};

void check(bool good, const std::string& what) {
  if (!good) throw InternalError("nccl: wrong " + what);
}

// Small integers and halves of them: exact whatever the order of the sum.
void check_sums(dist::Communicator& c, Device d) {
  const double r = c.rank(), n = c.size(), sum = n * (n + 1) / 2;
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32}) {
    const Tensor x = full({1001}, r + 1).to(t).to(d);
    c.all_reduce(x);
    check(abs(x.to(DType::f64) - sum).max().item() == 0, str("sum of ", dtype_name(t)));
  }
}

// Gradients of half a batch on each rank, averaged, are those of the whole batch.
void check_gradients(dist::Communicator& c, Device d) {
  nn::Linear net{64, 10};
  {
    const NoGrad no_grad;
    Tensor w = net.weight, b = net.bias;
    w.copy_((remainder(arange(640), 13) / 13.0 - 0.5).reshape({10, 64}));
    b.copy_(zeros({10}));
  }
  net.to(d);
  const i64 rows = 8 * c.size();
  const Tensor x = (remainder(arange(rows * 64), 7) / 7.0).reshape({rows, 64}).to(d);
  const Tensor y = remainder(arange(rows), 10).to(d);
  const auto gradient = [&](const Tensor& in, const Tensor& labels) {
    return grad(cross_entropy(net(in), labels).mean(), Tensor(net.weight));
  };
  const Tensor whole = gradient(x, y);
  const Tensor part = gradient(x.narrow(0, 8 * c.rank(), 8), y.narrow(0, 8 * c.rank(), 8));
  c.all_reduce(part, dist::ReduceOp::mean);
  check(abs(part - whole).max().item() <= 1e-6, "gradients of two ranks");
}

Row time_all_reduce(dist::Communicator& c, Device d, i64 bytes) {
  const Tensor x = zeros({bytes / 4}, {.device = d});
  const auto once = [&] {
    c.all_reduce(x);
    synchronize(d);
  };
  for (int i = 0; i < 3; ++i) once();
  std::vector<double> us;
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    once();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  Row r{.bench = "nccl_all_reduce", .impl = str("warptape, ", c.size(), " ranks on one GPU")};
  r.shape = std::to_string(bytes), r.dtype = "f32";
  r.time = summarize(std::move(us));
  r.bytes = double(bytes);
  r.check = "ok";
  return r;
}

}  // namespace

std::unique_ptr<dist::Communicator> file_control(const NcclRanks& ranks) {
  return std::make_unique<FileControl>(ranks);
}

void nccl_ranks(const NcclRanks& ranks, const std::function<void(const Row&)>& keep) {
  if (const char* why = dist::nccl_why_not()) throw NotAvailable(why);
  const auto comm = dist::nccl_communicator(
      file_control(ranks), ranks.device,
      {.share_device = true, .always = true, .deadline = std::chrono::seconds(30)});
  check_sums(*comm, ranks.device);
  check_gradients(*comm, ranks.device);
  for (const i64 bytes : {i64{4}, i64{1} << 16, i64{1} << 20, i64{25} << 20}) {
    const Row r = time_all_reduce(*comm, ranks.device, bytes);
    if (ranks.rank == 0) keep(r);
  }
  comm->barrier();
}

}  // namespace wt::bench
