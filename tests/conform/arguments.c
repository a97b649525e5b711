/* Samplers, writers, handles and outputs asked for in ways that have no meaning. */
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* A table with four steps, and right options of a sampler for the test to spoil. */
typedef struct Opening {
  ConformTable table;
  ConformSnapshot before;
  gear_window windows[2];
  gear_sampler_options options;
} Opening;

static void open_opening_of(Opening* o, const gear_table_options* table_options) {
  o->table = conform_open(table_options, 1);
  conform_append(o->table.writer, 0, 0, 4);
  conform_flush(o->table.writer);
  o->before = conform_snapshot(&o->table);
  o->windows[0] = conform_window("step", NULL, 0, 1);
  o->windows[1] = conform_window("lane", NULL, 0, 1);
  const gear_sampler_options defaults = GEAR_SAMPLER_OPTIONS_INIT;
  o->options = defaults;
  o->options.windows = o->windows;
  o->options.window_count = 2;
}

static void open_opening(Opening* o) {
  const gear_table_options options = conform_options(100);
  open_opening_of(o, &options);
}

/* The spoilt options are refused, with this word in the text, and nothing changed. */
static void assert_sampler_refused(Opening* o, int status, const char* word) {
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(o->table.table, &o->options, &sampler), status);
  assert_explained(word);
  assert_null(sampler);
  conform_assert_unharmed(&o->table, &o->before);
  conform_close(&o->table);
}

GEAR_TEST(WindowOfAnUnknownColumnIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].column = "nocolumn";
  assert_sampler_refused(&o, GEAR_ENOCOLUMN, "nocolumn");
}

GEAR_TEST(TwoWindowsOfOneNameAreRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].name = "step";
  assert_sampler_refused(&o, GEAR_EDUPLICATE, "step");
}

GEAR_TEST(WindowWithoutAColumnIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].column = NULL;
  assert_sampler_refused(&o, GEAR_EINVAL, "column");
}

GEAR_TEST(WindowOfAnUnknownPadIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].pad = 17;
  assert_sampler_refused(&o, GEAR_EINVAL, "17");
}

GEAR_TEST(WindowOfAnUnknownFillIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].fill = 17;
  assert_sampler_refused(&o, GEAR_EINVAL, "17");
}

GEAR_TEST(WindowOfAnotherStructSizeIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].struct_size = 3;
  assert_sampler_refused(&o, GEAR_ESTRUCT, "3");
}

GEAR_TEST(WindowsThatAreCountedButNotGivenAreRefused) {
  Opening o;
  open_opening(&o);
  o.options.windows = NULL;
  assert_sampler_refused(&o, GEAR_EINVAL, "windows");
}

GEAR_TEST(WindowThatOverflowsItsEndIsRefused) {
  Opening o;
  open_opening(&o);
  o.windows[1].offset = INT32_MAX;
  o.windows[1].length = UINT32_MAX;
  assert_sampler_refused(&o, GEAR_EWINDOW, "lane");
}

GEAR_TEST(UnknownSampleModeIsRefused) {
  Opening o;
  open_opening(&o);
  o.options.mode = 17;
  assert_sampler_refused(&o, GEAR_EINVAL, "17");
}

GEAR_TEST(UnknownAnchorIsRefused) {
  Opening o;
  open_opening(&o);
  o.options.anchor = 17;
  assert_sampler_refused(&o, GEAR_EINVAL, "17");
}

GEAR_TEST(UnknownNormaliseIsRefused) {
  Opening o;
  open_opening(&o);
  o.options.normalise = 17;
  assert_sampler_refused(&o, GEAR_EINVAL, "17");
}

GEAR_TEST(BetaThatIsNotANumberIsRefused) {
  Opening o;
  open_opening(&o);
  o.options.beta = NAN;
  assert_sampler_refused(&o, GEAR_EINVAL, "beta");
}

GEAR_TEST(SamplerOptionsOfAnotherStructSizeAreRefused) {
  Opening o;
  open_opening(&o);
  o.options.struct_size = 3;
  assert_sampler_refused(&o, GEAR_ESTRUCT, "3");
}

GEAR_TEST(DirectSamplerIsRefusedWhereDrawsAreCounted) {
  Opening o;
  gear_table_options options = conform_options(100);
  options.max_times_sampled = 100;
  open_opening_of(&o, &options);
  o.options.mode = GEAR_SAMPLE_DIRECT;
  assert_sampler_refused(&o, GEAR_EUNSUPPORTED, "max_times_sampled");
}

GEAR_TEST(DirectSamplerIsRefusedUnderARatio) {
  Opening o;
  gear_table_options options = conform_options(100);
  assert_ok(gear_rate_limiter_ratio(4, 1, 1000, &options.limiter));
  open_opening_of(&o, &options);
  assert_int_equal(conform_info(o.table.table).direct, 0);
  o.options.mode = GEAR_SAMPLE_DIRECT;
  assert_sampler_refused(&o, GEAR_EUNSUPPORTED, "limiter");
}

GEAR_TEST(WriterOfMoreLanesThanTheTableHasIsRefused) {
  gear_table_options options = conform_options(100);
  options.lanes_max = 4;
  ConformTable table = conform_open(&options, 3);
  const ConformSnapshot before = conform_snapshot(&table);
  gear_writer_options writer_options = GEAR_WRITER_OPTIONS_INIT;
  writer_options.lanes = 2;
  gear_writer* writer = NULL;
  assert_status(gear_writer_open(table.table, &writer_options, &writer), GEAR_ELIMIT);
  assert_explained("2", "4");
  assert_null(writer);
  conform_assert_unharmed(&table, &before);
  writer_options.lanes = 1;
  assert_ok(gear_writer_open(table.table, &writer_options, &writer));
  conform_close(&table);
}

GEAR_TEST(WriterOptionsOfAnotherStructSizeAreRefused) {
  ConformTable table = conform_open_simple(10);
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.struct_size = 3;
  gear_writer* writer = NULL;
  assert_status(gear_writer_open(table.table, &options, &writer), GEAR_ESTRUCT);
  assert_null(writer);
  conform_close(&table);
}

/* Each kind of thing that is not a handle is refused; a right one still opens the table. */
static void assert_handle_refused(const char* handle) {
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  gear_table* attached = NULL;
  assert_status(gear_table_attach(table.client, handle, &attached), GEAR_EHANDLE);
  assert_explained("handle");
  assert_null(attached);
  conform_assert_unharmed(&table, &before);
  char right[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(table.table, right));
  assert_ok(gear_table_attach(table.client, right, &attached));
  conform_close(&table);
}

GEAR_TEST(EmptyHandleIsRefused) {
  assert_handle_refused("");
}

GEAR_TEST(ShortHandleIsRefused) {
  assert_handle_refused("abcdefgh");
}

GEAR_TEST(HandleOfForeignLettersIsRefused) {
  assert_handle_refused("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!");
}

GEAR_TEST(HandleWithOneLetterChangedOpensNothing) {
  ConformTable table = conform_open_simple(10);
  char right[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(table.table, right));
  for (int at = 0; at < GEAR_HANDLE_BYTES; ++at) {
    char wrong[GEAR_HANDLE_BYTES + 1];
    memcpy(wrong, right, sizeof wrong);
    wrong[at] = wrong[at] == 'A' ? 'B' : 'A';
    gear_table* attached = NULL;
    const int status = gear_table_attach(table.client, wrong, &attached);
    if (status != GEAR_EHANDLE && status != GEAR_ENOTFOUND && status != GEAR_EPERM) {
      fail_msg("letter %d changed: %s", at, gear_status_string(status));
    }
    assert_null(attached);
  }
  conform_close(&table);
}

GEAR_TEST(HandleOfADroppedTableOpensNothing) {
  ConformTable table = conform_open_simple(10);
  char handle[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(table.table, handle));
  assert_ok(gear_table_drop(table.client, "steps"));
  gear_table* attached = NULL;
  assert_status(gear_table_attach(table.client, handle, &attached), GEAR_ENOTFOUND);
  assert_null(attached);
  conform_close(&table);
}

GEAR_TEST(OutputStructsOfAnotherSizeAreRefusedAndLeftAlone) {
  ConformTable table = conform_open_simple(10);
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  gear_column_info column = GEAR_COLUMN_INFO_INIT;
  gear_server_info server = GEAR_SERVER_INFO_INIT;
  info.struct_size = stats.struct_size = column.struct_size = server.struct_size = 3;
  assert_status(gear_table_describe(table.table, &info), GEAR_ESTRUCT);
  assert_status(gear_table_get_stats(table.table, &stats), GEAR_ESTRUCT);
  assert_status(gear_table_column(table.table, 0, &column), GEAR_ESTRUCT);
  assert_status(gear_get_server_info(table.client, &server), GEAR_ESTRUCT);
  assert_int_equal(info.capacity_items + stats.state + column.dtype + server.pid, 0);
  conform_close(&table);
}

GEAR_TEST(ColumnThatDoesNotExistIsRefused) {
  ConformTable table = conform_open_simple(10);
  gear_column_info column = GEAR_COLUMN_INFO_INIT;
  uint32_t index = 77;
  assert_status(gear_table_column(table.table, kColumns, &column), GEAR_ENOCOLUMN);
  assert_explained("3");
  assert_status(gear_table_column_index(table.table, "nocolumn", &index), GEAR_ENOCOLUMN);
  assert_explained("nocolumn");
  assert_int_equal(index, 77);
  conform_close(&table);
}

GEAR_TEST(NullWhereAPointerIsNeededIsRefused) {
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  const gear_table_options options = conform_options(10);
  gear_table* other = NULL;
  gear_writer* writer = NULL;
  gear_sampler* sampler = NULL;
  gear_batch* batch = NULL;
  char handle[GEAR_HANDLE_BYTES + 1];
  assert_status(gear_table_create(NULL, &options, &other), GEAR_EINVAL);
  assert_status(gear_table_create(table.client, &options, NULL), GEAR_EINVAL);
  assert_status(gear_table_open(table.client, NULL, &other), GEAR_EINVAL);
  assert_status(gear_table_open(table.client, "steps", NULL), GEAR_EINVAL);
  assert_status(gear_table_attach(table.client, NULL, &other), GEAR_EINVAL);
  assert_status(gear_table_handle(NULL, handle), GEAR_EINVAL);
  assert_status(gear_table_drop(table.client, NULL), GEAR_EINVAL);
  assert_status(gear_table_describe(table.table, NULL), GEAR_EINVAL);
  assert_status(gear_writer_open(NULL, NULL, &writer), GEAR_EINVAL);
  assert_status(gear_writer_open(table.table, NULL, NULL), GEAR_EINVAL);
  assert_status(gear_writer_append(table.writer, 0, NULL, kColumns, 0), GEAR_EINVAL);
  assert_status(gear_writer_append(NULL, 0, NULL, 0, 0), GEAR_EINVAL);
  assert_status(gear_writer_close(NULL), GEAR_EINVAL);
  assert_status(gear_sampler_open(table.table, NULL, NULL), GEAR_EINVAL);
  assert_status(gear_sampler_open(NULL, NULL, &sampler), GEAR_EINVAL);
  assert_status(gear_sample(NULL, 1, 0, &batch), GEAR_EINVAL);
  assert_status(gear_sampler_close(NULL), GEAR_EINVAL);
  assert_status(gear_batch_release(NULL), GEAR_EINVAL);
  assert_status(gear_update_priorities(table.table, NULL, NULL, 1, 0, NULL), GEAR_EINVAL);
  assert_status(gear_delete_items(table.table, NULL, 1, 0, NULL), GEAR_EINVAL);
  assert_status(gear_rate_limiter_min_size(1, NULL), GEAR_EINVAL);
  assert_status(gear_table_list(table.client, NULL, NULL), GEAR_EINVAL);
  assert_status(gear_close(NULL), GEAR_EINVAL);
  conform_assert_unharmed(&table, &before);
  conform_close(&table);
}
