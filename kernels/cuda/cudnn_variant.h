// What the variants named `cudnn` share: a graph is run, or the best of our own kernels takes its
// place and one line says why.
#pragma once
#include <string_view>

#include "warptape/core/error.h"
#include "warptape/core/storage.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/cudnn_plan.h"

namespace wt {

// Memory of a kernel for as long as this lives: the stream's order keeps it until it is read.
class CudnnWorkspace {
 public:
  CudnnWorkspace(Device d, i64 bytes) {
    const CategoryScope scope(Category::workspace);
    if (bytes) storage_ = allocate(d, bytes);
  }
  CudnnWorkspace(const CudnnWorkspace&) = delete;
  ~CudnnWorkspace() {
    if (storage_) release(storage_);
  }
  void* data() const { return storage_ ? storage_->data : nullptr; }

 private:
  Storage* storage_ = nullptr;
};

// A graph that is to be run on what it reads and writes.
struct CudnnCall {
  CudnnKey key;
  bool exact = false;  // see cudnn_plan
  void (*describe)(CudnnGraph& graph, const void* problem) = nullptr;
  const void* problem = nullptr;
  std::vector<i64> ids = {};
  std::vector<void*> pointers = {};
  void bind(i64 id, const void* p) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(p));
  }
};
// False when cuDNN cannot, and nothing was queued; `reason` says why.
bool cudnn_compute(const CudnnCall& call, const Launch& l, std::string& reason);

// The best of our own kernels, with the workspace that it asks for.
template <class Args>
WT_COLD void launch_without_cudnn(const Args& a, Launch l, const std::string& reason) {
  const char* contract = ContractTable<Args>::kName;
  const Variants<Args>* list = ContractTable<Args>::rows[int(l.device.kind)];
  const Variant<Args>* best = nullptr;
  int score = -1;
  for (int i = 0; list && i < list->count; ++i) {
    const Variant<Args>& v = list->rows[i];
    if (std::string_view(v.name) == "cudnn" || refusal(v, a, l.device)) continue;
    const int rank = v.rank_of ? v.rank_of(a) : v.rank;
    if (rank > score) best = &v, score = rank;
  }
  if (!best) throw NotAvailable(str("[", contract, "] cuDNN cannot: ", reason));
  warn_once(str(contract, " without cuDNN"),
            str("[", contract, "] cuDNN cannot: ", reason, "; our own kernel \"", best->name,
                "\" computes here (and for every such call)"));
  const CudnnWorkspace workspace(l.device, best->workspace ? best->workspace(a) : 0);
  l.workspace = workspace.data();
  best->launch(a, l);
}

}  // namespace wt
