#include "warptape/data/text/bpe_train.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "warptape/core/error.h"
#include "warptape/data/bpe.h"

namespace wt::data::detail {
namespace {

// The different pieces of a text, one behind the other, as symbols that are linked within a piece.
class Corpus {
 public:
  explicit Corpus(std::string_view text) {
    std::unordered_map<std::string_view, i64> counts;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, BpeTokenizer::first_piece(text));
      ++counts[piece];
      text.remove_prefix(piece.size());
    }
    u64 total = 0;
    for (const auto& [piece, count] : counts) total += piece.size();
    if (total >= u64{1} << 31)
      throw UsageError(
          str("[BpeTokenizer] ", total, " bytes of different pieces, the limit is 2^31"));
    symbols_.reserve(total);
    for (const auto& [piece, count] : counts) add(piece, count);
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  // The most frequent pair; false if none has `min_count`.
  bool best(i64 min_count, Pair& p) {
    while (!heap_.empty()) {
      const Entry top = heap_.top();
      heap_.pop();
      const auto found = pairs_.find(top.key);
      const i64 count = found == pairs_.end() ? 0 : found->second.count;
      if (count < top.count) {  // it has become rarer since
        if (count >= min_count) heap_.push({count, top.key});
        continue;
      }
      if (count < min_count) return false;
      p = {i64(top.key >> 32), i64(top.key & 0xffffffffu)};
      return true;
    }
    return false;
  }

  void merge(const Pair& p, i64 id) {
    auto node = pairs_.extract(pair_key(p.left, p.right));
    std::vector<i32>& places = node.mapped().places;
    std::sort(places.begin(), places.end());  // "aaa" merges from the left
    made_.clear();
    for (const i32 at : places) merge_at(at, p, id);
    for (const u64 key : made_)
      if (const i64 count = pairs_[key].count; count > 0) heap_.push({count, key});
  }

 private:
  struct Symbol {
    i64 id, weight;     // id -1: merged into the one before
    i32 before, after;  // -1: none
  };
  struct Places {
    i64 count = 0;
    std::vector<i32> places;  // of left symbols; some may be merged since
  };
  struct Entry {
    i64 count;
    u64 key;
    bool operator<(const Entry& o) const {
      return count != o.count ? count < o.count : key > o.key;
    }
  };

  void add(std::string_view piece, i64 weight) {
    const i32 begin = i32(symbols_.size()), end = begin + i32(piece.size());
    for (i32 at = begin; at < end; ++at) {
      symbols_.push_back({u8(piece[size_t(at - begin)]), weight, at == begin ? -1 : at - 1,
                          at + 1 == end ? -1 : at + 1});
      if (at > begin) found(at - 1);
    }
  }
  Symbol& at(i32 i) { return symbols_[size_t(i)]; }
  u64 key_at(i32 i) { return pair_key(at(i).id, at(at(i).after).id); }
  void found(i32 i) {
    Places& pair = pairs_[key_at(i)];
    pair.count += at(i).weight;
    pair.places.push_back(i);
  }
  // The merged pair itself is in the table no longer.
  void lost(i32 i) {
    if (const auto pair = pairs_.find(key_at(i)); pair != pairs_.end())
      pair->second.count -= at(i).weight;
  }
  void merge_at(i32 i, const Pair& p, i64 id) {
    Symbol& left = at(i);
    if (left.id != p.left || left.after < 0 || at(left.after).id != p.right) return;
    Symbol& right = at(left.after);
    if (left.before >= 0) lost(left.before);
    if (right.after >= 0) lost(left.after);
    left.id = id;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) {
      at(left.after).before = i;
      found(i);
      made_.push_back(key_at(i));
    }
    if (left.before >= 0) {
      found(left.before);
      made_.push_back(key_at(left.before));
    }
  }

  std::vector<Symbol> symbols_;
  std::unordered_map<u64, Places> pairs_;
  std::priority_queue<Entry> heap_;
  std::vector<u64> made_;
};

}  // namespace

std::vector<Pair> train_merges(std::string_view text, i64 merges, i64 min_count) {
  Corpus corpus(text);
  std::vector<Pair> pairs;
  Pair p;
  while (i64(pairs.size()) < merges && corpus.best(min_count, p)) {
    corpus.merge(p, 256 + i64(pairs.size()));
    pairs.push_back(p);
  }
  return pairs;
}

}  // namespace wt::data::detail
