#include <boost/test/unit_test.hpp>

#include "tolk/dtype/dtype.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(every_printed_name_reads_back) {
  for (int code = 0; code <= static_cast<int>(DType::Void); ++code) {
    auto dtype = static_cast<DType>(code);
    BOOST_TEST((parse_dtype(name(dtype)) == dtype), name(dtype));
  }
}

BOOST_AUTO_TEST_CASE(names_of_numpy_and_onnx_are_understood) {
  BOOST_TEST((parse_dtype("float32") == DType::F32));
  BOOST_TEST((parse_dtype("bool_") == DType::BOOL));
  BOOST_TEST((parse_dtype("FLOAT") == DType::F32));
  BOOST_TEST((parse_dtype("DOUBLE") == DType::F64));
  BOOST_TEST((parse_dtype("BFLOAT16") == DType::BF16));
  BOOST_TEST((parse_dtype("FLOAT8E4M3FN") == DType::F8E4M3));
  BOOST_TEST((parse_dtype("float8_e5m2fnuz") == DType::F8E5M2FNUZ));
  BOOST_TEST((parse_dtype("FLOAT4E2M1") == DType::F4E2M1));
  BOOST_TEST((parse_dtype("UINT4") == DType::U4));
  BOOST_TEST((parse_dtype("Int64") == DType::I64));
}

BOOST_AUTO_TEST_CASE(unknown_names_give_nothing) {
  for (const char* text : {"", "_", "f31", "string", "float3", "complex64"})
    BOOST_TEST(!parse_dtype(text).has_value(), text);
}
