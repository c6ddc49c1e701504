#include "warptape/dist/nccl.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/nccl/nccl_engine.h"
#include "warptape/kernels/cuda/api.h"

namespace wt::dist {
namespace {

// --- what ranks tell each other before they connect ---
struct RankPlace {
  char host[64];
  char gpu[96];    // equal on two ranks: they share it
  char index[16];  // "cuda:0"
  char why_not[512];
  int version;
};

template <size_t n>
void put(char (&to)[n], const std::string& text) {
  std::strncpy(to, text.c_str(), n - 1);
  to[n - 1] = 0;
}

// The chip's own number, which CUDA_VISIBLE_DEVICES and containers leave as it is.
std::string identity_of(Device d, const std::string& host) {
  using GetUuid = int (*)(char* sixteen, int device);  // cuDeviceGetUuid_v2
  const CudaApi* api = cuda_api();
  if (void* function = api ? api->driver_function("cuDeviceGetUuid_v2") : nullptr) {
    char bytes[16];
    if (reinterpret_cast<GetUuid>(function)(bytes, d.index) == kCudaSuccess) {
      std::string hex;
      for (const char c : bytes)
        for (const int digit : {u8(c) >> 4, u8(c) & 15}) hex += "0123456789abcdef"[digit];
      return hex;
    }
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return str(host, " ", visible ? visible : "all", " ", int(d.index));
}

RankPlace own_place(Device d, bool needs_nccl) {
  RankPlace p{};
  gethostname(p.host, sizeof p.host - 1);
  put(p.index, to_string(d));
  try {
    require_available(d);
    put(p.gpu, identity_of(d, p.host));
    if (const char* why = needs_nccl ? nccl_why_not() : nullptr)
      put(p.why_not, str("NCCL is not there: ", why));
    else if (needs_nccl)
      nccl_api()->version(&p.version);
  } catch (const Error& e) {
    put(p.why_not, e.what());
  }
  return p;
}

// Bytes of each rank, in their order.
template <class T>
std::vector<T> gathered(Communicator& control, T own) {
  std::vector<T> all(static_cast<size_t>(control.size()));
  const i64 bytes = i64(sizeof(T));
  const Tensor in = from_blob(&own, {bytes}, borrow, {.dtype = DType::u8});
  const Tensor out = from_blob(all.data(), {bytes * control.size()}, borrow, {.dtype = DType::u8});
  const NoGrad none;
  control.all_gather(out, in);
  return all;
}

bool may_share(const NcclOptions& o) {
  const char* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return o.share_device || (text && std::strcmp(text, "1") == 0);
}

void check_places(const std::vector<RankPlace>& all, int rank, bool share) {
  const RankPlace& own = all[size_t(rank)];
  if (*own.why_not) throw NotAvailable(str("[nccl_communicator] rank ", rank, ": ", own.why_not));
  for (size_t r = 0; r < all.size(); ++r) {
    const RankPlace& p = all[r];
    if (*p.why_not)
      throw NotAvailable(str("[nccl_communicator] rank ", r, " on ", p.host, ": ", p.why_not));
    if (p.version != all[0].version)
      throw NotAvailable(
          str("[nccl_communicator] ranks have different versions of NCCL: rank 0 has ",
              nccl_version_text(all[0].version), ", rank ", r, " on ", p.host, " has ",
              nccl_version_text(p.version)));
    for (size_t before = 0; before < r && !share; ++before)
      if (std::strcmp(all[before].gpu, p.gpu) == 0)
        throw UsageError(str("[nccl_communicator] ranks ", before, " and ", r,
                             " are on one GPU, and each needs its own: ", p.index, " of ", p.host,
                             "\n  Try fewer ranks, or a device for each: cuda:LOCAL_RANK"));
  }
}

// --- the communicator ---
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, Device device, const NcclOptions& options)
      : Communicator(control.rank(), control.size()),
        control_(control),
        device_(device),
        options_(options) {
    set_deadline(options.deadline);
    const bool alone = size() == 1 && !options.always;
    control_.set_deadline(options.deadline);
    check_places(gathered(control_, own_place(device, !alone)), rank(), may_share(options));
    if (alone) return;
    NcclUniqueId id{};
    std::string error;
    if (rank() == 0) {
      if (const int result = nccl_api()->unique_id(&id); result != kNcclSuccess)
        error = str("[nccl_communicator] ncclGetUniqueId: ", nccl_api()->error_text(result), " (",
                    nccl_api()->last_error(nullptr), ")");
    }
    if (!error.empty()) {
      control_.abort(error);
      throw DeviceError(error);
    }
    const NoGrad none;
    control_.broadcast(from_blob(&id, {i64(sizeof id)}, borrow, {.dtype = DType::u8}), 0);
    engine_ = std::make_unique<NcclEngine>(*nccl_api(), control_, device, options, id);
  }

  const char* backend() const override { return "nccl"; }
  bool takes(Device d) const override { return d == device_; }
  Communicator& control() override { return control_; }
  void at_step(i64 step) override { control_.at_step(step); }
  void abort(const std::string& reason) noexcept override { control_.abort(reason); }
  bool failed() const noexcept override {
    return control_.failed() || (engine_ && engine_->failed());
  }
  bool captures() const override { return true; }
  void replay(const std::function<void()>& launch) override {
    check();
    engine_ ? engine_->replay(launch, deadline()) : launch();
  }
  Work start(const Call& call) override;
  std::unique_ptr<Communicator> make_group(const Group& g) override {
    auto control = control_.make_group(g);
    control->set_deadline(deadline());
    return with_control(std::move(control), device_, options_);
  }

  static std::unique_ptr<Communicator> with_control(std::unique_ptr<Communicator> control,
                                                    Device device, const NcclOptions& options) {
    auto made = std::make_unique<NcclCommunicator>(*control, device, options);
    made->own_control_ = std::move(control);
    return made;
  }

 private:
  void check() {
    if (engine_)
      engine_->check();
    else
      check_control(control_);
  }
  void barrier();
  void compare(const Call& call);

  Communicator& control_;
  const Device device_;
  const NcclOptions options_;
  std::unique_ptr<Communicator> own_control_;  // control_, where nobody else keeps it
  std::unique_ptr<NcclEngine> engine_;         // null: a world of one that asks nobody
};

Work NcclCommunicator::start(const Call& call) {
  check();
  if (options_.check_calls && call.kind != Call::Kind::send && call.kind != Call::Kind::recv)
    compare(call);
  if (call.kind == Call::Kind::barrier) {
    barrier();
    return {};
  }
  if (call.in.numel() == 0 && call.out.numel() == 0) return {};
  if (engine_) return engine_->start(call, deadline());
  // Of one rank every collective is a copy.
  void* out = call.out.impl()->data;
  const void* in = call.in.impl()->data;
  if (in != out)
    copy_bytes(out, device_, in, device_, call.in.numel() * item_size(call.in.dtype()));
  return {};
}

void NcclCommunicator::barrier() {
  wt::detail::before_wait("barrier", device_);
  if (engine_)
    engine_->wait();
  else
    synchronize(device_);
  control_.set_deadline(deadline());
  control_.barrier();
}

void NcclCommunicator::compare(const Call& call) {
  const NcclCallNote own = NcclCallNote::of(call);
  control_.set_deadline(deadline());
  const std::vector<NcclCallNote> all = gathered(control_, own);
  for (size_t r = 1; r < all.size(); ++r) {
    const NcclCallNote &a = all[0], &b = all[r];
    if (a.kind == b.kind && a.op == b.op && a.dtype == b.dtype && a.peer == b.peer &&
        a.numel == b.numel)
      continue;
    const std::string reason =
        str("ranks call different things: rank 0 ", to_string(a), ", rank ", r, " ", to_string(b));
    if (engine_) engine_->fail(to_string(own.kind), reason, own.frame);
    check();
  }
}

}  // namespace

namespace {
void check_cuda(Device device) {
  if (device.kind != DeviceKind::cuda || device.is_meta)
    throw PlacementError(
        str("[nccl_communicator] NCCL is for cuda devices, got ", to_string(device)));
}
}  // namespace

std::unique_ptr<Communicator> nccl_communicator(Communicator& control, Device device,
                                                const NcclOptions& options) {
  check_cuda(device);
  return std::make_unique<NcclCommunicator>(control, device, options);
}

std::unique_ptr<Communicator> nccl_communicator(std::unique_ptr<Communicator> control,
                                                Device device, const NcclOptions& options) {
  check_cuda(device);
  return NcclCommunicator::with_control(std::move(control), device, options);
}

std::string describe_transport(const Communicator& nccl) {
  if (nccl.size() == 1 && !nccl_api()) return "NCCL: not needed by one rank";
  return str("NCCL ", describe_nccl(), "; NCCL_DEBUG=INFO shows the transport it takes");
}

}  // namespace wt::dist
