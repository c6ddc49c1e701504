// Views, rearranging, padding, indices.
#include "warptape/tests/fuzz/operators.h"

namespace wt_test {
namespace {

Slice range(Draw& d, i64 n) {
  Slice r;
  r.begin = d.number(0, n);
  if (d.flag()) r.end = d.number(0, n);
  r.step = d.number(1, 3);
  return r;
}
i64 size_at(const Tensor& x, i64 axis) {
  const int n = x.ndim();
  return axis >= -n && axis < n ? x.size(axis) : 1;
}
// What it would have: for shapes that are arguments.
Shape with_size(Shape s, i64 axis, i64 size) {
  const int n = s.ndim();
  if (axis >= -n && axis < n) s[int(axis < 0 ? axis + n : axis)] = size;
  return s;
}
i64 length(const Slice& r, i64 n) {
  const auto clip = [&](i64 v) { return v < 0 ? std::max<i64>(v + n, 0) : std::min(v, n); };
  const i64 begin = clip(r.begin), end = std::max(clip(r.end), begin);
  return r.step < 1 || begin == end ? 0 : (end - begin - 1) / r.step + 1;
}

// The sizes of x in other groups, some of them merged or cut.
Shape regrouped(Draw& d, const Tensor& x) {
  Shape s;
  i64 n = x.numel();
  while (n > 1 && s.ndim() < 5) {
    i64 k = 2;
    while (n % k) ++k;
    if (d.flag() && n / k > 1 && (n / k) % k == 0) k *= k;
    s.push_back(k);
    n /= k;
  }
  if (n != 1) s.push_back(n);
  if (d.chance(0.2) && !s.empty()) s[int(d.pick(s.ndim()))] = -1;
  return d.as_argument(s);
}

void add_views(Callers& to) {
  to["view"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return view(x, regrouped(d, x));
  };
  to["reshape"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return reshape(x, regrouped(d, x));
  };
  to["flatten"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 first = d.axis(x.ndim()), last = d.axis(x.ndim());
    return flatten(x, first, last);
  };
  to["transpose"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim()), b = d.axis(x.ndim());
    return transpose(x, a, b);
  };
  to["permute"] = [](Draw& d) {
    const Tensor x = d.tensor();
    std::vector<i64> order;
    const i64 first = x.ndim() ? d.pick(x.ndim()) : 0;
    for (int i = 0; i < x.ndim(); ++i) order.push_back((first + i) % x.ndim());
    if (d.chance(0.1)) order.push_back(d.axis(x.ndim()));
    return permute(x, order);
  };
  to["expand"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = d.tensor(d.narrower(s));
    return expand(x, d.as_argument(s));
  };
  to["squeeze"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return d.flag() ? squeeze(x) : squeeze(x, d.axis(x.ndim()));
  };
  to["unsqueeze"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return unsqueeze(x, d.axis(x.ndim() + 1));
  };
  to["select"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim()), n = size_at(x, a);
    return select(x, a, d.number(-n, n - 1 < -n ? -n : n - 1));
  };
  to["slice"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    return slice(x, a, range(d, size_at(x, a)));
  };
  to["split"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    if (d.flag()) return split(x, d.number(1, 4), a);
    const i64 n = size_at(x, a), first = d.number(0, n);
    return split(x, std::vector<i64>{first, n - first}, a);
  };
  to["chunk"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    return chunk(x, d.number(1, 4), a);
  };
  to["unbind"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return unbind(x, d.axis(x.ndim()));
  };
  to["movedim"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const Dims from = d.axes(x.ndim()), there = d.axes(x.ndim());
    if (d.flag()) return movedim(x, d.axis(x.ndim()), d.axis(x.ndim()));
    return movedim(x, from, there);
  };
  to["unfold"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim()), n = std::max<i64>(size_at(x, a), 1);
    const i64 size = d.number(1, n), step = d.number(1, 3);
    return unfold(x, a, size, step);
  };
  to["unfold_backward"] = [](Draw& d) {
    d.floats();
    Shape s = d.shape(0, 4);
    const i64 a = d.axis(s.ndim());
    i64 n = 1;
    if (a >= -s.ndim() && a < s.ndim()) n = std::max<i64>(s[int(a < 0 ? a + s.ndim() : a)], 1);
    const i64 size = 1 + d.pick(n), step = d.number(1, 3);
    Shape windows = with_size(s, a, step > 0 ? (n - size) / step + 1 : 1);
    windows.push_back(size);
    const Tensor g = d.tensor(d.bent(windows));
    return unfold_backward(g, d.as_argument(s), a, size, step);
  };
  to["meshgrid"] = [](Draw& d) {
    std::vector<Tensor> lists;
    for (i64 i = d.pick(4); i >= 0; --i) lists.push_back(d.tensor(d.shape(0, 1)));
    return meshgrid(lists, {.indexing = d.flag() ? Indexing::ij : Indexing::xy});
  };
  to["diagonal"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4));
    const i64 offset = d.number(-3, 3), a = d.axis(x.ndim()), b = d.axis(x.ndim());
    return diagonal(x, offset, a, b);
  };
}

void add_copies(Callers& to) {
  to["contiguous"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return contiguous(x, d.flag() ? MemoryFormat::contiguous : MemoryFormat::channels_last);
  };
  to["clone"] = [](Draw& d) { return clone(d.tensor()); };
  to["to_dtype"] = [](Draw& d) { return to_dtype(d.tensor(), DType(d.pick(kNumDTypes))); };
  to["to_device"] = [](Draw& d) {
    return to_device(d.tensor(), d.flag() ? Device::cpu() : Device::meta());
  };
  to["cat"] = [](Draw& d) {
    const Shape s = d.shape(1, 4);
    const i64 a = d.axis(s.ndim());
    std::vector<Tensor> parts;
    for (i64 i = d.pick(3); i >= 0; --i)
      parts.push_back(d.tensor(d.bent(with_size(s, a, d.size()))));
    return cat(parts, a);
  };
  to["stack"] = [](Draw& d) {
    const Shape s = d.shape(0, 4);
    std::vector<Tensor> parts;
    for (i64 i = d.pick(3); i >= 0; --i) parts.push_back(d.tensor(d.bent(s)));
    return stack(parts, d.axis(s.ndim() + 1));
  };
  to["hstack"] = [](Draw& d) {
    const Shape s = d.shape(0, 4);
    std::vector<Tensor> parts;
    for (i64 i = d.pick(3); i >= 0; --i) parts.push_back(d.tensor(d.bent(s)));
    return hstack(parts);
  };
  to["vstack"] = [](Draw& d) {
    const Shape s = d.shape(0, 4);
    std::vector<Tensor> parts;
    for (i64 i = d.pick(3); i >= 0; --i) parts.push_back(d.tensor(d.bent(s)));
    return vstack(parts);
  };
  to["diff"] = [](Draw& d) {
    const Shape s = d.shape(1, 4);
    const Tensor x = d.tensor(s);
    DiffOptions o{.n = d.number(0, 3), .dim = d.axis(s.ndim())};
    if (d.flag()) o.prepend = d.tensor(d.bent(with_size(s, o.dim, d.size())));
    if (d.flag()) o.append = d.tensor(d.bent(with_size(s, o.dim, d.size())));
    return diff(x, o);
  };
  to["slice_backward"] = [](Draw& d) {
    const Shape s = d.shape(0, 4);
    const i64 a = d.axis(s.ndim());
    const i64 n = a >= -s.ndim() && a < s.ndim() ? s[int(a < 0 ? a + s.ndim() : a)] : 1;
    const Slice r = range(d, n);
    const Tensor g = d.tensor(d.bent(with_size(s, a, length(r, n))));
    return slice_backward(g, d.as_argument(s), a, r);
  };
  to["slice_scatter"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim()), n = size_at(x, a);
    const Slice r = range(d, n);
    const Tensor source = d.tensor(d.bent(with_size(x.shape(), a, length(r, n))));
    return slice_scatter(x, source, a, r);
  };
  to["select_scatter"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4));
    const i64 a = d.axis(x.ndim()), n = std::max<i64>(size_at(x, a), 1);
    Shape s = x.shape();
    if (a >= -x.ndim() && a < x.ndim()) s.erase(int(a < 0 ? a + x.ndim() : a));
    const Tensor source = d.tensor(d.bent(s));
    return select_scatter(x, source, a, d.number(-n, n - 1));
  };
  to["repeat"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 3));
    Shape repeats;
    for (int i = 0; i < x.ndim() + int(d.pick(2)); ++i) repeats.push_back(d.number(0, 3));
    return repeat(x, d.bent(repeats));
  };
  to["tile"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 3));
    Shape repeats;
    for (i64 i = d.pick(4); i > 0; --i) repeats.push_back(d.number(0, 3));
    return tile(x, d.bent(repeats));
  };
  to["repeat_interleave"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 n = d.number(0, 3);
    if (d.flag()) return repeat_interleave(x, n);
    return repeat_interleave(x, n, d.axis(x.ndim()));
  };
  to["flip"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return flip(x, d.axes(x.ndim()));
  };
  to["roll"] = [](Draw& d) {
    const Tensor x = d.tensor();
    if (d.chance(0.3)) return roll(x, d.number(-5, 5));
    std::vector<i64> shifts, axes;
    for (i64 i = d.pick(3); i > 0; --i) {
      shifts.push_back(d.number(-5, 5));
      axes.push_back(d.axis(x.ndim()));
    }
    return roll(x, shifts, axes);
  };
  to["pad"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    constexpr PadMode kModes[] = {PadMode::constant, PadMode::reflect, PadMode::replicate,
                                  PadMode::circular};
    const PadMode how = d.flag() ? PadMode::constant : kModes[d.pick(4)];
    std::vector<i64> pairs;
    for (i64 i = 2 * d.pick(x.ndim() + 1) - (d.chance(0.03) ? 1 : 0); i > 0; --i)
      pairs.push_back(d.number(how == PadMode::constant ? -1 : 0, 2));
    return pad(x, std::span<const i64>(pairs), {.mode = how, .value = d.scalar()});
  };
  to["tril"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4));
    return tril(x, d.number(-3, 3));
  };
  to["triu"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4));
    return triu(x, d.number(-3, 3));
  };
  to["diag"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 2));
    return diag(x, d.number(-3, 3));
  };
  to["diag_embed"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 3));
    const i64 offset = d.number(-3, 3), a = d.axis(x.ndim() + 1), b = d.axis(x.ndim() + 1);
    return diag_embed(x, offset, a, b);
  };
  to["diagonal_backward"] = [](Draw& d) {
    const i64 rows = d.size(), columns = d.size(), offset = d.number(-2, 2);
    const i64 most = std::max<i64>(rows, columns);
    const i64 o = std::clamp<i64>(offset, -most, most);
    const i64 n =
        std::max<i64>(0, o < 0 ? std::min(rows + o, columns) : std::min(rows, columns - o));
    const Tensor g = d.tensor(d.bent({2, n}));
    return diagonal_backward(g, d.as_argument({2, rows, columns}), offset, 1, 2);
  };
}

// --- indices ---
Results written_at(Draw& d, bool in_place) {
  const Shape s = d.shape(1, 4);
  Tensor x = in_place ? d.target(s) : d.tensor(s);
  const bool adds = d.chance(0.3);
  const Tensor value = d.tensor(d.flag() ? Shape{} : d.narrower(s));
  const Tensor at = d.index(d.shape(0, 2), s[0]);
  const i64 i = d.number(-s[0], std::max<i64>(s[0] - 1, -s[0]));
  const Slice r = range(d, s.ndim() > 1 ? s[1] : 1);
  const IndexPutOptions o{.accumulate = adds};
  switch (d.pick(4)) {
    case 0:
      return in_place ? x.index_put_({at}, value, o) : index_put(x, {at}, value, o);
    case 1:
      return in_place ? x.index_put_({i}, value, o) : index_put(x, {i}, value, o);
    case 2:
      return in_place ? x.index_put_({r, at}, value, o) : index_put(x, {r, at}, value, o);
    default:
      return in_place ? x.index_put_({i, r}, value, o) : index_put(x, {i, r}, value, o);
  }
}

void add_indices(Callers& to) {
  to["index"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4));
    const i64 n = x.size(0), m = x.ndim() > 1 ? x.size(1) : 1;
    const Tensor at = d.index(d.shape(0, 2), n), also = d.index(d.shape(0, 2), m);
    switch (d.pick(5)) {
      case 0:
        return index(x, {at});
      case 1:
        return index(x, {at, also});
      case 2:
        return index(x, {range(d, n), also});
      case 3:
        return index(x, {d.number(-n, std::max<i64>(n - 1, -n)), range(d, m)});
      default:
        return index(x, {d.truth(d.bent({n}))});
    }
  };
  to["index_put"] = [](Draw& d) { return written_at(d, false); };
  to["index_put_"] = [](Draw& d) { return written_at(d, true); };
  to["gather"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim());
    const Tensor at = d.index(d.bent(with_size(x.shape(), a, d.size())), size_at(x, a));
    return gather(x, a, at);
  };
  const auto scattered = [](Draw& d, bool adds) -> Results {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim());
    const Shape s = with_size(x.shape(), a, d.size());
    const Tensor at = d.index(d.bent(s), size_at(x, a));
    if (!adds && d.chance(0.2)) return scatter(x, a, at, d.scalar());
    const Tensor source = d.tensor(d.bent(s));
    return adds ? scatter_add(x, a, at, source) : scatter(x, a, at, source);
  };
  to["scatter"] = [=](Draw& d) { return scattered(d, false); };
  to["scatter_add"] = [=](Draw& d) { return scattered(d, true); };
  to["index_select"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim());
    return index_select(x, a, d.index(d.shape(0, 1), size_at(x, a)));
  };
  to["index_add"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim()), n = d.size();
    const Tensor at = d.index(d.bent({n}), size_at(x, a));
    const Tensor source = d.tensor(d.bent(with_size(x.shape(), a, n)));
    return index_add(x, a, at, source, {.alpha = d.flag() ? Scalar(1) : d.scalar()});
  };
  to["masked_fill"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = d.tensor(s), mask = d.truth(d.narrower(s));
    if (d.flag()) return masked_fill(x, mask, d.scalar());
    return masked_fill(x, mask, d.tensor(d.bent({})));
  };
  to["masked_select"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = d.tensor(s);
    return masked_select(x, d.truth(d.narrower(s)));
  };
  to["nonzero"] = [](Draw& d) { return nonzero(d.tensor()); };
  to["one_hot"] = [](Draw& d) {
    const Tensor at = d.index(d.shape(0, 3), 4);
    if (d.chance(0.3)) return one_hot(at);
    return one_hot(at, d.number(4, 6));
  };
  to["embedding"] = [](Draw& d) {
    d.floats();
    const i64 rows = 1 + d.pick(5);
    const Tensor at = d.index(d.shape(0, 3), rows), w = d.tensor(d.bent({rows, d.size()}));
    EmbeddingOptions o;
    if (d.flag()) o.padding_idx = d.number(-rows, rows - 1);
    return embedding(at, w, o);
  };
  to["embedding_bag"] = [](Draw& d) {
    d.floats();
    const i64 rows = 1 + d.pick(5), n = d.size();
    const bool listed = d.flag();
    const Shape s = listed ? Shape{n} : Shape{d.size(), n};
    const Tensor at = d.index(d.bent(s), rows), w = d.tensor(d.bent({rows, d.size()}));
    EmbeddingBagOptions o;
    o.mode = EmbeddingBagMode(d.pick(3));
    // Offsets that ascend from 0: other devices take what the cpu refuses.
    if (listed)
      o.offsets = cat(
          {zeros({1}, {.dtype = DType::i64}), d.number(0, n) + zeros({1}, {.dtype = DType::i64})});
    if (listed) o.include_last_offset = d.flag();
    if (d.flag()) o.padding_idx = d.number(-rows, rows - 1);
    if (o.mode == EmbeddingBagMode::sum && d.flag()) o.per_sample_weights = d.tensor(d.bent(s));
    return embedding_bag(at, w, o);
  };
  to["embedding_backward"] = [](Draw& d) {
    d.floats();
    Shape s = d.shape(0, 3);
    const Tensor at = d.index(s, 4);
    s.push_back(d.size());
    const Tensor g = d.tensor(d.bent(s));
    EmbeddingOptions o;
    if (d.flag()) o.padding_idx = d.number(0, 3);
    return embedding_backward(g, at, d.number(0, 6), o);
  };
  to["sort"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return sort(x, d.axis(x.ndim()), {.descending = d.flag()});
  };
  to["argsort"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return argsort(x, d.axis(x.ndim()), {.descending = d.flag()});
  };
  to["topk"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    return topk(x, d.number(0, size_at(x, a)), a, {.largest = d.flag()});
  };
  to["bincount"] = [](Draw& d) {
    const i64 n = d.size();
    const Tensor x = d.index({n}, 6);
    if (d.flag()) return bincount(x, d.number(0, 8));
    const Tensor w = d.tensor(d.bent({n}));
    return bincount(x, w, d.number(0, 8));
  };
  to["max_with_indices"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return max_with_indices(x, d.axis(x.ndim()), {.keep_dim = d.flag()});
  };
  to["min_with_indices"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return min_with_indices(x, d.axis(x.ndim()), {.keep_dim = d.flag()});
  };
  to["median"] = [](Draw& d) -> Results {
    const Tensor x = d.tensor();
    if (d.chance(0.3)) return median(x);
    return median(x, d.axis(x.ndim()), {.keep_dim = d.flag()});
  };
  to["nanmedian"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return nanmedian(x, d.axis(x.ndim()), {.keep_dim = d.flag()});
  };
  to["kthvalue"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    return kthvalue(x, d.number(0, size_at(x, a)), a, {.keep_dim = d.flag()});
  };
  to["quantile"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    const i64 a = d.axis(x.ndim());
    const QuantileOptions o{.keep_dim = d.flag(), .interpolation = Interpolation(d.pick(5))};
    if (d.flag()) return quantile(x, d.real(0, 1), a, o);
    return quantile(x, d.tensor(d.shape(0, 1), 0, 1), a, o);
  };
  to["count_nonzero"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return count_nonzero(x, d.axes(x.ndim()));
  };
  to["unique"] = [](Draw& d) { return unique(d.tensor()); };
  to["searchsorted"] = [](Draw& d) {
    const Shape s = d.shape(1, 3);
    const Tensor list = sort(d.tensor(s)).values;
    return searchsorted(list, d.tensor(d.bent(s)), {.right = d.flag()});
  };
  to["bucketize"] = [](Draw& d) {
    const Tensor list = sort(d.tensor(d.shape(1, 1))).values;
    return bucketize(d.tensor(), list, {.right = d.flag()});
  };
  to["scatter_reduce"] = [](Draw& d) {
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim());
    const Shape s = with_size(x.shape(), a, d.size());
    const Tensor at = d.index(d.bent(s), size_at(x, a)), source = d.tensor(d.bent(s));
    return scatter_reduce(x, a, at, source, ScatterReduction(d.pick(5)),
                          {.include_self = d.flag()});
  };
  to["trace"] = [](Draw& d) { return trace(d.tensor(d.shape_of_rank(2))); };
  to["multinomial"] = [](Draw& d) {
    d.floats();
    const Tensor p = d.tensor(d.shape(1, 2), 0, 1);
    return multinomial(p, d.number(1, 3), {.replacement = d.flag()});
  };
}

}  // namespace

void add_shape_callers(Callers& to) {
  add_views(to);
  add_copies(to);
  add_indices(to);
}

}  // namespace wt_test
