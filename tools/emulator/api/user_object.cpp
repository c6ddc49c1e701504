// Objects of the program that graphs keep alive.
#include "api/graph_nodes.h"

using namespace emu;

namespace {

// References of the program and of graphs; the last one that goes calls the program's function.
struct UserObject {
  void* pointer = nullptr;
  cudaHostFn_t destroy = nullptr;
  ~UserObject() { destroy(pointer); }
};
struct Held {
  std::shared_ptr<UserObject> object;
  unsigned count = 0;
};
Handles<Held, 0x57>& objects() {
  static auto* all = new Handles<Held, 0x57>;
  return *all;
}

template <class F>
cudaError_t with_object(const char* name, cudaUserObject_t handle, unsigned count, F&& f) {
  return call(name, [&] {
    const auto held = objects().find(handle);
    return held && count ? f(held) : cudaErrorInvalidValue;
  });
}

}  // namespace

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned count, unsigned) {
  return call("cudaUserObjectCreate", [&] {
    if (!object || !destroy || !count) return cudaErrorInvalidValue;
    auto o = std::make_shared<UserObject>();
    o->pointer = pointer;
    o->destroy = destroy;
    auto held = std::make_shared<Held>();
    held->object = std::move(o);
    held->count = count;
    *object = static_cast<cudaUserObject_t>(objects().add(std::move(held)));
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return with_object("cudaUserObjectRetain", object, count, [&](const auto& held) {
    held->count += count;
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return with_object("cudaUserObjectRelease", object, count, [&](const auto& held) {
    if (count > held->count) return cudaErrorInvalidValue;
    if ((held->count -= count) == 0) {
      held->object = nullptr;  // a graph may have it still
      objects().remove(object);
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return with_object("cudaGraphRetainUserObject", object, count, [&](const auto& held) {
    const GraphRef g = find_graph(graph);
    if (!g) return cudaErrorInvalidValue;
    for (unsigned i = 0; i < count; ++i) g->kept.push_back(held->object);
    // The program's references become the graph's.
    if (flags & cudaGraphUserObjectMove) {
      if (count > held->count) return cudaErrorInvalidValue;
      if ((held->count -= count) == 0) objects().remove(object);
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return with_graph("cudaGraphReleaseUserObject", graph, [&](Graph& g) {
    const auto held = objects().find(object);
    for (size_t i = 0; held && count && i < g.kept.size();) {
      if (g.kept[i] != held->object) {
        ++i;
        continue;
      }
      g.kept.erase(g.kept.begin() + i64(i));
      --count;
    }
    return held && count == 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
}
