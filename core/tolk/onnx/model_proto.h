// Field numbers of onnx.proto (proto2 and proto3 agree on them), one constant a field that is read. Messages
// for data (TensorProto, SequenceProto, OptionalProto) are in io/tensor_proto.cpp and io/value_proto.cpp.
#pragma once

#include <cstdint>

namespace tolk::onnx::proto {

namespace model {
inline constexpr uint32_t ir_version = 1, producer_name = 2, producer_version = 3, domain = 4,
                          model_version = 5, graph = 7, opset_import = 8, metadata_props = 14, functions = 25;
}
namespace graph {
inline constexpr uint32_t node = 1, name = 2, initializer = 5, input = 11, output = 12, value_info = 13,
                          sparse_initializer = 15;
}
namespace node {
inline constexpr uint32_t input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7,
                          overload = 8;
}
namespace attribute {
inline constexpr uint32_t name = 1, f = 2, i = 3, s = 4, t = 5, g = 6, floats = 7, ints = 8, strings = 9,
                          tensors = 10, graphs = 11, tp = 14, type_protos = 15, type = 20, ref_attr_name = 21,
                          sparse_tensor = 22, sparse_tensors = 23;
}
namespace value_info {
inline constexpr uint32_t name = 1, type = 2;
}
namespace type {
inline constexpr uint32_t tensor_type = 1, sequence_type = 4, map_type = 5, sparse_tensor_type = 8,
                          optional_type = 9;
}
namespace tensor_type { // also of sparse tensors
inline constexpr uint32_t elem_type = 1, shape = 2;
}
namespace container_type { // of sequences and optionals
inline constexpr uint32_t elem_type = 1;
}
namespace shape {
inline constexpr uint32_t dim = 1;
}
namespace dimension {
inline constexpr uint32_t dim_value = 1, dim_param = 2;
}
namespace opset {
inline constexpr uint32_t domain = 1, version = 2;
}
namespace sparse_tensor {
inline constexpr uint32_t values = 1, indices = 2, dims = 3;
}
namespace function {
inline constexpr uint32_t name = 1, input = 4, output = 5, attribute = 6, node = 7, opset_import = 9,
                          domain = 10, attribute_proto = 11, value_info = 12, overload = 13;
}
namespace entry { // StringStringEntryProto
inline constexpr uint32_t key = 1, value = 2;
}

} // namespace tolk::onnx::proto
