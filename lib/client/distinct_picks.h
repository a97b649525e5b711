// Draws without repetition, from an index that this process maps read-only.
#pragma once

#include <cstdint>
#include <vector>

#include "gather/table_view.h"
#include "select/direct.h"

namespace gear::client {

// The slots of one batch, each of which is drawn with the probability that it has among those not drawn yet. One thread.
// Allocates when it is made only.
//
// Repetitions are drawn again; where they are too many, because the batch takes most of what there is to draw, what is
// left is gone through item by item: O(item slots) then, O(picks) else.
class DistinctPicks {
 public:
  DistinctPicks(const TableView& table, const layout::IndexRecord& index, uint32_t rows_max);

  // Begins a batch of up to `count` picks; returns how many there were to draw. A pick's probability is that of its
  // slot under the index as a whole, as if it were the first of its batch.
  uint32_t draw(Rng& rng, uint32_t count, Pick* picks);

  // Adds a slot to the batch; false when it is in it already.
  bool add(uint32_t slot);

 private:
  struct Candidate {
    double arrival;
    Pick pick;
    bool operator<(const Candidate& other) const { return arrival < other.arrival; }
  };

  bool contains(uint32_t slot) const;
  uint32_t draw_rest(Rng& rng, uint32_t count, Pick* picks);

  const TableView& table_;
  const layout::IndexRecord& index_;
  std::vector<Pick> tried_;
  std::vector<Candidate> rest_;
  // A hash set of slots: an entry is there when its stamp is the batch's.
  struct Entry {
    uint32_t slot;
    uint32_t stamp;
  };
  std::vector<Entry> seen_;  // a power of two, at most half full
  uint32_t stamp_ = 0;
};

}  // namespace gear::client
