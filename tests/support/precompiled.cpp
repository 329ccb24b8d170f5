// Empty. CMake makes a precompiled header for a target only when one of its sources uses it, and test_main.cpp cannot: it
// defines BOOST_TEST_MODULE before it includes Boost.Test.
