// Which attributes the fake's descriptors have.
#include "warptape/tests/support/fake_cudnn_graph.h"

namespace wt_test {

using namespace wt;

const std::vector<FakeRow>& fake_rows() {
  static const std::vector<FakeRow> rows = {
      {kCudnnTensor, kTensorDataType, kTypeDataType, 1, 1, true},
      {kCudnnTensor, kTensorDimensions, kTypeInt64, 1, 8, true},
      {kCudnnTensor, kTensorStrides, kTypeInt64, 1, 8, true},
      {kCudnnTensor, kTensorId, kTypeInt64, 1, 1, true},
      {kCudnnTensor, kTensorAlignment, kTypeInt64, 1, 1, true},
      {kCudnnTensor, kTensorIsVirtual, kTypeBoolean, 1, 1, false},
      {kCudnnConvolution, kConvComputeType, kTypeDataType, 1, 1, true},
      {kCudnnConvolution, kConvMode, kTypeConvMode, 1, 1, true},
      {kCudnnConvolution, kConvSpatialDims, kTypeInt64, 1, 1, true},
      {kCudnnConvolution, kConvDilations, kTypeInt64, 2, 3, true},
      {kCudnnConvolution, kConvStrides, kTypeInt64, 2, 3, true},
      {kCudnnConvolution, kConvPrePaddings, kTypeInt64, 2, 3, true},
      {kCudnnConvolution, kConvPostPaddings, kTypeInt64, 2, 3, true},
      {kCudnnConvForward, kForwardAlpha, kTypeFloat, 1, 1, true},
      {kCudnnConvForward, kForwardBeta, kTypeFloat, 1, 1, true},
      {kCudnnConvForward, kForwardConv, kTypeDescriptor, 1, 1, true},
      {kCudnnConvForward, kForwardW, kTypeDescriptor, 1, 1, true},
      {kCudnnConvForward, kForwardX, kTypeDescriptor, 1, 1, true},
      {kCudnnConvForward, kForwardY, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardData, kDataAlpha, kTypeFloat, 1, 1, true},
      {kCudnnConvBackwardData, kDataBeta, kTypeFloat, 1, 1, true},
      {kCudnnConvBackwardData, kDataConv, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardData, kDataW, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardData, kDataDx, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardData, kDataDy, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterAlpha, kTypeFloat, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterBeta, kTypeFloat, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterConv, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterDw, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterX, kTypeDescriptor, 1, 1, true},
      {kCudnnConvBackwardFilter, kFilterDy, kTypeDescriptor, 1, 1, true},
      {kCudnnPointwise, kPointwiseMode, kTypePointwiseMode, 1, 1, true},
      {kCudnnPointwise, kPointwiseMathPrecision, kTypeDataType, 1, 1, true},
      {kCudnnPointwiseOperation, kPointwiseDescriptor, kTypeDescriptor, 1, 1, true},
      {kCudnnPointwiseOperation, kPointwiseX, kTypeDescriptor, 1, 1, true},
      {kCudnnPointwiseOperation, kPointwiseB, kTypeDescriptor, 1, 1, false},
      {kCudnnPointwiseOperation, kPointwiseY, kTypeDescriptor, 1, 1, true},
      {kCudnnOperationGraph, kGraphHandle, kTypeHandle, 1, 1, true},
      {kCudnnOperationGraph, kGraphOperations, kTypeDescriptor, 1, 99, true},
      {kCudnnEngineHeuristic, kHeuristicGraph, kTypeDescriptor, 1, 1, true},
      {kCudnnEngineHeuristic, kHeuristicMode, kTypeHeuristicMode, 1, 1, true},
      {kCudnnExecutionPlan, kPlanHandle, kTypeHandle, 1, 1, true},
      {kCudnnExecutionPlan, kPlanConfig, kTypeDescriptor, 1, 1, false},  // or its text
      {kCudnnExecutionPlan, kPlanJson, kTypeChar, 1, 1 << 20, false},
      {kCudnnVariantPack, kPackIds, kTypeInt64, 1, 99, true},
      {kCudnnVariantPack, kPackPointers, kTypePointer, 1, 99, true},
      {kCudnnVariantPack, kPackWorkspace, kTypePointer, 1, 1, true},
      {kCudnnPointwise, kPointwiseAxis, kTypeInt64, 1, 1, false},
      {kCudnnPointwiseOperation, kPointwiseT, kTypeDescriptor, 1, 1, false},
      {kCudnnTensor, kTensorIsByValue, kTypeBoolean, 1, 1, false},
      {kCudnnMatmul, kMatmulComputeType, kTypeDataType, 1, 1, true},
      {kCudnnMatmulOperation, kMatmulA, kTypeDescriptor, 1, 1, true},
      {kCudnnMatmulOperation, kMatmulB, kTypeDescriptor, 1, 1, true},
      {kCudnnMatmulOperation, kMatmulC, kTypeDescriptor, 1, 1, true},
      {kCudnnMatmulOperation, kMatmulDescriptor, kTypeDescriptor, 1, 1, true},
      {kCudnnReduction, kReductionOperator, kTypeReduction, 1, 1, true},
      {kCudnnReduction, kReductionComputeType, kTypeDataType, 1, 1, true},
      {kCudnnReductionOperation, kReductionX, kTypeDescriptor, 1, 1, true},
      {kCudnnReductionOperation, kReductionY, kTypeDescriptor, 1, 1, true},
      {kCudnnReductionOperation, kReductionDescriptor, kTypeDescriptor, 1, 1, true},
      {kCudnnReshapeOperation, kReshapeX, kTypeDescriptor, 1, 1, true},
      {kCudnnReshapeOperation, kReshapeY, kTypeDescriptor, 1, 1, true},
      {kCudnnResample, kResampleMode, kTypeResampleMode, 1, 1, true},
      {kCudnnResample, kResampleComputeType, kTypeDataType, 1, 1, true},
      {kCudnnResample, kResampleNan, kTypeNanPropagation, 1, 1, false},
      {kCudnnResample, kResamplePaddingMode, kTypePaddingMode, 1, 1, true},
      {kCudnnResample, kResampleSpatialDims, kTypeInt64, 1, 1, true},
      {kCudnnResample, kResampleWindow, kTypeInt64, 2, 3, true},
      {kCudnnResample, kResampleStrides, kTypeInt64, 2, 3, true},
      {kCudnnResample, kResamplePrePaddings, kTypeInt64, 2, 3, true},
      {kCudnnResample, kResamplePostPaddings, kTypeInt64, 2, 3, true},
      {kCudnnResampleForward, kResampleForwardX, kTypeDescriptor, 1, 1, true},
      {kCudnnResampleForward, kResampleForwardY, kTypeDescriptor, 1, 1, true},
      {kCudnnResampleForward, kResampleForwardDescriptor, kTypeDescriptor, 1, 1, true},
      {kCudnnResampleBackward, kResampleBackwardDx, kTypeDescriptor, 1, 1, true},
      {kCudnnResampleBackward, kResampleBackwardDy, kTypeDescriptor, 1, 1, true},
      {kCudnnResampleBackward, kResampleBackwardDescriptor, kTypeDescriptor, 1, 1, true},
  };
  return rows;
}

size_t fake_bytes_of(int type) {
  switch (type) {
    case kTypeInt64:
    case kTypeHandle:
    case kTypePointer:
    case kTypeDescriptor:
      return 8;
    case kTypeBoolean:
    case kTypeChar:
      return 1;
    default:
      return 4;
  }
}

}  // namespace wt_test
