// Picking by index.
#include "warptape/autograd/onnx/export.h"
#include "warptape/kernels/gather.h"

namespace wt::onnx {
namespace {

// Operands: indices, table.
void embedding(OpExport& e) {
  e.put(e.w.node("Gather", {e.in(1), e.in(0)}, {attribute("axis", i64{0})}));
}
void gather(OpExport& e) {
  e.put(e.w.node("GatherElements", {e.in(0), e.in(1)},
                 {attribute("axis", i64{e.args<GatherArgs>().axis})}));
}
void index_select(OpExport& e) {
  if (e.of(0).geometry().ndim == 0 || e.of(1).geometry().ndim != 1) e.refuse("of a 0-d tensor");
  e.put(
      e.w.node("Gather", {e.in(0), e.in(1)}, {attribute("axis", i64{e.args<GatherArgs>().axis})}));
}
void scatter(OpExport& e) {
  const ScatterArgs& a = e.args<ScatterArgs>();
  if (e.of(1).shape() != e.of(2).shape() || e.twin_of(1).shape() != e.twin_of(2).shape())
    e.refuse("a source that is larger than the index");
  Attributes how{attribute("axis", i64{a.axis})};
  if (a.mode == ScatterMode::add) how.push_back(attribute("reduction", "add"));
  e.put(e.w.node("ScatterElements", {e.in(0), e.in(1), e.in(2)}, how));
}
void one_hot(OpExport& e) {
  const int last = e.out().geometry().ndim - 1;
  const i64 classes = e.out().geometry().shape[last];
  e.same(!e.dynamic(0, last), "the number of classes");
  const std::string yes = e.w.integers({0, 1});
  e.put(e.w.node("OneHot", {e.in(0, DType::i64), e.w.integers({classes}), yes},
                 {attribute("axis", i64{-1})}));
}

}  // namespace

void add_index_exporters(Exporters& to) {
  to["embedding"] = embedding, to["gather"] = gather, to["index_select"] = index_select;
  to["scatter"] = to["scatter_add"] = scatter, to["one_hot"] = one_hot;
}

}  // namespace wt::onnx
