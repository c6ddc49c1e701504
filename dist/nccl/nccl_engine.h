// What a communicator of NCCL's does on the device: streams, events and groups around its calls.
// Internal.
#pragma once
#include <functional>

#include "warptape/dist/nccl.h"
#include "warptape/dist/nccl/nccl_watch.h"

namespace wt::dist {

class NcclEngine {
 public:
  // Of this rank of `control`; connects with the others. Throws DeviceError, PeerFailure.
  NcclEngine(const NcclApi& api, Communicator& control, Device device, const NcclOptions& options,
             const NcclUniqueId& id);
  ~NcclEngine();  // what was begun finishes or is aborted; never waits for ever

  // Of tensors that have elements.
  Work start(const Call& call, std::chrono::milliseconds deadline);
  // Calls `launch`, which queues graphs with calls of this communicator on the current stream.
  void replay(const std::function<void()>& launch, std::chrono::milliseconds deadline);
  // The host waits for what was begun, and for the current stream.
  void wait();
  // Throws the failure that this rank or `control` has seen.
  void check();
  bool failed() const { return failure_->seen(); }
  void fail(const char* operation, const std::string& reason, FrameId where) {
    watch_->fail(operation, reason, where);
  }

 private:
  class Group;
  void connect(const NcclUniqueId& id, std::chrono::milliseconds deadline);
  bool in_graph() const;
  std::shared_ptr<NcclEvent> take_event();
  void append(Group& g, const Call& call);
  void flush();
  void launch(Group& g);
  NcclAnswer queue(const Group& g);
  void keep_stream();

  Communicator& control_;
  const Device device_;
  const StreamBackend* const backend_;
  const std::shared_ptr<NcclFailure> failure_ = std::make_shared<NcclFailure>();
  NcclComm comm_;
  Stream stream_;
  // Events for captures, which making one may spoil. Those that nobody else holds are free.
  std::vector<std::shared_ptr<NcclEvent>> spare_;
  std::shared_ptr<Group> open_;         // sends and receives that have not begun
  std::chrono::milliseconds deadline_;  // of the latest call
  std::unique_ptr<NcclWatch> watch_;
};

}  // namespace wt::dist
