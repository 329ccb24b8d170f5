// Strings: made and taken apart on the host while importing.
#include "tolk/onnx/ops_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include <re2/re2.h>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;
using Strings = std::vector<std::string>;

Shape tensor_shape(const io::Shape& s) { return Shape(s.begin(), s.end()); }

GraphValue text_value(io::Shape shape, Strings strings) {
  return GraphValue(io::string_tensor(std::move(shape), std::move(strings)));
}

GraphValue integers(OpCall& op, const std::vector<int64_t>& values, const io::Shape& shape,
                    DType dtype = DType::I64) {
  if (values.empty()) return Tensor::zeros(tensor_shape(shape), dtype);
  return Tensor::from(values, tensor_shape(shape), op.importer.device()).cast(dtype);
}

const io::HostTensor& text_input(OpCall& op, size_t i) {
  op.strings(i); // refuses what is no text
  return *op.value(i).host;
}

// Calls f with both strings of every element of the broadcast shape, which is returned.
io::Shape for_each_pair(OpCall& op, const std::function<void(const std::string&, const std::string&)>& f) {
  const io::HostTensor &a = text_input(op, 0), &b = text_input(op, 1);
  size_t rank = std::max(a.shape.size(), b.shape.size());
  auto padded = [&](const io::Shape& s) {
    io::Shape out(rank - s.size(), 1);
    out.insert(out.end(), s.begin(), s.end());
    return out;
  };
  io::Shape sa = padded(a.shape), sb = padded(b.shape), shape;
  for (size_t d = 0; d < rank; ++d) {
    if (sa[d] != sb[d] && sa[d] != 1 && sb[d] != 1)
      op.fail("shapes " + io::shape_text(a.shape) + " and " + io::shape_text(b.shape) + " do not broadcast");
    shape.push_back(sa[d] == 1 ? sb[d] : sa[d]);
  }
  uint64_t count = io::element_count(shape).value_or(0);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<int64_t> at = io::multi_index(shape, i);
    auto flat = [&](const io::Shape& s) {
      int64_t index = 0;
      for (size_t d = 0; d < rank; ++d) index = index * s[d] + (s[d] == 1 ? 0 : at[d]);
      return size_t(index);
    };
    f(a.strings[flat(sa)], b.strings[flat(sb)]);
  }
  return shape;
}

template <typename T> std::string number_text(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  }
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
}

} // namespace

GraphValue text_of(OpCall& op) {
  if (op.value(0).is_string()) return op.value(0);
  const Tensor& x = op.in(0);
  io::Shape shape;
  for (const SInt& d : x.shape()) shape.push_back(d.value("a cast to strings"));
  Strings out;
  if (is_bool(x.dtype())) {
    for (int64_t v : op.importer.ints(x.cast(DType::U8))) out.emplace_back(v ? "True" : "False");
  } else if (!is_float(x.dtype())) {
    // The elements of an unsigned type keep their bits in the list.
    for (int64_t v : op.ints(0))
      out.push_back(x.dtype() == DType::U64 ? number_text(uint64_t(v)) : number_text(v));
  } else {
    for (double v : op.floats(0))
      out.push_back(x.dtype() == DType::F64 ? number_text(v) : number_text(float(v)));
  }
  return text_value(std::move(shape), std::move(out));
}

GraphValue numbers_of_text(OpCall& op, DType to) {
  const io::HostTensor& x = text_input(op, 0);
  std::vector<double> reals;
  std::vector<int64_t> whole;
  for (const std::string& s : x.strings) {
    const char* end = nullptr;
    bool fits = true;
    if (is_float(to)) {
      char* after = nullptr;
      reals.push_back(std::strtod(s.c_str(), &after));
      end = after;
    } else {
      const char *begin = s.data() + (s.starts_with('+') ? 1 : 0), *last = s.data() + s.size();
      uint64_t natural = 0;
      int64_t number = 0;
      auto read =
          is_signed(to) ? std::from_chars(begin, last, number) : std::from_chars(begin, last, natural);
      end = read.ptr;
      __int128 value = is_signed(to) ? __int128(number) : __int128(natural);
      bool range = is_bool(to) || (value >= int_min(to) && value <= int_max(to));
      fits = read.ec != std::errc::result_out_of_range && range;
      whole.push_back(is_signed(to) ? number : int64_t(natural));
    }
    if (s.empty() || end != s.data() + s.size())
      op.fail("\"" + s + "\" is not " + (is_float(to) || is_signed(to) ? "a number" : "a natural number"));
    if (!fits) op.fail("\"" + s + "\" is not a number of type " + name(to));
  }
  if (!is_float(to)) return integers(op, whole, x.shape, to);
  if (reals.empty()) return Tensor::zeros(tensor_shape(x.shape), to);
  return Tensor::from(reals, tensor_shape(x.shape), op.importer.device()).cast(to);
}

GraphValue equal_text(OpCall& op) {
  std::vector<int64_t> same;
  io::Shape shape =
      for_each_pair(op, [&](const std::string& a, const std::string& b) { same.push_back(a == b); });
  return integers(op, same, shape, DType::BOOL);
}

namespace {

Values concat(OpCall& op) {
  Strings joined;
  io::Shape shape =
      for_each_pair(op, [&](const std::string& a, const std::string& b) { joined.push_back(a + b); });
  return {text_value(std::move(shape), std::move(joined))};
}

// The parts between delimiters; an empty delimiter stands for any amount of white space, none of it kept at
// the ends.
Strings parts_of(const std::string& s, const std::string& delimiter, int64_t most) {
  Strings parts;
  size_t at = 0;
  auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  auto full = [&] { return most >= 0 && int64_t(parts.size()) >= most; };
  if (delimiter.empty()) {
    for (;;) {
      while (at < s.size() && is_space(s[at])) ++at;
      if (at == s.size()) return parts;
      size_t end = at;
      if (full()) {
        end = s.size();
        while (is_space(s[end - 1])) --end;
        parts.push_back(s.substr(at, end - at));
        return parts;
      }
      while (end < s.size() && !is_space(s[end])) ++end;
      parts.push_back(s.substr(at, end - at));
      at = end;
    }
  }
  for (;;) {
    size_t end = full() ? std::string::npos : s.find(delimiter, at);
    parts.push_back(s.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + delimiter.size();
  }
}

Values split(OpCall& op) {
  const io::HostTensor& x = text_input(op, 0);
  std::string delimiter = op.node.text("delimiter", "");
  int64_t most = op.node.integer("maxsplit", -1);
  std::vector<Strings> all;
  std::vector<int64_t> counts;
  size_t width = 0;
  for (const std::string& s : x.strings) {
    all.push_back(parts_of(s, delimiter, most));
    counts.push_back(int64_t(all.back().size()));
    width = std::max(width, all.back().size());
  }
  Strings flat;
  for (Strings& parts : all) {
    parts.resize(width);
    flat.insert(flat.end(), parts.begin(), parts.end());
  }
  io::Shape shape = x.shape;
  shape.push_back(int64_t(width));
  return {text_value(std::move(shape), std::move(flat)), integers(op, counts, x.shape)};
}

// Letters of ASCII alone change their case.
std::string cased(std::string s, bool upper) {
  for (char& c : s)
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = char(c ^ 0x20);
  return s;
}

Values normalize(OpCall& op) {
  const io::HostTensor& x = text_input(op, 0);
  if (x.shape.size() > 2 || x.shape.empty() || (x.shape.size() == 2 && x.shape[0] != 1))
    op.fail("the input must be a list or one row of strings, its shape is " + io::shape_text(x.shape));
  bool sensitive = op.node.integer("is_case_sensitive", 0) != 0;
  std::string action = op.node.text("case_change_action", "NONE");
  Strings stop = op.node.texts("stopwords"), out;
  auto key = [&](const std::string& s) { return sensitive ? s : cased(s, false); };
  for (const std::string& s : x.strings) {
    if (std::any_of(stop.begin(), stop.end(), [&](const std::string& w) { return key(w) == key(s); }))
      continue;
    out.push_back(action == "UPPER" ? cased(s, true) : action == "LOWER" ? cased(s, false) : s);
  }
  if (out.empty()) out.emplace_back();
  io::Shape shape{int64_t(out.size())};
  if (x.shape.size() == 2) shape.insert(shape.begin(), 1);
  return {text_value(std::move(shape), std::move(out))};
}

// The specification names RE2's syntax; its matcher takes time linear in the text and no stack.
Values regex_full_match(OpCall& op) {
  const io::HostTensor& x = text_input(op, 0);
  std::string pattern = op.node.text("pattern", "");
  RE2::Options quiet;
  quiet.set_log_errors(false);
  RE2 regex(pattern, quiet);
  if (!regex.ok()) op.fail("the pattern \"" + pattern + "\" is no RE2 expression: " + regex.error());
  std::vector<int64_t> hits;
  for (const std::string& s : x.strings) hits.push_back(RE2::FullMatch(s, regex));
  return {integers(op, hits, x.shape, DType::BOOL)};
}

// How often the n-grams of a pool occur in each row, with up to max_skip_count elements skipped between
// theirs.
template <typename T>
std::vector<float> ngram_counts(OpCall& op, const std::vector<T>& row, const std::vector<T>& pool,
                                size_t width) {
  const Node& n = op.node;
  std::vector<int64_t> starts = n.require_integers("ngram_counts"),
                       indexes = n.require_integers("ngram_indexes");
  int64_t least = n.require_integer("min_gram_length"), most = n.require_integer("max_gram_length"),
          skips = n.require_integer("max_skip_count");
  std::vector<float> counts(width, 0);
  size_t first = 0; // number of the first n-gram of this length
  for (int64_t length = 1; length <= int64_t(starts.size()); ++length) {
    auto begin = size_t(starts[size_t(length - 1)]),
         end = size_t(length) < starts.size() ? size_t(starts[size_t(length)]) : pool.size();
    if (begin > end || end > pool.size() || (end - begin) % size_t(length))
      op.fail("ngram_counts does not fit the pool");
    std::map<std::vector<T>, size_t> number;
    for (size_t at = begin; at < end; at += size_t(length))
      number.emplace(std::vector<T>(pool.begin() + int64_t(at), pool.begin() + int64_t(at) + length),
                     first + (at - begin) / size_t(length));
    first += (end - begin) / size_t(length);
    if (first > indexes.size()) op.fail("ngram_indexes is shorter than the pool");
    if (length < least || length > most) continue;
    for (int64_t step = 1; step <= (length == 1 ? 1 : std::min(skips, int64_t(row.size())) + 1); ++step)
      for (int64_t at = 0; at + (length - 1) * step < int64_t(row.size()); ++at) {
        std::vector<T> gram;
        for (int64_t k = 0; k < length; ++k) gram.push_back(row[size_t(at + k * step)]);
        if (auto it = number.find(gram); it != number.end()) ++counts[size_t(indexes[it->second])];
      }
  }
  return counts;
}

Values tfidf(OpCall& op) {
  const GraphValue& x = op.value(0);
  std::vector<int64_t> indexes = op.node.require_integers("ngram_indexes");
  size_t width = indexes.empty() ? 0 : size_t(*std::max_element(indexes.begin(), indexes.end())) + 1;
  op.check_table(double(width), "a row of counts");
  std::vector<float> weights = op.node.numbers("weights");
  if (!weights.empty() && weights.size() != indexes.size())
    op.fail("weights and ngram_indexes have different lengths");
  std::string mode = op.node.text("mode", "");
  io::Shape shape;
  if (x.is_string())
    shape = x.host->shape;
  else
    for (const SInt& d : op.in(0).shape()) shape.push_back(d.value("TfIdfVectorizer"));
  if (shape.empty() || shape.size() > 2) op.fail("the input must have one or two axes");
  size_t rows = shape.size() == 2 ? size_t(shape[0]) : 1, length = size_t(shape.back());
  std::vector<float> all;
  auto count = [&](const auto& values, const auto& pool) {
    for (size_t r = 0; r < rows; ++r) {
      auto begin = values.begin() + int64_t(r * length);
      std::vector<float> counts =
          ngram_counts(op, std::decay_t<decltype(pool)>(begin, begin + int64_t(length)), pool, width);
      for (size_t k = 0; k < indexes.size() && mode != "TF"; ++k) {
        float& c = counts[size_t(indexes[k])];
        float w = weights.empty() ? 1 : weights[k];
        c = mode == "IDF" ? (c > 0 ? w : 0) : c * w;
      }
      all.insert(all.end(), counts.begin(), counts.end());
    }
  };
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") op.fail("mode \"" + mode + "\" is not known");
  if (x.is_string())
    count(x.host->strings, op.node.texts("pool_strings"));
  else
    count(op.ints(0), op.node.integers("pool_int64s"));
  Shape out(shape.begin(), shape.end() - 1);
  out.emplace_back(int64_t(width));
  if (all.empty()) return {Tensor::zeros(out)};
  return {Tensor::from(all, out, op.importer.device())};
}

constexpr OpRow kRows[] = {
    {"", "StringConcat", 20, concat},        {"", "StringSplit", 20, split},
    {"", "StringNormalizer", 10, normalize}, {"", "RegexFullMatch", 20, regex_full_match},
    {"", "TfIdfVectorizer", 9, tfidf},
};

} // namespace

std::span<const OpRow> text_ops() { return kRows; }

} // namespace tolk::onnx
