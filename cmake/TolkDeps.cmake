# Every third-party library, once. The Debian package is in the comment; scripts/deps installs them.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS program_options unit_test_framework)  # libboost1.81-dev and two more
find_package(fmt REQUIRED)                # libfmt-dev
find_package(nlohmann_json REQUIRED)      # nlohmann-json3-dev
find_package(PkgConfig REQUIRED)          # pkg-config
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)   # libxxhash-dev
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)       # libzstd-dev
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)    # libsqlite3-dev
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)      # libzip-dev
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)           # libre2-dev
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp REQUIRED)  # libprotozero-dev
