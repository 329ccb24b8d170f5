#!/bin/sh
# check_links.sh FILE...: libtolk and its programs bring no compiler, no vendor library and no protobuf into a process,
# neither as a dependency nor linked in.
bad=0
unwanted='llvm|clang|protobuf|absl|libamdhip|libhsa|libcuda|libnvrtc|libze_|libvulkan|libOpenCL'
for file; do
  if [ ! -f "$file" ]; then
    echo "$file does not exist"
    bad=1
    continue
  fi
  found=$(ldd "$file" | awk '{ print $1 }' | grep -Ei "$unwanted")
  found="$found$(nm -D "$file" | grep -E ' (_ZN4llvm|_ZN6google8protobuf|_ZN4absl|LLVM|hip[A-Z]|ze[A-Z]|vk[A-Z]|cl[A-Z])')"
  if [ -n "$found" ]; then
    printf '%s has what it must not have:\n%s\n' "$file" "$found"
    bad=1
  fi
done
exit $bad
