#include "api/copy_request.h"

#include <cstring>

#include "device/capture.h"

namespace emu {
namespace {

enum class Place : u8 { pageable, pinned, managed, device, wrong };

struct Side {
  Place place = Place::pageable;
  bool host() const { return place == Place::pageable || place == Place::pinned; }
  bool on_device() const { return place == Place::device || place == Place::managed; }
};

Side side_of(const CopyRequest& r, u64 begin, u64 end, const char* what) {
  const Block* b = find_block(begin);
  if (!b) {
    if (!in_device_space(begin) && !in_host_space(begin)) return {Place::pageable};
    note(std::string(r.name) + ": the " + what + " is " + describe_address(begin));
    return {Place::wrong};
  }
  if (end > b->end) {
    // The program's own memory goes on behind a registered part.
    if (b->registered) return {Place::pageable};
    note(std::string(r.name) + ": " + std::to_string(end - begin) + " bytes from " +
         describe_address(begin) + " end behind it");
    return {Place::wrong};
  }
  return {b->kind == BlockKind::device   ? Place::device
          : b->kind == BlockKind::pinned ? Place::pinned
                                         : Place::managed};
}

bool fits(cudaMemcpyKind kind, const Side& to, const Side& from) {
  // Page-locked memory is both sides' by its unified address, pageable memory the host's alone.
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to.place != Place::device && from.place != Place::device;
    case cudaMemcpyHostToDevice:
      return to.place != Place::pageable && from.place != Place::device;
    case cudaMemcpyDeviceToHost:
      return to.place != Place::device && from.place != Place::pageable;
    case cudaMemcpyDeviceToDevice:
      return to.place != Place::pageable && from.place != Place::pageable;
    default:
      return true;
  }
}

const char* text_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "cudaMemcpyHostToHost";
    case cudaMemcpyHostToDevice:
      return "cudaMemcpyHostToDevice";
    case cudaMemcpyDeviceToHost:
      return "cudaMemcpyDeviceToHost";
    default:
      return "cudaMemcpyDeviceToDevice";
  }
}
const char* text_of(Place p) {
  return p == Place::device     ? "device memory"
         : p == Place::pageable ? "memory of the host"
                                : "page-locked memory";
}

struct Sides {
  Side to, from;
};
cudaError_t sides_of(const CopyRequest& r, Sides* sides) {
  const CopyShape& s = r.shape;
  if (unsigned(r.kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (!s.to || !s.from) return cudaErrorInvalidValue;
  if (s.height > 1 && (s.to_pitch < s.width || s.from_pitch < s.width))
    return cudaErrorInvalidPitchValue;
  sides->to = side_of(r, s.to, s.to_end(), "destination");
  sides->from = side_of(r, s.from, s.from_end(), "source");
  if (sides->to.place == Place::wrong || sides->from.place == Place::wrong)
    return cudaErrorInvalidValue;
  if (!fits(r.kind, sides->to, sides->from)) {
    note(std::string(r.name) + " with " + text_of(r.kind) + " from " + text_of(sides->from.place) +
         " to " + text_of(sides->to.place));
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

// What was there is gone from the moment of the call: a host that reads too early sees it.
void poison(const CopyShape& s) {
  for (u64 z = 0; z < s.depth; ++z)
    for (u64 y = 0; y < s.height; ++y)
      std::memset(pointer_to(s.to + z * s.to_slice + y * s.to_pitch), 0xff, s.width);
}

// Devices whose memory a copy on the default stream of another one touches: it comes behind their
// default streams, and before what follows there.
std::vector<StreamRef> peers_of(const Stream& s, const CopyShape& shape) {
  std::vector<StreamRef> peers;
  for (const u64 address : {shape.to, shape.from}) {
    const Block* b = find_block(address);
    if (s.legacy && b && b->kind == BlockKind::device && b->device != s.device)
      peers.push_back(legacy_stream(b->device));
  }
  return peers;
}

}  // namespace

cudaError_t check_copy(const CopyRequest& r) {
  Sides sides;
  return r.shape.bytes() == 0 ? cudaSuccess : sides_of(r, &sides);
}

cudaError_t copy(const CopyRequest& r) {
  if (r.shape.bytes() == 0) return cudaSuccess;
  Sides sides;
  if (const cudaError_t e = sides_of(r, &sides); e != cudaSuccess) return e;
  const StreamRef s = stream_or_note(r.name, r.stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  auto work = std::make_shared<CopyWork>(r.shape);
  const bool to_host = sides.to.host(), from_host = sides.from.host();
  if (s->capture) return put(r.name, s, work);
  if (r.async) {
    const CopyShape& c = r.shape;
    if (sides.from.place == Place::pageable && !to_host) {
      work->take_source();
    } else if (sides.from.place == Place::pinned && !to_host) {
      // Unless work that is queued before it may still fill it.
      if (!pending_on(c.from, c.from_end(), false)) work->watch_source();
    }
    if (sides.to.place == Place::pinned && !from_host && !pending_on(c.to, c.to_end(), true))
      poison(c);
  }
  OpRef op;
  const std::vector<StreamRef> peers = peers_of(*s, r.shape);
  std::vector<OpRef> before;
  for (const StreamRef& p : peers)
    for (const OpRef& o : predecessors(*p)) before.push_back(o);
  if (const cudaError_t e = put(r.name, s, work, &op, std::move(before)); e != cudaSuccess)
    return e;
  for (const StreamRef& p : peers)
    enqueue(*p, std::make_shared<Mark>(WorkKind::join, "copy by a peer"), {op});
  // Within devices even the plain call returns at once; the host's pageable memory is waited for.
  const bool within = !to_host && !from_host && sides.to.place == Place::device;
  const bool waits =
      r.async ? sides.to.place == Place::pageable || (to_host && from_host) : !within;
  if (waits) wait_for(op);
  return cudaSuccess;
}

cudaError_t check_fill(const FillRequest& r) {
  const CopyShape& s = r.shape;
  if (s.bytes() == 0) return cudaSuccess;
  if (s.height > 1 && s.to_pitch < s.width) return cudaErrorInvalidPitchValue;
  const Block* b = find_block(s.to, s.to_end() - s.to);
  if (b) return cudaSuccess;
  note(std::string(r.name) + ": " + std::to_string(s.to_end() - s.to) + " bytes from " +
       describe_address(s.to));
  return cudaErrorInvalidValue;
}

cudaError_t fill(const FillRequest& r) {
  if (r.shape.bytes() == 0) return cudaSuccess;
  if (const cudaError_t e = check_fill(r); e != cudaSuccess) return e;
  const StreamRef s = stream_or_note(r.name, r.stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  OpRef op;
  const cudaError_t e =
      put(r.name, s, std::make_shared<FillWork>(r.shape, r.value, r.element), &op);
  if (e != cudaSuccess || s->capture) return e;
  // A plain fill of device memory returns at once, too.
  if (!r.async && find_block(r.shape.to)->kind != BlockKind::device) wait_for(op);
  return cudaSuccess;
}

bool shape_of(const cudaMemcpy3DParms& p, CopyShape* s) {
  if (p.srcArray || p.dstArray) {
    note("copies of arrays are not emulated");
    return false;
  }
  const auto at = [](const cudaPitchedPtr& x, const cudaPos& o) {
    return address_of(x.ptr) + o.z * x.pitch * x.ysize + o.y * x.pitch + o.x;
  };
  s->to = at(p.dstPtr, p.dstPos);
  s->from = at(p.srcPtr, p.srcPos);
  s->width = p.extent.width;
  s->height = p.extent.height;
  s->depth = p.extent.depth;
  s->to_pitch = p.dstPtr.pitch;
  s->to_slice = p.dstPtr.pitch * p.dstPtr.ysize;
  s->from_pitch = p.srcPtr.pitch;
  s->from_slice = p.srcPtr.pitch * p.srcPtr.ysize;
  return true;
}

}  // namespace emu
