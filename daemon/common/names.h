// The words that stand for enumerators of gear.h in configuration, on command lines and in output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/parsed.h"

namespace gear::daemon {

struct NamedValue {
  const char* name;
  uint32_t value;
};
using NameList = std::vector<NamedValue>;

const NameList& dtype_names();
const NameList& selector_names();
const NameList& item_policy_names();
const NameList& short_episode_names();
const NameList& new_priority_names();
const NameList& yes_names();
const NameList& memory_names();
const NameList& want_names();
const NameList& isolation_names();
const NameList& access_names();  // ConnectAccess
const NameList& table_state_names();

// "?" for a value without a name.
std::string name_of(const NameList& list, uint32_t value);

// Every name of the list, as "a|b|c".
std::string names_joined(const NameList& list);

Parsed<uint32_t> value_of(const NameList& list, const std::string& name);

}  // namespace gear::daemon
