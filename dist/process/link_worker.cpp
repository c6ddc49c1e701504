#include "warptape/dist/process/link_worker.h"

#include "warptape/core/error.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/process_world.h"

namespace wt::dist {

using std::chrono::milliseconds;

LinkWorker::LinkWorker(std::unique_ptr<Link> link, std::unique_ptr<Pulse> pulse)
    : link_(std::move(link)), pulse_(std::move(pulse)), collectives_(*link_) {
  link_->set_pulse(pulse_.get());
}

std::optional<Failure> LinkWorker::failure() const {
  return pulse_ && pulse_->failed() ? pulse_->failure() : std::nullopt;
}

std::shared_ptr<LinkJob> LinkWorker::begin(const Call& c, milliseconds deadline) {
  auto job = std::make_shared<LinkJob>(LinkJob{c, deadline});
  if (!pulse_) {  // nobody to wait for
    carry_out(*job);
    job->done = true;
    return job;
  }
  pulse_->set_deadline(deadline);
  const std::lock_guard lock(mutex_);
  jobs_.push_back(job);
  changed_.notify_all();
  return job;
}

bool LinkWorker::done(const LinkJob& job) {
  const std::lock_guard lock(mutex_);
  return job.done || (pulse_ && pulse_->failed());
}

void LinkWorker::wait(const LinkJob& job) {
  std::unique_lock lock(mutex_);
  // The pulse rings no bell here, and the thread that would may be stuck in the transport.
  while (!job.done && !(pulse_ && pulse_->failed()))
    changed_.wait_for(lock, milliseconds(20), [&] { return job.done; });
  if (!job.done || job.failed)
    throw failure_of(*pulse_->failure(), to_string(job.call.kind), job.call.frame);
}

void LinkWorker::start(const std::shared_ptr<LinkWorker>& self) {
  self->ended_ = false;
  std::thread([self] { self->run(); }).detach();
}

bool LinkWorker::end() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  for (int waits = 0; !ended_ && waits < 20; ++waits) {
    changed_.wait_for(lock, milliseconds(50), [&] { return ended_; });
    if (!pulse_ || !pulse_->failed()) waits = 0;  // every call in it has its deadline
  }
  return ended_;
}

void LinkWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto ready = [&] { return ending_ || !jobs_.empty(); };
    if (link_->all_posted())
      changed_.wait(lock, ready);
    else
      changed_.wait_for(lock, std::chrono::microseconds(200), ready);
    if (jobs_.empty() && ending_) break;
    const std::shared_ptr<LinkJob> job = jobs_.empty() ? nullptr : jobs_.front();
    lock.unlock();
    bool good = true;
    try {
      if (job) {
        carry_out(*job);
      } else {
        link_->posted();
      }
    } catch (const Stopped& s) {
      stopped(s, job ? *job : LinkJob{});
      good = false;
    }
    lock.lock();
    if (job) {
      job->done = true;
      job->failed = !good;
      // What the transport still has is never given back.
      if (good) job->call.in = job->call.out = Tensor();
      jobs_.pop_front();
    }
    changed_.notify_all();
    if (!good) break;
  }
  lock.unlock();
  if (!pulse_->failed()) {
    try {
      link_->set_deadline(PulseClock::now() + pulse_->deadline());
      link_->wait_posted();
    } catch (const Stopped& s) {
      stopped(s, LinkJob{});
    }
  }
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

void LinkWorker::stopped(const Stopped& s, const LinkJob& job) {
  link_->abandon();
  if (s.why == Stopped::failed) return;
  const Call& c = job.call;
  const bool letter = c.kind == Call::Kind::recv;
  std::string what = to_string(c.kind);
  what += letter ? str(" by rank ", link_->rank()) : str(" (collective ", number_, ")");
  if (s.why == Stopped::error) {
    // The pulse knows better what it was, if it was a rank's end.
    pulse_->overdue(number_, -1, str(what, ": ", s.text));
    return;
  }
  pulse_->overdue(number_, letter ? c.peer : -1,
                  str(what, " within ", job.deadline.count(), " ms"));
}

void LinkWorker::carry_out(LinkJob& job) {
  const Call& c = job.call;
  link_->set_deadline(PulseClock::now() + job.deadline);
  if (c.kind == Call::Kind::send) {
    const CallBlock label = block_of(c, 0, pulse_->step());
    link_->post(c.peer, &label, c.in.impl()->data, c.in.numel() * item_size(c.in.dtype()));
  } else if (c.kind == Call::Kind::recv) {
    receive(c);
  } else {
    collective(c);
  }
}

void LinkWorker::collective(const Call& c) {
  ++number_;
  if (pulse_) pulse_->enter(number_);
  const auto m = collectives_.run(c, number_, pulse_ ? pulse_->step() : -1);
  for (int r = 0; r < link_->size() && pulse_; ++r)
    pulse_->heard_step(r, collectives_.blocks()[size_t(r)].step);
  if (m.rank >= 0) {
    pulse_->fail(m.rank, m.step, m.reason);
    throw Stopped{Stopped::failed, ""};
  }
  if (pulse_) pulse_->leave();
}

void LinkWorker::receive(const Call& c) {
  // The first 32 bytes of a block are what a label is.
  CallBlock label;
  link_->read_label(c.peer, &label);
  const CallBlock mine = block_of(c, 0, -1);
  if (label.count != mine.count || label.dtype != mine.dtype) {
    pulse_->fail(c.peer, label.step,
                 str("called ", describe_block(label), " where rank ", link_->rank(), " called ",
                     describe_block(mine)));
    throw Stopped{Stopped::failed, ""};
  }
  link_->exchange(nullptr, 0, 0, c.out.impl()->data, c.out.numel() * item_size(c.out.dtype()),
                  c.peer, {}, Link::Lane::letters);
}

}  // namespace wt::dist
