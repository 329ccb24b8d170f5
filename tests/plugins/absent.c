/* The dependency that the plugin missing_dependency is linked to, and that the loader does not find. */
int tolk_test_absent_library(void);
int tolk_test_absent_library(void) { return 0; }
