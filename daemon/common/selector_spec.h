// A named selector of a table that is to be made, as
// "NAME:KIND[:PROPORTION[:PARAMETER[:PARAMETER]]]".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/parsed.h"
#include "gear.h"

namespace gear::daemon {

struct SelectorSpec {
  std::string name;
  gear_selector_options options = GEAR_SELECTOR_OPTIONS_INIT;  // but name
};

struct SelectorField {
  const char* key;
  ValueKind kind;
  std::optional<Fault> (*set)(SelectorSpec* spec, const std::string& text);
};

// All but name: "kind", "proportion", and the parameters of some kinds.
const std::vector<SelectorField>& selector_fields();

// Applies one field; a key that is none of them is a fault that names the nearest. Set the kind
// first.
std::optional<Fault> set_selector_field(SelectorSpec* spec, const std::string& key,
                                        const std::string& text);

// What is missing once all fields are set.
std::optional<Fault> finish_selector(const SelectorSpec& spec);

// "recent:recency:0.3:10k": a name without colons, a selector, its proportion of a mixture (default
// 0: drawn by name only), and its parameters: alpha and epsilon of prioritized, half_life of
// recency, top_k of top_k.
Parsed<SelectorSpec> parse_selector(const std::string& text);

}  // namespace gear::daemon
