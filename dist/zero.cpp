#include "warptape/dist/zero.h"

#include <algorithm>

#include "warptape/optim/arena.h"

namespace wt::dist {

Tensor range_of(const Tensor& arena, const optim::Sharding::Piece& p) {
  Geometry g{};
  set_contiguous(g, &p.count, 1, arena.dtype());
  const TensorImpl* whole = arena.impl();
  const i64 at = static_cast<const char*>(whole->data) -
                 static_cast<const char*>(whole->storage->data) +
                 p.begin * item_size(arena.dtype());
  return optim::detail::tensor_over(whole->storage, at, g);
}

ZeroShards::ZeroShards(Communicator& comm, i64 bucket_elements)
    : comm_(comm),
      bucket_((std::max<i64>(1, bucket_elements) + multiple() - 1) / multiple() * multiple()) {}

std::vector<ZeroShards::Piece> ZeroShards::buckets(i64 elements) const {
  std::vector<Piece> all;
  for (i64 at = 0; at < elements; at += bucket_)
    all.push_back({at, std::min(bucket_, elements - at)});
  return all;
}

ZeroShards::Piece ZeroShards::piece_of(const Piece& bucket) const {
  const i64 count = bucket.count / comm_.size();
  return {bucket.begin + count * comm_.rank(), count};
}

std::vector<ZeroShards::Piece> ZeroShards::pieces(i64 elements) const {
  std::vector<Piece> all;
  for (const Piece& b : buckets(elements)) all.push_back(piece_of(b));
  return all;
}

void ZeroShards::gather(const Tensor& arena) {
  std::vector<Work> under_way;
  for (const Piece& b : buckets(arena.numel()))
    under_way.push_back(comm_.start_all_gather(range_of(arena, b), range_of(arena, piece_of(b))));
  for (const Work& w : under_way) w.wait();
}

}  // namespace wt::dist
