// Lifo: the newest item, by insertion.
#pragma once

#include "select/list.h"

namespace gear {

class LifoSelector final : public ListSelector {
 public:
  explicit LifoSelector(layout::ListIndex* index) : ListSelector(index, true) {}
};

}  // namespace gear
