/* Tables that cannot be: each reason has its own status, a text with values and remedy, and changes
 * nothing. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* Right options of a second table, "other", for the test to spoil. */
static gear_table_options other_options(void) {
  gear_table_options options = conform_options(10);
  options.name = "other";
  return options;
}

static void assert_opens(ConformTable* table) {
  const gear_table_options options = other_options();
  gear_table* other = NULL;
  assert_ok(gear_table_create(table->client, &options, &other));
}

/* Checks that creation is refused, with this word in its text, harms nothing and can be mended. */
static void assert_create_refused(const gear_table_options* options, int status, const char* word) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  const ConformSnapshot before = conform_snapshot(&table);
  gear_table* other = NULL;
  assert_status(gear_table_create(table.client, options, &other), status);
  assert_explained(word);
  assert_null(other);
  conform_assert_unharmed(&table, &before);
  assert_opens(&table);
  conform_close(&table);
}

static void assert_column_refused(gear_column_options column, int status, const char* word) {
  gear_table_options options = other_options();
  options.columns = &column;
  options.column_count = 1;
  assert_create_refused(&options, status, word);
}

GEAR_TEST(TableWithoutColumnsIsRefused) {
  gear_table_options options = other_options();
  options.column_count = 0;
  assert_create_refused(&options, GEAR_ESIZE, "column");
}

GEAR_TEST(TableWithoutTheColumnsItCountsIsRefused) {
  gear_table_options options = other_options();
  options.columns = NULL;
  assert_create_refused(&options, GEAR_EINVAL, "columns");
}

GEAR_TEST(TwoColumnsOfOneNameAreRefused) {
  gear_column_options columns[3] = {conform_column("a", GEAR_I64, 0, NULL),
                                    conform_column("twin", GEAR_F32, 0, NULL),
                                    conform_column("twin", GEAR_I64, 0, NULL)};
  gear_table_options options = other_options();
  options.columns = columns;
  options.column_count = 3;
  assert_create_refused(&options, GEAR_EDUPLICATE, "twin");
}

GEAR_TEST(ColumnOfADtypeThatDoesNotExistIsRefused) {
  assert_column_refused(conform_column("odd", 16, 0, NULL), GEAR_EINVAL, "16");
}

GEAR_TEST(ColumnWithoutADtypeIsRefused) {
  assert_column_refused(conform_column("odd", 0, 0, NULL), GEAR_EINVAL, "odd");
}

GEAR_TEST(ColumnOfRankNineIsRefused) {
  const int64_t shape[GEAR_RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
  gear_column_options column = conform_column("deep", GEAR_U8, GEAR_RANK_MAX, shape);
  column.rank = GEAR_RANK_MAX + 1;
  assert_column_refused(column, GEAR_EINVAL, "9");
}

/* SEMANTICS 48 */
GEAR_TEST(ColumnOfNoBytesAStepIsRefused) {
  const int64_t shape[2] = {3, 0};
  assert_column_refused(conform_column("void", GEAR_F32, 2, shape), GEAR_ESIZE, "void");
}

GEAR_TEST(ColumnOfANegativeExtentIsRefused) {
  const int64_t shape[2] = {3, -5};
  assert_column_refused(conform_column("minus", GEAR_F32, 2, shape), GEAR_ESIZE, "-5");
}

GEAR_TEST(ColumnWhoseSizeOverflowsIsRefused) {
  const int64_t shape[2] = {INT64_MAX, 4};
  assert_column_refused(conform_column("vast", GEAR_F32, 2, shape), GEAR_ESIZE, "vast");
}

GEAR_TEST(OpaqueColumnOfNoBytesAnElementIsRefused) {
  assert_column_refused(conform_column("empty", GEAR_BYTES, 0, NULL), GEAR_ESIZE, "empty");
}

GEAR_TEST(ColumnWithUnknownFlagsIsRefused) {
  gear_column_options column = conform_column("flags", GEAR_U8, 0, NULL);
  column.flags = 1U << 31;
  assert_column_refused(column, GEAR_EINVAL, "flags");
}

GEAR_TEST(CapacityOfNoItemsIsRefused) {
  gear_table_options options = other_options();
  options.capacity_items = 0;
  assert_create_refused(&options, GEAR_ESIZE, "capacity_items");
}

GEAR_TEST(CapacityThatOverflowsIsRefused) {
  gear_table_options options = other_options();
  options.capacity_items = UINT64_MAX;
  assert_create_refused(&options, GEAR_ESIZE, "capacity_items");
}

GEAR_TEST(CapacityBeyondMemoryIsRefusedWithWhatWasAskedAndWhatThereIs) {
  static const int64_t shape[1] = {1 << 20};
  const gear_column_options column = conform_column("frame", GEAR_U8, 1, shape);
  gear_table_options options = other_options();
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = UINT64_C(1) << 24;
  assert_create_refused(&options, GEAR_ENOSPC, "TiB");
}

GEAR_TEST(TableNameInUseIsRefused) {
  gear_table_options options = other_options();
  options.name = "steps";
  assert_create_refused(&options, GEAR_EEXISTS, "steps");
}

GEAR_TEST(TableNameThatIsEmptyIsRefused) {
  gear_table_options options = other_options();
  options.name = "";
  assert_create_refused(&options, GEAR_ENAME, "name");
}

GEAR_TEST(TableNameOf256BytesIsRefused) {
  char name[257];
  memset(name, 'n', 256);
  name[256] = '\0';
  gear_table_options options = other_options();
  options.name = name;
  assert_create_refused(&options, GEAR_ENAME, "255");
}

static void assert_not_utf8(const char* name) {
  gear_table_options options = other_options();
  options.name = name;
  assert_create_refused(&options, GEAR_ENAME, "UTF-8");
}

GEAR_TEST(TableNameWithAStrayByteIsRefused) {
  assert_not_utf8("caf\xe9");
}

GEAR_TEST(TableNameWithAnOverlongSequenceIsRefused) {
  assert_not_utf8("\xc0\xaf");
}

GEAR_TEST(TableNameWithASurrogateIsRefused) {
  assert_not_utf8("\xed\xa0\x80");
}

GEAR_TEST(TableNameWithACutSequenceIsRefused) {
  assert_not_utf8("euro \xe2\x82");
}

GEAR_TEST(TableNameBeyondUnicodeIsRefused) {
  assert_not_utf8("\xf4\x90\x80\x80");
}

GEAR_TEST(ColumnNameThatIsNotUtf8IsRefused) {
  assert_column_refused(conform_column("\xff", GEAR_U8, 0, NULL), GEAR_ENAME, "UTF-8");
}

GEAR_TEST(ColumnNameThatIsEmptyIsRefused) {
  assert_column_refused(conform_column("", GEAR_U8, 0, NULL), GEAR_ENAME, "name");
}

GEAR_TEST(ColumnWithoutANameIsRefused) {
  assert_column_refused(conform_column(NULL, GEAR_U8, 0, NULL), GEAR_EINVAL, "name");
}

GEAR_TEST(UnknownItemPolicyIsRefused) {
  gear_table_options options = other_options();
  options.item_policy = 17;
  assert_create_refused(&options, GEAR_EINVAL, "17");
}

GEAR_TEST(UnknownSelectorIsRefused) {
  gear_table_options options = other_options();
  options.sampler = 17;
  assert_create_refused(&options, GEAR_EINVAL, "17");
}

GEAR_TEST(RemoversThatDrawFromPartOfTheTableAreRefused) {
  const uint32_t refused[] = {GEAR_SELECT_TOP_K, GEAR_SELECT_RECENCY, GEAR_SELECT_MIXTURE};
  for (size_t i = 0; i < 3; ++i) {
    gear_table_options options = other_options();
    options.remover = refused[i];
    options.top_k = 1;
    options.half_life = 1;
    assert_create_refused(&options, GEAR_EINVAL, "remover");
  }
}

GEAR_TEST(UnknownMemoryIsRefused) {
  gear_table_options options = other_options();
  options.memory = 17;
  assert_create_refused(&options, GEAR_EINVAL, "17");
}

GEAR_TEST(SequenceOfNoStepsIsRefused) {
  gear_table_options options = other_options();
  options.item_policy = GEAR_ITEMS_SEQUENCE;
  assert_create_refused(&options, GEAR_ESIZE, "item_length");
}

GEAR_TEST(EpisodeItemsWithoutALongestEpisodeAreRefused) {
  gear_table_options options = other_options();
  options.item_policy = GEAR_ITEMS_EPISODE;
  assert_create_refused(&options, GEAR_ESIZE, "episode_steps_max");
}

GEAR_TEST(LimiterOfANegativeRateIsRefused) {
  gear_table_options options = other_options();
  options.limiter.samples_per_insert = -1;
  options.limiter.min_size = 1;
  options.limiter.max_diff = 5;
  assert_create_refused(&options, GEAR_EINVAL, "samples_per_insert");
}

GEAR_TEST(LimiterWithoutAMinSizeIsRefused) {
  gear_table_options options = other_options();
  options.limiter.samples_per_insert = 1;
  options.limiter.max_diff = 5;
  assert_create_refused(&options, GEAR_EINVAL, "min_size");
}

GEAR_TEST(LimiterWithAMinSizeBeyondTheCapacityIsRefused) {
  gear_table_options options = other_options();
  assert_ok(gear_rate_limiter_min_size((int64_t)options.capacity_items + 1, &options.limiter));
  assert_create_refused(&options, GEAR_EINVAL, "capacity_items");
}

GEAR_TEST(LimiterWithABoundThatIsNotANumberIsRefused) {
  gear_table_options options = other_options();
  options.limiter.samples_per_insert = 1;
  options.limiter.min_size = 1;
  options.limiter.min_diff = NAN;
  options.limiter.max_diff = 5;
  assert_create_refused(&options, GEAR_EINVAL, "min_diff");
}

GEAR_TEST(AlphaThatIsNotANumberIsRefused) {
  gear_table_options options = other_options();
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = NAN;
  assert_create_refused(&options, GEAR_EINVAL, "alpha");
}

GEAR_TEST(NegativeEpsilonIsRefused) {
  gear_table_options options = other_options();
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_epsilon = -.5;
  assert_create_refused(&options, GEAR_EINVAL, "epsilon");
}

GEAR_TEST(TableOptionsOfAnotherStructSizeAreRefused) {
  gear_table_options options = other_options();
  options.struct_size = 3;
  assert_create_refused(&options, GEAR_ESTRUCT, "3");
}

GEAR_TEST(TableOptionsOfALaterStructSizeAreRefused) {
  gear_table_options options = other_options();
  options.struct_size = 4096;
  assert_create_refused(&options, GEAR_ESTRUCT, "4096");
}

GEAR_TEST(ColumnOptionsOfAnotherStructSizeAreRefused) {
  gear_column_options column = conform_column("a", GEAR_U8, 0, NULL);
  column.struct_size = 3;
  assert_column_refused(column, GEAR_ESTRUCT, "3");
}

GEAR_TEST(CreationWithoutOptionsIsRefused) {
  assert_create_refused(NULL, GEAR_EINVAL, "options");
}

GEAR_TEST(OpenOfATableThatDoesNotExistIsRefused) {
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  gear_table* other = NULL;
  assert_status(gear_table_open(table.client, "nowhere", &other), GEAR_ENOTFOUND);
  assert_explained("nowhere");
  assert_null(other);
  conform_assert_unharmed(&table, &before);
  conform_close(&table);
}

GEAR_TEST(DropOfATableThatDoesNotExistIsRefused) {
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  assert_status(gear_table_drop(table.client, "nowhere"), GEAR_ENOTFOUND);
  assert_explained("nowhere");
  conform_assert_unharmed(&table, &before);
  conform_close(&table);
}

GEAR_TEST(OpenAndDropOfABadNameAreRefused) {
  ConformTable table = conform_open_simple(10);
  gear_table* other = NULL;
  assert_status(gear_table_open(table.client, "", &other), GEAR_ENAME);
  assert_status(gear_table_open(table.client, "\xff", &other), GEAR_ENAME);
  assert_status(gear_table_drop(table.client, ""), GEAR_ENAME);
  conform_close(&table);
}

GEAR_TEST(QueuePresetRefusesACapacityOfZeroAndKeepsTheOptions) {
  gear_table_options options = other_options();
  gear_table_options before;
  memcpy(&before, &options, sizeof before);
  assert_status(gear_table_options_queue(0, &options), GEAR_EINVAL);
  assert_memory_equal(&options, &before, sizeof before);
}
