// Something that dies with a storage of a device other than cpu: one a storage.
#pragma once
#include "warptape/core/storage.h"

namespace wt {

// For storages without one; callers see to it that no two threads set it at once.
// deleter(companion) runs when the storage dies.
void set_companion(Storage* s, void* companion, void (*deleter)(void*));
// What was set together with `deleter`; null: nothing.
void* companion_of(const Storage* s, void (*deleter)(void*));

}  // namespace wt
