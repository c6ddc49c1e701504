// Stream-ordered allocation. An address is given at the call; the operation of the allocation, and
// that of the free, count as writes of the whole block, so that a use which no order puts between
// them is found. Pools are names: every one takes from the device's memory.
#include <algorithm>
#include <cstring>

#include "api/api.h"

using namespace emu;

namespace {

constexpr u64 kShadowed = u64(4) << 20;  // larger blocks are noted in part: the shadow costs memory

void note_whole(const QueuedOp& op, u64 address) {
  const Block* b = find_block(address);
  if (!b) return;
  Conflict c;
  if (!note_range(op, address, std::min(b->bytes(), kShadowed), true, &c))
    finding(name_of(op) + " while another operation uses it, and nothing orders them",
            describe_address(address) + "\n  " + describe_op(&op) + "\n  the other is " +
                describe_op(c.other));
}

struct TakeWork : Work {
  TakeWork(u64 a, bool g) : Work(WorkKind::take), address(a), of_graph(g) {}
  void run(QueuedOp& op) override {
    note_whole(op, address);
    const Block* b = find_block(address);
    // Each launch of a graph finds new memory, at the old place.
    if (of_graph && b) std::memset(pointer_to(b->begin + u64(b->alias)), 0xff, b->bytes());
    op.nanoseconds = 500;
  }
  std::string name() const override { return "cudaMallocAsync"; }
  const u64 address;
  const bool of_graph;
};

struct GiveWork : Work {
  GiveWork(u64 a, bool g) : Work(WorkKind::give), address(a), of_graph(g) {}
  void run(QueuedOp& op) override {
    note_whole(op, address);
    if (!of_graph) free_block(address);
    op.nanoseconds = 500;
  }
  std::string name() const override { return "cudaFreeAsync"; }
  const u64 address;
  const bool of_graph;
};

struct Pool {
  int device = 0;
  u64 attributes[16] = {};
  bool is_default = false;
};
struct Pools {
  Handles<Pool, 0x56> handles;
  void* standard[16] = {};
  void* current[16] = {};
  void* of(int device) {
    void*& at = standard[device];
    if (!at) {
      auto p = std::make_shared<Pool>();
      p->device = device;
      p->is_default = true;
      at = handles.add(p);
      current[device] = at;
    }
    return at;
  }
  void* current_of(int device) {
    of(device);
    return current[device];
  }
};
Pools& pools() {
  static Pools* p = new Pools;
  return *p;
}
bool exists(int device) { return device >= 0 && device < device_count(); }

cudaError_t take_async(void** pointer, size_t bytes, int device, cudaStream_t stream) {
  const StreamRef s = stream_or_note("cudaMallocAsync", stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Block* b = take_block(BlockKind::device, device, bytes);
  if (!b) return cudaErrorMemoryAllocation;
  b->pooled = true;
  b->of_graph = s->capture != nullptr;
  *pointer = pointer_to(b->begin);
  return put("cudaMallocAsync", s, std::make_shared<TakeWork>(b->begin, b->of_graph));
}

cudaError_t with_pool(const char* name, cudaMemPool_t handle, auto&& f) {
  return call(name, [&] {
    const auto p = pools().handles.find(handle);
    return p ? f(*p) : cudaErrorInvalidValue;
  });
}

}  // namespace

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return call("cudaMallocAsync",
              [&] { return take_async(pointer, bytes, current_device(), stream); });
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return with_pool("cudaMallocFromPoolAsync", pool,
                   [&](Pool& p) { return take_async(pointer, bytes, p.device, stream); });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call("cudaFreeAsync", [&] {
    const StreamRef s = stream_or_note("cudaFreeAsync", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!pointer) return cudaSuccess;
    Block* b = block_at(address_of(pointer));
    if (!b || b->kind != BlockKind::device || b->freeing || b->internal) {
      finding("cudaFreeAsync of a pointer that is none",
              describe_address(address_of(pointer)) + "\n  called" + describe(CallSite::here()));
      return cudaErrorInvalidValue;
    }
    b->freeing = !b->of_graph;
    return put("cudaFreeAsync", s, std::make_shared<GiveWork>(b->begin, b->of_graph));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetDefaultMemPool", [&] {
    if (!pool || !exists(device)) return cudaErrorInvalidValue;
    *pool = static_cast<cudaMemPool_t>(pools().of(device));
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetMemPool", [&] {
    if (!pool || !exists(device)) return cudaErrorInvalidValue;
    *pool = static_cast<cudaMemPool_t>(pools().current_of(device));
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return with_pool("cudaDeviceSetMemPool", pool, [&](Pool& p) {
    if (!exists(device) || p.device != device) return cudaErrorInvalidValue;
    pools().of(device);
    pools().current[device] = pool;
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return call("cudaMemPoolCreate", [&] {
    if (!pool || !props || props->location.type != cudaMemLocationTypeDevice ||
        !exists(props->location.id))
      return cudaErrorInvalidValue;
    auto p = std::make_shared<Pool>();
    p->device = props->location.id;
    *pool = static_cast<cudaMemPool_t>(pools().handles.add(p));
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return with_pool("cudaMemPoolDestroy", pool, [&](Pool& p) {
    if (p.is_default) return cudaErrorInvalidValue;
    if (pools().current[p.device] == pool) pools().current[p.device] = pools().of(p.device);
    pools().handles.remove(pool);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return with_pool("cudaMemPoolTrimTo", pool, [](Pool&) { return cudaSuccess; });
}

// Integers for switches, 64 bits for sizes; of use is what is taken from the device.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return with_pool("cudaMemPoolSetAttribute", pool, [&](Pool& p) {
    if (!value || unsigned(attribute) >= 16) return cudaErrorInvalidValue;
    const bool wide = attribute >= cudaMemPoolAttrReleaseThreshold;
    std::memcpy(&p.attributes[attribute], value, wide ? 8 : 4);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return with_pool("cudaMemPoolGetAttribute", pool, [&](Pool& p) {
    if (!value || unsigned(attribute) >= 16) return cudaErrorInvalidValue;
    const bool wide = attribute >= cudaMemPoolAttrReleaseThreshold;
    u64 x = p.attributes[attribute];
    if (attribute > cudaMemPoolAttrReleaseThreshold) {
      x = 0;
      for_each_block([&](Block& b) { x += b.pooled && b.device == p.device ? b.bytes() : 0; });
    }
    std::memcpy(value, &x, wide ? 8 : 4);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count) {
  return with_pool("cudaMemPoolSetAccess", pool, [&](Pool& p) {
    for (size_t i = 0; i < count; ++i) {
      if (!list || !exists(list[i].location.id)) return cudaErrorInvalidValue;
      if (list[i].location.id != p.device)
        set_peer_access(list[i].location.id, p.device, list[i].flags != cudaMemAccessFlagsProtNone);
    }
    return cudaSuccess;
  });
}
