// A queue of bounded length that never allocates after its construction.
#pragma once

#include <cstddef>
#include <vector>

namespace cdma {

template <class T>
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }
  T& operator[](size_t index) { return items_[wrap(first_ + index)]; }
  const T& operator[](size_t index) const { return items_[wrap(first_ + index)]; }
  T& front() { return items_[first_]; }

  // The new last item, with what an old one left in it.
  T& push() { return (*this)[size_++]; }
  void pop() {
    first_ = wrap(first_ + 1);
    --size_;
  }
  void clear() { size_ = 0; }

 private:
  size_t wrap(size_t index) const { return index < items_.size() ? index : index - items_.size(); }

  std::vector<T> items_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace cdma
