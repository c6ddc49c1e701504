#include "warptape/tools/wt/grade/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "warptape/tests/tolerance.h"

namespace wt::grade {
namespace {

std::string number(double v, int digits = 6) {
  if (std::isnan(v)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, v);
  return text;
}
// "0.25 where 0.125 is right", with as many digits as tell them apart.
std::string beside_right(double got, double want) {
  const bool same = number(got) == number(want);
  return number(got, same ? 17 : 6) + " where " + number(want, same ? 17 : 6) + " is right";
}

// "y[3, 256]"
std::string element_name(const Operand& o, i64 e) {
  std::string text;
  for (int d = o.shape.ndim(); d-- > 0;) {
    text = std::to_string(e % o.shape[d]) + (text.empty() ? "" : ", ") + text;
    e /= o.shape[d];
  }
  return o.name + (text.empty() ? "" : "[" + text + "]");
}

bool all_bytes(const u8* p, i64 n, u8 value) {
  return std::all_of(p, p + n, [=](u8 b) { return b == value; });
}

// Of one operand that is written.
class Comparison {
 public:
  Comparison(const Operand& o, const OperandLayout& layout, const std::vector<u8>& begun,
             const u8* ended, const std::vector<double>& before)
      : o_(o), item_(item_size(o.dtype)), places_(element_places(layout)) {
    for (size_t e = 0; e < places_.size(); ++e) {
      const i64 place = places_[e];
      double got = load_element(ended + place, o.dtype);
      if (is_rest(i64(e))) got += load_element(ended + places_[e - size_t(o.rest)], o.dtype);
      const double want = right_of(o.want, i64(e));
      if (o.bound[e] < 0 || wt_test::within(got, want, o.bound[e])) continue;
      wrong_.push_back(i64(e));
      got_.push_back(got);
      unwritten_ += std::memcmp(ended + place, begun.data() + place, size_t(item_)) == 0;
      stale_ += !before.empty() && wt_test::within(got, right_of(before, i64(e)), o.bound[e]);
      nan_ += std::isnan(got) && !std::isnan(want);
      no_nan_ += !std::isnan(got) && std::isnan(want);
      const double error = std::fabs(got - want);
      close_ += error < 0.02 * std::fabs(want) + 100 * o.bound[e];
    }
  }
  bool right() const { return wrong_.empty(); }
  Fault fault() const {
    const Wrong wrong = kind();
    const i64 n = i64(wrong_.size());
    size_t shown = 0;
    while (wrong == Wrong::nan && !std::isnan(got_[shown])) ++shown;
    const i64 e = wrong_[shown];
    std::string text = element_name(o_, e);
    if (wrong != Wrong::unwritten && is_rest(e))
      text.insert(0, element_name(o_, e - o_.rest) + " + ");
    if (wrong == Wrong::unwritten)
      text += " was not written";
    else
      text += " is " + beside_right(got_[shown], right_of(o_.want, e));
    text += str("; wrong: ", n, " of ", places_.size(), n == 1 ? " element" : " elements");
    if (n < i64(places_.size()) && at_ends()) text += ", all " + ends_text();
    return {wrong, text};
  }

 private:
  bool is_rest(i64 e) const { return e >= o_.rest && e < 2 * o_.rest; }
  double right_of(const std::vector<double>& results, i64 e) const {
    return results[size_t(e)] + (is_rest(e) ? results[size_t(e - o_.rest)] : 0);
  }
  Wrong kind() const {
    const size_t n = wrong_.size();
    if (stale_ == n) return Wrong::stale;
    if (no_nan_ * 2 > n) return Wrong::no_nan;
    if (n < places_.size() && at_ends()) return Wrong::tail;
    if (unwritten_ == n) return Wrong::unwritten;
    if (nan_ > 0) return Wrong::nan;
    if (is_half(o_.dtype) && close_ == n) return Wrong::rounding;
    return Wrong::value;
  }
  // Nothing is wrong but at the ends: of the rows, or of all elements.
  bool at_ends() const { return last_columns() || wrong_.front() * 2 >= i64(places_.size()); }
  // The first of the last columns in which all that is wrong lies; 0: none.
  i64 last_columns() const {
    if (o_.shape.ndim() == 0) return 0;
    const i64 columns = o_.shape[o_.shape.ndim() - 1];
    i64 least = columns;
    for (const i64 e : wrong_) least = std::min(least, e % columns);
    return least * 2 >= columns ? least : 0;
  }
  std::string ends_text() const {
    if (const i64 first = last_columns(); first && o_.shape.ndim() > 1)
      return str("in the columns from ", first, " on");
    return "from " + element_name(o_, wrong_.front()) + " on";
  }

  const Operand& o_;
  i64 item_;
  std::vector<i64> places_;
  std::vector<i64> wrong_;   // elements
  std::vector<double> got_;  // of these
  size_t unwritten_ = 0, stale_ = 0, nan_ = 0, no_nan_ = 0, close_ = 0;
};

// The first byte outside of its elements that has changed; -1: none. In an operand that is read all
// bytes are outside.
i64 changed_byte(const Operand& o, const OperandLayout& layout, const std::vector<u8>& begun,
                 const u8* ended) {
  std::vector<bool> inside(begun.size());
  if (o.written)
    for (const i64 place : element_places(layout))
      for (i64 b = 0; b < item_size(o.dtype); ++b) inside[size_t(place + b)] = true;
  for (size_t b = 0; b < begun.size(); ++b)
    if (!inside[b] && begun[b] != ended[b]) return i64(b);
  return -1;
}

std::optional<Fault> find_beside(const Operand& o, const OperandLayout& layout,
                                 const std::vector<u8>& begun, const std::vector<u8>& ended) {
  const u8* const own = ended.data() + kZoneBytes;
  if (!all_bytes(ended.data(), kZoneBytes, kCanary))
    return Fault{Wrong::beside, str("memory before the first element of ", o.name, " was written")};
  if (!all_bytes(own + begun.size(), kZoneBytes, kCanary))
    return Fault{Wrong::beside, str("memory behind the last element of ", o.name, " was written")};
  const i64 at = changed_byte(o, layout, begun, own);
  if (at < 0) return std::nullopt;
  if (o.written)
    return Fault{Wrong::beside, str("memory between the elements of ", o.name, " was written")};
  return Fault{Wrong::input, str(o.name, " was written, ", at - layout.begin,
                                 " bytes behind its first element; it is only read")};
}

}  // namespace

std::optional<Fault> find_fault(const Problem& p, const std::vector<std::vector<u8>>& begun,
                                const std::vector<std::vector<u8>>& ended,
                                const std::vector<std::vector<double>>& before) {
  for (size_t i = 0; i < p.operands.size(); ++i)
    if (p.data.operand[i].there())
      if (auto fault = find_beside(p.operands[i], p.data.operand[i], begun[i], ended[i]))
        return fault;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    if (!o.written || o.absent) continue;
    const Comparison c(o, p.data.operand[i], begun[i], ended[i].data() + kZoneBytes,
                       before.empty() ? std::vector<double>() : before[i]);
    if (!c.right()) return c.fault();
  }
  return std::nullopt;
}

bool same_results(const Problem& p, const std::vector<std::vector<u8>>& a,
                  const std::vector<std::vector<u8>>& b) {
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    if (!o.written || o.absent) continue;
    const std::vector<i64> places = element_places(p.data.operand[i]);
    for (size_t e = 0; e < places.size(); ++e) {
      const i64 at = kZoneBytes + places[e];
      const bool any = o.bound[e] < 0;
      // NaNs differ in bits that nobody promised.
      if (any || (std::isnan(load_element(a[i].data() + at, o.dtype)) &&
                  std::isnan(load_element(b[i].data() + at, o.dtype))))
        continue;
      if (std::memcmp(a[i].data() + at, b[i].data() + at, size_t(item_size(o.dtype))) != 0)
        return false;
    }
  }
  return true;
}

}  // namespace wt::grade
