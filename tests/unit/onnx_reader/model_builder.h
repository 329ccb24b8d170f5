// Writes ONNX messages for tests, with the field numbers spelled out: a second reading of onnx.proto beside
// the reader's.
#pragma once

#include <protozero/pbf_writer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tolk::test {

using protozero::pbf_writer;

// A message made by appending fields.
class Message {
public:
  Message& text(uint32_t field, std::string_view value) {
    pbf_writer(data_).add_bytes(field, value.data(), value.size());
    return *this;
  }
  Message& number(uint32_t field, int64_t value) {
    pbf_writer(data_).add_int64(field, value);
    return *this;
  }
  Message& real(uint32_t field, float value) {
    pbf_writer(data_).add_float(field, value);
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return text(field, value.data_); }
  const std::string& bytes() const { return data_; }

private:
  std::string data_;
};

// TensorProto of f32 with raw data.
inline Message tensor(std::string_view name, const std::vector<int64_t>& dims,
                      const std::vector<float>& values) {
  Message m;
  for (int64_t dim : dims) m.number(1, dim);
  m.number(2, 1).text(8, name);
  m.text(9, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  return m;
}

// TensorProto of i64.
inline Message index_tensor(std::string_view name, const std::vector<int64_t>& dims,
                            const std::vector<int64_t>& values) {
  Message m;
  for (int64_t dim : dims) m.number(1, dim);
  m.number(2, 7).text(8, name);
  for (int64_t value : values) m.number(7, value);
  return m;
}

// AttributeProto of a given type; the caller adds the value.
inline Message attribute(std::string_view name, int64_t type) {
  return Message().text(1, name).number(20, type);
}

inline Message node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {},
                    std::string_view domain = "") {
  Message m;
  for (const std::string& input : inputs) m.text(1, input);
  for (const std::string& output : outputs) m.text(2, output);
  m.text(4, op);
  for (const Message& a : attributes) m.message(5, a);
  if (!domain.empty()) m.text(7, domain);
  return m;
}

// ValueInfoProto of an f32 tensor with unknown rank.
inline Message value(std::string_view name) {
  return Message().text(1, name).message(2, Message().message(1, Message().number(1, 1)));
}

struct GraphParts {
  std::vector<Message> nodes, initializers, sparse;
  std::vector<std::string> inputs, outputs;
};

inline Message graph(const GraphParts& parts) {
  Message m;
  for (const Message& n : parts.nodes) m.message(1, n);
  m.text(2, "g");
  for (const Message& t : parts.initializers) m.message(5, t);
  for (const Message& t : parts.sparse) m.message(15, t);
  for (const std::string& name : parts.inputs) m.message(11, value(name));
  for (const std::string& name : parts.outputs) m.message(12, value(name));
  return m;
}

inline Message opset(std::string_view domain, int64_t version) {
  return Message().text(1, domain).number(2, version);
}

inline Message model(const Message& graph, const std::vector<Message>& functions = {}) {
  Message m = Message().number(1, 8).message(7, graph).message(8, opset("", 17));
  for (const Message& f : functions) m.message(25, f);
  return m;
}

} // namespace tolk::test
