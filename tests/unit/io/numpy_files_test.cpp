// Files that numpy itself writes and reads; skipped where Debian's Python has no numpy.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <map>

#include "io_fixtures.h"
#include "tolk/io/npy.h"
#include "tolk/io/npz.h"

using namespace tolk;
using namespace tolk::io;
namespace utf = boost::unit_test;

namespace {

bool python(const std::string& script) {
  return std::system(("/usr/bin/python3 -c '" + script + "'").c_str()) == 0;
}

boost::test_tools::assertion_result has_numpy(utf::test_unit_id) {
  static const bool found = std::system("/usr/bin/python3 -c 'import numpy' >/dev/null 2>&1") == 0;
  boost::test_tools::assertion_result result(found);
  if (!found) result.message() << "/usr/bin/python3 has no numpy";
  return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(numpy_files, *utf::precondition(has_numpy))

BOOST_AUTO_TEST_CASE(every_type_and_order_that_numpy_writes_is_read) {
  test::TempDir dir;
  BOOST_REQUIRE(
      python("import numpy as n, os; os.chdir(\"" + dir.file("") +
             "\")\n"
             "for c in \"b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8\".split():\n"
             "  for o in \"<>\":\n"
             "    a = (n.arange(24).reshape(2, 3, 4) % 7 - (3 if c[0] in \"if\" else 0)).astype(o + c)\n"
             "    n.save(c + o + \"C.npy\", a)\n"
             "    n.save(c + o + \"F.npy\", n.asfortranarray(a))\n"));
  for (const char* code : {"b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"}) {
    for (const char* form : {"<C", "<F", ">C", ">F"}) {
      HostTensor t = read_npy(dir.file(std::string(code) + form + ".npy"));
      BOOST_TEST(t.shape == (Shape{2, 3, 4}), boost::test_tools::per_element());
      for (uint64_t i = 0; i < 24; ++i) {
        auto value = static_cast<double>(i % 7) - (code[0] == 'i' || code[0] == 'f' ? 3 : 0);
        if (code[0] == 'b') value = value != 0;
        BOOST_TEST(element_double(t, i) == value, code << form << " at " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(numpy_reads_what_is_written) {
  test::TempDir dir;
  write_npy(dir.file("a.npy"), tensor_of<double>(DType::F64, {2, 1, 2}, {1, -2.5, 3e300, 0}));
  write_npy(dir.file("s.npy"), tensor_of<int64_t>(DType::I64, {}, {-7}));
  write_npy(dir.file("h.npy"), tensor_of<uint16_t>(DType::BF16, {2}, {0x3f80, 0xc000}));
  write_npz(dir.file("z.npz"), {{"x:0", tensor_of<float>(DType::F32, {2}, {1, 2})},
                                {"y/z", tensor_of<uint8_t>(DType::BOOL, {1, 2}, {1, 0})}});
  write_npz(dir.file("empty.npz"), {});
  BOOST_TEST(python(
      "import numpy as n, os; os.chdir(\"" + dir.file("") +
      "\")\n"
      "a = n.load(\"a.npy\"); assert a.dtype == n.float64 and a.tolist() == [[[1, -2.5]], [[3e300, 0]]]\n"
      "s = n.load(\"s.npy\"); assert s.shape == () and s.dtype == n.int64 and s == -7\n"
      "h = n.load(\"h.npy\"); assert h.dtype == n.float32 and h.tolist() == [1, -2]\n"
      "z = n.load(\"z.npz\"); assert sorted(z.files) == [\"x:0\", \"y/z\"]\n"
      "assert z[\"x:0\"].tolist() == [1, 2] and z[\"y/z\"].dtype == bool\n"
      "assert n.load(\"empty.npz\").files == []\n"));
}

BOOST_AUTO_TEST_CASE(stored_and_compressed_archives_of_numpy_are_read) {
  test::TempDir dir;
  BOOST_REQUIRE(python("import numpy as n, os; os.chdir(\"" + dir.file("") +
                       "\")\n"
                       "n.savez(\"s.npz\", a=n.arange(5), b=n.ones((2, 2), n.float32))\n"
                       "n.savez_compressed(\"c.npz\", a=n.arange(5), b=n.zeros((100, 1000), n.float32))\n"));
  std::vector<NamedTensor> stored = read_npz(dir.file("s.npz"));
  BOOST_REQUIRE(stored.size() == 2u);
  BOOST_TEST(stored[0].name == "a");
  BOOST_TEST(element_text(stored[0].tensor, 4) == "4");
  BOOST_TEST(type_text(stored[1].tensor) == "f32[2,2]");
  std::vector<NamedTensor> compressed = read_npz(dir.file("c.npz"));
  BOOST_TEST(type_text(compressed[1].tensor) == "f32[100,1000]");
}

BOOST_AUTO_TEST_SUITE_END()
