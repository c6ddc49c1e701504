// Tensors from other libraries and for them without a copy, by DLPack
// (https://dmlc.github.io/dlpack/latest/c_api.html): its structures as version 1.1 has them, and
// the older one without a version. They are laid out as dlpack.h's own, so that a pointer to one is
// a pointer to the other:
//
//   auto* m = reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(t));
//   Tensor t = from_dlpack(reinterpret_cast<dlpack::ManagedTensorVersioned*>(m));
//
// In Python they travel in a capsule named "dltensor_versioned" or "dltensor".
#pragma once
#include "warptape/core/tensor.h"

namespace wt {

namespace dlpack {

struct Version {
  u32 major, minor;
};
inline constexpr Version kVersion{1, 1};

// DLDeviceType; those that are taken and given.
enum DeviceType : i32 { cpu = 1, cuda = 2, cuda_host = 3 };
struct DeviceId {
  i32 type;  // DeviceType
  i32 id;
};

// DLDataTypeCode, all of version 1.1.
enum TypeCode : u8 {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaqueHandle = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8_e3m4 = 7,
  kFloat8_e4m3 = 8,
  kFloat8_e4m3b11fnuz = 9,
  kFloat8_e4m3fn = 10,
  kFloat8_e4m3fnuz = 11,
  kFloat8_e5m2 = 12,
  kFloat8_e5m2fnuz = 13,
  kFloat8_e8m0fnu = 14,
  kFloat6_e2m3fn = 15,
  kFloat6_e3m2fn = 16,
  kFloat4_e2m1fn = 17,
};
struct DataType {
  u8 code;  // TypeCode
  u8 bits;  // of a lane
  u16 lanes;
};

struct TensorView {  // DLTensor
  void* data;
  DeviceId device;
  i32 ndim;
  DataType dtype;
  i64* shape;
  i64* strides;     // in elements; null: C-contiguous
  u64 byte_offset;  // of the first element behind `data`
};

struct ManagedTensor {  // DLManagedTensor, of before 1.0
  TensorView dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);  // may be null
};

inline constexpr u64 kReadOnly = 1, kIsCopied = 2, kIsSubbytePadded = 4;  // of flags
struct ManagedTensorVersioned {  // DLManagedTensorVersioned
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);  // may be null
  u64 flags;
  TensorView dl_tensor;
};

}  // namespace dlpack

struct ToDlpackOptions {
  bool copy = false;       // of the elements: the consumer may write into it
  bool read_only = false;  // says that the consumer may not
};
// What `t` shows, shared: with its shape, strides and dtype. It keeps the storage alive, also when
// `t` is given another one, until the consumer calls the deleter, once, from any thread. A consumer
// that writes does so behind the tape's back: no version changes, so it must not while a graph
// needs the values. On cpu and cuda; of cuda, what is queued on this thread's current stream has
// finished when this returns, so that the consumer may use the memory on any stream at once.
//
// Throws UsageError for a tensor that a gradient is wanted of (t.detach() may be exported) and
// inside of vmap, PlacementError on simt and meta devices.
WT_API dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& t, const ToDlpackOptions& o = {},
                                                 Frame at = Frame::here());
// For consumers of before version 1.0, which know no flags.
WT_API dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor& t, Frame at = Frame::here());

// A tensor over the producer's memory, which is released by the deleter when the last tensor on it
// dies, on that one's thread. Never reused for an operator's result. What the producer says to be
// read-only is copied, and released at once. Of cuda, the producer's work on the memory must have
// finished or precede this thread's current stream; what is queued here when the memory is released
// must be the producer's care, too (synchronize before the last tensor dies). Page-locked memory of
// CUDA becomes a tensor on cpu.
//
// What is taken over is taken when this returns: when it throws, `m` is still the caller's, who
// calls its deleter. Throws PlacementError for another kind of device and a cuda device that is not
// there, DtypeError for dtypes that are not here (complex, vectors of lanes, 4 and 6 bits),
// ShapeError for more than 8 dimensions, sizes or strides below zero or beyond 64 bits, UsageError
// for null pointers, unaligned data and another major version.
WT_API Tensor from_dlpack(dlpack::ManagedTensorVersioned* m, Frame at = Frame::here());
WT_API Tensor from_dlpack(dlpack::ManagedTensor* m, Frame at = Frame::here());

}  // namespace wt
