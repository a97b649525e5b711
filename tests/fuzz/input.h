// What a fuzzer's input says, read from its begin; zeros once it is used up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace gear::test {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  template <typename T>
  T take() {
    T value{};
    size_t bytes = std::min(size_, sizeof value);
    memcpy(&value, data_, bytes);
    skip(bytes);
    return value;
  }
  uint8_t byte() { return take<uint8_t>(); }
  // Mostly small, at times near the end of its range.
  uint64_t number() {
    uint8_t kind = byte();
    if (kind < 0x80) return kind;
    if (kind < 0xc0) return take<uint16_t>();
    if (kind < 0xd0) return ~uint64_t{0} - byte();
    if (kind < 0xe0) return (uint64_t{1} << (byte() % 64)) - 1;
    if (kind < 0xf0) return take<uint32_t>();
    return take<uint64_t>();
  }
  double real() {
    uint8_t kind = byte();
    if (kind < 0x80) return kind / 8.0;
    if (kind < 0xc0) return -1.0 * kind;
    return take<double>();
  }
  std::string text(size_t bytes_max) {
    size_t bytes = std::min<size_t>(byte(), std::min(bytes_max, size_));
    std::string text(reinterpret_cast<const char*>(data_), bytes);
    skip(bytes);
    return text;
  }

 private:
  void skip(size_t bytes) {
    data_ += bytes;
    size_ -= bytes;
  }
  const uint8_t* data_;
  size_t size_;
};

}  // namespace gear::test
