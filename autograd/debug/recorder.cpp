#include "warptape/autograd/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "warptape/autograd/node.h"
#include "warptape/autograd/recording.h"
#include "warptape/autograd/result_watch.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profile/transfers.h"
#include "warptape/core/profiler.h"
#include "warptape/core/slices.h"
#include "warptape/core/tensor.h"

namespace wt {

constinit thread_local detail::ResultWatch* detail::result_watch = nullptr;

namespace record {
namespace recorder {

// Grows by whole steps; what a write that failed has left of one is cut off again.
class StepFile {
 public:
  StepFile(const std::string& path, const std::string& header, i64 keep_before) : path_(path) {
    // As tools' AppendFile: no pipe is waited for, no link of a stranger's folder is followed.
    fd_ = detail::file_ops().open(path.c_str(),
                                  O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
    struct stat info;
    if (fd_ < 0 && errno != ELOOP && errno != ENXIO) fail("opening", errno);
    if (fd_ < 0 || ::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      close();
      throw CheckpointError(printable_path(path) + " cannot be written: it is no regular file");
    }
    try {
      begin(header, info.st_size > 0 ? keep_before : 0);
    } catch (...) {
      close();
      throw;
    }
  }
  ~StepFile() { close(); }
  StepFile(const StepFile&) = delete;
  StepFile& operator=(const StepFile&) = delete;

  void append(const std::string& bytes) {
    if (const int error = detail::write_all(fd_, bytes.data(), bytes.size())) {
      cut(size_);  // or the next step would lie behind a part of this one
      fail("writing", error);
    }
    size_ += bytes.size();
  }
  i64 last() const { return last_; }  // number of the newest step that was there

 private:
  void begin(const std::string& header, i64 keep_before) {
    if (keep_before > 0) {
      RecordingFile old(path_);
      Step step;
      for (size_ = old.offset(); old.next(step) && step.number < keep_before;) {
        size_ = old.offset();
        last_ = step.number;
      }
    }
    if (!cut(size_)) fail("cutting it", errno);
    if (size_ == 0) append(header);
  }
  bool cut(u64 size) {
    return detail::file_ops().ftruncate(fd_, i64(size)) == 0 &&
           ::lseek(fd_, off_t(size), SEEK_SET) == off_t(size);
  }
  void close() {
    if (fd_ >= 0) detail::file_ops().close(std::exchange(fd_, -1));
  }
  [[noreturn]] void fail(const char* action, int error) const {
    throw CheckpointError(
        str(printable_path(path_), " cannot be written: ", action, ": ", std::strerror(error)));
  }

  std::string path_;
  u64 size_ = 0;
  i64 last_ = 0;
  int fd_ = -1;
};

// Of the thread that records: the ranges around what it does.
class RangeWatch {
 public:
  virtual ~RangeWatch() = default;
  virtual void began(const profiler::Range& r) noexcept = 0;
  virtual void ended() noexcept = 0;
  virtual void block_changed(const void* storage) noexcept = 0;  // taken or given back
};
static constinit thread_local RangeWatch* range_watch = nullptr;

// One observer for the Recorders of all threads: it outlives each of them, so that the others may
// run operators while one ends.
class SharedObserver : public profiler::Observer {
 public:
  void begin(const profiler::Range& r) noexcept override {
    if (range_watch) range_watch->began(r);
  }
  void end(const profiler::Range&) noexcept override {
    if (range_watch) range_watch->ended();
  }
  void allocated(const profiler::Memory& m) noexcept override {
    if (range_watch) range_watch->block_changed(m.storage);
  }
  void released(const profiler::Memory& m) noexcept override {
    if (range_watch) range_watch->block_changed(m.storage);
  }
};
struct Shared {
  std::mutex m;
  SharedObserver observer;
  std::optional<profiler::ObserverScope> scope;
  int users = 0;
};
static Shared& shared() {
  static Shared s;
  return s;
}
static void join_observer() {
  Shared& s = shared();
  const std::lock_guard lock(s.m);
  if (!s.scope) s.scope.emplace(s.observer);
  ++s.users;
}
static void leave_observer() {
  Shared& s = shared();
  const std::lock_guard lock(s.m);
  if (--s.users == 0) s.scope.reset();
}

class StringTable {
 public:
  u32 number_of(std::string_view text, std::vector<std::string>& strings) {
    const auto at = numbers_.find(std::string(text));
    if (at != numbers_.end()) return at->second;
    strings.emplace_back(text);
    numbers_.emplace(text, u32(strings.size() - 1));
    return u32(strings.size() - 1);
  }
  void clear() { numbers_.clear(); }

 private:
  std::unordered_map<std::string, u32> numbers_;
};

// Digests of the newest results: what a backward hands on is mostly what an operator in it has just
// made, and a reshaped view has the elements of its base in the same order.
class Known {
 public:
  const Digest* find(const TensorImpl* p) const {
    if (!p->geometry.dense) return nullptr;
    for (const Row& r : rows_)
      if (r.data == p->data && r.cell == p->cell && r.version == p->cell->version &&
          r.numel == p->geometry.numel && r.dtype == p->geometry.dtype)
        return &r.digest;
    return nullptr;
  }
  void keep(const TensorImpl* p, const Digest& d) {
    if (!p->geometry.dense) return;
    const Row row{p->storage,        p->data,           p->cell, p->cell->version,
                  p->geometry.numel, p->geometry.dtype, d};
    if (rows_.size() < kRows)
      rows_.push_back(row);
    else
      rows_[next_++ % kRows] = row;
  }
  void forget(const void* storage) {
    std::erase_if(rows_, [&](const Row& r) { return r.storage == storage; });
  }
  void clear() { rows_.clear(); }

 private:
  struct Row {
    const void *storage, *data;
    const VersionCell* cell;
    u32 version;
    i64 numel;
    DType dtype;
    Digest digest;
  };
  static constexpr size_t kRows = 16;
  std::vector<Row> rows_;
  size_t next_ = 0;
};

// Bytes before the first element and in all that the elements lie in.
struct Extent {
  i64 before = 0, bytes = 0;
};
static Extent extent_of(const Geometry& g) {
  if (g.numel == 0) return {};
  i64 low = 0, high = 0;
  for (int d = 0; d < g.ndim; ++d) {
    const i64 far = (g.shape[d] - 1) * g.strides[d];
    (far < 0 ? low : high) += far;
  }
  return {-low * item_size(g.dtype), (high - low + 1) * item_size(g.dtype)};
}

static std::string text_of(const std::exception_ptr& failed) {
  try {
    std::rethrow_exception(failed);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace recorder

class Recorder::Work : public detail::ResultWatch, public recorder::RangeWatch {
 public:
  Work(const std::string& path, const RecorderOptions& o)
      : every_(o.every),
        file_(path, header_bytes({o.rank, o.ranks, o.every, o.label}), o.keep_before),
        last_(file_.last()) {}

  i64 every() const { return every_; }
  bool recording() const { return recording_; }

  void begin(i64 number) {
    if (number <= last_)
      throw UsageError(str("[record] step ", number, " comes after step ", last_));
    if (detail::result_watch)
      throw UsageError("[record] this thread's results are recorded by another Recorder");
    if (mode.capture)
      throw UsageError(
          "[record] what is captured into a graph has no values yet\n  Try the Recorder around an "
          "eager step");
    recorder::join_observer();
    step_ = {};
    step_.number = number;
    strings_.clear();
    open_.clear();
    known_.clear();
    failed_ = nullptr;
    recording_ = true;
    detail::result_watch = this;
    recorder::range_watch = this;
  }
  void end() {
    if (!recording_) return;
    recording_ = false;
    detail::result_watch = nullptr;
    recorder::range_watch = nullptr;
    recorder::leave_observer();
    last_ = step_.number;
    if (failed_)
      throw CheckpointError(
          str("[record] step ", last_, " is not recorded: ", recorder::text_of(failed_)));
    file_.append(step_bytes(step_));
  }

  void note(const std::string& name, const TensorImpl* p) {
    Entry e;
    e.what = What::noted;
    e.op = number_of(name);
    e.inside = e.module = e.line = e.kernel = number_of("");
    add(std::move(e), p);
  }

  void began(const profiler::Range& r) noexcept override {
    guarded([&] {
      if (r.kind == profiler::Kind::kernel) {
        if (r.variant)  // else a graph's replay
          for (Open& o : open_) o.contract = r.name, o.variant = r.variant;
        // An operator says by a version what it writes in place; the engine and backward functions
        // may do without.
        if (open_.empty() || open_.back().range.kind != profiler::Kind::op) known_.clear();
      }
      open_.push_back({r, nullptr, nullptr});
    });
  }
  void ended() noexcept override {
    if (!open_.empty()) open_.pop_back();
  }
  void block_changed(const void* storage) noexcept override { known_.forget(storage); }
  void result(const OpInfo& op, const TensorImpl* out, int k) noexcept override {
    guarded([&] {
      Entry e;
      e.index = u16(k);
      const Open* own = open_.empty() ? nullptr : &open_.back();
      const Open* around = nullptr;  // the innermost backward
      for (const Open& o : open_)
        if (o.range.kind == profiler::Kind::backward) around = &o;
      e.backward = around != nullptr;
      e.op = number_of(op.name);
      e.inside = number_of(around ? around->range.name : "");
      place(e, own ? own->range.frame : mode.frame, mode.id, own);
      add(std::move(e), out);
    });
  }
  void gradient(const Node* n, int i, const TensorImpl* g, bool sum) noexcept override {
    if (sum) known_.forget(g->storage);  // added to in place, perhaps
    guarded([&] {
      Entry e;
      e.what = What::gradient;
      e.backward = true;
      e.sum = sum;
      e.index = u16(i);
      e.op = e.inside = number_of(n->info->name);
      place(e, n->frame, n->mode_id, open_.empty() ? nullptr : &open_.back());
      add(std::move(e), g);
    });
  }

 private:
  struct Open {
    profiler::Range range;
    const char *contract, *variant;  // of the last kernel within
  };

  // The hooks cannot throw: what went wrong first is told at the step's end.
  template <class F>
  void guarded(const F& f) noexcept {
    try {
      f();
    } catch (...) {
      if (!failed_) failed_ = std::current_exception();
    }
  }
  u32 number_of(std::string_view text) { return strings_.number_of(text, step_.strings); }
  void place(Entry& e, FrameId line, u32 mode_id, const Open* own) {
    e.module = number_of(module_path_of(mode_id));
    e.line = number_of(line ? describe_frame(line) : "");
    e.kernel = number_of(own && own->contract ? str(own->contract, ":", own->variant) : "");
  }
  void add(Entry e, const TensorImpl* p) {
    const Device d = device_of(p);
    if (d.is_meta || mode.capture || detail::slices_of(p)) return;
    const Geometry& g = p->geometry;
    e.dtype = g.dtype;
    e.shape.assign(g.shape, g.shape + g.ndim);
    // What an operator has written is new, though it may lie in an rvalue's memory under the same
    // version.
    if (e.what == What::result && !(p->flags & kIsView)) known_.forget(p->storage);
    if (const Digest* same = known_.find(p)) {
      e.digest = *same;
      step_.entries.push_back(std::move(e));
      return;
    }
    const void* data = p->data;
    if (d.kind != DeviceKind::cpu && g.numel > 0) {
      const recorder::Extent x = recorder::extent_of(g);
      if (copy_.size() < size_t(x.bytes)) copy_.resize(size_t(x.bytes));
      const profiler::UnwatchedTransfers ours;
      copy_bytes(copy_.data(), Device::cpu(), static_cast<const char*>(data) - x.before, d,
                 x.bytes);
      data = copy_.data() + x.before;
    }
    e.digest = digest_of(data, g);
    if (e.what == What::result) known_.keep(p, e.digest);
    step_.entries.push_back(std::move(e));
  }

  const i64 every_;
  recorder::StepFile file_;
  i64 last_;
  Step step_;
  recorder::StringTable strings_;
  std::vector<Open> open_;
  recorder::Known known_;
  std::vector<char> copy_;  // of a device's tensor
  bool recording_ = false;
  std::exception_ptr failed_{};
};

Recorder::Recorder(const std::string& path, const RecorderOptions& o) {
  if (o.every < 1) throw UsageError(str("[record] every must be at least 1, got ", o.every));
  work_ = std::make_unique<Work>(path, o);
}
Recorder::~Recorder() { abandon(); }

bool Recorder::counts(i64 step) const { return step == 1 || step % work_->every() == 0; }
void Recorder::begin(i64 step) {
  if (counts(step)) work_->begin(step);
}
void Recorder::end() { work_->end(); }
void Recorder::abandon() noexcept {
  try {
    work_->end();
  } catch (...) {  // who is on the way out has another error to tell
  }
}
void Recorder::note(const std::string& name, const Tensor& t) {
  if (work_->recording() && t.defined()) work_->note(name, t.impl());
}
bool Recorder::recording() const { return work_->recording(); }

bool recording() noexcept { return detail::result_watch != nullptr; }

}  // namespace record
}  // namespace wt
