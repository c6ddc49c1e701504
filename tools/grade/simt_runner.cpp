// Launches on simt.
#include "warptape/core/op_info.h"
#include "warptape/kernels/simt/queues.h"
#include "warptape/tools/grade/counts_text.h"
#include "warptape/tools/grade/launchers.h"
#include "warptape/tools/grade/memory.h"
#include "warptape/tools/grade/runner.h"

namespace wt::grade {
namespace {

using namespace simt_runtime;

class SimtRunner final : public Runner {
 public:
  Result launch(const Request& r, const std::vector<std::vector<u8>>& images) override {
    simt_options().order = SimtOrder(r.order);
    simt_options().seed = r.seed;
    const Case& c = r.data;
    void* const stream = lazy() ? own_stream() : nullptr;
    if (r.fresh || !memory_.fits(c)) memory_.make(c, stream);
    const Launcher& l = launcher(c.contract);
    if (const char* why = l.refusal(r.variant, c, memory_.views())) return {Status::refused, why};
    const i64 workspace = l.workspace(r.variant, c, memory_.views());
    if (workspace < 0 || workspace > kMostWorkspace)
      return {Status::memory, str("a workspace of ", workspace, " bytes")};
    memory_.write(images, stream);
    void* const scratch = workspace ? arena_alloc(size_t(workspace), stream) : nullptr;
    if (r.count) simt_start_counting();
    Launch launch;
    launch.op = &op_;
    op_.name = l.contract;
    launch.stream = stream;
    launch.workspace = scratch;
    launch.device = Device::simt();
    l.launch(r.variant, c, memory_.views(), launch);
    memory_.read(images_, stream);
    const std::string text = r.count ? counts_text(simt_stop_counting()) : std::string();
    const bool same = !lazy() || unchanged(stream);
    simt_arena_free(scratch);
    return {same ? Status::done : Status::late, text, &images_};
  }
  void forget() override {
    wait_quietly();
    memory_.drop();
  }

 private:
  void* own_stream() {
    if (!stream_) stream_ = new_queue();
    return stream_;
  }
  // Whether all that is still queued on other streams leaves the operands as they are.
  bool unchanged(void* stream) {
    wait_for_all();
    std::vector<std::vector<u8>> later;
    memory_.read(later, stream);
    return later == images_;
  }

  CaseMemory memory_;
  std::vector<std::vector<u8>> images_;
  void* stream_ = nullptr;
  OpInfo op_{.name = ""};
};

}  // namespace

std::unique_ptr<Runner> make_runner() { return std::make_unique<SimtRunner>(); }

}  // namespace wt::grade
