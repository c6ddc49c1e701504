// cuDNN's backend API as a table of functions, found when the program runs: nothing of cuDNN is
// needed to build, and where the library is absent or too old our own kernels do the work.
//
// The values are those of cuDNN 9's binary interface (cudnn_graph.h), which keeps them from one
// minor version to the next. Everything that calls cuDNN goes through the table, so that it is
// tested over a fake that reads what was built (tests/support/fake_cudnn.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/machine/load_library.h"

namespace wt {

// Families of cudnnStatus_t: a thousand each.
enum CudnnStatus : int {
  kCudnnSuccess = 0,
  kCudnnNotInitialized = 1001,
  kCudnnBadParam = 2000,
  kCudnnNotSupported = 3000,
  kCudnnInternalError = 4000,
  kCudnnExecutionFailed = 5000,
};

enum CudnnDataType : int {
  kCudnnFloat = 0,
  kCudnnHalf = 2,
  kCudnnInt32 = 4,
  kCudnnBfloat16 = 9,
  kCudnnBoolean = 11,
};

enum CudnnDescriptorType : int {
  kCudnnPointwise = 0,
  kCudnnConvolution = 1,
  kCudnnEngine = 2,
  kCudnnEngineConfig = 3,
  kCudnnEngineHeuristic = 4,
  kCudnnExecutionPlan = 5,
  kCudnnConvForward = 10,
  kCudnnConvBackwardFilter = 11,
  kCudnnConvBackwardData = 12,
  kCudnnPointwiseOperation = 13,
  kCudnnOperationGraph = 15,
  kCudnnVariantPack = 16,
  kCudnnTensor = 17,
  kCudnnMatmul = 18,
  kCudnnMatmulOperation = 19,
  kCudnnReduction = 21,
  kCudnnReductionOperation = 22,
  kCudnnResample = 24,
  kCudnnResampleForward = 25,
  kCudnnResampleBackward = 26,
  kCudnnReshapeOperation = 31,
};

enum CudnnAttribute : int {
  kPointwiseMode = 0,
  kPointwiseMathPrecision = 1,
  kPointwiseAxis = 9,
  kConvComputeType = 100,
  kConvMode = 101,
  kConvDilations = 102,
  kConvStrides = 103,
  kConvPostPaddings = 104,
  kConvPrePaddings = 105,
  kConvSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceSize = 402,
  kPlanJson = 405,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConv = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kDataAlpha = 706,
  kDataBeta = 707,
  kDataConv = 708,
  kDataW = 709,
  kDataDx = 710,
  kDataDy = 711,
  kFilterAlpha = 712,
  kFilterBeta = 713,
  kFilterConv = 714,
  kFilterDw = 715,
  kFilterX = 716,
  kFilterDy = 717,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNote = 1303,
  kMatmulComputeType = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionComputeType = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kResampleMode = 1700,
  kResampleComputeType = 1701,
  kResampleSpatialDims = 1702,
  kResamplePostPaddings = 1703,
  kResamplePrePaddings = 1704,
  kResampleStrides = 1705,
  kResampleWindow = 1706,
  kResampleNan = 1707,
  kResamplePaddingMode = 1708,
  kResampleForwardX = 1710,
  kResampleForwardY = 1711,
  kResampleForwardDescriptor = 1716,
  kResampleBackwardDx = 1720,
  kResampleBackwardDy = 1721,
  kResampleBackwardDescriptor = 1725,
  kReshapeX = 2200,
  kReshapeY = 2201,
};

enum CudnnAttributeType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypePointer = 6,
  kTypeConvMode = 7,
  kTypeHeuristicMode = 8,
  kTypeNanPropagation = 10,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeReduction = 18,
  kTypeResampleMode = 21,
  kTypePaddingMode = 22,
  kTypeChar = 24,
};

enum CudnnHeuristicMode : int { kHeuristicFallback = 2, kHeuristicA = 3 };
enum CudnnNumericalNote : int {
  kNoteTensorCore = 0,
  kNoteDownConvertInputs = 1,
  kNoteReducedPrecisionReduction = 2,
  kNoteFft = 3,
  kNoteNondeterministic = 4,
  kNoteWinograd = 5,
  kNoteStrictNan = 9,
  kNoteCount = 16,  // there are 10; room for those of later versions
};
inline constexpr int kCrossCorrelation = 1;
enum CudnnPointwiseMode : int {
  kPointwiseAdd = 0,
  kPointwiseMul = 1,
  kPointwiseDiv = 6,
  kPointwiseSub = 9,
  kPointwiseExp = 13,
  kPointwiseLog = 15,
  kPointwiseGreaterEqual = 303,
  kPointwiseGenIndex = 501,  // an element's place along an axis
  kPointwiseSelect = 601,    // t ? x : b
};
enum CudnnReductionMode : int { kReductionAdd = 0, kReductionMax = 3 };
enum CudnnResampleMode : int {
  kResampleAverage = 2,  // what lies in the padding counts as zeros
  kResampleMax = 3,
  kResampleAverageInside = 4,
};
enum CudnnPaddingMode : int { kPaddingZero = 0, kPaddingNegativeInfinity = 1 };
inline constexpr int kPropagateNan = 1;

// Statuses are CudnnStatus and the codes between.
struct CudnnApi {
  size_t (*version)();  // 92600 is 9.26.0
  const char* (*error_text)(int);
  void (*last_error_text)(char* to, size_t bytes);
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, void* stream);
  int (*make_descriptor)(int type, void** descriptor);
  int (*free_descriptor)(void* descriptor);
  int (*set_attribute)(void* descriptor, int attribute, int type, i64 count, const void* values);
  int (*get_attribute)(const void* descriptor, int attribute, int type, i64 room, i64* count,
                       void* values);
  int (*finalize)(void* descriptor);
  int (*execute)(void* handle, void* plan, void* pack);
};

inline constexpr size_t kOldestCudnn = 90000;

// The table in use, or null: then cudnn_why_not() says why. The first call looks for the library:
// WT_CUDNN (a file, or "off"), else libcudnn.so.9 as the system finds it, in $CUDNN_ROOT/lib and in
// the Python wheels of $VIRTUAL_ENV and $CONDA_PREFIX.
const CudnnApi* cudnn_api();
const char* cudnn_why_not();   // null when there is one; lives for ever
std::string describe_cudnn();  // for `wt info`: its version and file, or why there is none
std::string cudnn_version_text(size_t version);

// A call that failed: what cuDNN says about it is the text.
struct CudnnFailure {
  int status;
  std::string text;
  bool unsupported() const { return status >= kCudnnBadParam && status < kCudnnInternalError; }
};
// Throws CudnnFailure.
void cudnn_check(const CudnnApi& api, int status, const char* call);

// An owned descriptor. Calls throw CudnnFailure.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnApi& api, CudnnDescriptorType type);
  CudnnDescriptor(CudnnDescriptor&& o) noexcept : api_(o.api_), p_(std::exchange(o.p_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& o) noexcept {
    std::swap(api_, o.api_);
    std::swap(p_, o.p_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (p_) api_->free_descriptor(p_);
  }

  void* get() const { return p_; }
  void set(CudnnAttribute attribute, CudnnAttributeType type, i64 count, const void* values);
  void set(CudnnAttribute attribute, i64 value) { set(attribute, kTypeInt64, 1, &value); }
  void set(CudnnAttribute attribute, float value) { set(attribute, kTypeFloat, 1, &value); }
  void set(CudnnAttribute attribute, CudnnAttributeType type, int value) {
    set(attribute, type, 1, &value);
  }
  void set(CudnnAttribute attribute, const CudnnDescriptor& other) {
    set(attribute, kTypeDescriptor, 1, &other.p_);
  }
  // How many there are; writes `room` of them at most.
  i64 get(CudnnAttribute attribute, CudnnAttributeType type, i64 room, void* values) const;
  CudnnDescriptor& finalize();

 private:
  const CudnnApi* api_ = nullptr;
  void* p_ = nullptr;
};

namespace detail {
// What a search for the library comes to.
struct CudnnFound {
  const CudnnApi* api = nullptr;
  std::string why_not, file;
};
CudnnFound find_cudnn(const LibraryLoader& loader);
// For tests: the table from now on (null: none, for the reason given); forgets this thread's
// handles and plans, as the plans of the other library are not this one's.
void replace_cudnn(const CudnnApi* api, const char* why_not = nullptr);
void restore_cudnn();
u64 cudnn_generation();  // grows with every replacement
}  // namespace detail

}  // namespace wt
