// An object that each thread has one of, also while static and other thread_local objects end.
#pragma once

namespace wt {

// This thread's T, made at the first use and deleted when the thread ends. Destructors that run
// after that (of a static model that is saved, of a thread_local one) get a new one, which is left
// to the system: a plain thread_local object would be used after its end. `Tag` tells two of one
// type apart.
template <class T, class Tag = T>
T& thread_object() {
  static constinit thread_local T* object = nullptr;
  if (!object) [[unlikely]] {
    object = new T;
    struct End {
      ~End() {
        T* const last = object;
        object = nullptr;
        delete last;
      }
    };
    static thread_local End end;
    (void)end;
  }
  return *object;
}

}  // namespace wt
