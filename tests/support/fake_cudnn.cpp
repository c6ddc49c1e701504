#include "warptape/tests/support/fake_cudnn.h"

#include <cstring>
#include <set>

#include "warptape/core/error.h"
#include "warptape/core/half.h"
#include "warptape/kernels/cuda/api.h"

namespace wt_test {

using namespace wt;

namespace {

FakeCudnn* current = nullptr;  // one at a time
int live = 0;

struct Row {
  int descriptor, attribute, type;
  i64 least, most;
  bool mandatory;
};
constexpr Row kRows[] = {
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
    {kCudnnPointwiseOperation, kPointwiseB, kTypeDescriptor, 1, 1, true},
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
};

size_t bytes_of(int type) {
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

struct Tensor {
  i64 id = 0;
  int type = 0;
  std::vector<i64> dims, strides;
  i64 alignment = 0;
  bool is_virtual = false;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};
struct Conv {
  std::vector<i64> strides, dilations, before, behind;
};
struct Operation {
  int type = 0;
  Conv conv;
  float alpha = 1, beta = 0;
  Tensor x, w, y;  // of an addition: x + w is y
};

}  // namespace

struct FakeGraph {
  std::vector<Operation> operations;
  int engine = -1;
};

namespace {

struct Descriptor {
  explicit Descriptor(int t) : type(t) { ++live; }
  ~Descriptor() { --live; }
  int type;
  bool final = false;
  std::map<int, std::vector<char>> set;
  std::map<int, i64> counts;
  // What it stands for once it is finalized.
  Tensor tensor;
  Conv conv;
  Operation operation;
  FakeGraph graph;  // of an engine, too
  int mode = 0;

  template <class T>
  std::vector<T> all(int attribute) const {
    const auto at = set.find(attribute);
    if (at == set.end()) return {};
    std::vector<T> v(at->second.size() / sizeof(T));
    std::memcpy(v.data(), at->second.data(), at->second.size());
    return v;
  }
  template <class T>
  T one(int attribute) const {
    const std::vector<T> v = all<T>(attribute);
    return v.empty() ? T{} : v[0];
  }
};

Descriptor& of(const void* p) { return *static_cast<Descriptor*>(const_cast<void*>(p)); }

std::string text_of(const std::vector<i64>& v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += str(i ? "," : "", v[i]);
  return s + "]";
}
std::string text_of(const Tensor& t) {
  return str(text_of(t.dims), "/", text_of(t.strides), "/", t.alignment, t.is_virtual ? "v" : "");
}

size_t item_of(int type) { return type == kCudnnFloat ? 4 : 2; }

// A tensor's elements in the order of its dimensions, and back.
struct Values {
  const Tensor* t;
  std::vector<char> bytes;
  std::vector<float> virtuals;
  void* device = nullptr;

  i64 offset(const std::vector<i64>& at) const {
    i64 o = 0;
    for (size_t d = 0; d < at.size(); ++d) o += (t->dims[d] == 1 ? 0 : at[d]) * t->strides[d];
    return o;
  }
  i64 span() const {
    i64 last = 0;
    for (size_t d = 0; d < t->dims.size(); ++d) last += (t->dims[d] - 1) * t->strides[d];
    return last + 1;
  }
  double get(const std::vector<i64>& at) const {
    const i64 o = offset(at);
    if (t->is_virtual) return virtuals[size_t(o)];
    const char* p = bytes.data() + size_t(o) * item_of(t->type);
    if (t->type == kCudnnFloat) {
      float f;
      std::memcpy(&f, p, 4);
      return f;
    }
    u16 b;
    std::memcpy(&b, p, 2);
    if (t->type == kCudnnHalf) {
      Half h;
      h.bits = b;
      return float(h);
    }
    BFloat16 h;
    h.bits = b;
    return float(h);
  }
  void put(const std::vector<i64>& at, double v) {
    const i64 o = offset(at);
    if (t->is_virtual) {
      virtuals[size_t(o)] = float(v);
      return;
    }
    char* p = bytes.data() + size_t(o) * item_of(t->type);
    if (t->type == kCudnnFloat) {
      const float f = float(v);
      std::memcpy(p, &f, 4);
    } else {
      const u16 b = t->type == kCudnnHalf ? Half(float(v)).bits : BFloat16(float(v)).bits;
      std::memcpy(p, &b, 2);
    }
  }
};

template <class F>
void each(const std::vector<i64>& dims, F f) {
  std::vector<i64> at(dims.size(), 0);
  for (;;) {
    f(at);
    size_t d = dims.size();
    while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

// Adds each product of the convolution where the direction wants it.
void convolve(const Operation& op, Values& x, Values& w, Values& y) {
  const i64 in_group = op.w.dims[1], groups = op.x.dims[1] / in_group,
            out_group = op.w.dims[0] / groups;
  const size_t spatial = op.x.dims.size() - 2;
  Values& to = op.type == kCudnnConvForward ? y : op.type == kCudnnConvBackwardData ? x : w;
  std::vector<double> sums(size_t(to.span()), 0.0);
  std::vector<i64> xat(op.x.dims.size()), wat(op.w.dims.size());
  each(op.y.dims, [&](const std::vector<i64>& yat) {
    std::vector<i64> range(op.w.dims.begin() + 1, op.w.dims.end());
    each(range, [&](const std::vector<i64>& at) {  // channel of the group, place in the kernel
      wat[0] = yat[1];
      xat[0] = yat[0];
      xat[1] = yat[1] / out_group * in_group + at[0];
      for (size_t d = 0; d < at.size(); ++d) wat[d + 1] = at[d];
      for (size_t d = 0; d < spatial; ++d) {
        const i64 p =
            yat[d + 2] * op.conv.strides[d] - op.conv.before[d] + at[d + 1] * op.conv.dilations[d];
        if (p < 0 || p >= op.x.dims[d + 2]) return;
        xat[d + 2] = p;
      }
      if (op.type == kCudnnConvForward)
        sums[size_t(y.offset(yat))] += x.get(xat) * w.get(wat);
      else if (op.type == kCudnnConvBackwardData)
        sums[size_t(x.offset(xat))] += y.get(yat) * w.get(wat);
      else
        sums[size_t(w.offset(wat))] += y.get(yat) * x.get(xat);
    });
  });
  each(to.t->dims, [&](const std::vector<i64>& at) {
    const double before = op.beta != 0 ? op.beta * to.get(at) : 0;
    to.put(at, op.alpha * sums[size_t(to.offset(at))] + before);
  });
}

}  // namespace

struct FakeCudnnCalls {
  static FakeCudnn& f() { return *current; }
  static int refuse(int status, std::string text) {
    f().complain(std::move(text));
    return status;
  }

  static size_t version() { return current ? f().version : 0; }
  static const char* error_text(int status) {
    if (status == kCudnnSuccess) return "CUDNN_STATUS_SUCCESS";
    if (status < kCudnnBadParam) return "CUDNN_STATUS_NOT_INITIALIZED";
    if (status < kCudnnNotSupported) return "CUDNN_STATUS_BAD_PARAM";
    if (status < kCudnnInternalError) return "CUDNN_STATUS_NOT_SUPPORTED";
    return status < kCudnnExecutionFailed ? "CUDNN_STATUS_INTERNAL_ERROR"
                                          : "CUDNN_STATUS_EXECUTION_FAILED";
  }
  static void last_error_text(char* to, size_t bytes) {
    std::strncpy(to, "the fake says so\n", bytes);
  }
  static int create(void** handle) {
    ++f().calls_["create"];
    if (f().create_status) return f().create_status;
    *handle = new int(7);
    return 0;
  }
  static int destroy(void* handle) {
    delete static_cast<int*>(handle);
    return 0;
  }
  static int set_stream(void*, void* stream) {
    stream_ = stream;
    return 0;
  }
  static int make_descriptor(int type, void** descriptor) {
    *descriptor = new Descriptor(type);
    return 0;
  }
  static int free_descriptor(void* descriptor) {
    delete static_cast<Descriptor*>(descriptor);
    return 0;
  }

  static int set_attribute(void* descriptor, int attribute, int type, i64 count,
                           const void* values) {
    Descriptor& d = of(descriptor);
    if (d.final) return refuse(2000, str("set ", attribute, " after finalize"));
    for (const Row& r : kRows) {
      if (r.descriptor != d.type || r.attribute != attribute) continue;
      if (r.type != type) return refuse(2010, str("attribute ", attribute, " of type ", type));
      if (count < r.least || count > r.most || !values)
        return refuse(2005, str("attribute ", attribute, " with ", count, " values"));
      const char* p = static_cast<const char*>(values);
      d.set[attribute].assign(p, p + size_t(count) * bytes_of(type));
      if (type == kTypeDescriptor)
        for (void* other : d.all<void*>(attribute))
          if (!other || !of(other).final)
            return refuse(2004, str("attribute ", attribute, " refers to what is not finalized"));
      d.counts[attribute] = count;
      return 0;
    }
    return refuse(2012, str("descriptor ", d.type, " has no attribute ", attribute));
  }

  static int get_attribute(const void* descriptor, int attribute, int type, i64 room, i64* count,
                           void* values) {
    const Descriptor& d = of(descriptor);
    if (!d.final) return refuse(2004, str("get ", attribute, " before finalize"));
    if (d.type == kCudnnEngineHeuristic && attribute == kHeuristicResults) {
      std::vector<int> named;
      for (size_t i = 0; i < f().engines.size(); ++i)
        if (f().engines[i].mode == d.mode &&
            (d.graph.operations.size() == 1 || f().engines[i].fuses))
          named.push_back(int(i));
      *count = i64(named.size());
      for (i64 i = 0; i < room && i < *count; ++i) {
        Descriptor& to = of(static_cast<void**>(values)[i]);
        if (to.type != kCudnnEngineConfig) return refuse(2012, "results are engine configs");
        to.graph = d.graph;
        to.graph.engine = named[size_t(i)];
        to.final = true;
      }
      return type == kTypeDescriptor ? 0 : refuse(2010, "results are descriptors");
    }
    if (d.type == kCudnnEngineConfig && attribute == kConfigEngine) {
      Descriptor& to = of(*static_cast<void**>(values));
      if (to.type != kCudnnEngine || room != 1) return refuse(2012, "an engine is asked for");
      to.graph = d.graph;
      to.final = true;
      *count = 1;
      return 0;
    }
    if (d.type == kCudnnEngine && attribute == kEngineNumericalNote) {
      const std::vector<int>& notes = f().engines[size_t(d.graph.engine)].notes;
      *count = i64(notes.size());
      for (i64 i = 0; i < room && i < *count; ++i) static_cast<int*>(values)[i] = notes[size_t(i)];
      return type == kTypeNumericalNote ? 0 : refuse(2010, "notes have their own type");
    }
    if (d.type == kCudnnExecutionPlan && attribute == kPlanWorkspaceSize) {
      *static_cast<i64*>(values) = f().engines[size_t(d.graph.engine)].workspace;
      *count = 1;
      return 0;
    }
    if (d.type == kCudnnExecutionPlan && attribute == kPlanJson) {
      if (room == 0) f().written_.push_back(std::make_shared<FakeGraph>(d.graph));
      const std::string json = str("{\"plan\": ", f().written_.size() - 1, "}");
      *count = i64(json.size()) + 1;
      if (room) std::memcpy(values, json.c_str(), size_t(std::min(room, *count)));
      return 0;
    }
    return refuse(2012, str("descriptor ", d.type, " cannot be asked for ", attribute));
  }

  static int finalize(void* descriptor) {
    Descriptor& d = of(descriptor);
    if (d.final) return refuse(2000, "finalized twice");
    for (const Row& r : kRows)
      if (r.descriptor == d.type && r.mandatory && !d.set.count(r.attribute))
        return refuse(2000, str("descriptor ", d.type, " lacks attribute ", r.attribute));
    const int status = finish(d);
    d.final = status == 0;
    return status;
  }

  static int finish(Descriptor& d) {
    switch (d.type) {
      case kCudnnTensor: {
        d.tensor = {d.one<i64>(kTensorId),         d.one<int>(kTensorDataType),
                    d.all<i64>(kTensorDimensions), d.all<i64>(kTensorStrides),
                    d.one<i64>(kTensorAlignment),  d.one<char>(kTensorIsVirtual) != 0};
        const Tensor& t = d.tensor;
        if (t.dims.size() != t.strides.size()) return refuse(2000, "dimensions and strides");
        for (size_t i = 0; i < t.dims.size(); ++i)
          if (t.dims[i] <= 0 || t.strides[i] <= 0) return refuse(2000, "not positive");
        if (t.alignment % i64(item_of(t.type))) return refuse(2000, "alignment");
        return 0;
      }
      case kCudnnConvolution: {
        d.conv = {d.all<i64>(kConvStrides), d.all<i64>(kConvDilations),
                  d.all<i64>(kConvPrePaddings), d.all<i64>(kConvPostPaddings)};
        const size_t n = size_t(d.one<i64>(kConvSpatialDims));
        for (const auto* v : {&d.conv.strides, &d.conv.dilations, &d.conv.before, &d.conv.behind})
          if (v->size() != n) return refuse(2000, "a list is not as long as there are axes");
        if (d.one<int>(kConvMode) != kCrossCorrelation) return refuse(3000, "flips the kernel");
        return 0;
      }
      case kCudnnConvForward:
        return finish_conv(d, kForwardConv, kForwardX, kForwardW, kForwardY, kForwardAlpha,
                           kForwardBeta);
      case kCudnnConvBackwardData:
        return finish_conv(d, kDataConv, kDataDx, kDataW, kDataDy, kDataAlpha, kDataBeta);
      case kCudnnConvBackwardFilter:
        return finish_conv(d, kFilterConv, kFilterX, kFilterDw, kFilterDy, kFilterAlpha,
                           kFilterBeta);
      case kCudnnPointwise:
        return d.one<int>(kPointwiseMode) == kPointwiseAdd ? 0 : refuse(3000, "adds only");
      case kCudnnPointwiseOperation: {
        Operation& op = d.operation;
        op.type = d.type;
        if (of(d.one<void*>(kPointwiseDescriptor)).type != kCudnnPointwise)
          return refuse(2012, "no pointwise descriptor");
        op.x = of(d.one<void*>(kPointwiseX)).tensor;
        op.w = of(d.one<void*>(kPointwiseB)).tensor;
        op.y = of(d.one<void*>(kPointwiseY)).tensor;
        if (op.x.dims != op.y.dims) return refuse(2008, "x and y of an addition differ");
        for (size_t i = 0; i < op.w.dims.size(); ++i)
          if (op.w.dims[i] != 1 && op.w.dims[i] != op.x.dims[i])
            return refuse(2008, "b does not broadcast");
        return 0;
      }
      case kCudnnOperationGraph: {
        std::map<i64, Tensor> seen;
        for (void* p : d.all<void*>(kGraphOperations)) {
          const Operation& op = d.graph.operations.emplace_back(of(p).operation);
          for (const Tensor* t : {&op.x, &op.w, &op.y}) {
            const auto [at, is_new] = seen.emplace(t->id, *t);
            if (!is_new && !(at->second == *t))
              return refuse(2009, str("two tensors have the id ", t->id));
          }
        }
        return 0;
      }
      case kCudnnEngineHeuristic:
        d.graph = of(d.one<void*>(kHeuristicGraph)).graph;
        d.mode = d.one<int>(kHeuristicMode);
        ++f().calls_["heuristic"];
        return 0;
      case kCudnnExecutionPlan: {
        if (d.set.count(kPlanJson)) {
          const std::string json = d.all<char>(kPlanJson).data();
          size_t n = 0;
          if (std::sscanf(json.c_str(), "{\"plan\": %zu}", &n) != 1 || n >= f().written_.size())
            return 2000;
          d.graph = *f().written_[n];
          ++f().calls_["restored"];
          return 0;
        }
        if (!d.set.count(kPlanConfig)) return refuse(2000, "a plan has no engine");
        d.graph = of(d.one<void*>(kPlanConfig)).graph;
        ++f().calls_["plan"];
        return f().engines[size_t(d.graph.engine)].plan_status;
      }
      case kCudnnVariantPack:
        if (d.counts[kPackIds] != d.counts[kPackPointers])
          return refuse(2000, "as many pointers as ids");
        return 0;
      default:
        return refuse(2012, str("finalizes a descriptor of type ", d.type));
    }
  }

  static int finish_conv(Descriptor& d, int conv, int x, int w, int y, int alpha, int beta) {
    Operation& op = d.operation;
    op.type = d.type;
    if (of(d.one<void*>(conv)).type != kCudnnConvolution) return refuse(2012, "no convolution");
    for (const int t : {x, w, y})
      if (of(d.one<void*>(t)).type != kCudnnTensor) return refuse(2012, "no tensor");
    op.conv = of(d.one<void*>(conv)).conv;
    op.x = of(d.one<void*>(x)).tensor;
    op.w = of(d.one<void*>(w)).tensor;
    op.y = of(d.one<void*>(y)).tensor;
    op.alpha = d.one<float>(alpha);
    op.beta = d.one<float>(beta);
    const size_t n = op.conv.strides.size();
    if (op.x.dims.size() != n + 2 || op.w.dims.size() != n + 2 || op.y.dims.size() != n + 2)
      return refuse(2000, "a tensor has other axes than the convolution");
    if (op.x.dims[0] != op.y.dims[0] || op.w.dims[0] != op.y.dims[1] ||
        op.x.dims[1] % op.w.dims[1] || op.w.dims[0] % (op.x.dims[1] / op.w.dims[1]))
      return refuse(2008, "channels do not agree");
    for (size_t i = 0; i < n; ++i) {
      const i64 left = op.x.dims[i + 2] + op.conv.before[i] + op.conv.behind[i] -
                       ((op.w.dims[i + 2] - 1) * op.conv.dilations[i] + 1);
      if (op.conv.before[i] < 0 || op.conv.behind[i] < 0 || left < 0 ||
          left / op.conv.strides[i] + 1 != op.y.dims[i + 2])
        return refuse(2008, str("the output's axis ", i, " has another size"));
    }
    return 0;
  }

  static int execute(void* handle, void* plan, void* pack) {
    ++f().calls_["execute"];
    if (!handle || *static_cast<int*>(handle) != 7) return refuse(2000, "no handle");
    const FakeGraph& graph = of(plan).graph;
    const FakeEngine& engine = f().engines[size_t(graph.engine)];
    if (engine.execute_status) return engine.execute_status;
    const std::vector<i64> ids = of(pack).all<i64>(kPackIds);
    const std::vector<void*> pointers = of(pack).all<void*>(kPackPointers);
    void* workspace = of(pack).one<void*>(kPackWorkspace);
    const CudaApi& cuda = *cuda_api();
    if (engine.workspace) {
      if (!workspace) return refuse(2002, "no workspace");
      cuda.fill(workspace, 0xA5, size_t(engine.workspace), stream_);
    }
    cuda.wait_stream(stream_);
    std::map<i64, Values> values;
    for (const Operation& op : graph.operations)
      for (const Tensor* t : {&op.x, &op.w, &op.y}) {
        if (values.count(t->id)) continue;
        Values& v = values[t->id];
        v.t = t;
        if (t->is_virtual) {
          v.virtuals.resize(size_t(v.span()));
          continue;
        }
        for (size_t i = 0; i < ids.size(); ++i)
          if (ids[i] == t->id) v.device = pointers[i];
        if (!v.device) return refuse(2002, str("tensor ", t->id, " has no pointer"));
        if (reinterpret_cast<u64>(v.device) % u64(t->alignment))
          return refuse(2003, str("tensor ", t->id, " is not aligned as it says"));
        v.bytes.resize(size_t(v.span()) * item_of(t->type));
        cuda.copy(v.bytes.data(), v.device, v.bytes.size(), CudaCopy::to_host, stream_);
      }
    cuda.wait_stream(stream_);
    for (const Operation& op : graph.operations) {
      Values &x = values[op.x.id], &w = values[op.w.id], &y = values[op.y.id];
      if (op.type != kCudnnPointwiseOperation)
        convolve(op, x, w, y);
      else
        each(op.y.dims, [&](const std::vector<i64>& at) { y.put(at, x.get(at) + w.get(at)); });
    }
    const Operation& first = graph.operations.front();
    f().last_ = str(first.type == kCudnnConvForward        ? "forward"
                    : first.type == kCudnnConvBackwardData ? "data"
                                                           : "filter",
                    " x=", text_of(first.x), " w=", text_of(first.w), " y=", text_of(first.y),
                    " before=", text_of(first.conv.before), " behind=", text_of(first.conv.behind),
                    " beta=", first.beta, " operations=", graph.operations.size());
    f().last_engine_ = graph.engine;
    const Operation& last = graph.operations.back();
    Values& out = values[last.type == kCudnnConvBackwardData     ? last.x.id
                         : last.type == kCudnnConvBackwardFilter ? last.w.id
                                                                 : last.y.id];
    cuda.copy(out.device, out.bytes.data(), out.bytes.size(), CudaCopy::to_device, stream_);
    cuda.wait_stream(stream_);
    return 0;
  }

  static inline void* stream_ = nullptr;
};

const CudnnApi& FakeCudnn::api() {
  using C = FakeCudnnCalls;
  static constexpr CudnnApi table = {C::version,         C::error_text,      C::last_error_text,
                                     C::create,          C::destroy,         C::set_stream,
                                     C::make_descriptor, C::free_descriptor, C::set_attribute,
                                     C::get_attribute,   C::finalize,        C::execute};
  return table;
}

FakeCudnn::FakeCudnn() {
  current = this;
  wt::detail::replace_cudnn(&api());
}
FakeCudnn::~FakeCudnn() {
  wt::detail::restore_cudnn();
  current = nullptr;
}

int FakeCudnn::calls(const std::string& name) const {
  const auto at = calls_.find(name);
  return at == calls_.end() ? 0 : at->second;
}
int FakeCudnn::live_descriptors() { return live; }

}  // namespace wt_test
