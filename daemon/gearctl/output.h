// How gearctl answers: every command makes one JSON document, which is printed as it is (--json) or
// rendered for people. So both always say the same.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gear::daemon {

using Json = nlohmann::ordered_json;

// Rows of cells, aligned in columns two spaces apart; `right` says which columns hold numbers.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::vector<bool> right = {});
  void add(std::vector<std::string> row);
  std::string text() const;  // "" without rows

 private:
  std::vector<std::vector<std::string>> rows_;  // [0] is the header
  std::vector<bool> right_;
};

// Letters that a terminal shows, not bytes: UTF-8 continuation bytes are not counted.
size_t width_of(const std::string& text);

// Control characters as \xNN, so that a name from elsewhere cannot drive the terminal.
std::string printable(const std::string& text);

void print_json(const Json& document);
void print_text(const std::string& text);

}  // namespace gear::daemon
