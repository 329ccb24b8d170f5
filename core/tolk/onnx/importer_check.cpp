// Nodes against operators.def: how many inputs, which types agree, what attributes may hold. Done before an
// operator's function builds anything, so that the functions meet attributes of the right kind, range and length.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

struct InputRule {
  char type = '.';   // see operators.def
  char suffix = ' '; // '?', '*' or ' '
};

struct AttributeRule {
  std::string name, kinds; // kinds: a letter each
  bool required = false, is_axis = false, bounded = false;
  double low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  std::vector<std::string> choices;
  int64_t times = 0; // length: times the axes of input 0, those after the first two when `spatial`; 0: any
  bool spatial = false;
};

struct OperatorRule {
  std::vector<InputRule> inputs;
  std::vector<AttributeRule> attributes;
};

std::vector<std::string> words_of(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

void read_bounds(std::string_view text, AttributeRule& rule) {
  rule.bounded = true;
  size_t dots = text.find("..");
  std::string_view low = text.substr(0, dots), high = text.substr(dots + 2);
  if (!low.empty()) std::from_chars(low.data(), low.data() + low.size(), rule.low);
  if (!high.empty()) std::from_chars(high.data(), high.data() + high.size(), rule.high);
}

AttributeRule attribute_rule(std::string_view word) {
  AttributeRule rule;
  size_t colon = word.find(':');
  rule.name = word.substr(0, colon);
  for (size_t i = colon + 1; i < word.size(); ++i) {
    auto enclosed = [&](char close) {
      size_t begin = i + 1;
      i = word.find(close, begin);
      return word.substr(begin, i - begin);
    };
    switch (word[i]) {
    case '|':
      break;
    case '!':
      rule.required = true;
      break;
    case '@':
      rule.is_axis = true;
      break;
    case '(':
      read_bounds(enclosed(')'), rule);
      break;
    case '{':
      rule.choices = words_of(enclosed('}'), ',');
      break;
    case '[': {
      std::string_view length = enclosed(']');
      rule.times = length[0] == '2' ? 2 : 1;
      rule.spatial = length.back() == 's';
      break;
    }
    default:
      rule.kinds += word[i];
    }
  }
  return rule;
}

using Key = std::pair<std::string_view, std::string_view>;

const OperatorRule* rule_of(const Node& node) {
  static const auto* rules = [] {
    auto* all = new std::map<Key, OperatorRule>;
    auto add = [&](const char* domain, const char* name, const char* inputs, const char* attributes) {
      OperatorRule& rule = (*all)[{domain, name}];
      for (const std::string& word : words_of(inputs, ' '))
        rule.inputs.push_back({word[0], word.size() > 1 ? word[1] : ' '});
      for (const std::string& word : words_of(attributes, ' '))
        rule.attributes.push_back(attribute_rule(word));
    };
#define TOLK_ONNX_OPERATOR(domain, name, inputs, attributes) add(domain, name, inputs, attributes);
#include "tolk/onnx/operators.def"
    return all;
  }();
  auto it = rules->find({node.domain, node.op_type});
  return it == rules->end() ? nullptr : &it->second;
}

// ---- attributes

char kind_of(const Attribute& a) {
  if (std::holds_alternative<float>(a.data)) return 'f';
  if (std::holds_alternative<int64_t>(a.data)) return 'i';
  if (std::holds_alternative<std::string>(a.data)) return 's';
  if (std::holds_alternative<io::HostTensor>(a.data)) return 't';
  if (std::holds_alternative<std::shared_ptr<const Graph>>(a.data)) return 'g';
  if (std::holds_alternative<Type>(a.data)) return 'p';
  if (std::holds_alternative<Attribute::Floats>(a.data)) return 'F';
  if (std::holds_alternative<Attribute::Ints>(a.data)) return 'I';
  if (std::holds_alternative<Attribute::Strings>(a.data)) return 'S';
  return '?';
}

std::string kinds_text(const std::string& kinds) {
  std::vector<std::string> words;
  for (char k : kinds)
    words.emplace_back(k == 'f'   ? "a float"
                       : k == 'i' ? "an int"
                       : k == 's' ? "a string"
                       : k == 't' ? "a tensor"
                       : k == 'g' ? "a graph"
                       : k == 'p' ? "a type"
                       : k == 'F' ? "a list of floats"
                       : k == 'I' ? "a list of ints"
                                  : "a list of strings");
  return join(words, " or ");
}

std::string bounds_text(const AttributeRule& rule) {
  auto whole = [](double v) { return std::to_string(int64_t(v)); };
  if (rule.high == std::numeric_limits<int32_t>::max() && rule.low > std::numeric_limits<int32_t>::min())
    return whole(rule.low) + " or more";
  return whole(rule.low) + " to " + whole(rule.high);
}

std::vector<double> numbers_of(const Attribute& a) {
  if (const auto* f = std::get_if<float>(&a.data)) return {double(*f)};
  if (const auto* i = std::get_if<int64_t>(&a.data)) return {double(*i)};
  if (const auto* fs = std::get_if<Attribute::Floats>(&a.data)) return {fs->begin(), fs->end()};
  if (const auto* is = std::get_if<Attribute::Ints>(&a.data)) return {is->begin(), is->end()};
  return {};
}

// Axes of input 0, where it is a tensor.
std::optional<int64_t> rank_of_first(const OpCall& op) {
  if (!op.has(0) || op.value(0).kind != io::ValueKind::Tensor) return std::nullopt;
  const GraphValue& v = op.value(0);
  if (v.tensor.defined()) return v.tensor.rank();
  if (v.host) return int64_t(v.host->shape.size());
  return std::nullopt;
}

void check_length(const OpCall& op, const AttributeRule& rule, size_t length, int64_t rank) {
  int64_t axes = rule.spatial ? std::max<int64_t>(rank - 2, 0) : rank;
  if (length == 0 || int64_t(length) == rule.times * axes) return;
  op.fail(rule.name + " has " + std::to_string(length) + (length == 1 ? " entry, " : " entries, ") +
          std::to_string(rule.times * axes) + " are needed for the " + std::to_string(axes) +
          (rule.spatial ? " spatial axes" : " axes") + " of input 0");
}

void check_attribute(const OpCall& op, const AttributeRule& rule) {
  const Attribute* a = op.node.find(rule.name);
  if (!a) {
    if (rule.required) op.fail("the attribute " + rule.name + " is missing");
    return;
  }
  if (rule.kinds.find(kind_of(*a)) == std::string::npos)
    op.fail("the attribute " + rule.name + " must be " + kinds_text(rule.kinds) + ", it is " + a->kind());
  if (rule.bounded)
    for (double v : numbers_of(*a))
      if (!(v >= rule.low && v <= rule.high)) // refuses NaN
        op.fail("the attribute " + rule.name + " must be " + bounds_text(rule) + ", it has " +
                fmt::format("{}", v));
  if (const auto* text = std::get_if<std::string>(&a->data); text && !rule.choices.empty())
    if (std::find(rule.choices.begin(), rule.choices.end(), *text) == rule.choices.end())
      op.fail("the attribute " + rule.name + " must be one of " + join(rule.choices, ", ") + ", it is \"" +
              *text + "\"");
  std::optional<int64_t> rank = rank_of_first(op);
  if (!rank) return;
  if (const auto* list = std::get_if<Attribute::Ints>(&a->data)) {
    if (rule.is_axis) op.axes(*list, *rank, rule.name.c_str());
    if (rule.times) check_length(op, rule, list->size(), *rank);
  } else if (rule.is_axis) {
    op.axis(rule.name, 0, *rank);
  }
}

// ---- inputs

// Name of the element type, empty for what is no tensor.
std::string element_type(const OpCall& op, size_t i) {
  const GraphValue& v = op.value(i);
  if (v.kind != io::ValueKind::Tensor) return {};
  if (v.is_string()) return "string";
  return v.tensor.defined() ? name(op.type(i)) : "";
}

void check_type(const OpCall& op, size_t i, char wanted) {
  if (wanted == '.' || element_type(op, i).empty()) return;
  bool text = op.value(i).is_string();
  DType dtype = text ? DType::Void : op.type(i);
  bool fits = wanted == 's' ? text : !text;
  if (wanted == 'b') fits &= is_bool(dtype);
  if (wanted == 'i') fits &= !text && is_int(dtype);
  if (wanted == 'f') fits &= !text && is_float(dtype);
  if (!fits)
    op.fail("input " + std::to_string(i) + " must be a tensor of " +
            (wanted == 's'   ? "strings"
             : wanted == 'b' ? "bool"
             : wanted == 'i' ? "integers"
                             : "floats") +
            ", its elements are " + element_type(op, i));
}

void check_inputs(const OpCall& op, const OperatorRule& rule) {
  std::map<char, size_t> first; // input that decided the type of a letter
  for (size_t i = 0; i < std::max(op.count(), rule.inputs.size()); ++i) {
    bool listed = i < rule.inputs.size();
    if (!listed && (rule.inputs.empty() || rule.inputs.back().suffix != '*'))
      op.fail("takes " + std::to_string(rule.inputs.size()) +
              (rule.inputs.size() == 1 ? " input, " : " inputs, ") + std::to_string(op.count()) +
              " are given");
    InputRule input = listed ? rule.inputs[i] : rule.inputs.back();
    if (!op.has(i)) {
      if (input.suffix == ' ') op.fail("input " + std::to_string(i) + " is missing");
      continue;
    }
    if (input.type < 'A' || input.type > 'Z') {
      check_type(op, i, input.type);
      continue;
    }
    std::string type = element_type(op, i);
    if (type.empty()) continue;
    auto [at, fresh] = first.emplace(input.type, i);
    if (!fresh && element_type(op, at->second) != type)
      op.fail("inputs " + std::to_string(at->second) + " and " + std::to_string(i) +
              " must have one element type, they are " + element_type(op, at->second) + " and " + type);
  }
}

} // namespace

void check_node(const OpCall& op) {
  const OperatorRule* rule = rule_of(op.node);
  if (!rule) return;
  check_inputs(op, *rule);
  for (const AttributeRule& attribute : rule->attributes) check_attribute(op, attribute);
}

std::vector<std::string> unknown_attributes(const Node& node) {
  std::vector<std::string> found;
  const OperatorRule* rule = rule_of(node);
  if (!rule) return found;
  std::vector<std::string> known;
  for (const AttributeRule& a : rule->attributes) known.push_back(a.name);
  for (const Attribute& a : node.attributes) {
    if (std::find(known.begin(), known.end(), a.name) != known.end()) continue;
    std::string near = nearest_word(a.name, known);
    found.push_back("has the attribute \"" + a.name + "\", which " + node.op_type + " does not know" +
                    (near.empty() ? "" : ", did you mean \"" + near + "\"?"));
  }
  return found;
}

} // namespace tolk::onnx
