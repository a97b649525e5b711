// Fifo: the oldest item, by insertion.
#pragma once

#include "select/list.h"

namespace gear {

class FifoSelector final : public ListSelector {
 public:
  explicit FifoSelector(layout::ListIndex* index) : ListSelector(index, false) {}
};

}  // namespace gear
