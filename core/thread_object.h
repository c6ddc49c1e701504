// An object that each thread has one of, also while static and other thread_local objects end.
#pragma once
#include "warptape/core/macros.h"

namespace wt {
namespace detail {
// `p` is kept to the end of the process: no leak, though nothing else points to it.
WT_COLD void keep_for_ever(void* p);
}  // namespace detail

// This thread's T, made at the first use and deleted when the thread ends. Destructors that run
// after that (of a static model that is saved, of a thread_local one) get a new one, which is never
// deleted: a plain thread_local object would be used after its end. `Tag` tells two of one type
// apart.
template <class T, class Tag = T>
T& thread_object() {
  static constinit thread_local T* object = nullptr;
  static constinit thread_local bool over = false;
  if (!object) [[unlikely]] {
    object = new T;
    if (over) {
      detail::keep_for_ever(object);
      return *object;
    }
    struct End {
      ~End() {
        T* const last = object;
        object = nullptr;
        over = true;
        delete last;
      }
    };
    static thread_local End end;
    (void)end;
  }
  return *object;
}

}  // namespace wt
