#include "base/shared_word.h"
#include "gather/gather.h"

namespace gear {

bool read_item(const TableView& table, uint32_t slot, DrawnItem* item) {
  const layout::TableHeader& header = *table.header;
  if (slot >= header.item_slots) return false;
  const layout::ItemRecord& record = table.items[slot];
  // Acquire: the fields that were written before this generation are visible.
  uint64_t generation = observe(record.generation);
  if (generation % 2 == 0) return false;

  item->key = layout::make_key(generation, slot, header.slot_bits);
  item->item_generation = generation;
  item->slot = slot;
  item->block = peek(record.block);
  item->position = peek(record.position);
  item->length = peek(record.length);
  item->episode = peek(record.episode);
  item->times_sampled = peek(record.times_sampled);
  item->priority = peek(record.priority);
  if (item->block >= header.block_count || item->position >= header.block_steps ||
      item->length == 0) {
    return false;
  }
  // Of the item's block, if the item is still the same afterwards: an item holds its blocks.
  item->block_generation = observe(table.blocks[item->block].generation);
  fence_copy_before_check();
  return item->block_generation % 2 == 1 && peek(record.generation) == generation;
}

uint32_t pick_anchor(uint32_t anchor, uint32_t item_length, uint32_t window_length, Rng& rng) {
  if (item_length == 0) return 0;
  switch (anchor) {
    case GEAR_ANCHOR_RANDOM_START: {
      uint32_t last = item_length > window_length ? item_length - window_length : 0;
      return static_cast<uint32_t>(rng.below(uint64_t{last} + 1));
    }
    case GEAR_ANCHOR_RANDOM_STEP:
      return static_cast<uint32_t>(rng.below(item_length));
    default:
      return 0;
  }
}

}  // namespace gear
