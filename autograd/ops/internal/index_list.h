// x[{...}] taken apart: views for integers and slices, and row numbers of a table for tensors. Read
// by index() and written by index_put().
#pragma once
#include <span>
#include <vector>

#include "warptape/autograd/op_scope.h"
#include "warptape/core/tensor.h"

namespace wt::detail {

// How many of `ndim` axes the ellipsis of a list stands for (0 without one). Throws IndexError for
// a second one.
int axes_of_ellipsis(int ndim, std::span<const Index> at);

// An index list, taken apart. Throws as index() says.
struct IndexList {
  // A view that an integer, a slice or a new axis made: of `from`, along `axis`.
  struct Cut {
    Tensor from;
    int axis;
    const Index* entry;
  };

  IndexList(Tensor x, std::span<const Index> at);

  // Row numbers, i64 [rows], of the tuples of indices in the table of the indexed axes. A bad index
  // throws in the operator's name; on devices other than the cpu it becomes -1 and raises the
  // mailbox.
  Tensor row_numbers(const OpInfo& op) const;

  std::vector<Cut> cuts{};      // in order; the last one's view is `base`
  Tensor base;                  // after all but the tensors: a view
  std::vector<int> axes{};      // of base that tensors index, ascending
  std::vector<Tensor> lists{};  // their indices, expanded to `broadcast`
  Shape broadcast{};
  int position = 0;  // where `broadcast` goes among base's other axes
  Frame at{};        // of the list

 private:
  void add_tensor(const Index& i, int& axis);
  // A 0-d list drops its axis as an integer does: what is beside it on both sides are neighbours.
  int place_of_broadcast() const;
  void cut(Tensor view, int axis, const Index& entry);
};

// base as a table [rows, width] with the indexed axes in front, and the shapes around it.
struct IndexTable {
  explicit IndexTable(const IndexList& p);
  Tensor table() const { return front.reshape({rows, width}); }  // a view where strides allow it

  Tensor front;                     // base with the indexed axes first: a view
  std::vector<i64> front_order{};   // axis d of front is axis front_order[d] of base
  std::vector<i64> result_order{};  // axis d of the result is axis result_order[d] of `picked`
  Shape picked{};                   // `broadcast`, then the axes that no tensor indexes
  Shape result{};                   // the shape of x[{...}]
  i64 rows = 1, width = 1;
};

std::vector<i64> inverse_order(const std::vector<i64>& order);

// table[rows[i], :] for row numbers that were checked; differentiable in the table.
Tensor rows_of(const Tensor& table, const Tensor& rows);

}  // namespace wt::detail
