#include "options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>

#include "option_table.h"
#include "tolk/base/error.h"
#include "tolk/base/text.h"

namespace tolk::run {
namespace po = boost::program_options;
namespace {

using Texts = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

po::options_description describe() {
  po::options_description all;
  for (const OptionRow& row : option_rows()) {
    std::string names = row.letter ? fmt::format("{},{}", row.name, row.letter) : row.name;
    if (row.argument)
      all.add_options()(names.c_str(), po::value<Texts>()->composing(), "");
    else
      all.add_options()(names.c_str(), po::bool_switch(), "");
  }
  all.add_options()("MODEL", po::value<Texts>()->composing(), "");
  return all;
}

std::string near(const std::string& unknown) {
  Texts known;
  for (const OptionRow& row : option_rows()) known.push_back(std::string("--") + row.name);
  std::string word = nearest_word(unknown, known);
  return word.empty() ? std::string() : fmt::format("; did you mean {}?", word);
}

po::variables_map parse(const Texts& arguments) {
  po::variables_map map;
  po::options_description all = describe();
  po::positional_options_description positional;
  positional.add("MODEL", -1);
  // Abbreviated options would change their meaning when a new one joins.
  int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), map);
  } catch (const po::unknown_option& e) {
    std::string name = e.get_option_name();
    refuse(fmt::format("unknown option {}{} (tolk-run --help lists all)", name, near(name)));
  } catch (const po::invalid_command_line_syntax& e) {
    for (const OptionRow& row : option_rows()) {
      if (e.get_option_name() != std::string("--") + row.name) continue;
      if (row.argument) refuse(fmt::format("{} needs {} after it", e.get_option_name(), row.argument));
      refuse(fmt::format("{} takes no value", e.get_option_name()));
    }
    refuse(e.what());
  } catch (const po::error& e) {
    refuse(e.what());
  }
  return map;
}

Texts texts(const po::variables_map& map, const char* name) {
  return map.count(name) ? map[name].as<Texts>() : Texts();
}

std::string single(const po::variables_map& map, const char* name) {
  Texts all = texts(map, name);
  if (all.size() > 1) refuse(fmt::format("--{} is given {} times; once is enough", name, all.size()));
  return all.empty() ? std::string() : all.front();
}

template <typename T> std::optional<T> number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// NAME=REST at the last "="; names of models contain "=" and ":" themselves.
std::pair<std::string, std::string> split(const char* option, const std::string& text, const char* form) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    refuse(fmt::format("--{} {}: expected {}", option, text, form));
  return {text.substr(0, at), text.substr(at + 1)};
}

NamedFile named_file(const char* option, const std::string& text) {
  size_t at = text.rfind('=');
  if (at == std::string::npos) {
    if (text.empty()) refuse(fmt::format("--{} needs NAME=FILE", option));
    return {"", text};
  }
  auto [name, file] = split(option, text, "NAME=FILE");
  return {name, file};
}

io::Shape parse_shape(const std::string& option, const std::string& text) {
  io::Shape shape;
  if (text == "scalar") return shape;
  for (std::string_view rest = text;;) {
    size_t at = rest.find('x');
    std::optional<int64_t> dim = number<int64_t>(rest.substr(0, at));
    if (!dim || *dim < 0)
      refuse(fmt::format("--shape {}: expected sizes joined by x, as in 1x3x224x224, or scalar", option));
    shape.push_back(*dim);
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + 1);
  }
  if (!io::element_count(shape)) refuse(fmt::format("--shape {}: no tensor can have this shape", option));
  return shape;
}

Range parse_range(const std::string& option, const std::string& text) {
  size_t at = text.find("..");
  std::optional<double> low, high;
  if (at != std::string::npos) {
    low = number<double>(std::string_view(text).substr(0, at));
    high = number<double>(std::string_view(text).substr(at + 2));
  }
  if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high))
    refuse(fmt::format("--fill {}: expected NAME=LO..HI with two numbers, as in ids=0..96", option));
  if (*low > *high) refuse(fmt::format("--fill {}: the lower bound is above the upper one", option));
  return {*low, *high};
}

template <typename T>
void insert_once(std::map<std::string, T>& into, const char* option, const std::string& name, T value) {
  if (!into.emplace(name, std::move(value)).second)
    refuse(fmt::format("--{} is given twice for \"{}\"", option, name));
}

void read_values(Options& o, const po::variables_map& map) {
  for (const std::string& text : texts(map, "input")) o.inputs.push_back(named_file("input", text));
  for (const std::string& text : texts(map, "output")) o.outputs.push_back(named_file("output", text));
  for (const std::string& text : texts(map, "shape")) {
    auto [name, rest] = split("shape", text, "NAME=1x3x224x224");
    insert_once(o.shapes, "shape", name, parse_shape(text, rest));
  }
  for (const std::string& text : texts(map, "dim")) {
    auto [name, rest] = split("dim", text, "NAME=N");
    std::optional<int64_t> bound = number<int64_t>(rest);
    if (!bound || *bound < 1) refuse(fmt::format("--dim {}: expected a size of 1 or more after \"=\"", text));
    insert_once(o.dims, "dim", name, *bound);
  }
  for (const std::string& text : texts(map, "fill")) {
    auto [name, rest] = split("fill", text, "NAME=LO..HI");
    insert_once(o.fills, "fill", name, parse_range(text, rest));
  }
  if (std::string text = single(map, "seed"); map.count("seed")) {
    std::optional<uint64_t> seed = number<uint64_t>(text);
    if (!seed) refuse(fmt::format("--seed {}: expected a number of 0 or more", text));
    o.seed = *seed;
  }
  if (std::string text = single(map, "runs"); map.count("runs")) {
    std::optional<uint64_t> runs = number<uint64_t>(text);
    if (!runs || *runs < 1 || *runs > 1000000)
      refuse(fmt::format("--runs {}: expected a number of 1 to 1000000", text));
    o.runs = *runs;
  }
}

void read_save(Options& o, const po::variables_map& map) {
  o.save = single(map, "save");
  if (map.count("save") && o.save.empty())
    refuse("--save needs a file: tolk-run MODEL.onnx --save model.tolk");
}

void read_devices(Options& o, const po::variables_map& map) {
  o.device = single(map, "device");
  if (map.count("device") && o.device.empty())
    refuse("--device needs a name; tolk-run --list-devices shows them");
  o.plugins = texts(map, "plugin");
  for (const std::string& text : texts(map, "plugin-option")) {
    size_t dot = text.find('.'), at = text.find('=');
    if (at == std::string::npos || dot == std::string::npos || dot == 0 || dot > at || at == dot + 1)
      refuse(fmt::format("--plugin-option {}: expected PLUGIN.KEY=VALUE, as in CPU.threads=2", text));
    o.plugin_options.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
}

// What only means something in one mode is refused in the others, rather than quietly ignored.
void check_combination(const Options& o, const po::variables_map& map) {
  auto given = [&map](const char* name) {
    return map.count(name) && (map[name].value().type() == typeid(bool) ? map[name].as<bool>() : true);
  };
  struct Rule {
    const char* option;
    std::initializer_list<Command> modes;
    const char* reason;
  };
  using enum Command;
  const Rule rules[] = {
      {"input", {Run}, "the values come from the case"},
      {"output", {Run}, "outputs are stored when a model runs"},
      {"shape", {Run}, "it is about a model that runs"},
      {"fill", {Run}, "it is about a model that runs"},
      {"seed", {Run}, "it is about a model that runs"},
      {"runs", {Run}, "it is about a model that runs"},
      {"save", {Run}, "it is about a model that runs"},
      {"dim", {Run, Check, CheckMany}, "it is about a model that runs"},
      {"verbose", {ListDevices}, "it adds to --list-devices; DEBUG=1 to 7 makes a run talk"},
      {"types-only", {Check}, "it belongs to --check"},
      {"trust-code", {Run, Check}, "it is about the code in a saved model"},
  };
  for (const Rule& rule : rules)
    if (given(rule.option) && std::ranges::find(rule.modes, o.command) == rule.modes.end())
      refuse(fmt::format("--{} has no meaning here: {}", rule.option, rule.reason));
}

Command choose(const po::variables_map& map, std::string& model) {
  if (map["help"].as<bool>()) return Command::Help;
  if (map["version"].as<bool>()) return Command::Version;
  struct Mode {
    const char* name;
    Command command;
  };
  Texts chosen;
  Command command = Command::Run;
  for (const Mode& m : {Mode{"check-many", Command::CheckMany}, Mode{"list-devices", Command::ListDevices},
                        Mode{"env", Command::Env}}) {
    if (!map[m.name].as<bool>()) continue;
    chosen.push_back(std::string("--") + m.name);
    command = m.command;
  }
  Texts models = texts(map, "MODEL");
  if (map.count("check")) {
    chosen.emplace_back("--check");
    command = Command::Check;
    model = single(map, "check");
  }
  if (map.count("replay")) {
    chosen.emplace_back("--replay");
    command = Command::Replay;
    model = single(map, "replay");
  }
  if (chosen.size() > 1) refuse(fmt::format("{} and {} cannot go together", chosen[0], chosen[1]));
  if (!chosen.empty() && !models.empty())
    refuse(fmt::format("{} takes no model, but \"{}\" is given", chosen[0], models.front()));
  if (!chosen.empty()) return command;
  if (models.empty()) refuse("no model is given: tolk-run MODEL.onnx, or tolk-run --help");
  if (models.size() > 1)
    refuse(fmt::format(
        "one model at a time: \"{}\" and \"{}\" are given (values are given with --input NAME=FILE)",
        models[0], models[1]));
  model = models.front();
  return Command::Run;
}

} // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  po::variables_map map = parse(arguments);
  Options o;
  o.command = choose(map, o.model);
  if (o.command == Command::Help || o.command == Command::Version) return o;
  read_values(o, map);
  read_save(o, map);
  read_devices(o, map);
  o.json = map["json"].as<bool>();
  o.verbose = map["verbose"].as<bool>();
  o.types_only = map["types-only"].as<bool>();
  o.trust_code = map["trust-code"].as<bool>();
  check_combination(o, map);
  return o;
}

} // namespace tolk::run
