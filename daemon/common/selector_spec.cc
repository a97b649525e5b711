#include "common/selector_spec.h"

#include <algorithm>
#include <limits>

#include "common/names.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "common/split.h"

namespace gear::daemon {
namespace {

constexpr char kForm[] =
    "give NAME:KIND[:PROPORTION[:PARAMETER[:PARAMETER]]], such as recent:recency:0.3:10k or "
    "hard:prioritized:0.7:0.6";

// The keys of a kind's parameters, in the order of the text form.
std::vector<std::string> parameters_of(uint32_t selector) {
  switch (selector) {
    case GEAR_SELECT_PRIORITIZED:
      return {"alpha", "epsilon"};
    case GEAR_SELECT_RECENCY:
      return {"half_life"};
    case GEAR_SELECT_TOP_K:
      return {"top_k"};
    default:
      return {};
  }
}

std::optional<Fault> set_kind(SelectorSpec* spec, const std::string& text) {
  const Parsed<uint32_t> value = value_of(selector_names(), text);
  if (!value.ok()) return Fault{value.fault_text()};
  if (value.value() == GEAR_SELECT_MIXTURE) {
    return Fault{
        "\"mixture\" draws from named selectors and is none itself; give it as the table's "
        "sampler"};
  }
  spec->options.selector = value.value();
  return std::nullopt;
}

template <double gear_selector_options::*Member>
std::optional<Fault> set_real(SelectorSpec* spec, const std::string& text) {
  const Parsed<double> value = parse_real(text);
  if (!value.ok()) return Fault{value.fault_text()};
  if (value.value() < 0) return Fault{text + " is negative"};
  spec->options.*Member = value.value();
  return std::nullopt;
}

std::optional<Fault> set_alpha(SelectorSpec* spec, const std::string& text) {
  const std::optional<Fault> fault = set_real<&gear_selector_options::alpha>(spec, text);
  // In gear.h zero means the default; who writes 0 here means 0.
  if (!fault && spec->options.alpha == 0) spec->options.alpha = GEAR_ALPHA_ZERO;
  return fault;
}

std::optional<Fault> set_half_life(SelectorSpec* spec, const std::string& text) {
  const Parsed<double> value = parse_amount(text);
  if (!value.ok()) return Fault{value.fault_text()};
  if (value.value() <= 0) return Fault{text + "; give insertions, more than 0"};
  spec->options.half_life = value.value();
  return std::nullopt;
}

std::optional<Fault> set_top_k(SelectorSpec* spec, const std::string& text) {
  const Parsed<uint64_t> value = parse_count(text);
  if (!value.ok()) return Fault{value.fault_text()};
  if (value.value() < 1 || value.value() > std::numeric_limits<uint32_t>::max()) {
    return Fault{text + "; give 1 to 4294967295"};
  }
  spec->options.top_k = static_cast<uint32_t>(value.value());
  return std::nullopt;
}

std::string kind_name(const SelectorSpec& spec) {
  return name_of(selector_names(), spec.options.selector);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " and ") + word;
  return text;
}

// "recency takes half_life", "fifo takes no parameter".
std::string what_it_takes(const SelectorSpec& spec) {
  const std::vector<std::string> takes = parameters_of(spec.options.selector);
  return kind_name(spec) + " takes " + (takes.empty() ? "no parameter" : joined(takes));
}

bool is_parameter(const std::string& key) {
  return key != "kind" && key != "proportion";
}

}  // namespace

const std::vector<SelectorField>& selector_fields() {
  static const std::vector<SelectorField> fields = {
      {"kind", ValueKind::kWord, set_kind},
      {"proportion", ValueKind::kReal, set_real<&gear_selector_options::proportion>},
      {"alpha", ValueKind::kReal, set_alpha},
      {"epsilon", ValueKind::kReal, set_real<&gear_selector_options::epsilon>},
      {"half_life", ValueKind::kAmount, set_half_life},
      {"top_k", ValueKind::kCount, set_top_k}};
  return fields;
}

std::optional<Fault> set_selector_field(SelectorSpec* spec, const std::string& key,
                                        const std::string& text) {
  std::vector<std::string> known;
  for (const SelectorField& field : selector_fields()) {
    known.push_back(field.key);
    if (key != field.key) continue;
    const std::vector<std::string> takes = parameters_of(spec->options.selector);
    if (is_parameter(key) && std::find(takes.begin(), takes.end(), key) == takes.end()) {
      return Fault{"is not for " + kind_name(*spec) + "; " + what_it_takes(*spec)};
    }
    return field.set(spec, text);
  }
  return Fault{"is not known" + suggestion(key, known)};
}

std::optional<Fault> finish_selector(const SelectorSpec& spec) {
  if (spec.name.empty()) return Fault{"selector without a name"};
  const std::string which = "selector \"" + spec.name + "\"";
  const uint32_t kind = spec.options.selector;
  if (kind == GEAR_SELECT_DEFAULT) {
    return Fault{which + " has no kind; give one of " + names_joined(selector_names()) +
                 " but mixture"};
  }
  if (kind == GEAR_SELECT_RECENCY && spec.options.half_life == 0) {
    return Fault{which + ": recency needs its half_life, in insertions"};
  }
  if (kind == GEAR_SELECT_TOP_K && spec.options.top_k == 0) {
    return Fault{which + ": top_k needs top_k, how many items of largest priority"};
  }
  return std::nullopt;
}

Parsed<SelectorSpec> parse_selector(const std::string& text) {
  const std::string which = "selector \"" + text + "\": ";
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts[0].empty()) return Fault{which + kForm};
  SelectorSpec spec;
  spec.name = parts[0];
  std::vector<std::string> keys = {"kind", "proportion"};
  for (size_t i = 1; i < parts.size(); ++i) {
    if (i > keys.size())
      return Fault{which + "\"" + parts[i] + "\" is too much; " + what_it_takes(spec)};
    const std::string& key = keys[i - 1];
    const std::optional<Fault> fault = set_selector_field(&spec, key, parts[i]);
    if (fault) return Fault{which + key + " " + fault->text};
    if (i > 1) continue;
    for (const std::string& parameter : parameters_of(spec.options.selector)) {
      keys.push_back(parameter);
    }
  }
  const std::optional<Fault> fault = finish_selector(spec);
  if (fault) return Fault{fault->text + "; " + kForm};
  return spec;
}

}  // namespace gear::daemon
