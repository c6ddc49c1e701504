// Launches on cuda, which is the emulated device of docs/emulator.md: the program that nvcc's
// object is linked into has its runtime. What lies beside an operand needs no canaries there: a
// kernel that comes to it ends.
#include <cuda_runtime_api.h>

#include <cstring>
#include <new>
#include <utility>

#include "warptape/core/op_info.h"
#include "warptape/core/str.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tools/grade/launchers.h"
#include "warptape/tools/grade/runner.h"

namespace wt::grade {
namespace {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();
  if (code == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw KernelError(str(call, ": ", cudaGetErrorString(code)));
}

class Block {
 public:
  explicit Block(size_t bytes = 0) {
    if (bytes) check(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  Block(Block&& b) noexcept : data_(std::exchange(b.data_, nullptr)) {}
  Block& operator=(Block b) noexcept {
    std::swap(data_, b.data_);
    return *this;
  }
  ~Block() {
    if (data_) (void)cudaFree(data_);
  }
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

class CudaRunner final : public Runner {
 public:
  Result launch(const Request& r, const std::vector<std::vector<u8>>& images) override {
    if (!stream_)
      check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    if (r.fresh || !fits(r.data)) make(r.data);
    const Case& c = case_;
    const Launcher& l = launcher(c.contract);
    if (const char* why = l.refusal(r.variant, c, views_)) return {Status::refused, why};
    const i64 workspace = l.workspace(r.variant, c, views_);
    if (workspace < 0 || workspace > kMostWorkspace)
      return {Status::memory, str("a workspace of ", workspace, " bytes")};
    const Block scratch{size_t(workspace)};
    write(images);
    Launch launch;
    launch.op = &op_;
    op_.name = l.contract;
    launch.stream = stream_;
    launch.workspace = scratch.data();
    launch.device = Device::cuda(0);
    l.launch(r.variant, c, views_, launch);
    read();
    return {.images = &images_};
  }
  void forget() override { blocks_.clear(); }

 private:
  bool fits(const Case& c) const {
    return !blocks_.empty() && std::memcmp(&c, &case_, sizeof c) == 0;
  }
  // Operands have blocks of exactly their size, so that the emulator sees what is beyond.
  void make(const Case& c) {
    blocks_.clear();
    case_ = c;
    for (int i = 0; i < c.operands; ++i) {
      const OperandLayout& o = case_.operand[i];
      views_[i] = {};
      blocks_.emplace_back(o.there() ? size_t(o.bytes ? o.bytes : 1) : 0);
      if (o.there()) views_[i] = {blocks_.back().data() + o.begin, &case_.operand[i].geometry};
    }
  }
  void write(const std::vector<std::vector<u8>>& images) {
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (!images[i].empty())
        check(cudaMemcpyAsync(blocks_[i].data(), images[i].data(), images[i].size(),
                              cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
  }
  // Other streams' work is waited for, too: what it does to the operands is then seen.
  void read() {
    images_.assign(blocks_.size(), {});
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const OperandLayout& o = case_.operand[i];
      if (!o.there()) continue;
      images_[i].assign(size_t(o.bytes + 2 * kZoneBytes), kCanary);
      if (o.bytes)
        check(cudaMemcpyAsync(images_[i].data() + kZoneBytes, blocks_[i].data(), size_t(o.bytes),
                              cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  Case case_{};
  std::vector<Block> blocks_;  // empty ones: absent
  View views_[kMostOperands]{};
  std::vector<std::vector<u8>> images_;
  cudaStream_t stream_ = nullptr;
  OpInfo op_{.name = ""};
};

}  // namespace

std::unique_ptr<Runner> make_runner() { return std::make_unique<CudaRunner>(); }

}  // namespace wt::grade
