// What CUPTI's records say of one profile: times of launches, and what the device did beside them.
// Internal.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "warptape/core/cupti/session.h"
#include "warptape/core/graph/graph_kernels.h"
#include "warptape/core/profile/data.h"

namespace wt::profiler {

class DeviceRecords final : public cupti::Sink {
 public:
  // For a run of the recorder with this number, of at most so many records.
  void start(u64 run, i64 most);
  // Asks CUPTI. Not within a capture.
  cupti::Started turn_on();
  // Around a range, on its thread: what is queued inside of it is tied to it.
  void push(u32 id) { cupti::push(external_kind_, run_ << 32 | id); }
  void pop() { cupti::pop(external_kind_); }
  // The range `id` queues on this stream.
  void uses(Device d, void* stream);
  // The range `id` replays a graph.
  void replays(u32 id, std::shared_ptr<const wt::detail::GraphKernels> kernels);
  // For all that was queued on those streams, and for its records.
  void wait();
  // Times of kernels' ranges, on the host's clock. Work that is no kernel's range of its own is an
  // event of its own behind the others, with numbers from `next_id` on.
  void fill_in(Profile::Data& d, u32 next_id);
  void stop();

  void did(const cupti::Record& r) noexcept override;
  void called(u32 external_kind, u64 id, u32 correlation) noexcept override;
  void lost(i64 records) noexcept override;

 private:
  struct Call {
    u32 correlation = 0, id = 0;
  };

  u64 run_ = 0;
  size_t most_ = 0;
  u32 external_kind_ = 0;
  bool on_ = false;
  cupti::Moment first_{}, last_{};
  std::mutex mutex_{};
  std::vector<cupti::Record> records_{};  // rings of the newest
  std::vector<Call> calls_{};
  size_t oldest_record_ = 0, oldest_call_ = 0;
  i64 lost_ = 0;
  std::vector<std::pair<Device, void*>> streams_{};
  std::unordered_map<u32, std::shared_ptr<const wt::detail::GraphKernels>> replays_{};
};

}  // namespace wt::profiler
