// The one main of every unit test: Boost.Test, linked, not header-only, which would cost 15 s a file.
#define BOOST_TEST_MODULE tolk
#include <boost/test/unit_test.hpp>
