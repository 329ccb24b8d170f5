// The binary form, and the check that stands between foreign kernels and the interpreter.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "parse_kernel.h"

using namespace tolk;
using namespace tolk::test;

namespace {

std::string good_blob() {
  KernelIR k = kernel(
      "param buffer f32 rw 64\nparam value i32 0 9\n%0 = PARAM f32 [0]\n%1 = PARAM i32 [1]\n"
      "%2 = SPECIAL i32 [0, 8]\n%3 = DEFINE_REG f32x4 [2]\n%4 = DEFINE_LOCAL f32 [4]\n%5 = CONST f32x4 0\n"
      "%6 = CONST i32 1\n%7 = STORE f32x4 %3 %6 %5\n%8 = RANGE i32 %1\n%9 = LOAD f32x4 %3 %6\n"
      "%10 = CAST i32x4 %9\n%11 = CMPLT boolx4 %10 %10\n%12 = WHERE f32x4 %11 %9 %5\n%13 = BARRIER\n"
      "%14 = END %8\n%15 = EXTRACT f32 %5 [3]\n%16 = CMPEQ bool %15 %15\n%17 = IF %16\n"
      "%18 = STORE f32 %0 %2 %15\n%19 = ENDIF %17\n");
  return tolk_interp::pack(tolk_interp::copy_kernel(k.view()));
}

std::string with_checksum(std::string blob) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 16; i < blob.size(); i++)
    hash = (hash ^ static_cast<unsigned char>(blob[i])) * 0x100000001b3;
  std::memcpy(blob.data() + 8, &hash, 8);
  return blob;
}

// What the plugin does with bytes: whether they are refused. What passes is run.
bool refused(const std::string& blob) {
  try {
    std::vector<char> exact(blob.begin(), blob.end()); // a read beyond the end shows under a sanitizer
    tolk_interp::Kernel k = tolk_interp::unpack(std::as_bytes(std::span(exact)));
    tolk_interp::check(k);
    auto program = tolk_interp::decode(std::move(k));
    Bytes buffer(256);
    std::vector<tolk_interp::BufferArg> args(tolk_interp::buffer_param_count(*program),
                                             {buffer.data(), buffer.size()});
    uint64_t value = 1;
    tolk_interp::LaunchArgs launch;
    launch.buffers = args;
    launch.values = {&value, 1};
    try {
      tolk_interp::run(*program, launch);
    } catch (const tolk_interp::Error& error) {
      BOOST_TEST(
          (error.code == TOLK_E_INVALID || error.code == TOLK_E_KERNEL_FAULT || error.code == TOLK_E_LIMIT));
    }
    return false;
  } catch (const tolk_interp::Error& error) {
    BOOST_TEST(
        (error.code == TOLK_E_BAD_BINARY || error.code == TOLK_E_COMPILE || error.code == TOLK_E_LIMIT));
    return true;
  }
}

bool check_refuses(const std::string& text) {
  KernelIR k =
      parse_kernel_ir("kernel k\nparam buffer f32 rw 64\nparam buffer f32 r 64\nparam buffer i32 w 64\n"
                      "param value i32 0 9\n%0 = PARAM f32 [0]\n%1 = PARAM f32 [1]\n%2 = PARAM i32 [2]\n"
                      "%3 = PARAM i32 [3]\n%4 = CONST i32 1\n%5 = CONST f32 0\n%6 = CONST bool 1\n"
                      "%7 = CONST f32x4 0\n%8 = CONST i64 1\n%9 = CONST boolx2 1\n" +
                      text);
  try {
    tolk_interp::check(tolk_interp::copy_kernel(k.view()));
    return false;
  } catch (const tolk_interp::Error& error) {
    return error.code == TOLK_E_COMPILE;
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(blob)

BOOST_AUTO_TEST_CASE(a_good_binary_is_taken_and_damage_is_refused) {
  const std::string good = good_blob();
  BOOST_TEST(!refused(good));
  BOOST_TEST((with_checksum(good) == good));
  for (size_t size = 0; size < good.size(); size++) BOOST_TEST(refused(good.substr(0, size)));
  for (size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    BOOST_TEST(refused(bad));
  }
  BOOST_TEST(refused(std::string(4096, '\xff')));
  BOOST_TEST(refused(print(kernel(""))));
}

BOOST_AUTO_TEST_CASE(damage_behind_a_right_checksum_is_refused_or_runs_inside_its_buffers) {
  const std::string good = good_blob();
  int taken = 0, turned_away = 0;
  for (size_t i = 16; i < good.size(); i++)
    for (char value : {'\0', '\1', '\5', '\x7f', '\xff'}) {
      std::string bad = good;
      if (bad[i] == value) continue;
      bad[i] = value;
      (refused(with_checksum(bad)) ? turned_away : taken)++;
    }
  BOOST_TEST(turned_away > 1000);
  BOOST_TEST(taken > 0);
}

BOOST_AUTO_TEST_CASE(the_check_holds_the_rules_of_the_form) {
  const char* const fragments[] = {
      "%10 = ADD f32 %0 %0",
      "%10 = LOAD f32 %5 %4",
      "%10 = LOAD i32 %0 %4",
      "%10 = LOAD f32 %0 %5",
      "%10 = LOAD f32 %0 %4 %6",
      "%10 = LOAD f32x4 %0 %4 %9 %7",
      "%10 = LOAD i32 %2 %4",
      "%10 = STORE f32 %1 %4 %5",
      "%10 = STORE f32 %0 %4 %7",
      "%10 = STORE f32 %0 %4 %5\n%11 = NEG f32 %10",
      "%10 = DEFINE_REG f32x4 [2]\n%11 = LOAD f32 %10 %4",
      "%10 = DEFINE_REG f32x4 [2]\n%11 = SPLAT i32x4 %4\n%12 = LOAD f32x4 %10 %11",
      "%10 = DEFINE_REG f32 [0]",
      "%10 = RANGE i32 %4\n%11 = DEFINE_LOCAL f32 [4]\n%12 = END %10",
      "%10 = PARAM f32 [2]",
      "%10 = PARAM i32 [9]",
      "%10 = SPECIAL i32 [3, 0]",
      "%10 = SPECIAL i32 [512, 0]",
      "%10 = SPECIAL f32 [0, 0]",
      "%10 = CONST bool 2",
      "%10 = RANGE i32 %4",
      "%10 = RANGE i32 %8\n%11 = END %10",
      "%10 = IF %4\n%11 = ENDIF %10",
      "%10 = IF %6\n%11 = END %10",
      "%10 = END %4",
      "%10 = RANGE i32 %4\n%11 = END %10\n%12 = NEG i32 %10",
      "%10 = IF %6\n%11 = NEG i32 %4\n%12 = ENDIF %10\n%13 = NEG i32 %11",
      "%10 = IF %6\n%11 = RANGE i32 %4\n%12 = BARRIER\n%13 = END %11\n%14 = ENDIF %10",
      "%10 = SPLAT f32x4 %7",
      "%10 = BUILD f32x4 %5 %5",
      "%10 = EXTRACT f32 %7 [4]",
      "%10 = CAST f32 %5",
      "%10 = BITCAST i64 %5",
      "%10 = ADD f32 %5 %4",
      "%10 = ADD bool %6 %6",
      "%10 = FDIV i32 %4 %4",
      "%10 = CDIV f32 %5 %5",
      "%10 = SHL f32 %5 %5",
      "%10 = AND f32 %5 %5",
      "%10 = CMPLT i32 %4 %4",
      "%10 = CMPEQ bool %4 %5",
      "%10 = WHERE f32x4 %9 %7 %7",
      "%10 = SQRT i32 %4",
      "%10 = MULACC f32 %5 %5",
  };
  BOOST_TEST(!check_refuses(""));
  for (const char* fragment : fragments) BOOST_TEST(check_refuses(fragment), fragment);
}

BOOST_AUTO_TEST_CASE(another_version_is_refused) {
  KernelIR k = kernel("");
  tolk_kernel_ir view = k.view();
  view.version = 0x20000;
  try {
    tolk_interp::copy_kernel(view);
    BOOST_ERROR("accepted");
  } catch (const tolk_interp::Error& error) {
    BOOST_TEST(error.code == TOLK_E_VERSION);
  }
}

BOOST_AUTO_TEST_SUITE_END()
