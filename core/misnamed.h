// Names that options have elsewhere, refused with the name that they have here.
#pragma once
#include <initializer_list>

namespace wt::detail {
template <class>
inline constexpr bool kNever = false;
}

// A last member of an options struct. `{.theirs = value}` does not compile, and the error is one
// line, `says`. It takes no room, and the struct stays an aggregate that is copied as bytes: each
// has a type of its own, since two empty members of one type would lie at two addresses.
#define WT_MISNAMED_SAYS(theirs, says)                \
  struct No_##theirs {                                \
    constexpr No_##theirs() = default;                \
    template <class T>                                \
    constexpr No_##theirs(const T&) {                 \
      static_assert(::wt::detail::kNever<T>, says);   \
    }                                                 \
    template <class T>                                \
    constexpr No_##theirs(std::initializer_list<T>) { \
      static_assert(::wt::detail::kNever<T>, says);   \
    }                                                 \
  };                                                  \
  [[no_unique_address]] No_##theirs theirs {}
// For a name that differs and no more.
#define WT_MISNAMED(theirs, ours) WT_MISNAMED_SAYS(theirs, "." #theirs " is called ." #ours " here")
