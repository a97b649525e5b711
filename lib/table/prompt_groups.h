// Prompt groups that still lack members.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace gear {

// Conductor only; private memory, and in the directory's PromptRecords for the next server. Members are item slots that are filled and hidden: in no index, and of no generation that
// a key could name. O(1) but for a group's own members.
class PromptGroups {
 public:
  struct Group {
    uint64_t id;
    uint32_t size;
    uint32_t number;
    std::vector<uint32_t> slots;
  };

  // The incomplete group of that id, or nullptr.
  Group* find(uint64_t id) {
    auto found = by_id_.find(id);
    return found != by_id_.end() ? &*found->second : nullptr;
  }
  Group* begin(uint64_t id, uint32_t size) { return begin_as(id, size, number_ + 1); }
  // Numbers only grow.
  Group* begin_as(uint64_t id, uint32_t size, uint32_t number) {
    number_ = number;
    groups_.push_back({id, size, number, {}});
    by_id_[id] = std::prev(groups_.end());
    return &groups_.back();
  }
  // Takes the group out; its slots are the caller's now.
  std::vector<uint32_t> finish(uint64_t id) {
    auto found = by_id_.find(id);
    if (found == by_id_.end()) return {};
    std::vector<uint32_t> slots = std::move(found->second->slots);
    groups_.erase(found->second);
    by_id_.erase(found);
    return slots;
  }
  size_t count() const { return groups_.size(); }
  // The one begun first.
  uint64_t oldest() const { return groups_.front().id; }

  const std::list<Group>& groups() const { return groups_; }

 private:
  uint32_t number_ = 0;
  std::list<Group> groups_;  // in order of their begin
  std::unordered_map<uint64_t, std::list<Group>::iterator> by_id_;
};

}  // namespace gear
