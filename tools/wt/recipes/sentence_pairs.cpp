#include "warptape/tools/wt/recipes/sentence_pairs.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/philox.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;
constexpr i64 kIgnored = -100;  // what cross_entropy passes over

data::LineCoder coder_of(const std::shared_ptr<const Subwords>& words) {
  return {[words](std::string_view line) { return words->encode(line); }, Subwords::kPad,
          Subwords::kBegin, Subwords::kEnd};
}

// Pairs of which no side is empty, with how many were left out.
data::ParallelLines without_empty(const data::ParallelLines& lines, i64& empty) {
  data::ParallelLines kept;
  for (size_t i = 0; i < lines.source.size(); ++i) {
    if (lines.source[i].empty() || lines.target[i].empty()) {
      ++empty;
      continue;
    }
    kept.source.push_back(lines.source[i]);
    kept.target.push_back(lines.target[i]);
  }
  return kept;
}

data::ParallelLines by_length(const data::ParallelLines& lines) {
  std::vector<size_t> order(lines.source.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lines.source[a].size() < lines.source[b].size();
  });
  data::ParallelLines sorted;
  for (const size_t i : order) {
    sorted.source.push_back(lines.source[i]);
    sorted.target.push_back(lines.target[i]);
  }
  return sorted;
}

i64 rounded_up(i64 n, i64 to) { return (n + to - 1) / to * to; }

// [N, n] with what is behind its own columns.
Tensor padded(const Tensor& t, i64 n, i64 with) {
  if (t.size(1) == n) return t;
  return cat(
      {t, full({t.size(0), n - t.size(1)}, with, {.dtype = DType::i64, .device = Device::cpu()})},
      1);
}

}  // namespace

PairFiles find_pair_files(const std::string& folder, const Languages& l) {
  std::string missing;
  const auto find = [&](const std::string& name) {
    for (const char* packed : {"", ".gz", ".xz"}) {
      const std::string path = (fs::path(folder) / (name + packed)).string();
      std::error_code ec;
      if (fs::is_regular_file(path, ec)) return path;
    }
    missing += (missing.empty() ? "" : ", ") + name;
    return std::string();
  };
  PairFiles f{find("train." + l.source), find("train." + l.target), find("val." + l.source),
              find("val." + l.target)};
  if (!missing.empty())
    throw DataError(str(printable_path(folder), ": there is no ", missing,
                        " (plain, .gz or .xz)\n  Try --set source=LANGUAGE and target=LANGUAGE"));
  return f;
}

data::ParallelLines synthetic_pairs(i64 first, i64 count) {
  constexpr u32 kWords = 24, kShortest = 3, kLengths = 6;
  const PhiloxKey key = philox_key(0, RandomStream::user);
  data::ParallelLines lines;
  for (i64 i = first; i < first + count; ++i) {
    std::string source, target;
    const u32 length = kShortest + philox(key, u64(i), 0).v[0] % kLengths;
    for (u32 w = 0; w < length; ++w) {
      const u32 word = philox(key, u64(i), 1 + w).v[0] % kWords;
      const auto spelt = [&](char a) { return std::string{a, char('a' + word)}; };
      source += (source.empty() ? "" : " ") + spelt('s');
      target = spelt('t') + (target.empty() ? "" : " ") + target;
    }
    lines.source.push_back(std::move(source));
    lines.target.push_back(std::move(target));
  }
  return lines;
}

SentencePairs::SentencePairs(const data::ParallelLines& lines,
                             const std::shared_ptr<const Subwords>& words, const PairLimits& limits,
                             const std::string& what)
    : pad_to_(limits.pad_to) {
  i64 empty = 0;
  data::ParallelLines kept = without_empty(lines, empty);
  if (limits.sorted) kept = by_length(kept);
  const auto failed = [&](const std::string& why) {
    return DataError(str(what, ": no pair is left of ", lines.source.size(), ": ", why));
  };
  if (kept.source.empty()) throw failed("all others have an empty side");
  const data::LineCoder coder = coder_of(words);
  try {
    text_ = std::make_shared<data::ParallelText>(
        kept, coder, coder, data::ParallelTextOptions{.max_length = limits.max_length});
  } catch (const DataError&) {
    throw failed(str(empty, " have an empty side, ", kept.source.size(), " more than ",
                     limits.max_length, " tokens\n  Try --set max_length=N"));
  }
  if (const i64 left_out = empty + text_->left_out(); left_out > 0)
    remark_ = str(what, ": ", left_out, " of ", lines.source.size(), " pairs are left out: ", empty,
                  " with an empty side, ", text_->left_out(), " with more than ", limits.max_length,
                  " tokens");
}

i64 padded_length(const PairLimits& limits) {
  return rounded_up(limits.max_length + 2, limits.pad_to);
}

data::Batch SentencePairs::batch(std::span<const i64> indices) const {
  const data::TextPairBatch b = text_->batch(indices);
  const i64 places = b.target.size(1) - 1;
  const i64 length = rounded_up(std::max(b.source.size(1), places), pad_to_);
  const Tensor source = padded(b.source, length, Subwords::kPad);
  const Tensor target = padded(b.target.narrow(1, 0, places), length, Subwords::kPad);
  const Tensor follows = where(b.target_mask, b.target, kIgnored).narrow(1, 1, places);
  return {stack({source, target}, 1), padded(follows, length, kIgnored)};
}

}  // namespace wt::tools
