// cudaDeviceGetAttribute's numbers: most are fields of cudaDeviceProp.
#include <driver_types.h>

#include "device/gpu.h"

namespace emu {

bool device_attribute(int attribute, int device, int* value) {
  cudaDeviceProp p;
  fill_properties(&p, device);
  const GpuModel& m = gpu_model();
  const auto get = [&]() -> long long {
    switch (attribute) {
      case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
      case cudaDevAttrMaxBlockDimX: return p.maxThreadsDim[0];
      case cudaDevAttrMaxBlockDimY: return p.maxThreadsDim[1];
      case cudaDevAttrMaxBlockDimZ: return p.maxThreadsDim[2];
      case cudaDevAttrMaxGridDimX: return p.maxGridSize[0];
      case cudaDevAttrMaxGridDimY: return p.maxGridSize[1];
      case cudaDevAttrMaxGridDimZ: return p.maxGridSize[2];
      case cudaDevAttrMaxSharedMemoryPerBlock: return i64(p.sharedMemPerBlock);
      case cudaDevAttrTotalConstantMemory: return i64(p.totalConstMem);
      case cudaDevAttrWarpSize: return p.warpSize;
      case cudaDevAttrMaxPitch: return i64(p.memPitch);
      case cudaDevAttrMaxRegistersPerBlock: return p.regsPerBlock;
      case cudaDevAttrClockRate: return m.clock_khz;
      case cudaDevAttrTextureAlignment: return i64(p.textureAlignment);
      case cudaDevAttrGpuOverlap: return 1;
      case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
      case cudaDevAttrCanMapHostMemory: return p.canMapHostMemory;
      case cudaDevAttrMaxTexture1DWidth: return p.maxTexture1D;
      case cudaDevAttrMaxTexture2DWidth: return p.maxTexture2D[0];
      case cudaDevAttrMaxTexture2DHeight: return p.maxTexture2D[1];
      case cudaDevAttrMaxTexture3DWidth: return p.maxTexture3D[0];
      case cudaDevAttrMaxTexture3DHeight: return p.maxTexture3D[1];
      case cudaDevAttrMaxTexture3DDepth: return p.maxTexture3D[2];
      case cudaDevAttrMaxTexture2DLayeredWidth: return p.maxTexture2DLayered[0];
      case cudaDevAttrMaxTexture2DLayeredHeight: return p.maxTexture2DLayered[1];
      case cudaDevAttrMaxTexture2DLayeredLayers: return p.maxTexture2DLayered[2];
      case cudaDevAttrSurfaceAlignment: return i64(p.surfaceAlignment);
      case cudaDevAttrConcurrentKernels: return p.concurrentKernels;
      case cudaDevAttrEccEnabled: return p.ECCEnabled;
      case cudaDevAttrPciBusId: return p.pciBusID;
      case cudaDevAttrMemoryClockRate: return m.memory_clock_khz;
      case cudaDevAttrGlobalMemoryBusWidth: return p.memoryBusWidth;
      case cudaDevAttrL2CacheSize: return p.l2CacheSize;
      case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
      case cudaDevAttrAsyncEngineCount: return p.asyncEngineCount;
      case cudaDevAttrUnifiedAddressing: return p.unifiedAddressing;
      case cudaDevAttrMaxTexture1DLayeredWidth: return p.maxTexture1DLayered[0];
      case cudaDevAttrMaxTexture1DLayeredLayers: return p.maxTexture1DLayered[1];
      case cudaDevAttrMaxTexture2DGatherWidth: return p.maxTexture2DGather[0];
      case cudaDevAttrMaxTexture2DGatherHeight: return p.maxTexture2DGather[1];
      case cudaDevAttrMaxTexture3DWidthAlt: return p.maxTexture3DAlt[0];
      case cudaDevAttrMaxTexture3DHeightAlt: return p.maxTexture3DAlt[1];
      case cudaDevAttrMaxTexture3DDepthAlt: return p.maxTexture3DAlt[2];
      case cudaDevAttrTexturePitchAlignment: return i64(p.texturePitchAlignment);
      case cudaDevAttrMaxTextureCubemapWidth: return p.maxTextureCubemap;
      case cudaDevAttrMaxTextureCubemapLayeredWidth: return p.maxTextureCubemapLayered[0];
      case cudaDevAttrMaxTextureCubemapLayeredLayers: return p.maxTextureCubemapLayered[1];
      case cudaDevAttrMaxSurface1DWidth: return p.maxSurface1D;
      case cudaDevAttrMaxSurface2DWidth: return p.maxSurface2D[0];
      case cudaDevAttrMaxSurface2DHeight: return p.maxSurface2D[1];
      case cudaDevAttrMaxSurface3DWidth: return p.maxSurface3D[0];
      case cudaDevAttrMaxSurface3DHeight: return p.maxSurface3D[1];
      case cudaDevAttrMaxSurface3DDepth: return p.maxSurface3D[2];
      case cudaDevAttrMaxSurface1DLayeredWidth: return p.maxSurface1DLayered[0];
      case cudaDevAttrMaxSurface1DLayeredLayers: return p.maxSurface1DLayered[1];
      case cudaDevAttrMaxSurface2DLayeredWidth: return p.maxSurface2DLayered[0];
      case cudaDevAttrMaxSurface2DLayeredHeight: return p.maxSurface2DLayered[1];
      case cudaDevAttrMaxSurface2DLayeredLayers: return p.maxSurface2DLayered[2];
      case cudaDevAttrMaxSurfaceCubemapWidth: return p.maxSurfaceCubemap;
      case cudaDevAttrMaxSurfaceCubemapLayeredWidth: return p.maxSurfaceCubemapLayered[0];
      case cudaDevAttrMaxSurfaceCubemapLayeredLayers: return p.maxSurfaceCubemapLayered[1];
      case cudaDevAttrMaxTexture1DLinearWidth: return 268435456;
      case cudaDevAttrMaxTexture2DLinearWidth: return p.maxTexture2DLinear[0];
      case cudaDevAttrMaxTexture2DLinearHeight: return p.maxTexture2DLinear[1];
      case cudaDevAttrMaxTexture2DLinearPitch: return p.maxTexture2DLinear[2];
      case cudaDevAttrMaxTexture2DMipmappedWidth: return p.maxTexture2DMipmap[0];
      case cudaDevAttrMaxTexture2DMipmappedHeight: return p.maxTexture2DMipmap[1];
      case cudaDevAttrComputeCapabilityMajor: return p.major;
      case cudaDevAttrComputeCapabilityMinor: return p.minor;
      case cudaDevAttrMaxTexture1DMipmappedWidth: return p.maxTexture1DMipmap;
      case cudaDevAttrStreamPrioritiesSupported: return p.streamPrioritiesSupported;
      case cudaDevAttrGlobalL1CacheSupported: return p.globalL1CacheSupported;
      case cudaDevAttrLocalL1CacheSupported: return p.localL1CacheSupported;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return i64(p.sharedMemPerMultiprocessor);
      case cudaDevAttrMaxRegistersPerMultiprocessor: return p.regsPerMultiprocessor;
      case cudaDevAttrManagedMemory: return p.managedMemory;
      case cudaDevAttrMultiGpuBoardGroupID: return p.multiGpuBoardGroupID;
      case cudaDevAttrSingleToDoublePrecisionPerfRatio: return m.double_ratio;
      case cudaDevAttrConcurrentManagedAccess: return p.concurrentManagedAccess;
      case cudaDevAttrComputePreemptionSupported: return p.computePreemptionSupported;
      case cudaDevAttrCanUseHostPointerForRegisteredMem: return 1;
      case cudaDevAttrCooperativeLaunch: return p.cooperativeLaunch;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin: return i64(p.sharedMemPerBlockOptin);
      case cudaDevAttrHostRegisterSupported: return p.hostRegisterSupported;
      case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
      case cudaDevAttrMaxPersistingL2CacheSize: return p.persistingL2CacheMaxSize;
      case cudaDevAttrMaxAccessPolicyWindowSize: return p.accessPolicyMaxWindowSize;
      case cudaDevAttrReservedSharedMemoryPerBlock: return i64(p.reservedSharedMemPerBlock);
      case cudaDevAttrMemoryPoolsSupported: return p.memoryPoolsSupported;
      case cudaDevAttrMemSyncDomainCount: return m.major >= 9 ? 4 : 1;
      case cudaDevAttrNumaId:
      case cudaDevAttrHostNumaId: return -1;
      case cudaDevAttrGpuPciDeviceId: return p.gpuPciDeviceID;
      default: return 0;  // what the emulated devices have not, and reserved numbers
    }
  };
  if (attribute < 1 || attribute >= cudaDevAttrMax) return false;
  *value = int(get());
  return true;
}

}  // namespace emu
