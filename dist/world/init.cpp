#include "warptape/dist/init.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/frame.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/local.h"
#include "warptape/dist/mpi.h"
#include "warptape/dist/nccl.h"
#include "warptape/dist/tcp.h"

namespace wt::dist {

const char* to_string(Backend b) {
  constexpr const char* kNames[] = {"automatic", "mpi", "local", "nccl", "tcp"};
  return kNames[int(b)];
}

namespace {

// What was asked for, and for the rest what torchrun's variables say.
TcpOptions tcp_options(const InitOptions& o) {
  return torchrun_options({.rank = o.rank,
                           .world_size = o.world_size,
                           .address = o.address,
                           .deadline = o.deadline,
                           .interfaces = o.interfaces,
                           .job = o.job});
}

}  // namespace

std::unique_ptr<Communicator> init(InitOptions options, Frame at) {
  const FrameScope frame(at);
  if (options.backend == Backend::nccl) {
    options.backend = Backend::automatic;
    std::unique_ptr<Communicator> control = init(options, at);
    const Device d = device_for_rank(*control, at);
    if (d.kind != DeviceKind::cuda)
      throw NotAvailable(str("[init] the backend nccl needs a GPU a rank: ", cuda::why_not(),
                             "\n  Try Backend::automatic, and tensors of the cpu"));
    return nccl_communicator(std::move(control), d, {.deadline = options.deadline});
  }
  const Launcher by = launcher();
  const bool told = options.rank >= 0 || options.world_size >= 0 || !options.address.empty();
  Backend backend = options.backend;
  if (backend == Backend::automatic)
    backend = told || by == Launcher::torchrun ? Backend::tcp
              : by == Launcher::mpi            ? Backend::mpi
                                               : Backend::local;
  if (told && backend != Backend::tcp)
    throw UsageError(str("[init] rank, world_size and address are of the backend tcp, not of ",
                         to_string(backend)));
  if (backend == Backend::tcp) return tcp_world(tcp_options(options), at);
  if (backend == Backend::mpi)
    return mpi_world({.deadline = options.deadline, .interfaces = options.interfaces}, at);
  if (launched() && launcher_size() > 1)
    throw UsageError(str("[init] backend local is a world of one, and this process is one of ",
                         launcher_size(),
                         "\n  Try Backend::automatic, or dist::spawn for ranks as threads"));
  auto comm = std::move(local_world(1).front());
  comm->set_deadline(options.deadline);
  return comm;
}

int local_rank() { return launched() ? launcher_local_rank() : 0; }
int local_size() { return launched() ? launcher_local_size() : 1; }

namespace {

i64 hash_of(const std::string& text) {
  const u32 a = crc32c(text.data(), text.size());
  const std::string again = text + "2";
  return i64(u64(a) << 32 | crc32c(again.data(), again.size()));
}

// What each rank says, in their order.
std::vector<GpusOfRank> introduce(Communicator& comm, const GpusOfRank& mine) {
  constexpr i64 kWords = sizeof(GpusOfRank) / sizeof(i64);
  Communicator& control = comm.control();
  const TensorOptions words{.dtype = DType::i64, .device = Device::cpu()};
  const Tensor in = zeros({kWords}, words), out = zeros({kWords * comm.size()}, words);
  std::memcpy(in.mutable_data<i64>(), &mine, sizeof mine);
  control.all_gather(out, in);
  std::vector<GpusOfRank> all(static_cast<size_t>(comm.size()));
  std::memcpy(static_cast<void*>(all.data()), out.data<i64>(), all.size() * sizeof mine);
  return all;
}

}  // namespace

LocalPlace local_place(Communicator& comm) {
  LocalPlace place{0, 0};
  const GpusOfRank mine{.host = hash_of(host_identity())};
  const std::vector<GpusOfRank> all = introduce(comm, mine);
  for (int r = 0; r < comm.size(); ++r) {
    if (all[size_t(r)].host != mine.host) continue;
    ++place.size;
    place.rank += r < comm.rank();
  }
  return place;
}

int choose_gpu(const GpusOfRank* ranks, int size, int rank) {
  i64 most = 0;
  for (int r = 0; r < size; ++r) most = std::max(most, ranks[r].count);
  if (most == 0) return -1;
  int chosen = 0;
  for (int r = 0; r < size; ++r) {
    // Of those that are shown the same GPUs.
    int among = 0, before = 0;
    for (int o = 0; o < size; ++o) {
      if (ranks[o].host != ranks[r].host || ranks[o].visible != ranks[r].visible) continue;
      ++among;
      before += o < r;
    }
    if (among > ranks[r].count)
      throw PlacementError(str("[device_for_rank] a GPU a rank is needed: ", among, " ranks and ",
                               ranks[r].count, " GPUs on the host of rank ", r,
                               "\n  Try fewer ranks a host (mpirun --map-by ppr:",
                               std::max<i64>(ranks[r].count, 1), ":node), or the device cpu"));
    if (r == rank) chosen = before;
  }
  return chosen;
}

Device device_for_rank(Communicator& comm, Frame at) {
  const FrameScope frame(at);
  const char* const shown = std::getenv("CUDA_VISIBLE_DEVICES");
  const GpusOfRank mine{.host = hash_of(host_identity()),
                        .visible = hash_of(shown ? shown : "all"),
                        .count = cuda::device_count()};
  const int gpu = choose_gpu(introduce(comm, mine).data(), comm.size(), comm.rank());
  return gpu < 0 ? Device::cpu() : Device::cuda(gpu);
}

}  // namespace wt::dist
