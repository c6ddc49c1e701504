// From a node's parameters to work.
#include "api/copy_request.h"
#include "api/graph_nodes.h"
#include "api/launch.h"
#include "device/modules.h"

namespace emu {

cudaError_t make_kernel(const cudaKernelNodeParams* p, int device, WorkRef* work) {
  if (!p || p->extra) return cudaErrorInvalidValue;
  std::shared_ptr<KernelWork> k;
  const LaunchShape shape{dims(p->gridDim), dims(p->blockDim), {}, p->sharedMemBytes};
  const cudaError_t e = make_launch("kernel node", p->func, shape, p->kernelParams, device, &k);
  if (e == cudaSuccess) *work = std::move(k);
  return e;
}

cudaError_t make_copy(const cudaMemcpy3DParms* p, WorkRef* work) {
  CopyRequest r{"copy node", {}};
  if (!p) return cudaErrorInvalidValue;
  if (!shape_of(*p, &r.shape)) return cudaErrorNotSupported;
  r.kind = p->kind;
  const cudaError_t e = check_copy(r);
  if (e == cudaSuccess) *work = std::make_shared<CopyWork>(r.shape);
  return e;
}
cudaError_t make_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                      WorkRef* work) {
  CopyRequest r{"copy node", {}, kind};
  r.shape.to = address_of(to);
  r.shape.from = address_of(from);
  r.shape.width = bytes;
  const cudaError_t e = check_copy(r);
  if (e == cudaSuccess) *work = std::make_shared<CopyWork>(r.shape);
  return e;
}
cudaError_t make_symbol_copy(const void* symbol, size_t offset, void* to, const void* from,
                             size_t bytes, cudaMemcpyKind kind, WorkRef* work) {
  u64 address = 0, size = 0;
  int error = 0;
  if (!find_variable(symbol, current_device(), &address, &size, &error))
    return cudaErrorInvalidSymbol;
  if (error) return cudaError_t(error);
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  void* place = pointer_to(address + offset);
  return make_copy(to ? to : place, from ? from : place, bytes, kind, work);
}

cudaError_t make_fill(const cudaMemsetParams* p, WorkRef* work) {
  if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
    return cudaErrorInvalidValue;
  FillRequest r{"fill node", {}, p->value, p->elementSize};
  r.shape.to = address_of(p->dst);
  r.shape.width = p->width * p->elementSize;
  r.shape.height = p->height;
  r.shape.to_pitch = p->pitch;
  const cudaError_t e = check_fill(r);
  if (e == cudaSuccess) *work = std::make_shared<FillWork>(r.shape, p->value, p->elementSize);
  return e;
}

cudaError_t make_host(const cudaHostNodeParams* p, WorkRef* work) {
  if (!p || !p->fn) return cudaErrorInvalidValue;
  *work = std::make_shared<HostWork>(p->fn, p->userData);
  return cudaSuccess;
}

}  // namespace emu
