/* Cells that are not what the table asks for: each is refused by its own status, whole, before
 * anything is stored. */
#include "conform/conform.h"
#include "support/conform_table.h"

typedef struct Appending {
  ConformTable table;
  ConformSnapshot before;
  ConformStep content;
  gear_cell cells[kColumns + 1];
} Appending;

/* A table with four steps, and right cells of a fifth for the test to spoil. */
static void open_appending(Appending* a) {
  a->table = conform_open_simple(100);
  conform_append(a->table.writer, 0, 0, 4);
  conform_flush(a->table.writer);
  a->before = conform_snapshot(&a->table);
  a->content = conform_step(0, 4);
  conform_cells(&a->content, a->cells);
  a->cells[kColumns] = a->cells[kPayload];
}

static void assert_append_refused(Appending* a, size_t count, int status) {
  assert_status(gear_writer_append(a->table.writer, 0, a->cells, count, CONFORM_PATIENCE_NS),
                status);
}

static void close_unharmed(Appending* a) {
  conform_assert_unharmed(&a->table, &a->before);
  conform_close(&a->table);
}

/* SEMANTICS 37, 40 */
GEAR_TEST(MissingCellIsRefusedByName) {
  Appending a;
  open_appending(&a);
  assert_append_refused(&a, kColumns - 1, GEAR_ECOUNT);
  assert_explained("steps", "2", "3");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(NoCellsAtAllAreRefused) {
  Appending a;
  open_appending(&a);
  assert_status(gear_writer_append(a.table.writer, 0, NULL, 0, CONFORM_PATIENCE_NS), GEAR_ECOUNT);
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(OneCellTooManyIsRefused) {
  Appending a;
  open_appending(&a);
  assert_append_refused(&a, kColumns + 1, GEAR_ECOUNT);
  assert_explained("steps", "4", "3");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellGivenTwiceIsRefusedByName) {
  Appending a;
  open_appending(&a);
  a.cells[kLane] = a.cells[kStep];
  assert_append_refused(&a, kColumns, GEAR_EDUPLICATE);
  assert_explained("step");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfAnUnknownColumnIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kLane].column = 99;
  assert_append_refused(&a, kColumns, GEAR_ENOCOLUMN);
  assert_explained("99", "3");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfAnotherDtypeIsRefusedEvenWhereACastWouldFit) {
  Appending a;
  open_appending(&a);
  const int64_t wide_lane = 0;
  a.cells[kLane].dtype = GEAR_I64;
  a.cells[kLane].data = &wide_lane;
  assert_append_refused(&a, kColumns, GEAR_EDTYPE);
  assert_explained("lane", "i64", "i32");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfADtypeThatDoesNotExistIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kLane].dtype = 77;
  assert_append_refused(&a, kColumns, GEAR_EDTYPE);
  assert_explained("lane", "77");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfAnotherRankIsRefused) {
  Appending a;
  open_appending(&a);
  const int64_t shape[2] = {kPayloadBytes, 1};
  a.cells[kPayload].rank = 2;
  a.cells[kPayload].shape = shape;
  assert_append_refused(&a, kColumns, GEAR_ESHAPE);
  assert_explained("payload", "13");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(ScalarCellForAColumnWithAShapeIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kPayload].rank = 0;
  a.cells[kPayload].shape = NULL;
  assert_append_refused(&a, kColumns, GEAR_ESHAPE);
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfAnotherExtentIsRefused) {
  Appending a;
  open_appending(&a);
  const int64_t shape[1] = {kPayloadBytes - 1};
  a.cells[kPayload].shape = shape;
  assert_append_refused(&a, kColumns, GEAR_ESHAPE);
  assert_explained("payload", "12", "13");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellOfAHugeRankIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kPayload].rank = UINT16_MAX;
  assert_append_refused(&a, kColumns, GEAR_ESHAPE);
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellWithoutDataIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kLane].data = NULL;
  assert_append_refused(&a, kColumns, GEAR_EINVAL);
  assert_explained("lane");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(CellWithoutAShapeForAColumnWithOneIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[kPayload].shape = NULL;
  assert_append_refused(&a, kColumns, GEAR_EINVAL);
  assert_explained("payload");
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(RefusedLastCellLeavesTheFirstCellsUnstored) {
  Appending a;
  open_appending(&a);
  a.content.step = 999;
  a.cells[kPayload].dtype = GEAR_I8;
  assert_append_refused(&a, kColumns, GEAR_EDTYPE);
  close_unharmed(&a);
}

/* SEMANTICS 37 */
GEAR_TEST(AppendManyWithABadCellStoresNothing) {
  Appending a;
  open_appending(&a);
  a.cells[kPayload].dtype = GEAR_I8;
  size_t accepted = 77;
  assert_status(gear_writer_append_many(a.table.writer, 0, a.cells, kColumns, 3,
                                        CONFORM_PATIENCE_NS, &accepted),
                GEAR_EDTYPE);
  assert_int_equal(accepted, 77);
  close_unharmed(&a);
}

GEAR_TEST(AppendToALaneTheWriterDoesNotHaveIsRefused) {
  Appending a;
  open_appending(&a);
  assert_status(conform_try_append(a.table.writer, 1, 4, CONFORM_PATIENCE_NS), GEAR_ELANE);
  assert_explained("1");
  close_unharmed(&a);
}

GEAR_TEST(EveryCallThatNamesALaneRefusesOneTheWriterDoesNotHave) {
  Appending a;
  open_appending(&a);
  gear_writer* writer = a.table.writer;
  void* places[kColumns];
  size_t accepted = 0;
  const double one = 1;
  const int64_t patience = CONFORM_PATIENCE_NS;
  assert_status(gear_writer_append_many(writer, 9, a.cells, kColumns, 1, patience, &accepted),
                GEAR_ELANE);
  assert_status(gear_writer_reserve(writer, 9, patience, places, kColumns), GEAR_ELANE);
  assert_status(gear_writer_advance(writer, 9, patience), GEAR_ELANE);
  assert_status(gear_writer_end_episode(writer, 9, GEAR_TERMINATED, NULL, 0, patience), GEAR_ELANE);
  assert_status(gear_writer_set_priority(writer, 9, &one, patience), GEAR_ELANE);
  close_unharmed(&a);
}

GEAR_TEST(ReserveForAnotherNumberOfColumnsIsRefused) {
  Appending a;
  open_appending(&a);
  void* places[kColumns + 1];
  assert_status(gear_writer_reserve(a.table.writer, 0, CONFORM_PATIENCE_NS, places, kColumns - 1),
                GEAR_ECOUNT);
  assert_status(gear_writer_reserve(a.table.writer, 0, CONFORM_PATIENCE_NS, places, kColumns + 1),
                GEAR_ECOUNT);
  close_unharmed(&a);
}

GEAR_TEST(FinalCellGivenTwiceIsRefused) {
  Appending a;
  open_appending(&a);
  a.cells[1] = a.cells[0];
  assert_status(
      gear_writer_end_episode(a.table.writer, 0, GEAR_TRUNCATED, a.cells, 2, CONFORM_PATIENCE_NS),
      GEAR_EDUPLICATE);
  close_unharmed(&a);
}

GEAR_TEST(OpaqueCellOfAnotherElementSizeIsRefused) {
  gear_column_options column = conform_column("token", GEAR_BYTES, 0, NULL);
  column.element_bytes = 5;
  gear_table_options options = conform_options(10);
  options.columns = &column;
  options.column_count = 1;
  ConformTable table = conform_open(&options, 1);
  gear_cell cell = conform_cell(0, GEAR_BYTES, 0, NULL, "four");
  cell.element_bytes = 4;
  assert_status(gear_writer_append(table.writer, 0, &cell, 1, CONFORM_PATIENCE_NS), GEAR_EDTYPE);
  assert_explained("token", "4", "5");
  assert_int_equal(conform_stats(table.table).steps, 0);
  conform_close(&table);
}
