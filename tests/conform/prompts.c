/* Prompt groups: items that become drawable all together. */
#include <stdlib.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static ConformTable open_prompts(uint32_t lanes, uint64_t capacity, uint32_t groups_max) {
  gear_table_options options = conform_options(capacity);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = 16;
  options.prompt_groups_max = groups_max;
  return conform_open(&options, lanes);
}

/* An episode of two steps on the lane, a member of the group. */
static void append_member(gear_writer* writer, uint32_t lane, uint64_t group, uint32_t size,
                          int64_t first) {
  assert_ok(gear_writer_set_prompt_group(writer, lane, group, size, CONFORM_PATIENCE_NS));
  conform_append(writer, lane, first, 2);
  conform_end(writer, lane, GEAR_TERMINATED);
  conform_flush(writer);
}

GEAR_TEST(MembersAreHiddenUntilTheGroupIsWhole) {
  ConformTable table = open_prompts(4, 100, 8);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* batch = NULL;
  for (uint32_t lane = 0; lane < 3; ++lane) {
    append_member(table.writer, lane, 7, 4, 0);
    assert_int_equal(conform_stats(table.table).items, 0);
    assert_int_equal(conform_stats(table.table).items_hidden, lane + 1);
    assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ETIMEDOUT);
  }
  append_member(table.writer, 3, 7, 4, 0);
  assert_int_equal(conform_stats(table.table).items, 4);
  assert_int_equal(conform_stats(table.table).items_hidden, 0);
  assert_int_equal(conform_stats(table.table).inserts, 4);
  conform_verify_batch(batch = conform_sample(sampler, 32));
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(AConsumerGroupGetsTheMembersOfAGroupOneAfterTheOther) {
  ConformTable table = open_prompts(2, 100, 8);
  append_member(table.writer, 0, 1, 2, 0);
  append_member(table.writer, 1, 2, 2, 0);
  append_member(table.writer, 1, 2, 2, 2);
  append_member(table.writer, 0, 1, 2, 2);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = "train";
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  gear_batch* batch = conform_sample(sampler, 4);
  const gear_tensor lane = conform_tensor(batch, "lane");
  const int32_t* lanes = lane.data;
  for (uint32_t row = 0; row < 4; ++row) {
    assert_int_equal(lanes[row * lane.length], row < 2 ? 1 : 0);
  }
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(AnIncompleteGroupWaitsForAMemberOfAnotherWriter) {
  ConformTable table = open_prompts(4, 100, 8);
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  gear_writer* other = NULL;
  assert_ok(gear_writer_close(table.writer));
  assert_ok(gear_writer_open(table.table, &options, &table.writer));
  append_member(table.writer, 0, 3, 2, 0);
  assert_ok(gear_writer_close(table.writer));
  assert_ok(gear_writer_open(table.table, &options, &other));
  assert_int_equal(conform_stats(table.table).items_hidden, 1);
  append_member(other, 0, 3, 2, 0);
  assert_int_equal(conform_stats(table.table).items, 2);
  conform_close(&table);
}

GEAR_TEST(TheGroupBegunFirstIsDroppedWhenThereAreTooMany) {
  ConformTable table = open_prompts(1, 100, 2);
  append_member(table.writer, 0, 1, 2, 0);
  append_member(table.writer, 0, 2, 2, 2);
  append_member(table.writer, 0, 3, 2, 4);
  assert_int_equal(conform_stats(table.table).items_hidden, 2);
  assert_int_equal(conform_stats(table.table).prompt_groups_dropped, 1);
  append_member(table.writer, 0, 2, 2, 6);
  assert_int_equal(conform_stats(table.table).items, 2);
  conform_close(&table);
}

GEAR_TEST(HiddenItemsCountAgainstCapacity) {
  ConformTable table = open_prompts(1, 4, 8);
  int64_t step = 0;
  for (uint64_t group = 0; group < 2; ++group) {
    for (int i = 0; i < 2; ++i, step += 2) append_member(table.writer, 0, group, 2, step);
  }
  assert_int_equal(conform_stats(table.table).items, 4);
  append_member(table.writer, 0, 5, 3, step);
  append_member(table.writer, 0, 5, 3, step + 2);
  assert_int_equal(conform_stats(table.table).items, 2);
  assert_int_equal(conform_stats(table.table).items_hidden, 2);
  append_member(table.writer, 0, 5, 3, step + 4);
  assert_int_equal(conform_stats(table.table).items, 4);
  assert_int_equal(conform_stats(table.table).evictions, 3);
  conform_close(&table);
}

GEAR_TEST(IncompleteGroupsHoldUpNoWriter) {
  ConformTable table = open_prompts(1, 4, 8);
  int64_t step = 0;
  for (uint64_t group = 0; group < 500; ++group, step += 2) {
    append_member(table.writer, 0, group, 4, step);
  }
  assert_int_equal(conform_stats(table.table).items, 0);
  assert_true(conform_stats(table.table).items_hidden <= 4);
  assert_ok(gear_writer_set_prompt_group(table.writer, 0, 0, 0, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, step, 2);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

GEAR_TEST(AMemberWithAnotherSizeIsRejectedAndCounted) {
  ConformTable table = open_prompts(1, 100, 8);
  append_member(table.writer, 0, 1, 2, 0);
  append_member(table.writer, 0, 1, 3, 2);
  assert_int_equal(conform_stats(table.table).items_rejected, 1);
  assert_int_equal(conform_stats(table.table).items_hidden, 1);
  append_member(table.writer, 0, 1, 2, 4);
  assert_int_equal(conform_stats(table.table).items, 2);
  conform_close(&table);
}

GEAR_TEST(TheLimiterAdmitsAGroupAsAWhole) {
  gear_table_options options = conform_options(100);
  options.prompt_groups_max = 8;
  options.limiter.samples_per_insert = 1;
  options.limiter.min_size = 1;
  options.limiter.min_diff = 0;
  options.limiter.max_diff = 3;
  ConformTable table = conform_open(&options, 1);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  assert_ok(gear_writer_set_prompt_group(table.writer, 0, 1, 2, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 0, 2);
  conform_flush(table.writer);
  assert_ok(gear_writer_set_prompt_group(table.writer, 0, 2, 2, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 2, 2);
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(table.writer, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  assert_int_equal(waiting, 1);
  assert_int_equal(conform_stats(table.table).items, 2);
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 4);
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(ResetForgetsIncompleteGroups) {
  ConformTable table = open_prompts(1, 100, 8);
  append_member(table.writer, 0, 1, 2, 0);
  assert_ok(gear_table_reset(table.table));
  assert_int_equal(conform_stats(table.table).items_hidden, 0);
  assert_int_equal(conform_stats(table.table).bytes, 0);
  append_member(table.writer, 0, 1, 2, 2);
  assert_int_equal(conform_stats(table.table).items, 0);
  append_member(table.writer, 0, 1, 2, 4);
  assert_int_equal(conform_stats(table.table).items, 2);
  conform_close(&table);
}

GEAR_TEST(UnusableGroupsAreRefused) {
  ConformTable table = open_prompts(1, 4, 8);
  assert_status(gear_writer_set_prompt_group(table.writer, 0, 1, 5, CONFORM_PATIENCE_NS),
                GEAR_EINVAL);
  assert_explained("5", "4");
  assert_status(gear_writer_set_prompt_group(table.writer, 1, 1, 2, CONFORM_PATIENCE_NS),
                GEAR_ELANE);
  conform_close(&table);
  table = conform_open_simple(10);
  assert_status(gear_writer_set_prompt_group(table.writer, 0, 1, 2, CONFORM_PATIENCE_NS),
                GEAR_ESTATE);
  assert_explained("prompt_groups_max");
  assert_status(gear_writer_set_version(table.writer, 0, 1, CONFORM_PATIENCE_NS), GEAR_ESTATE);
  assert_explained("versions");
  assert_status(gear_table_set_version(table.table, 1), GEAR_ESTATE);
  assert_explained("versions");
  conform_close(&table);
}

GEAR_TEST(TablesWithPromptGroupsAreNotSampledDirectly) {
  ConformTable table = open_prompts(1, 4, 8);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  assert_explained("prompt_groups_max");
  assert_int_equal(conform_info(table.table).direct, 0);
  assert_int_equal(conform_info(table.table).prompt_groups_max, 8);
  conform_close(&table);
}

GEAR_TEST(IncompleteGroupsOfWritersThatAreGoneDoNotCrowdOutTheRest) {
  ConformTable table = open_prompts(1, 20, 100);
  int64_t step = 0;
  for (uint64_t group = 0; group < 6; ++group) {
    for (int member = 0; member < 3; ++member, step += 2) {
      append_member(table.writer, 0, group, 4, step);
    }
  }
  assert_ok(gear_writer_set_prompt_group(table.writer, 0, 0, 0, CONFORM_PATIENCE_NS));
  for (int item = 0; item < 30; ++item, step += 2) {
    conform_append(table.writer, 0, step, 2);
    conform_end(table.writer, 0, GEAR_TERMINATED);
  }
  conform_flush(table.writer);
  assert_true(conform_stats(table.table).items >= 10);
  assert_true(conform_stats(table.table).prompt_groups_dropped > 0);
  conform_close(&table);
}
