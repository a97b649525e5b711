// Prompt groups that still lack members.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

namespace gear {

// Conductor only; private memory. Members are item slots that are filled and hidden: in no index, and of no generation that
// a key could name. O(incomplete groups) to find one.
class PromptGroups {
 public:
  struct Group {
    uint64_t id;
    uint32_t size;
    std::vector<uint32_t> slots;
  };

  // The incomplete group of that id, or nullptr.
  Group* find(uint64_t id) {
    for (Group& group : groups_) {
      if (group.id == id) return &group;
    }
    return nullptr;
  }
  Group* begin(uint64_t id, uint32_t size) {
    groups_.push_back({id, size, {}});
    groups_.back().slots.reserve(size);
    return &groups_.back();
  }
  // Takes the group out; its slots are the caller's now.
  std::vector<uint32_t> finish(uint64_t id) {
    for (auto group = groups_.begin(); group != groups_.end(); ++group) {
      if (group->id != id) continue;
      std::vector<uint32_t> slots = std::move(group->slots);
      groups_.erase(group);
      return slots;
    }
    return {};
  }
  size_t count() const { return groups_.size(); }
  // The one begun first.
  uint64_t oldest() const { return groups_.front().id; }

 private:
  std::list<Group> groups_;
};

}  // namespace gear
