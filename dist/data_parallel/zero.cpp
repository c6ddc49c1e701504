#include "warptape/dist/zero.h"

#include <algorithm>

#include "warptape/optim/arena.h"

namespace wt::dist {

Tensor range_of(const Tensor& arena, i64 begin, i64 count) {
  const TensorImpl* whole = arena.impl();
  const i64 at = static_cast<const char*>(whole->data) -
                 static_cast<const char*>(whole->storage->data) + begin * item_size(arena.dtype());
  return optim::detail::flat_over(whole->storage, at, count, arena.dtype());
}

Tensor own_piece(const Communicator& comm, const Tensor& whole) {
  const i64 count = whole.numel() / comm.size();
  return range_of(whole, count * comm.rank(), count);
}

namespace {

// Beside a weight, its bias: where one goes, the other may go too.
bool is_tiny(i64 bytes, i64 beside) { return bytes <= beside / 16; }

}  // namespace

std::vector<Group> groups_from_end(std::span<const i64> sizes, i64 item_bytes, i64 first_limit,
                                   i64 limit) {
  std::vector<Group> groups;
  for (size_t end = sizes.size(); end > 0;) {
    const i64 room = groups.empty() ? first_limit : limit;
    size_t begin = end;
    i64 bytes = 0, tail = 0;
    for (; begin > 0; --begin) {
      const i64 more = sizes[begin - 1] * item_bytes;
      if (begin < end && bytes + more > room && !is_tiny(bytes, more)) break;
      bytes += more;
    }
    // The bias of a weight that has no room here comes a layer later than the rest.
    const i64 next = begin > 0 ? sizes[begin - 1] * item_bytes : 0;
    while (begin + 1 < end && is_tiny(tail + sizes[begin] * item_bytes, next))
      tail += sizes[begin++] * item_bytes;
    groups.push_back({begin, end - begin});
    end = begin;
  }
  return groups;
}

std::vector<ZeroShards::Range> ZeroShards::cut(std::span<const i64> sizes, i64 item_bytes) const {
  constexpr i64 kAlign = 64;  // elements: pieces begin where wide loads can
  const i64 multiple = kAlign * comm_.size();
  std::vector<Group> groups =
      groups_from_end(sizes, item_bytes, options_.first_bucket_bytes, options_.bucket_bytes);
  std::reverse(groups.begin(), groups.end());
  std::vector<Range> ranges;
  i64 at = 0;
  for (const Group& g : groups) {
    i64 count = 0;
    for (size_t i = g.first; i < g.first + g.n; ++i) count += sizes[i];
    count = (count + multiple - 1) / multiple * multiple;
    ranges.push_back({g.first, g.n, at, count});
    at += count;
  }
  return ranges;
}

void ZeroShards::gather(const Tensor& arena, std::span<const Range> ranges) {
  std::vector<Work> under_way;
  for (const Range& r : ranges) {
    const Tensor bucket = range_of(arena, r.begin, r.count);
    under_way.push_back(comm_.start_all_gather(bucket, own_piece(comm_, bucket)));
  }
  for (const Work& w : under_way) w.wait();
}

}  // namespace wt::dist
