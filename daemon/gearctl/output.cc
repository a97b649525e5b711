#include "gearctl/output.h"

#include <algorithm>
#include <cstdio>

namespace gear::daemon {

TextTable::TextTable(std::vector<std::string> header, std::vector<bool> right)
    : right_(std::move(right)) {
  right_.resize(header.size());
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> row) {
  row.resize(right_.size());
  rows_.push_back(std::move(row));
}

std::string TextTable::text() const {
  if (rows_.size() == 1) return "";
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (right_[i] ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string printable(const std::string& text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
      continue;
    }
    char escape[8];
    snprintf(escape, sizeof escape, "\\x%02x", byte);
    out += escape;
  }
  return out;
}

void print_json(const Json& document) {
  print_text(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_text(const std::string& text) {
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}

}  // namespace gear::daemon
