#include "warptape/tests/support/fake_cudnn.h"

#include <set>

#include "warptape/kernels/cuda/api.h"
#include "warptape/tests/support/fake_cudnn_graph.h"

namespace wt_test {

using namespace wt;

namespace {

FakeCudnn* current = nullptr;  // one at a time

using Descriptor = FakeDescriptor;
Descriptor& of(const void* p) { return *static_cast<Descriptor*>(const_cast<void*>(p)); }

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
    for (const FakeRow& r : fake_rows()) {
      if (r.descriptor != d.type || r.attribute != attribute) continue;
      if (r.type != type) return refuse(2010, str("attribute ", attribute, " of type ", type));
      if (count < r.least || count > r.most || !values)
        return refuse(2005, str("attribute ", attribute, " with ", count, " values"));
      const char* p = static_cast<const char*>(values);
      d.set[attribute].assign(p, p + size_t(count) * fake_bytes_of(type));
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
    for (const FakeRow& r : fake_rows())
      if (r.descriptor == d.type && r.mandatory && !d.set.count(r.attribute))
        return refuse(2000, str("descriptor ", d.type, " lacks attribute ", r.attribute));
    const int status = finish(d);
    d.final = status == 0;
    return status;
  }

  static int finish(Descriptor& d) {
    if (fake_is_operation(d.type)) return fake_finish_operation(d, refuse);
    switch (d.type) {
      case kCudnnOperationGraph:
        return fake_finish_graph(d, refuse);
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
    std::map<i64, FakeValues> values;
    for (const FakeOperation& op : graph.operations)
      for (const FakeTensor* t : op.tensors()) {
        if (values.count(t->id)) continue;
        FakeValues& v = values[t->id];
        v.t = t;
        if (t->is_virtual) {
          v.steps.resize(size_t(t->span()));
          continue;
        }
        for (size_t i = 0; i < ids.size(); ++i)
          if (ids[i] == t->id) v.device = pointers[i];
        if (!v.device) return refuse(2002, str("tensor ", t->id, " has no pointer"));
        if (reinterpret_cast<u64>(v.device) % u64(t->alignment))
          return refuse(2003, str("tensor ", t->id, " is not aligned as it says"));
        v.bytes.resize(size_t(t->span()) * t->item());
        if (t->by_value)
          std::memcpy(v.bytes.data(), v.device, v.bytes.size());
        else
          cuda.copy(v.bytes.data(), v.device, v.bytes.size(), CudaCopy::to_host, stream_);
      }
    cuda.wait_stream(stream_);
    for (const FakeOperation& op : graph.operations) fake_compute(op, values);
    for (const FakeOperation& op : graph.operations)
      if (FakeValues& out = values[op.output().id]; !out.t->is_virtual)
        cuda.copy(out.device, out.bytes.data(), out.bytes.size(), CudaCopy::to_device, stream_);
    cuda.wait_stream(stream_);
    f().last_ = text_of(graph);
    f().last_engine_ = graph.engine;
    return 0;
  }

  static std::string text_of(const FakeGraph& graph) {
    const FakeOperation& first = graph.operations.front();
    std::string text = first.name();
    if (first.windows.strides.empty()) {
      for (size_t i = 1; i < graph.operations.size(); ++i) text += " " + graph.operations[i].name();
      return text;
    }
    text += str(" x=", first.x.text());
    if (first.has_w) text += str(" w=", first.w.text());
    return str(text, " y=", first.y.text(), " before=", fake_text(first.windows.before),
               " behind=", fake_text(first.windows.behind), " beta=", first.beta,
               " operations=", graph.operations.size());
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
int FakeCudnn::live_descriptors() { return FakeDescriptor::live; }

}  // namespace wt_test
