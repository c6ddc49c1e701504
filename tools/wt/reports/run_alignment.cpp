#include "warptape/tools/wt/reports/run_alignment.h"

#include <algorithm>
#include <unordered_map>

namespace wt::tools {
namespace {

constexpr int kLevels = 4;

// What two entries have to have in common, from most to least.
std::string key_of(const record::Step& s, const record::Entry& e, int level) {
  const char kind[] = {char('0' + int(e.what)), e.backward ? 'b' : 'f', e.sum ? '+' : '.', '\0'};
  std::string key = str(kind, e.index, '\n', s.text(e.op), '\n', s.text(e.inside));
  if (level < 3) key += '\n' + s.text(e.module);
  if (level == 0 || level == 2) key += '\n' + s.text(e.line);
  if (level < 2)
    for (const i64 size : e.shape) key += str(',', size);
  return key;
}

struct Stretch {
  i64 a, a_end, b, b_end;
};

class Alignment {
 public:
  Alignment(const record::Step& a, const record::Step& b) : a_(a), b_(b) {
    for (int level = 0; level < kLevels; ++level) {
      std::unordered_map<std::string, u32> numbers;
      const auto number = [&](const record::Step& s, std::vector<u32>& keys) {
        for (const record::Entry& e : s.entries)
          keys.push_back(numbers.emplace(key_of(s, e, level), u32(numbers.size())).first->second);
      };
      number(a, keys_a_[level]);
      number(b, keys_b_[level]);
    }
  }

  std::vector<AlignedPair> run() {
    pair_up({0, i64(a_.entries.size()), 0, i64(b_.entries.size())}, 0);
    return std::move(out_);
  }

 private:
  // Pairs within a range that keep the order: the longest such list of "the nth of its key".
  std::vector<AlignedPair> anchors(const Stretch& r, int level) const {
    std::unordered_map<u64, i64> places;  // of b: by key and how many of its key came before
    const auto nth = [&](std::unordered_map<u32, u32>& seen, u32 key) {
      return u64(key) << 32 | seen[key]++;
    };
    std::unordered_map<u32, u32> seen_a, seen_b;
    for (i64 j = r.b; j < r.b_end; ++j) places.emplace(nth(seen_b, keys_b_[level][size_t(j)]), j);
    std::vector<AlignedPair> all;
    for (i64 i = r.a; i < r.a_end; ++i) {
      const auto at = places.find(nth(seen_a, keys_a_[level][size_t(i)]));
      if (at != places.end()) all.push_back({i, at->second});
    }
    return longest_rising(all);
  }
  // Of pairs that rise in a, the most that rise in b too.
  static std::vector<AlignedPair> longest_rising(const std::vector<AlignedPair>& all) {
    std::vector<size_t> ends;  // of the lists of each length: that with the lowest b
    std::vector<i64> before(all.size(), -1);
    for (size_t k = 0; k < all.size(); ++k) {
      const auto at = std::lower_bound(ends.begin(), ends.end(), all[k].b,
                                       [&](size_t e, i64 b) { return all[e].b < b; });
      if (at != ends.begin()) before[k] = i64(*(at - 1));
      if (at == ends.end())
        ends.push_back(k);
      else
        *at = k;
    }
    std::vector<AlignedPair> list;
    for (i64 k = ends.empty() ? -1 : i64(ends.back()); k >= 0; k = before[size_t(k)])
      list.push_back(all[size_t(k)]);
    std::reverse(list.begin(), list.end());
    return list;
  }

  void pair_up(Stretch r, int level) {  // no deeper than kLevels
    if (level == kLevels || r.a == r.a_end || r.b == r.b_end) {
      for (; r.a < r.a_end; ++r.a) out_.push_back({r.a, -1});
      for (; r.b < r.b_end; ++r.b) out_.push_back({-1, r.b});
      return;
    }
    for (const AlignedPair& p : anchors(r, level)) {
      pair_up({r.a, p.a, r.b, p.b}, level + 1);
      out_.push_back(p);
      r.a = p.a + 1;
      r.b = p.b + 1;
    }
    pair_up(r, level + 1);
  }

  const record::Step &a_, &b_;
  std::vector<u32> keys_a_[kLevels], keys_b_[kLevels];
  std::vector<AlignedPair> out_;
};

}  // namespace

std::vector<AlignedPair> align(const record::Step& a, const record::Step& b) {
  return Alignment(a, b).run();
}

}  // namespace wt::tools
