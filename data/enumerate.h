// Batches, or whatever a range has, with their numbers: Python's enumerate.
//
//   for (auto [i, batch] : enumerate(loader)) { ... batch.x, batch.y ... }
//   for (auto [i, batch] : progress(enumerate(loader), {.desc = "train"})) ...
//
// Of a loader in the middle of an epoch, as after a resume or a `break`, i goes on: it is the
// batch's number in its epoch. `batch` is the range's own element, nothing is copied, and lives
// as long as that does: of a loader until the next one comes. Size and state are the range's, so
// that a progress line knows the total.
#pragma once
#include <iterator>
#include <utility>

#include "warptape/core/types.h"

namespace wt {

// An element of a range with its number: `auto [i, batch]`.
template <class T>
struct Enumerated {
  i64 index;  // of a loader's batch: in its epoch, plus `start`
  T batch;    // T& where the range's elements are lvalues
};

// What enumerate() gives: a range of Enumerated. Range is T& for an lvalue, T for what it owns.
template <class Range>
class EnumerateRange {
  using R = std::remove_reference_t<Range>;
  using Inner = decltype(std::begin(std::declval<R&>()));
  using End = decltype(std::end(std::declval<R&>()));

 public:
  // A number and an element, or a reference to it.
  using Item = Enumerated<decltype(*std::declval<Inner&>())>;

  // The range's own iterator with a number beside it; single pass.
  class Iterator {
   public:
    // At an element of the range, which has this number.
    Iterator(Inner at, i64 index) : at_(std::move(at)), index_(index) {}
    // The number and the element.
    Item operator*() { return {index_, *at_}; }
    // Goes on to the next element and number.
    Iterator& operator++() {
      ++at_;
      ++index_;
      return *this;
    }
    // Whether the range has ended.
    bool operator==(const End& end) { return at_ == end; }

   private:
    Inner at_;
    i64 index_;
  };

  // The range, held by reference or moved in, with `start` as its first element's number.
  EnumerateRange(Range&& range, i64 start) : range_(std::forward<Range>(range)), start_(start) {}

  // The range's begin(); the number is `start` plus the batches that a loader has already given.
  Iterator begin() {
    i64 first = start_;
    if constexpr (requires { i64(range_.state().batch); }) first += i64(range_.state().batch);
    return {std::begin(range_), first};
  }
  // The range's end().
  End end() { return std::end(range_); }

  // The range's size, if it has one: of a loader all batches of an epoch.
  i64 size() const requires requires(const R& r) { i64(std::size(r)); }
  { return i64(std::size(range_)); }
  // The state of a loader, if the range is one.
  decltype(auto) state() const requires requires(const R& r) { r.state().batch; }
  { return range_.state(); }

 private:
  Range range_;
  i64 start_;
};

// The elements of `range` with their numbers from `start` on; a temporary is owned, what has a name
// is referred to.
template <class Range>
EnumerateRange<Range> enumerate(Range&& range, i64 start = 0) {
  return {std::forward<Range>(range), start};
}

}  // namespace wt
