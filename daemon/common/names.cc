#include "common/names.h"

#include "common/nearest.h"
#include "gear.h"

namespace gear::daemon {

const NameList& dtype_names() {
  static const NameList list = {{"bool", GEAR_BOOL}, {"u8", GEAR_U8},     {"i8", GEAR_I8},
                                {"u16", GEAR_U16},   {"i16", GEAR_I16},   {"u32", GEAR_U32},
                                {"i32", GEAR_I32},   {"u64", GEAR_U64},   {"i64", GEAR_I64},
                                {"f16", GEAR_F16},   {"bf16", GEAR_BF16}, {"f32", GEAR_F32},
                                {"f64", GEAR_F64},   {"c64", GEAR_C64},   {"bytes", GEAR_BYTES}};
  return list;
}

const NameList& selector_names() {
  static const NameList list = {{"uniform", GEAR_SELECT_UNIFORM},
                                {"fifo", GEAR_SELECT_FIFO},
                                {"prioritized", GEAR_SELECT_PRIORITIZED},
                                {"lifo", GEAR_SELECT_LIFO},
                                {"max_heap", GEAR_SELECT_MAX_HEAP},
                                {"min_heap", GEAR_SELECT_MIN_HEAP},
                                {"top_k", GEAR_SELECT_TOP_K},
                                {"recency", GEAR_SELECT_RECENCY},
                                {"mixture", GEAR_SELECT_MIXTURE}};
  return list;
}

const NameList& item_policy_names() {
  static const NameList list = {{"step", GEAR_ITEMS_STEP},
                                {"episode", GEAR_ITEMS_EPISODE},
                                {"sequence", GEAR_ITEMS_SEQUENCE},
                                {"explicit", GEAR_ITEMS_EXPLICIT}};
  return list;
}

const NameList& short_episode_names() {
  static const NameList list = {{"one", 0}, {"none", 1}};
  return list;
}

const NameList& new_priority_names() {
  static const NameList list = {{"lifetime_max", GEAR_NEW_PRIORITY_LIFETIME_MAX},
                                {"table_max", GEAR_NEW_PRIORITY_TABLE_MAX}};
  return list;
}

const NameList& yes_names() {
  static const NameList list = {{"no", 0}, {"yes", 1}};
  return list;
}

const NameList& memory_names() {
  static const NameList list = {{"posix", GEAR_MEMORY_POSIX}, {"memfd", GEAR_MEMORY_MEMFD}};
  return list;
}

const NameList& access_names() {
  static const NameList list = {{"own", 0}, {"any", 1}};
  return list;
}

const NameList& want_names() {
  static const NameList list = {
      {"no", GEAR_WANT_NO}, {"try", GEAR_WANT_TRY}, {"required", GEAR_WANT_REQUIRED}};
  return list;
}

const NameList& isolation_names() {
  static const NameList list = {{"none", GEAR_ISOLATION_NONE}, {"per_writer", GEAR_ISOLATION_PER_WRITER}};
  return list;
}

const NameList& table_state_names() {
  static const NameList list = {{"open", 1}, {"closed", 2}, {"dropped", 3}, {"set aside", 4}};
  return list;
}

std::string name_of(const NameList& list, uint32_t value) {
  for (const NamedValue& entry : list) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

std::string names_joined(const NameList& list) {
  std::string text;
  for (const NamedValue& entry : list) text += (text.empty() ? "" : "|") + std::string(entry.name);
  return text;
}

Parsed<uint32_t> value_of(const NameList& list, const std::string& name) {
  std::vector<std::string> known;
  for (const NamedValue& entry : list) {
    if (name == entry.name) return entry.value;
    known.push_back(entry.name);
  }
  const std::string near = nearest(name, known);
  return Fault{"\"" + name + "\" is not one of " + names_joined(list) +
               (near.empty() ? "" : "; did you mean \"" + near + "\"?")};
}

}  // namespace gear::daemon
