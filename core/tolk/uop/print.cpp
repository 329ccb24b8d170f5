#include "tolk/uop/print.h"

#include <charconv>
#include <cstdio>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

void quoted(std::string& out, const std::string& text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  out += '"';
}

void print_arg(std::string& out, const Arg& arg) {
  if (arg.word) out += " #" + std::to_string(arg.word);
  if (!arg.data) return;
  out += " [";
  for (size_t i = 0; i < arg.data->ints.size(); ++i)
    out += (i ? " " : "") + std::to_string(arg.data->ints[i]);
  out += "]";
  if (arg.data->texts.empty()) return;
  out += " {";
  for (size_t i = 0; i < arg.data->texts.size(); ++i) {
    if (i) out += ' ';
    quoted(out, arg.data->texts[i]);
  }
  out += "}";
}

void print_head(std::string& out, const UOp& u) {
  out += std::string(name(u.op())) + " " + name(u.dtype());
  if (u.lanes() != 1) out += "x" + std::to_string(u.lanes());
}

std::string const_text(const UOp& u) {
  if (u.dtype() == DType::BOOL) return u.const_int() ? "true" : "false";
  if (!is_float(u.dtype())) return std::to_string(u.const_int());
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", u.const_float());
  return text;
}

// Reads the line form. Positions in errors count from 1.
class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}
  UOp run() {
    UOp last;
    while (skip_blank(), at_ < text_.size()) last = statement();
    if (!last) fail("a graph needs at least one node");
    return last;
  }

private:
  [[noreturn]] void fail(const std::string& what) {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, start = i + 1;
    throw FormatError("graph text, line " + std::to_string(line) + ", column " +
                      std::to_string(at_ - start + 1) + ": " + what);
  }
  void skip_blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) return ++at_, true;
    return false;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  template <typename T> T number() {
    skip_space();
    T value{};
    auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) fail("expected a number");
    at_ = size_t(end - text_.data());
    return value;
  }
  std::string_view word() {
    skip_space();
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string quoted_text() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
      }
      out += c;
    }
    expect('"');
    return out;
  }
  UOp statement() {
    expect('%');
    auto id = number<uint64_t>();
    expect('=');
    std::string_view op_text = word();
    auto op = parse_op(op_text);
    if (!op) fail("unknown op '" + std::string(op_text) + "'");
    std::string type(word());
    int lanes = 1;
    auto dtype = read_type(type, lanes);
    std::vector<UOp> src;
    while (accept('%')) {
      auto ref = number<uint64_t>();
      auto it = nodes_.find(ref);
      if (it == nodes_.end()) fail("%" + std::to_string(ref) + " is not defined above");
      src.push_back(it->second);
    }
    Arg arg;
    if (accept('#')) arg.word = number<uint64_t>();
    uint64_t kept = arg.word;
    if (accept('[')) {
      std::vector<int64_t> ints;
      std::vector<std::string> texts;
      while (!accept(']')) ints.push_back(number<int64_t>());
      if (accept('{'))
        while (!accept('}')) texts.push_back(quoted_text());
      arg = Arg(std::move(ints), std::move(texts));
      arg.word = kept;
    }
    skip_space();
    if (at_ < text_.size() && text_[at_] != '\n') fail("unexpected text after the node");
    // What the accessors of build.h assume.
    bool variable = *op == Op::VAR, named = variable || *op == Op::BUFFER || *op == Op::PARAM;
    size_t least = variable                                                                        ? 3
                   : named || *op == Op::SLICE || *op == Op::DEFINE_LOCAL || *op == Op::DEFINE_REG ? 2
                                                                                                   : 0;
    if (arg.ints().size() < least || arg.texts().size() < size_t(named))
      fail(std::string(op_text) + " needs " + std::to_string(least) + " integers" +
           (named ? " and a text" : ""));
    try {
      return nodes_[id] = make(*op, dtype, src, arg, lanes);
    } catch (const InternalError& e) {
      fail(e.what());
    }
  }
  DType read_type(std::string type, int& lanes) {
    if (size_t x = type.rfind('x'); x != std::string::npos && x > 0 && type != "index") {
      const char* first = type.data() + x + 1;
      auto [end, code] = std::from_chars(first, type.data() + type.size(), lanes);
      if (code == std::errc() && end == type.data() + type.size() && lanes > 0 && lanes <= 65535)
        type.resize(x);
      else
        lanes = 1;
    }
    if (type == "index") return DType::Index;
    if (type == "void") return DType::Void;
    auto dtype = parse_dtype(type);
    if (!dtype) fail("unknown dtype '" + type + "'");
    return *dtype;
  }
  std::string_view text_;
  size_t at_ = 0;
  std::unordered_map<uint64_t, UOp> nodes_;
};

} // namespace

std::string print(const UOp& root) {
  std::string out;
  std::unordered_map<const UOpNode*, size_t> number;
  for (const UOp& u : toposort(root)) {
    size_t n = number.size();
    number[u.node()] = n;
    out += "%" + std::to_string(n) + " = ";
    print_head(out, u);
    for (const UOp& s : u.src()) out += " %" + std::to_string(number[s.node()]);
    print_arg(out, u.arg());
    out += '\n';
  }
  return out;
}

UOp parse_graph(std::string_view text) { return Parser(text).run(); }

std::string describe(const UOp& u) {
  std::string device = device_of(u);
  return std::string(name(u.op())) + " of shape " + to_string(shape_of(u)) + ", " + name(u.dtype()) +
         (device.empty() ? "" : ", on " + device);
}

std::string print_line(const UOp& u) {
  if (!u) return "(nothing)";
  std::string out;
  print_head(out, u);
  out += '(';
  for (size_t i = 0; i < u.nsrc(); ++i) {
    if (i) out += ", ";
    if (u.src(i).is_const())
      out += const_text(u.src(i));
    else
      print_head(out, u.src(i));
  }
  out += ')';
  print_arg(out, u.arg());
  return out;
}

std::string print_expr(const UOp& u) {
  // Precedence: 0 comparison and lower, 1 sum, 2 product, 3 atom.
  struct Printer {
    std::string run(const UOp& u, int outer) const {
      auto infix = [&](const char* sign, int level) {
        std::string text = run(u.src(0), level) + sign + run(u.src(1), level + 1);
        return level < outer ? "(" + text + ")" : text;
      };
      auto call = [&](const std::string& name, size_t count) {
        std::string text = name + "(";
        for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + run(u.src(i), 0);
        return text + ")";
      };
      switch (u.op()) {
      case Op::CONST:
        return const_text(u);
      case Op::VAR:
        return var_name(u);
      case Op::RANGE:
        return std::string(1, "LRurvtglGd"[int(axis_type(u))]) + std::to_string(axis_of(u));
      case Op::PARAM:
        return "p" + std::to_string(slot_of(u));
      case Op::BUFFER:
        return "b" + std::to_string(slot_of(u));
      case Op::ADD:
        return infix("+", 1);
      case Op::SUB:
        return infix("-", 1);
      case Op::MUL:
        return infix("*", 2);
      case Op::FDIV:
      case Op::CDIV:
        return infix("/", 2);
      case Op::FLOORDIV:
        return infix("//", 2);
      case Op::FLOORMOD:
        return infix("%", 2);
      case Op::CMPLT:
        return infix("<", 0);
      case Op::CMPEQ:
        return infix("==", 0);
      case Op::CMPNE:
        return infix("!=", 0);
      case Op::AND:
        return infix("&", 0);
      case Op::OR:
        return infix("|", 0);
      case Op::LOAD:
        return run(u.src(0), 3) + "[" + run(u.src(1), 0) +
               (u.nsrc() > 2 ? " gated " + run(u.src(2), 0) : "") + "]";
      case Op::REDUCE: {
        std::string text = std::string("reduce_") + name(reduce_op(u)) + "(" + run(u.src(0), 0) + ";";
        for (size_t i = 1; i < u.nsrc(); ++i)
          text += " " + run(u.src(i), 3) + (u.src(i).is(Op::RANGE) ? ":" + run(u.src(i).src(0), 0) : "");
        return text + ")";
      }
      case Op::CAST:
        return call(name(u.dtype()), 1);
      default: {
        std::string lower = name(u.op());
        for (char& c : lower) c = char(std::tolower(c));
        return call(lower, u.nsrc());
      }
      }
    }
  };
  return Printer{}.run(u, 0);
}

std::string print_kernel(const UOp& sink) {
  std::string out;
  for (const UOp& effect : sink.src()) {
    UOp inner = effect;
    std::string loops;
    while (inner.is(Op::END)) {
      for (size_t i = 1; i < inner.nsrc(); ++i)
        loops += (loops.empty() ? "" : ", ") + print_expr(inner.src(i)) +
                 (inner.src(i).is(Op::RANGE) ? ":" + print_expr(inner.src(i).src(0)) : "");
      inner = inner.src(0);
    }
    if (!inner.is(Op::STORE)) {
      out += print_line(inner) + "\n";
      continue;
    }
    out += print_expr(inner.src(0)) + "[" + print_expr(inner.src(1)) + "] = " + print_expr(inner.src(2));
    if (inner.nsrc() > 3) out += " if " + print_expr(inner.src(3));
    out += loops.empty() ? "\n" : "   END(" + loops + ")\n";
  }
  return out;
}

} // namespace tolk
