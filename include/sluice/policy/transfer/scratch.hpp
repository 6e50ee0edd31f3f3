// SPDX-License-Identifier: Apache-2.0
// Scratch: working memory of a type that its owner does not know.
#pragma once

#include <utility>

namespace sluice::detail {

/// How to create and destroy an object that a Scratch holds.
struct ScratchType {
  void* (*make)();
  void (*end)(void*);
};
template <class T>
inline constexpr ScratchType scratch_of{[]() -> void* { return new T{}; },
                                        [](void* object) { delete static_cast<T*>(object); }};

/// Its content does not outlast a call. A copy therefore starts with a new object, and assignment leaves both as they
/// are: copying a planner from step to step copies and allocates nothing.
///
/// (A std::unique_ptr would do, but <memory> takes as long to compile as all other headers of a transfer rule
/// together.)
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
