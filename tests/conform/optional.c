/* Columns that a step may come without. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kNote = 3, kFrame = 4, kOptionalColumns = 5 };

/* The standard columns, and optional: "note" i64 [] and "frame" u8 [13]. */
static ConformTable open_optional(uint64_t capacity) {
  static const int64_t frame_shape[1] = {kPayloadBytes};
  gear_column_options columns[kOptionalColumns];
  gear_table_options options = conform_options(capacity);
  memcpy(columns, options.columns, kColumns * sizeof columns[0]);
  columns[kNote] = conform_column("note", GEAR_I64, 0, NULL);
  columns[kNote].flags = GEAR_COLUMN_OPTIONAL;
  columns[kFrame] = conform_column("frame", GEAR_U8, 1, frame_shape);
  columns[kFrame].flags = GEAR_COLUMN_OPTIONAL;
  options.columns = columns;
  options.column_count = kOptionalColumns;
  options.block_steps = 4;
  return conform_open(&options, 1);
}

/* Appends a step whose note, if any, is 1000 + step, without a frame. */
static int append(gear_writer* writer, int64_t step, int with_note) {
  const ConformStep content = conform_step(0, step);
  const int64_t note = 1000 + step;
  gear_cell cells[kOptionalColumns];
  conform_cells(&content, cells);
  cells[kNote] = conform_cell(kNote, GEAR_I64, 0, NULL, &note);
  return gear_writer_append(writer, 0, cells, with_note ? kNote + 1 : kNote, CONFORM_PATIENCE_NS);
}

/* Steps first .. first+count-1; `notes` says which have one. */
static void append_notes(gear_writer* writer, int64_t first, const char* notes) {
  for (int64_t i = 0; notes[i] != 0; ++i) assert_ok(append(writer, first + i, notes[i] == 'x'));
}

typedef struct Notes {
  int64_t drawn;
  int32_t offset;
  uint32_t pad;
  uint32_t fill;
  int64_t values[5];
  uint8_t mask[5];
  uint32_t length;
} Notes;

static void assert_notes(gear_table* table, uint32_t mode, const Notes* expected) {
  gear_window windows[2] = {conform_window("step", "drawn", 0, 1),
                            conform_window("note", NULL, expected->offset, 5)};
  windows[1].pad = expected->pad;
  windows[1].fill = expected->fill;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.windows = windows;
  options.window_count = 2;
  options.seed = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, expected->drawn, &row);
  const gear_tensor note = conform_tensor(batch, "note");
  for (uint32_t place = 0; place < 5; ++place) {
    assert_int_equal(conform_mask(&note, row, place), expected->mask[place]);
    assert_int_equal(conform_i64(&note, row, place), expected->values[place]);
  }
  assert_int_equal(note.lengths[row], expected->length);
  assert_ok(gear_sampler_close(sampler));
}

static void assert_shown(Notes expected) {
  ConformTable table = open_optional(100);
  append_notes(table.writer, 0, ".x..x.");
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_notes(table.table, GEAR_SAMPLE_DIRECT, &expected);
  assert_notes(table.table, GEAR_SAMPLE_LEASED, &expected);
  conform_close(&table);
}

/* SEMANTICS 40 */
GEAR_TEST(StepWithoutAnOptionalCellShowsZerosAndIsFalseInTheMask) {
  assert_shown((Notes){
      1, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {1001, 0, 0, 1004, 0}, {1, 0, 0, 1, 0}, 5});
}

/* SEMANTICS 40: the length counts steps, with or without the cell. */
GEAR_TEST(PaddingAndHolesAreTheSameInTheMaskAndNotInTheLength) {
  assert_shown(
      (Notes){4, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {1004, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, 2});
}

/* SEMANTICS 40 */
GEAR_TEST(HolesMoveWithTheirStepsUnderPadLeft) {
  assert_shown(
      (Notes){3, 0, GEAR_PAD_LEFT, GEAR_FILL_ZERO, {0, 0, 0, 1004, 0}, {0, 0, 0, 1, 0}, 3});
}

/* SEMANTICS 40 */
GEAR_TEST(HolesRepeatTheCellBeforeThemUnderEdgeFillAndTheFirstWhereNoneIs) {
  assert_shown((Notes){1,
                       -2,
                       GEAR_PAD_NONE,
                       GEAR_FILL_EDGE,
                       {1001, 1001, 1001, 1001, 1001},
                       {0, 0, 1, 0, 0},
                       4});
  assert_shown((Notes){2,
                       0,
                       GEAR_PAD_NONE,
                       GEAR_FILL_EDGE,
                       {1004, 1004, 1004, 1004, 1004},
                       {0, 0, 1, 0, 0},
                       4});
}

/* SEMANTICS 40 */
GEAR_TEST(OptionalCellOfTheDrawnStepAloneMayBeMissing) {
  ConformTable table = open_optional(100);
  append_notes(table.writer, 0, "x.");
  conform_flush(table.writer);
  const gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                                  conform_window("note", NULL, 0, 1),
                                  conform_window("frame", NULL, 0, 1)};
  for (int64_t step = 0; step < 2; ++step) {
    gear_sampler* sampler = conform_window_sampler(table.table, windows, 3);
    uint32_t row = 0;
    gear_batch* batch = conform_draw_step(sampler, step, &row);
    const gear_tensor note = conform_tensor(batch, "note");
    const gear_tensor frame = conform_tensor(batch, "frame");
    assert_int_equal(note.mask[row], step == 0);
    assert_int_equal(conform_i64(&note, row, 0), step == 0 ? 1000 : 0);
    assert_int_equal(frame.mask[row], 0);
    assert_ok(gear_sampler_close(sampler));
  }
  conform_close(&table);
}

/* SEMANTICS 34, 40 */
GEAR_TEST(CellsOfEarlierStepsNeverShowThroughHolesInReusedBlocks) {
  ConformTable table = open_optional(8);
  append_notes(table.writer, 0, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
  for (int i = 0; i < 64; ++i) append_notes(table.writer, 64 + 4 * i, "..x.");
  conform_flush(table.writer);
  const gear_window windows[2] = {conform_window("step", NULL, 0, 1),
                                  conform_window("note", NULL, 0, 1)};
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, windows, 2), 100);
  const gear_tensor step = conform_tensor(batch, "step");
  const gear_tensor note = conform_tensor(batch, "note");
  for (uint32_t row = 0; row < 100; ++row) {
    const int64_t shown = conform_i64(&step, row, 0);
    const int has_note = shown % 4 == 2;
    assert_int_equal(note.mask[row], has_note);
    assert_int_equal(conform_i64(&note, row, 0), has_note ? 1000 + shown : 0);
  }
  conform_close(&table);
}

/* SEMANTICS 40, 41 */
GEAR_TEST(ColumnLeftOutOfAppendManyIsMissingInAllItsSteps) {
  ConformTable table = open_optional(100);
  enum { kMany = 6 };
  int64_t steps[kMany], notes[kMany];
  int32_t lanes[kMany] = {0};
  uint8_t payloads[kMany][kPayloadBytes] = {{0}};
  const int64_t shape[1] = {kPayloadBytes};
  for (int i = 0; i < kMany; ++i) steps[i] = i, notes[i] = 1000 + i;
  const gear_cell cells[4] = {conform_cell(kStep, GEAR_I64, 0, NULL, steps),
                              conform_cell(kLane, GEAR_I32, 0, NULL, lanes),
                              conform_cell(kPayload, GEAR_U8, 1, shape, payloads),
                              conform_cell(kNote, GEAR_I64, 0, NULL, notes)};
  size_t accepted = 0;
  assert_ok(
      gear_writer_append_many(table.writer, 0, cells, 3, kMany, CONFORM_PATIENCE_NS, &accepted));
  for (int i = 0; i < kMany; ++i) steps[i] = kMany + i, notes[i] = 1000 + kMany + i;
  assert_ok(
      gear_writer_append_many(table.writer, 0, cells, 4, kMany, CONFORM_PATIENCE_NS, &accepted));
  conform_flush(table.writer);
  const Notes across = {
      4, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {0, 0, 1006, 1007, 1008}, {0, 0, 1, 1, 1}, 5};
  assert_notes(table.table, GEAR_SAMPLE_DIRECT, &across);
  conform_close(&table);
}

/* SEMANTICS 40 */
GEAR_TEST(StepWrittenInPlaceHasEveryColumn) {
  ConformTable table = open_optional(100);
  append_notes(table.writer, 0, ".");
  void* places[kOptionalColumns];
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, places, kOptionalColumns));
  const ConformStep content = conform_step(0, 1);
  const int64_t note = 1001;
  memcpy(places[kStep], &content.step, sizeof content.step);
  memcpy(places[kLane], &content.lane, sizeof content.lane);
  memcpy(places[kPayload], content.payload, kPayloadBytes);
  memcpy(places[kNote], &note, sizeof note);
  memset(places[kFrame], 5, kPayloadBytes);
  assert_ok(gear_writer_advance(table.writer, 0, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  const Notes both = {0, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {0, 1001, 0, 0, 0}, {0, 1, 0, 0, 0}, 2};
  assert_notes(table.table, GEAR_SAMPLE_DIRECT, &both);
  conform_close(&table);
}

/* SEMANTICS 31, 40 */
GEAR_TEST(FinalObservationMayHaveAnOptionalCellOrNot) {
  for (int with_note = 0; with_note < 2; ++with_note) {
    ConformTable table = open_optional(100);
    append_notes(table.writer, 0, "x.");
    const int64_t step = 2, note = 1002;
    const gear_cell cells[2] = {conform_cell(kStep, GEAR_I64, 0, NULL, &step),
                                conform_cell(kNote, GEAR_I64, 0, NULL, &note)};
    assert_ok(gear_writer_end_episode(table.writer, 0, GEAR_TRUNCATED, cells, 1 + with_note,
                                      CONFORM_PATIENCE_NS));
    conform_flush(table.writer);
    const Notes with = {
        0, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {1000, 0, 1002, 0, 0}, {1, 0, 1, 0, 0}, 3};
    const Notes without = {
        0, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {1000, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, 2};
    assert_notes(table.table, GEAR_SAMPLE_DIRECT, with_note ? &with : &without);
    conform_close(&table);
  }
}

/* SEMANTICS 37, 40 */
GEAR_TEST(ColumnThatIsNotOptionalIsStillAskedForByName) {
  ConformTable table = open_optional(100);
  const ConformStep content = conform_step(0, 0);
  const int64_t note = 1;
  gear_cell cells[kOptionalColumns];
  conform_cells(&content, cells);
  assert_status(gear_writer_append(table.writer, 0, cells, 2, CONFORM_PATIENCE_NS), GEAR_ECOUNT);
  assert_explained("payload");
  /* As many cells as there are required columns, but not those. */
  cells[kPayload] = conform_cell(kNote, GEAR_I64, 0, NULL, &note);
  assert_status(gear_writer_append(table.writer, 0, cells, 3, CONFORM_PATIENCE_NS), GEAR_ECOUNT);
  assert_explained("payload");
  const float wrong = 1;
  conform_cells(&content, cells);
  cells[kNote] = conform_cell(kNote, GEAR_F32, 0, NULL, &wrong);
  assert_status(gear_writer_append(table.writer, 0, cells, 4, CONFORM_PATIENCE_NS), GEAR_EDTYPE);
  cells[kNote] = cells[kStep];
  assert_status(gear_writer_append(table.writer, 0, cells, 4, CONFORM_PATIENCE_NS),
                GEAR_EDUPLICATE);
  assert_int_equal(conform_stats(table.table).steps, 0);
  conform_close(&table);
}

GEAR_TEST(ColumnIsNotBothPerEpisodeAndOptional) {
  gear_column_options columns[2] = {conform_column("step", GEAR_I64, 0, NULL),
                                    conform_column("goal", GEAR_I64, 0, NULL)};
  columns[1].flags = GEAR_COLUMN_PER_EPISODE | GEAR_COLUMN_OPTIONAL;
  gear_table_options options = conform_options(10);
  options.columns = columns;
  options.column_count = 2;
  gear_client* client = NULL;
  gear_table* table = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  assert_status(gear_table_create(client, &options, &table), GEAR_EINVAL);
  assert_explained("goal", "per episode and optional");
  columns[1].flags = 4;
  assert_status(gear_table_create(client, &options, &table), GEAR_EINVAL);
  assert_explained("goal", "0x4");
  assert_ok(gear_close(client));
}
