#include "warptape/autograd/onnx/kernel_args.h"

#include <cstring>
#include <type_traits>

#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/attention.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/gather.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/pool.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/resize.h"
#include "warptape/kernels/rms_norm.h"
#include "warptape/kernels/scan.h"
#include "warptape/kernels/softmax.h"
#include "warptape/kernels/sort.h"

namespace wt::onnx {
namespace {

using Views = std::vector<const View*>;
struct Row {
  size_t bytes;
  Views (*views)(const void* args);
};

// The views that the export looks at, in the order in which it asks for them.
template <class A>
Views views_of(const A&) {
  return {};
}
template <class F>
Views views_of(const PointwiseArgs<F>& a) {
  Views v{&a.out};
  for (const View& in : a.in) v.push_back(&in);
  return v;
}
Views views_of(const CopyArgs& a) { return {&a.out, &a.in}; }
Views views_of(const ChannelNormForwardArgs& a) { return {&a.stats}; }
Views views_of(const LayerNormForwardArgs& a) { return {&a.x}; }
Views views_of(const RmsNormForwardArgs& a) { return {&a.x}; }
Views views_of(const AddLayerNormForwardArgs& a) { return {&a.x}; }
Views views_of(const AddRmsNormForwardArgs& a) { return {&a.x}; }
Views views_of(const ScanArgs& a) { return {&a.factor, &a.term}; }

template <class A>
void add(std::map<std::string_view, Row>& to) {
  static_assert(std::is_trivially_copyable_v<A>);
  to[ContractTable<A>::kName] = {
      sizeof(A), [](const void* args) { return views_of(*static_cast<const A*>(args)); }};
}

const std::map<std::string_view, Row>& rows() {
  static const std::map<std::string_view, Row> all = [] {
    std::map<std::string_view, Row> r;
#define WT_ADD(contract, Args) add<Args>(r);
    WT_POINTWISE_FORWARD_CONTRACTS(WT_ADD)
#undef WT_ADD
#define WT_ADD(contract, Entry) add<ReduceArgs<red::Entry>>(r);
    WT_REDUCTIONS(WT_ADD)
#undef WT_ADD
    add<CopyArgs>(r), add<FillArgs>(r), add<MatmulArgs>(r), add<ConvForwardArgs>(r);
    add<ConvBackwardInputArgs>(r), add<MaxPoolForwardArgs>(r), add<AvgPoolForwardArgs>(r);
    add<SoftmaxForwardArgs>(r), add<LayerNormForwardArgs>(r), add<RmsNormForwardArgs>(r);
    add<AddLayerNormForwardArgs>(r), add<AddRmsNormForwardArgs>(r), add<ResizeArgs>(r);
    add<ChannelNormForwardArgs>(r), add<ChannelStatsArgs>(r), add<AttentionForwardArgs>(r);
    add<GatherArgs>(r), add<ScatterArgs>(r), add<ScanArgs>(r), add<SortArgs>(r);
    return r;
  }();
  return all;
}

}  // namespace

TracedKernel traced_kernel(const char* contract, const void* args) {
  const auto it = rows().find(contract);
  if (it == rows().end()) return {contract, {}, {}};
  const char* bytes = static_cast<const char*>(args);
  TracedKernel k{it->first, std::vector<char>(bytes, bytes + it->second.bytes), {}};
  for (const View* v : it->second.views(args))
    k.views.push_back({bool(*v), v->data, *v ? *v->geometry : Geometry{}});
  return k;
}

}  // namespace wt::onnx
