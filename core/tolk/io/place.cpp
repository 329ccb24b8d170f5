#include "tolk/io/place.h"

#include <fmt/format.h>

#include <vector>

#include "tolk/base/error.h"

namespace tolk::io {
namespace {

const Place& root_of(const Place& place) {
  const Place* p = &place;
  while (p->parent) p = p->parent;
  return *p;
}

} // namespace

std::string inner_text(const Place& place) {
  std::vector<const Place*> chain;
  for (const Place* p = &place; p->parent; p = p->parent) chain.push_back(p);
  std::string text;
  for (size_t i = chain.size(); i-- > 0;) {
    if (!text.empty()) text += '.';
    text += chain[i]->name;
    if (chain[i]->index >= 0) text += fmt::format("[{}]", chain[i]->index);
  }
  return text;
}

std::string place_text(const Place& place) {
  std::string inner = inner_text(place);
  std::string file(root_of(place).name);
  return inner.empty() ? file : file + ": " + inner;
}

void fail_at(const Place& place, std::string_view message) {
  throw FormatError(fmt::format("{}: {}", place_text(place), message));
}

} // namespace tolk::io
