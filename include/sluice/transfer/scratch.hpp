// SPDX-License-Identifier: Apache-2.0
// Scratch: memory to work in, of a type that its owner does not know.
#pragma once

#include <utility>

namespace sluice::detail {

/// How to make and to end an object that a Scratch holds.
struct ScratchType {
  void* (*make)();
  void (*end)(void*);
};
template <class T>
inline constexpr ScratchType scratch_of{[]() -> void* { return new T{}; },
                                        [](void* object) { delete static_cast<T*>(object); }};

/// Nothing in it outlasts a call, so a copy starts with an object of its own, and assignment leaves each its own:
/// copying a planner from step to step copies no memory and allocates none.
///
/// (A std::unique_ptr would do, but <memory> takes as long to compile as all of a transfer rule's other headers.)
class Scratch {
 public:
  explicit Scratch(const ScratchType& type) : type_(&type), object_(type.make()) {}
  Scratch(const Scratch& other) : Scratch(*other.type_) {}
  Scratch& operator=(const Scratch& other) {
    if (type_ != other.type_) {
      Scratch fresh{other};
      std::swap(type_, fresh.type_);
      std::swap(object_, fresh.object_);
    }
    return *this;
  }
  ~Scratch() { type_->end(object_); }

  [[nodiscard]] void* get() { return object_; }

 private:
  const ScratchType* type_;
  void* object_;
};

} // namespace sluice::detail
