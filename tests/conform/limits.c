/* The ends of what a table may be: dtypes, ranks, columns, names, sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static ConformTable open_columns(const gear_column_options* columns, uint32_t count) {
  gear_table_options options = conform_options(10);
  options.columns = columns;
  options.column_count = count;
  return conform_open(&options, 1);
}

static gear_batch* draw_one(gear_table* table, uint32_t mode) {
  return conform_sample(conform_sampler(table, mode, 1), 1);
}

static const struct {
  uint32_t dtype;
  uint32_t element_bytes; /* given in the options; 0 where the dtype has its own */
  uint32_t bytes;
  const char* name;
} kDtypes[15] = {{GEAR_BOOL, 0, 1, "bool"}, {GEAR_U8, 0, 1, "u8"},     {GEAR_I8, 0, 1, "i8"},
                 {GEAR_U16, 0, 2, "u16"},   {GEAR_I16, 0, 2, "i16"},   {GEAR_U32, 0, 4, "u32"},
                 {GEAR_I32, 0, 4, "i32"},   {GEAR_U64, 0, 8, "u64"},   {GEAR_I64, 0, 8, "i64"},
                 {GEAR_F16, 0, 2, "f16"},   {GEAR_BF16, 0, 2, "bf16"}, {GEAR_F32, 0, 4, "f32"},
                 {GEAR_F64, 0, 8, "f64"},   {GEAR_C64, 0, 8, "c64"},   {GEAR_BYTES, 5, 5, "bytes"}};

static ConformTable open_dtypes(void) {
  static const int64_t shape[1] = {3};
  gear_column_options columns[15];
  for (int i = 0; i < 15; ++i) {
    columns[i] = conform_column(kDtypes[i].name, kDtypes[i].dtype, 1, shape);
    columns[i].element_bytes = kDtypes[i].element_bytes;
  }
  return open_columns(columns, 15);
}

static void assert_dtypes_come_back(uint32_t mode) {
  static const int64_t shape[1] = {3};
  ConformTable table = open_dtypes();
  uint64_t random = conform_seed();
  uint8_t data[15][24];
  gear_cell cells[15];
  for (int i = 0; i < 15; ++i) {
    for (int byte = 0; byte < 24; ++byte) {
      /* Random bits, signalling NaNs among them; bool has only two values. */
      const uint8_t bits = (uint8_t)conform_random(&random);
      data[i][byte] = kDtypes[i].dtype == GEAR_BOOL ? bits & 1 : bits;
    }
    cells[i] = conform_cell((uint32_t)i, kDtypes[i].dtype, 1, shape, data[i]);
    cells[i].element_bytes = kDtypes[i].element_bytes;
  }
  assert_ok(gear_writer_append(table.writer, 0, cells, 15, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = draw_one(table.table, mode);
  for (int i = 0; i < 15; ++i) {
    const gear_tensor tensor = conform_tensor(batch, kDtypes[i].name);
    assert_int_equal(tensor.dtype, kDtypes[i].dtype);
    assert_int_equal(tensor.element_bytes, kDtypes[i].bytes);
    assert_int_equal(tensor.size_bytes, 3 * kDtypes[i].bytes);
    assert_memory_equal(tensor.data, data[i], 3 * kDtypes[i].bytes);
  }
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(EveryDtypeComesBackBitForBitDirect) {
  assert_dtypes_come_back(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 48 */
GEAR_TEST(EveryDtypeComesBackBitForBitLeased) {
  assert_dtypes_come_back(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 48 */
GEAR_TEST(EveryDtypeIsDescribedWithItsSize) {
  ConformTable table = open_dtypes();
  for (uint32_t i = 0; i < 15; ++i) {
    gear_column_info column = GEAR_COLUMN_INFO_INIT;
    assert_ok(gear_table_column(table.table, i, &column));
    assert_string_equal(column.name, kDtypes[i].name);
    assert_int_equal(column.dtype, kDtypes[i].dtype);
    assert_int_equal(column.element_bytes, kDtypes[i].bytes);
    assert_int_equal(column.cell_bytes, 3 * kDtypes[i].bytes);
    assert_int_equal(column.rank, 1);
    assert_int_equal(column.shape[0], 3);
  }
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(EveryRankFromZeroToEightComesBackInItsShape) {
  static const int64_t shape[GEAR_RANK_MAX] = {2, 1, 3, 2, 1, 2, 2, 1};
  static const size_t elements[GEAR_RANK_MAX + 1] = {1, 2, 2, 6, 12, 12, 24, 48, 48};
  gear_column_options columns[GEAR_RANK_MAX + 1];
  gear_cell cells[GEAR_RANK_MAX + 1];
  char names[GEAR_RANK_MAX + 1][8];
  uint16_t data[GEAR_RANK_MAX + 1][48];
  for (uint32_t rank = 0; rank <= GEAR_RANK_MAX; ++rank) {
    snprintf(names[rank], sizeof names[rank], "rank%u", rank);
    columns[rank] = conform_column(names[rank], GEAR_U16, rank, shape);
    cells[rank] = conform_cell(rank, GEAR_U16, rank, shape, data[rank]);
    for (int i = 0; i < 48; ++i) data[rank][i] = (uint16_t)(1000 * rank + i);
  }
  ConformTable table = open_columns(columns, GEAR_RANK_MAX + 1);
  assert_ok(gear_writer_append(table.writer, 0, cells, GEAR_RANK_MAX + 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = draw_one(table.table, GEAR_SAMPLE_AUTO);
  for (uint32_t rank = 0; rank <= GEAR_RANK_MAX; ++rank) {
    const gear_tensor tensor = conform_tensor(batch, names[rank]);
    assert_int_equal(tensor.rank, rank + 1);
    assert_int_equal(tensor.shape[0], 1);
    assert_memory_equal(&tensor.shape[1], shape, rank * sizeof shape[0]);
    assert_memory_equal(tensor.data, data[rank], 2 * elements[rank]);
  }
  conform_close(&table);
}

static void name_columns(gear_column_options* columns, char (*names)[16], uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(names[i], sizeof names[i], "c%u", i);
    columns[i] = conform_column(names[i], GEAR_U32, 0, NULL);
  }
}

/* SEMANTICS 48 */
GEAR_TEST(TableOf256ColumnsKeepsThemApart) {
  static gear_column_options columns[GEAR_COLUMNS_MAX];
  static char names[GEAR_COLUMNS_MAX][16];
  static uint32_t data[GEAR_COLUMNS_MAX];
  static gear_cell cells[GEAR_COLUMNS_MAX];
  name_columns(columns, names, GEAR_COLUMNS_MAX);
  ConformTable table = open_columns(columns, GEAR_COLUMNS_MAX);
  for (uint32_t step = 0; step < 3; ++step) {
    for (uint32_t i = 0; i < GEAR_COLUMNS_MAX; ++i) {
      data[i] = 1000 * step + i;
      cells[i] = conform_cell(i, GEAR_U32, 0, NULL, &data[i]);
    }
    assert_ok(gear_writer_append(table.writer, 0, cells, GEAR_COLUMNS_MAX, CONFORM_PATIENCE_NS));
  }
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 16);
  const gear_tensor first = conform_tensor(batch, "c0");
  for (uint32_t i = 0; i < GEAR_COLUMNS_MAX; ++i) {
    const gear_tensor tensor = conform_tensor(batch, names[i]);
    for (uint32_t row = 0; row < 16; ++row) {
      assert_int_equal(((const uint32_t*)tensor.data)[row], ((const uint32_t*)first.data)[row] + i);
    }
  }
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(TableOf257ColumnsIsRefused) {
  static gear_column_options columns[GEAR_COLUMNS_MAX + 1];
  static char names[GEAR_COLUMNS_MAX + 1][16];
  name_columns(columns, names, GEAR_COLUMNS_MAX + 1);
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  gear_table_options options = conform_options(10);
  options.name = "wide";
  options.columns = columns;
  options.column_count = GEAR_COLUMNS_MAX + 1;
  gear_table* wide = NULL;
  assert_status(gear_table_create(table.client, &options, &wide), GEAR_ESIZE);
  assert_explained("257", "256");
  conform_assert_unharmed(&table, &before);
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(TableOfOneColumnOfOneByteWorks) {
  const gear_column_options column = conform_column("b", GEAR_BOOL, 0, NULL);
  ConformTable table = open_columns(&column, 1);
  const uint8_t one = 1;
  const gear_cell cell = conform_cell(0, GEAR_BOOL, 0, NULL, &one);
  assert_ok(gear_writer_append(table.writer, 0, &cell, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = draw_one(table.table, GEAR_SAMPLE_AUTO);
  assert_int_equal(*(const uint8_t*)conform_tensor(batch, "b").data, 1);
  conform_close(&table);
}

/* Makes a table and a column of this name, and finds both by it. */
static void assert_name_works(const char* name) {
  const gear_column_options column = conform_column(name, GEAR_U8, 0, NULL);
  gear_table_options options = conform_options(10);
  options.name = name;
  options.columns = &column;
  options.column_count = 1;
  ConformTable table = conform_open(&options, 1);
  gear_table* found = NULL;
  assert_ok(gear_table_open(table.client, name, &found));
  assert_string_equal(conform_info(found).name, name);
  uint32_t index = 77;
  assert_ok(gear_table_column_index(found, name, &index));
  assert_int_equal(index, 0);
  const uint8_t value = 7;
  const gear_cell cell = conform_cell(0, GEAR_U8, 0, NULL, &value);
  assert_ok(gear_writer_append(table.writer, 0, &cell, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = draw_one(found, GEAR_SAMPLE_AUTO);
  assert_int_equal(*(const uint8_t*)conform_tensor(batch, name).data, 7);
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(NamesOfOneByteWork) {
  assert_name_works("n");
}

/* SEMANTICS 48 */
GEAR_TEST(NamesOf255BytesWork) {
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  assert_name_works(name);
}

/* SEMANTICS 48 */
GEAR_TEST(NamesInUtf8Of255BytesWork) {
  char name[256] = "";
  for (int i = 0; i < 85; ++i) strcat(name, "\xe2\x82\xac");
  assert_name_works(name);
}

/* SEMANTICS 48 */
GEAR_TEST(NamesWithSlashesQuotesSpacesAndEmojiWork) {
  assert_name_works("a/b \"c\" ../\xf0\x9f\x90\x8d\n%s");
}

/* SEMANTICS 48 */
GEAR_TEST(TableOfOneItemHoldsTheNewestStep) {
  ConformTable table = conform_open_simple(1);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (int64_t step = 0; step < 20; ++step) {
    conform_append(table.writer, 0, step, 1);
    conform_flush(table.writer);
    gear_batch* batch = conform_sample(sampler, 2);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_int_equal(conform_i64(&tensor, 0, 0), step);
    assert_int_equal(conform_i64(&tensor, 1, 0), step);
    assert_ok(gear_batch_release(batch));
  }
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

/* SEMANTICS 48 */
GEAR_TEST(TableHoldsExactlyItsCapacityWhereThatIsNoPowerOfTwo) {
  ConformTable table = conform_open_simple(37);
  conform_append(table.writer, 0, 0, 37);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 37);
  assert_int_equal(conform_stats(table.table).evictions, 0);
  uint64_t keys[37];
  conform_keys(table.table, keys, 37);
  conform_append(table.writer, 0, 37, 1);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 37);
  assert_int_equal(conform_stats(table.table).evictions, 1);
  conform_close(&table);
}

GEAR_TEST(CellOfAMebibyteComesBackWhole) {
  enum { kBytes = 1 << 20 };
  static const int64_t shape[2] = {1024, 1024};
  const gear_column_options column = conform_column("frame", GEAR_U8, 2, shape);
  ConformTable table = open_columns(&column, 1);
  uint8_t* frame = malloc(kBytes);
  assert_non_null(frame);
  uint64_t random = conform_seed();
  for (int i = 0; i < kBytes; ++i) frame[i] = (uint8_t)conform_random(&random);
  const gear_cell cell = conform_cell(0, GEAR_U8, 2, shape, frame);
  assert_ok(gear_writer_append(table.writer, 0, &cell, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = draw_one(table.table, GEAR_SAMPLE_AUTO);
  assert_memory_equal(conform_tensor(batch, "frame").data, frame, kBytes);
  free(frame);
  conform_close(&table);
}
