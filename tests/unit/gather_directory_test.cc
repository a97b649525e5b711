// ctest: labels=unit timeout=30
//
// A directory whose words lead outside the mappings is refused before anything is read through it.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "gather/check_directory.h"
#include "support/bare_table.h"
#include "table/geometry.h"
#include "table/table.h"

namespace gear {
namespace {

class Directory : public ::testing::Test {
 protected:
  void SetUp() override {
    layout::TableCreateRequest request{};
    strcpy(request.name, "t");
    request.capacity_items = 6;
    request.capacity_steps = 16;
    request.column_count = 2;
    request.item_policy = GEAR_ITEMS_STEP;
    request.episode_steps_max = 8;
    request.sampler = GEAR_SELECT_PRIORITIZED;
    request.priority_alpha = 1;
    request.remover = GEAR_SELECT_FIFO;
    request.limiter = {1, 1, -1e300, 1e300};
    request.lanes_max = 2;
    request.memory = GEAR_MEMORY_MEMFD;
    request.lease_timeout_ms = 1000;
    request.numa_node = -1;
    layout::ColumnSpec columns[2]{};
    strcpy(columns[0].name, "x");
    strcpy(columns[1].name, "goal");
    columns[0].dtype = columns[1].dtype = GEAR_F32;
    columns[1].flags = GEAR_COLUMN_PER_EPISODE;
    table_ = test::make_bare(request, columns);
  }

  layout::TableHeader& header() { return *static_cast<layout::TableHeader*>(table_->directory().data()); }
  Status check() { return check_directory(&header(), table_->directory().size(), table_->data().bytes()); }

  // The word as it should not be: refused, with its name in the text; as it was: sound again.
  template <typename T>
  void refuses(T& word, uint64_t value, const char* name) {
    T before = word;
    word = static_cast<T>(value);
    Status status = check();
    EXPECT_EQ(status.code(), GEAR_EPROTOCOL) << name << " " << value;
    EXPECT_NE(status.text().find(name), std::string::npos) << status.text();
    word = before;
    EXPECT_TRUE(check().ok());
  }

  std::unique_ptr<Table> table_;
};

TEST_F(Directory, OfATableIsSound) { EXPECT_TRUE(check().ok()) << check().text(); }

TEST_F(Directory, ThatIsShorterThanItSaysIsRefused) {
  EXPECT_EQ(check_directory(&header(), 64, table_->data().bytes()).code(), GEAR_EPROTOCOL);
  EXPECT_EQ(check_directory(&header(), header().directory_bytes - 1, table_->data().bytes()).code(), GEAR_EPROTOCOL);
  EXPECT_EQ(check_directory(&header(), table_->directory().size(), header().data_bytes - 1).code(), GEAR_EPROTOCOL);
}

TEST_F(Directory, WhoseArraysLeadOutsideIsRefused) {
  layout::TableHeader& words = header();
  refuses(words.columns_offset, words.directory_bytes, "columns_offset");
  refuses(words.blocks_offset, ~uint64_t{7}, "blocks_offset");
  refuses(words.marks_offset, words.marks_offset + 4, "marks_offset");
  refuses(words.items_offset, words.directory_bytes - 8, "items_offset");
  refuses(words.versions_offset, words.directory_bytes - 8, "versions_offset");
  refuses(words.block_count, 0xfffffff0u, "_offset");
  refuses(words.data_blocks_offset, words.data_bytes, "block_bytes");
  refuses(words.data_episodes_offset, words.data_bytes, "episode_cell_bytes");
}

TEST_F(Directory, WhoseCountsAreImpossibleIsRefused) {
  layout::TableHeader& words = header();
  refuses(words.column_count, 0, "column_count");
  refuses(words.column_count, 257, "column_count");
  refuses(words.block_steps, 0, "block_steps");
  refuses(words.item_slots, 0, "item_slots");
  refuses(words.item_steps_max, 0, "item_steps_max");
  refuses(words.slot_bits, 1, "slot_bits");
  refuses(words.slot_bits, 64, "slot_bits");
  refuses(words.presence_bytes, 0, "presence_bytes");
}

TEST_F(Directory, WhosePartsAreImpossibleIsRefused) {
  layout::TableHeader& words = header();
  refuses(words.block_budget, words.block_count - 1, "block_budget");
  refuses(words.parts, 1, "block_bytes");  // not of whole pages
  refuses(words.parts, layout::kPartsMax + 1, "parts");
  refuses(words.parts, 2, "block_budget");
  refuses(words.parts, 0xffffffffu, "_offset");
}

TEST_F(Directory, WhoseIndexesLeadOutsideIsRefused) {
  layout::TableHeader& words = header();
  refuses(words.index_count, layout::kIndexesMax + 1, "index_count");
  refuses(words.sampler_index, words.index_count, "sampler_index");
  refuses(words.remover_index, words.index_count, "remover_index");
  refuses(words.largest_index, words.index_count, "index");
  refuses(words.named_count, 5, "named_count");
  refuses(words.indexes[0].offset, words.directory_bytes, "offset of an index");
  refuses(words.indexes[0].bytes, ~uint64_t{0}, "offset of an index");
}

// A mixture that draws from a mixture would never end.
TEST_F(Directory, WithAMixtureOfMixturesIsRefused) {
  layout::TableHeader& words = header();
  words.named_index = 0;
  words.named_count = 1;
  refuses(words.indexes[0].selector, GEAR_SELECT_MIXTURE, "selector");
}

TEST_F(Directory, WhoseColumnsLieOutsideTheirBlockIsRefused) {
  auto* columns = layout::at_offset<layout::ColumnRecord>(&header(), header().columns_offset);
  refuses(columns[0].offset, header().block_bytes, "offset of a column");
  refuses(columns[1].offset, header().episode_cell_bytes, "offset of a column");
  refuses(columns[0].cell_bytes, 8, "cell_bytes");
  refuses(columns[0].rank, 9, "rank");
}

}  // namespace
}  // namespace gear
