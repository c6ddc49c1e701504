#include "warptape/core/suggest.h"

#include <algorithm>
#include <array>

namespace wt {
namespace {

constexpr std::size_t kMaxWord = 64;  // longer words are nobody's typing error

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

// Optimal string alignment: three rows of the Damerau-Levenshtein table.
int edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kMaxWord || b.size() > kMaxWord) return static_cast<int>(2 * kMaxWord);
  std::array<std::array<int, kMaxWord + 1>, 3> rows;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    const auto& two_above = rows[(i + 1) % 3];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + !same});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best, begun;
  int best_distance = std::max(1, static_cast<int>(word.size()) / 3) + 1, beginnings = 0;
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < static_cast<int>(word.size())) {
      best = candidate;
      best_distance = distance;
    }
    if (word.size() >= 3 && candidate.starts_with(word)) begun = candidate, ++beginnings;
  }
  return best_distance > 1 && beginnings == 1 ? begun : best;
}

}  // namespace wt
