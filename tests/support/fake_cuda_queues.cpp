// What is queued on the streams of the fake, and how it runs.
#include "warptape/core/str.h"
#include "warptape/tests/support/fake_cuda.h"

namespace wt_test {

using namespace wt;

void FakeCuda::check_range(const void* p, size_t bytes, const char* what) {
  auto it = device_memory_.upper_bound(static_cast<const char*>(p));
  if (it != device_memory_.begin()) {
    --it;
    if (static_cast<const char*>(p) + bytes <= it->first + it->second) return;
  }
  complain(str(what, ": not live device memory"));
}

void* FakeCuda::queue_of(void* stream) const {
  return stream ? stream : const_cast<char*>(&defaults_[size_t(device())]);
}
void FakeCuda::push(void* stream, Work w) {
  stream = queue_of(stream);
  if (Capture* c = capture_of(stream)) {
    if (stream != c->stream) c->joined[stream] = false;
    c->work.push_back(std::move(w));
    return;
  }
  if (w.make) {
    Kernel k = w.make();
    w.run = std::move(k.run);
    w.ready = std::move(k.ready);
  }
  streams_[stream].work.push_back(std::move(w));
}
void FakeCuda::queue(void* stream, std::function<Kernel()> make) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  push(stream, {.run = nullptr, .waits_for = nullptr, .make = std::move(make)});
}
std::string FakeCuda::name_of(void* p) {
  if (!p || (p >= defaults_.data() && p < defaults_.data() + defaults_.size())) return "default";
  std::string& name = names_[p];
  if (name.empty()) {
    int n = 1;
    const char kind = made_streams_.count(p) ? 's' : 'e';
    for (const auto& [other, text] : names_) n += !text.empty() && text[0] == kind;
    name = str(kind, n);
  }
  return name;
}

void FakeCuda::run(void* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  Stream& s = streams_[queue_of(stream)];
  if (s.running) return;  // it waits for what waits for it
  s.running = true;
  while (!s.work.empty()) {
    const std::shared_ptr<Mark> mark = s.work.front().waits_for;
    if (mark && !mark->passed) run(mark->stream);
    if (mark && !mark->passed) break;
    if (s.work.front().ready && !s.work.front().ready()) break;
    const Work w = std::move(s.work.front());
    s.work.pop_front();
    w.run();
  }
  s.running = false;
}
void FakeCuda::run_all() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  for (auto& [stream, s] : streams_) run(stream);
}
size_t FakeCuda::queued(void* stream) const {
  const auto it = streams_.find(queue_of(stream));
  return it == streams_.end() ? 0 : it->second.work.size();
}
size_t FakeCuda::queued() const {
  size_t n = 0;
  for (const auto& [stream, s] : streams_) n += s.work.size();
  return n;
}

}  // namespace wt_test
