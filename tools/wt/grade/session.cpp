#include "warptape/tools/wt/grade/session.h"

#include <algorithm>

#include "warptape/core/error.h"

namespace wt::grade {
namespace {

// The executor reserves 64 GiB of address space for device memory; asan and race as much again for
// what they note down, so there only what is resident is watched.
constexpr i64 kGiB = i64{1} << 30;
constexpr u32 kMostText = 1u << 24;

// The emulator draws the order of streams, blocks and warps from the seed. What it finds it prints.
void emulate(const Session::Start& s, confined::Process::Start& p) {
  p.environment.insert(p.environment.end(),
                       {"WT_EMU_MEMORY=1g", str("WT_EMU_STREAMS=lazy:", s.seed)});
  if (s.trace) p.environment.push_back("WT_EMU_TRACE=-");
  p.limits.address_space = 0;
  p.limits.file_bytes = i64{8} << 20;
}

confined::Process::Start process_of(const Session::Start& s) {
  confined::Process::Start p{.command = {s.program}, .folder = s.folder};
  p.pipes = true;
  p.environment = {"LC_ALL=C", "OMP_NUM_THREADS=1",
                   "ASAN_OPTIONS=detect_leaks=0:symbolize=0:protect_shadow_gap=0:exitcode=66:"
                   "allocator_may_return_null=1",
                   "UBSAN_OPTIONS=print_stacktrace=0"};
  if (s.lazy) p.environment.push_back(str("WT_SIMT_STREAMS=lazy:", s.seed));
  // Host code that touches device memory faults, as it would on a GPU.
  if (!s.lazy && s.flavour == Flavour::plain) p.environment.push_back("WT_SIMT_PROTECT=1");
  p.limits = {.cpu_seconds = s.cpu_seconds,
              .memory = kGiB,
              .address_space = s.flavour == Flavour::plain ? 70 * kGiB : 0,
              .confined = true};
  if (s.flavour == Flavour::nvcc) emulate(s, p);
  return p;
}

}  // namespace

Session::Session(const Start& start) : start_(start), process_(process_of(start)) {}

Session::Reply Session::list() { return ask({.ask = Ask::list}, nullptr); }

Session::Reply Session::launch(const Request& request, const std::vector<std::vector<u8>>& images) {
  return ask(request, &images);
}

confined::Ended Session::finish() {
  return process_.wait(std::min(start_.deadline, confined::Clock::now() + std::chrono::seconds(5)));
}

Session::Reply Session::ask(const Request& request, const std::vector<std::vector<u8>>* images) {
  Reply reply;
  bool sent = process_.send(&request, sizeof request, start_.deadline);
  if (images)
    for (const std::vector<u8>& image : *images)
      sent = sent && process_.send(image.data(), image.size(), start_.deadline);
  // It may have said why it ends before it has read everything.
  if (take(reply, request)) return reply;
  reply = {};
  reply.ended =
      process_.wait(std::min(start_.deadline, confined::Clock::now() + std::chrono::seconds(2)));
  reply.text = process_.output();
  return reply;
}

bool Session::take(Reply& reply, const Request& request) {
  Answer a;
  if (!process_.receive(&a, sizeof a, start_.deadline)) return false;
  if (a.status > Status::late || a.text_bytes > kMostText) return false;
  reply.text.resize(a.text_bytes);
  if (!process_.receive(reply.text.data(), reply.text.size(), start_.deadline)) return false;
  const bool launched =
      request.ask == Ask::launch && (a.status == Status::done || a.status == Status::late);
  if (launched != (a.images != 0)) return false;  // no answer of the runner's
  reply.status = a.status;
  if (!launched) return true;
  for (int i = 0; i < request.data.operands; ++i) {
    reply.images.emplace_back();
    const OperandLayout& o = request.data.operand[i];
    if (!o.there()) continue;
    reply.images.back().resize(size_t(o.bytes + 2 * kZoneBytes));
    if (!process_.receive(reply.images.back().data(), reply.images.back().size(), start_.deadline))
      return false;
  }
  return true;
}

}  // namespace wt::grade
